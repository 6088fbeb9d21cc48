package workspace

import (
	"math/rand/v2"

	"github.com/quorate/quorate/store/engine"
)

// commit is what a transaction sends: the statement that moves the workspace's row
// on, and behind it the rest, which does something only if that one did.
type commit struct {
	ref   CommitRef
	stmts []engine.Statement
}

func (c *commit) add(sql string, more ...engine.Value) {
	a := make([]engine.Value, 0, 3+len(more))
	a = append(a, engine.Text(c.ref.Tenant), engine.Text(c.ref.Workspace), engine.Text(c.ref.Token))
	c.stmts = append(c.stmts, engine.Statement{SQL: sql, Args: append(a, more...)})
}

func (c *commit) unknown(err error) error {
	return &UnknownError{Commit: c.ref, Ref: c.ref.Ref, Err: err}
}

// dirty reports whether the transaction wrote anything.
func (t *Tx) dirty() bool {
	return len(t.log)+len(t.runs.order)+len(t.progress.order)+len(t.schedules.order)+len(t.rules.order)+len(t.stateOrder)+len(t.deadLetters) > 0
}

// commit builds what the transaction sends.
func (t *Tx) commit() *commit {
	c := &commit{ref: CommitRef{Ref: t.ref, Base: t.base.revision, Token: newToken()}}
	move := sqlMove
	if t.base.revision == 0 {
		move = sqlFound
	}
	c.add(move, engine.Int(t.base.revision), engine.Int(t.snap.seq), engine.Int(t.snap.ts), engine.Int(t.snap.position))
	c.add(sqlSign)
	// Now and then, by chance: appends may take every revision of some pattern.
	if next := t.base.revision + 1; next > kept && rand.N(64) == 0 {
		c.stmts = append(c.stmts, engine.Statement{SQL: sqlPrune, Args: args(t.ref, engine.Int(next-kept))})
	}
	for i := range t.log {
		l := &t.log[i]
		c.add(sqlSaveEvent, engine.Int(l.envelope.Seq), engine.Int(l.ts), engine.Text(l.entry.ID), engine.Text(l.typ), engine.Text(l.clock), engine.Text(l.meta), engine.Text(l.event))
	}
	for _, id := range t.runs.order {
		p := t.runs.own[id]
		c.add(sqlSaveRun, engine.Text(id), engine.Int(p.position), engine.Text(p.value.Rule), engine.Text(p.value.ScopeKey), engine.Text(string(p.value.Status)),
			engine.Int(p.value.FiredSeq), engine.Int(micros(p.value.NextAttemptAt)), engine.Text(p.value.body))
	}
	for _, rule := range t.progress.order {
		p := t.progress.own[rule]
		c.add(sqlSaveProgress, engine.Text(rule), engine.Int(p.position), engine.Text(p.value.body))
	}
	for _, rule := range t.stateOrder {
		st := t.states[rule]
		if st.cleared {
			c.add(sqlClearStates, engine.Text(rule))
		}
		for _, key := range st.order {
			c.add(sqlSaveState, engine.Text(rule), engine.Text(key), engine.Text(st.own[key]))
		}
	}
	for _, d := range t.deadLetters {
		c.add(sqlSaveDeadLetter, engine.Int(d.position), engine.Text(d.value.Rule), engine.Text(d.value.body))
	}
	for _, name := range t.schedules.order {
		p := t.schedules.own[name]
		c.add(sqlSaveSchedule, engine.Text(name), engine.Int(p.position), engine.Int(p.value))
	}
	for _, name := range t.rules.order {
		r := t.rules.own[name].value
		c.add(sqlSaveRule, engine.Text(name), engine.Int(r.Version), engine.Text(r.Status), engine.Text(string(r.Rule)), engine.Text(string(r.Provenance)))
	}
	if t.s.notify != nil && len(t.log) > 0 {
		c.stmts = append(c.stmts, t.s.notify.Notification(channel))
	}
	return c
}
