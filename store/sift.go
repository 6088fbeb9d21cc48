package store

import (
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// This file holds how a batch with many side writes that has to tell who lost tests
// its commits once.
//
// Each side write of a batch tests the guard, which finds the execution's row and
// compares it: for a full commit seven times over, on every node of a cluster. So
// the losers of such a batch are sifted out first: the guard is tested once for
// each commit, at the start of the transaction, and who fails it is written to
// quorate_lost. All other statements leave out who is there. Nothing comes between
// the statements of a transaction, so what held for the first one holds for them
// all; and a request that is sent twice finds only losers the second time.
//
// In a batch without conflicts the list stays empty: no page is written for it, and
// looking into it costs almost nothing. RETURNING then returns the losers, which
// are few, instead of the winners, which every node would have to put into words.

const (
	// isNotLost is what the guard becomes behind sqlLost.
	isNotLost = `NOT EXISTS(SELECT 1 FROM quorate_lost l WHERE l.id=w.id)`

	// sqlForgetLost empties the list of an earlier batch. Without the condition,
	// SQLite would write the table's page even if there is nothing in it.
	sqlForgetLost = `DELETE FROM quorate_lost WHERE true`
)

// sqlLost writes down the losers and returns them.
var sqlLost = func() *template {
	t := newTemplate("id,at", `INSERT INTO quorate_lost(id) SELECT w.id FROM w WHERE NOT `+guard+` RETURNING id`)
	f := &t.forms[engine.SQLite]
	f.returning, f.returningSingle = true, true
	return t
}()

// sifted returns a template's form behind sqlLost. What a commit expects is not
// needed any more, so it is not sent with every row.
func sifted(columns, body string) *template {
	return newTemplate(strings.Replace(columns, ",at", "", 1), strings.NewReplacer(
		guard, isNotLost,
		isBase, `executions.id=w.id AND `+isNotLost,
		`WHERE true`, `WHERE `+isNotLost, // of sqlCreate
	).Replace(body))
}

// worthSifting reports whether the writes have so many side writes that one test
// for each commit costs less than one for each of them.
func worthSifting(writes []*Write, traits *engine.Traits) bool {
	if traits.Dialect != engine.SQLite || traits.RowsPerStatement == 1 {
		return false
	}
	commits, sides := count(writes)
	return commits > 1 && sides > commits
}

// count returns the number of commits among the writes, and of their side writes.
func count(writes []*Write) (commits, sides int) {
	for _, w := range writes {
		if w.kind != writeCommit {
			continue
		}
		c := w.commit
		commits++
		sides += len(c.emits) + len(c.cancels) + len(c.timers) + len(c.children)
		if c.processed != "" {
			sides++
		}
		if c.trace != "" {
			sides++
		}
	}
	return commits, sides
}

// siftedWinners is winners for a sifted batch. That as many executions were written
// as were not lost is checked, statement by statement.
func (b *batch) siftedWinners(results []engine.Result) (won []bool, ok bool) {
	lost := make([]bool, len(b.commits))
	lo := 0
	for k := range b.lost.count {
		hi := lo + len(b.stmts[b.lost.first+k].Args)/b.lost.t.cols
		if !b.matchReturned(&results[b.lost.first+k], lost, b.lost.commits[lo:hi]) {
			return nil, false
		}
		lo = hi
	}
	won = lost
	for i := range won {
		won[i] = !won[i]
	}
	for _, d := range []*decisions{&b.creates, &b.updates, &b.redefines} {
		lo := 0
		for k := range d.count {
			hi := lo + len(b.stmts[d.first+k].Args)/d.t.cols
			var want int64
			for _, c := range d.commits[lo:hi] {
				if won[c] {
					want++
				}
			}
			if results[d.first+k].RowsAffected != want {
				return nil, false
			}
			lo = hi
		}
	}
	return won, true
}
