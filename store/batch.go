package store

import (
	"github.com/quorate/quorate/store/engine"
)

// batch is the transaction for a list of writes: one multi-row statement per
// table as far as the engine's limits allow, the executions themselves last.
type batch struct {
	writes []*Write
	stmts  []engine.Statement

	outbox, processed, cancels, schedules rows
	spawns, traces, trims                 rows
	deleted, appended, trimmed            rows
	ackedOutbox, ackedSpawns              rows
	interleaved                           bool // with other transactions: see interleave.go
	unanimous                             bool // see unanimous.go
	tallies                               []tally
	sifted                                bool // see sift.go
	lost                                  decisions
	locked, traceLocks                    rows  // if so
	commits                               []int // positions of the commits in writes
	creates, updates, redefines           decisions
}

// decisions are the rows of a statement that decides about commits.
type decisions struct {
	rows
	commits []int // positions in batch.commits
}

// newBatch builds the transaction. No two of the writes may be for the same
// execution. A unanimous one is undone unless all commits win, any other tells
// which of them did.
func (s *Store) newBatch(writes []*Write, unanimous bool) *batch {
	b := &batch{writes: writes, unanimous: unanimous, sifted: !unanimous && worthSifting(writes, &s.traits)}
	for _, r := range []struct {
		r *rows
		t *template
	}{
		{&b.outbox, sqlOutbox}, {&b.processed, sqlProcessed}, {&b.cancels, sqlCancel}, {&b.schedules, sqlSchedule},
		{&b.spawns, sqlSpawn}, {&b.traces, sqlTrace}, {&b.trims, sqlTrim},
		{&b.deleted, sqlDeleteTimer}, {&b.appended, sqlAppendTrace}, {&b.trimmed, sqlTrimAppended},
		{&b.ackedOutbox, sqlAckOutbox}, {&b.ackedSpawns, sqlAckSpawn}, {&b.locked, sqlLock}, {&b.traceLocks, sqlLockTrace},
		{&b.lost.rows, sqlLost}, {&b.creates.rows, sqlCreate}, {&b.updates.rows, sqlUpdate}, {&b.redefines.rows, sqlRedefine},
	} {
		switch r.r.t = r.t; {
		case b.sifted && r.t.sifted != nil:
			r.r.t = r.t.sifted
		case unanimous && r.t.unanimous != nil:
			r.r.t = r.t.unanimous
		}
	}
	b.commits = make([]int, 0, len(writes))
	b.interleaved = s.traits.Dialect == engine.PostgreSQL
	for i, w := range writes {
		switch w.kind {
		case writeCommit:
			b.addCommit(w, int64(s.traceMax))
			b.commits = append(b.commits, i)
		case writeAckOutbox:
			b.ackedOutbox.addSeqs(w.seqs)
		case writeAckSpawn:
			b.ackedSpawns.addSeqs(w.seqs)
		case writeDeleteTimer:
			b.deleted.args = append(b.deleted.args, engine.Text(w.id), engine.Text(w.timer.path), engine.Float(w.timer.fireAt))
		case writeAppendTrace:
			b.appended.args = append(b.appended.args, engine.Text(w.id), engine.Text(w.entry), engine.Text(w.token))
			if s.traceMax > 0 {
				b.trimmed.args = append(b.trimmed.args, engine.Text(w.id), engine.Int(int64(s.traceMax)))
			}
		}
	}
	switch {
	case b.interleaved:
		b.addSorted()
		b.addLocks()
		b.emitInterleaved(&s.traits)
	case b.unanimous:
		b.emitUnanimous(&s.traits)
	default:
		b.emit(&s.traits)
	}
	return b
}

func (r *rows) addSeqs(seqs []int64) {
	for _, seq := range seqs {
		r.args = append(r.args, engine.Int(seq))
	}
}

// addTo adds a row, whose values come in two parts.
func (r *rows) addTo(first []engine.Value, rest ...engine.Value) {
	r.args = append(append(r.args, first...), rest...)
}

// add adds values of a row.
func (r *rows) add(first engine.Value, rest ...engine.Value) {
	r.args = append(append(r.args, first), rest...)
}

// number is the place of the row that begins, for those that keep their order.
func (r *rows) number() engine.Value { return engine.Int(int64(r.len())) }

func (b *batch) addCommit(w *Write, keep int64) {
	c := w.commit
	token, known := c.baseToken.Text()
	id, at := engine.Text(w.id), expectation(c.base, token, known)
	if b.interleaved {
		at = engine.Text(w.token) // see guardPostgres
	}
	// What the row of the execution begins with, and what those of side writes do.
	guarded := []engine.Value{id, at}
	side := guarded
	switch {
	case b.unanimous:
		side = guarded[:1]
	case b.sifted:
		b.lost.grow(len(b.writes)).addTo(guarded)
		b.lost.commits = append(b.lost.commits, len(b.commits))
		guarded = guarded[:1]
		side = guarded
	}
	for i := range c.emits {
		if !b.unanimous {
			b.outbox.add(b.outbox.number(), side...)
		}
		b.outbox.add(c.emits[i].target, engine.Text(c.emits[i].event))
	}
	if c.processed != "" {
		b.processed.addTo(side, engine.Text(c.processed))
	}
	for _, path := range c.cancels {
		b.cancels.addTo(side, engine.Text(path))
	}
	for _, t := range c.timers {
		b.schedules.addTo(side, engine.Text(t.path), engine.Float(t.fireAt))
	}
	for i := range c.children {
		sp := &c.children[i]
		if !b.unanimous {
			b.spawns.add(b.spawns.number())
		}
		b.spawns.addTo(side, engine.Text(sp.child), engine.Text(sp.rootPath), engine.Text(sp.context))
	}
	if c.trace != "" {
		b.traces.addTo(side, engine.Text(c.trace))
		if keep > 0 {
			b.trims.addTo(side, engine.Int(keep))
		}
	}
	if !b.interleaved {
		b.addDecision(len(b.commits), w, guarded)
	}
}

// addDecision adds the row of the execution itself, for the commit at a position
// of b.commits, whose row begins with guarded.
func (b *batch) addDecision(position int, w *Write, guarded []engine.Value) {
	c := w.commit
	data, own, status := engine.Text(c.data), engine.Text(w.token), engine.Text(string(c.state.Status))
	var d *decisions
	switch {
	case c.base == 0:
		d = &b.creates
		d.grow(len(b.writes)).addTo(guarded[:1], engine.Text(c.state.DefinitionID), data, own, status)
	case w.sameIndexes && !b.interleaved:
		d = &b.updates
		d.grow(len(b.writes)).addTo(guarded, data, own)
	default:
		d = &b.redefines
		d.addTo(guarded, data, own, status, engine.Text(c.state.DefinitionID))
	}
	d.commits = append(d.commits, position)
}

// grow returns the rows with room for n of them.
func (d *decisions) grow(n int) *decisions {
	if d.args == nil {
		d.args = make([]engine.Value, 0, n*d.t.cols)
		d.commits = make([]int, 0, n)
	}
	return d
}

// emit cuts the rows into statements. The guarded writes come before
// the executions: see guard.
func (b *batch) emit(traits *engine.Traits) {
	if b.sifted {
		b.stmts = append(b.stmts, engine.Statement{SQL: sqlForgetLost})
		b.emitAll(traits, &b.lost.rows)
	}
	b.emitSides(traits)
	b.emitAll(traits, &b.creates.rows, &b.updates.rows, &b.redefines.rows)
}

func (b *batch) emitSides(traits *engine.Traits) {
	b.emitAll(traits,
		&b.ackedOutbox, &b.ackedSpawns, &b.deleted, &b.appended, &b.trimmed,
		&b.outbox, &b.processed, &b.cancels, &b.schedules, &b.spawns, &b.traces, &b.trims)
}

func (b *batch) emitAll(traits *engine.Traits, all ...*rows) {
	for _, r := range all {
		if len(r.args) > 0 {
			b.stmts = r.emit(b.stmts, traits)
		}
	}
}

// winners reads the verdict of each commit out of the results: won[i] is about
// commits[i]. It returns false if the results do not tell.
func (b *batch) winners(results []engine.Result) (won []bool, ok bool) {
	switch {
	case b.unanimous:
		return b.unanimousWinners(results)
	case b.sifted:
		return b.siftedWinners(results)
	}
	won = make([]bool, len(b.commits))
	for _, d := range []*decisions{&b.creates, &b.updates, &b.redefines} {
		if !b.decide(d, results, won) {
			return nil, false
		}
	}
	return won, true
}

func (b *batch) decide(d *decisions, results []engine.Result, won []bool) bool {
	lo := 0
	for k := range d.count {
		st, res := &b.stmts[d.first+k], &results[d.first+k]
		hi := lo + len(st.Args)/d.t.cols
		switch {
		case st.Returning:
			if !b.matchReturned(res, won, d.commits[lo:hi]) {
				return false
			}
		case res.RowsAffected == 0 || res.RowsAffected == 1:
			won[d.commits[lo]] = res.RowsAffected == 1
		default:
			return false
		}
		lo = hi
	}
	return true
}

// matchReturned marks those of the commits whose ids a statement returned. The
// ids come in the order of the rows in practice, but nothing promises it.
func (b *batch) matchReturned(res *engine.Result, won []bool, commits []int) bool {
	col := res.Column("id")
	if col < 0 {
		return false
	}
	next := 0
	for r := range res.Len() {
		id, ok := res.Row(r)[col].Bytes()
		if !ok {
			return false
		}
		at := next
		for at < len(commits) && b.writes[b.commits[commits[at]]].id != id {
			at++
		}
		if at < len(commits) {
			next = at + 1
		} else {
			for at = 0; at < next && b.writes[b.commits[commits[at]]].id != id; at++ {
			}
			if at == next {
				return false
			}
		}
		if won[commits[at]] {
			return false
		}
		won[commits[at]] = true
	}
	return true
}

// assignSeqs gives each winner the sequence numbers of its outbox and spawn
// rows. The rows of one statement are numbered without gaps in their order, and
// nobody else writes during the transaction; where the engine's counts do not
// bear that out, the numbers stay unknown.
func (b *batch) assignSeqs(results []engine.Result, won []bool) {
	b.assign(results, won, &b.outbox, func(w *Write) (int, *SeqRange) { return len(w.commit.emits), &w.commit.outboxSeqs })
	b.assign(results, won, &b.spawns, func(w *Write) (int, *SeqRange) { return len(w.commit.children), &w.commit.spawnSeqs })
}

func (b *batch) assign(results []engine.Result, won []bool, r *rows, of func(*Write) (int, *SeqRange)) {
	if r.count == 0 {
		return
	}
	if b.stmts[r.first].Returning {
		b.assignReturned(results[r.first:r.first+r.count], won, of)
		return
	}
	var first, last, total int64
	for k := range r.count {
		res := &results[r.first+k]
		n := res.RowsAffected
		if n == 0 {
			continue
		}
		from := res.LastInsertID - n + 1
		if n < 0 || from < 1 || total > 0 && from != last+1 {
			return
		}
		if total == 0 {
			first = from
		}
		last = res.LastInsertID
		total += n
	}
	var want int64
	for i, c := range b.commits {
		if won[i] {
			n, _ := of(b.writes[c])
			want += int64(n)
		}
	}
	if want != total {
		return
	}
	for i, c := range b.commits {
		if won[i] {
			if n, seqs := of(b.writes[c]); n > 0 {
				*seqs = SeqRange{First: first, Len: n}
				first += int64(n)
			}
		}
	}
}
