package store

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/quorate/quorate/store/engine"
)

// This file holds how a batch goes whose commits are all expected to win, as
// nearly all do.
//
// Finding out who wins costs every node of a cluster: a guard is tested for each
// side write, and RETURNING puts the winners into words. A batch that only has to
// know whether all won needs neither. The executions come first, each under its
// condition; behind each statement of them, another counts what it changed and
// breaks a constraint if that is less than all, which takes back the whole
// transaction. So what follows needs no guard, and no more parameters than its
// rows have columns. A request that is sent twice is undone the second time, as
// everybody has lost by then.
//
// After a batch was undone its commits travel again, in the form that tells who
// lost, and so do the next ones for a while: see rivals.

// sqlTally breaks the transaction unless the statement before it changed as many
// rows as it should have.
const sqlTally = `INSERT INTO quorate_lost(id) SELECT NULL WHERE changes()<>?1`

// tally is a statement that decides about commits, by its position, and the number
// of rows that it has to change. The next statement sees to that.
type tally struct {
	at   int
	rows int64
}

// listed gives a template a text of its own for unanimous batches: see list.
func (t *template) listed(before, row, after string) *template {
	t.unanimous = list(before, row, after)
	return t
}

// unguarded is a template's form for a unanimous batch, without the guard.
func unguarded(columns, body string) *template {
	return newTemplate(strings.Replace(columns, ",at", "", 1), strings.Replace(body, " WHERE "+guard, "", 1))
}

// unanimous reports whether to send the writes as a unanimous batch.
func (s *Store) unanimous(writes []*Write) bool {
	if s.traits.Dialect != engine.SQLite {
		return false
	}
	for _, w := range writes {
		if w.uncertain {
			return false // perhaps it has won already, and would lose now
		}
	}
	commits, sides := count(writes)
	if commits < 2 || s.traits.RowsPerStatement == 1 && sides <= commits {
		return false // its verdicts come with the counts, or there is no guard to save
	}
	return s.rivals.absent()
}

// emitUnanimous cuts the rows into statements, those that decide first: should
// they be undone, nothing else has been done.
func (b *batch) emitUnanimous(traits *engine.Traits) {
	for _, d := range []*decisions{&b.creates, &b.updates, &b.redefines} {
		if len(d.args) == 0 {
			continue
		}
		for _, st := range d.emit(nil, traits) {
			t := tally{at: len(b.stmts), rows: int64(len(st.Args) / d.t.cols)}
			b.tallies = append(b.tallies, t)
			b.stmts = append(b.stmts, st, engine.Statement{SQL: sqlTally, Args: []engine.Value{engine.Int(t.rows)}})
		}
	}
	b.emitSides(traits)
}

// undone reports whether err says that a unanimous batch was taken back, since not
// all of its commits won.
func (b *batch) undone(err error) bool {
	var refused *engine.StatementError
	if engine.OutcomeOf(err) != engine.NotApplied || !errors.As(err, &refused) {
		return false
	}
	for _, t := range b.tallies {
		if refused.Index == t.at+1 {
			return true
		}
	}
	return false
}

// unanimousWinners is winners for a unanimous batch, which was applied: all.
// That the counts bear it out is checked.
func (b *batch) unanimousWinners(results []engine.Result) (won []bool, ok bool) {
	for _, t := range b.tallies {
		if results[t.at].RowsAffected != t.rows {
			return nil, false
		}
	}
	won = make([]bool, len(b.commits))
	for i := range won {
		won[i] = true
	}
	return won, true
}

// rivals tells whether a batch may count on all its commits winning: not as long
// as others commit to the same executions. Its methods may be called from several
// goroutines.
type rivals struct {
	wait atomic.Int32 // batches until another try
}

// rivalry is the number of batches without a conflict after which the next one
// counts on there being none. It costs one undone request in so many then.
const rivalry = 32

// met notes that a commit lost.
func (r *rivals) met() { r.wait.Store(rivalry) }

// absent reports whether to count on no commit losing, and counts the batch if not.
func (r *rivals) absent() bool {
	for {
		n := r.wait.Load()
		if n == 0 {
			return true
		}
		if r.wait.CompareAndSwap(n, n-1) {
			return false
		}
	}
}
