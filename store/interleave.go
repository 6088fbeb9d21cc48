package store

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// This file holds what a batch needs where transactions interleave, which is
// PostgreSQL: at READ COMMITTED each statement sees what others have committed by
// then, and waits for those who have written the same row.
//
// The rows of the executions are written first: see guardPostgres. Of two commits
// for one execution the second waits there for the end of the first, and then
// loses, before it has left anything behind.
//
// Everything that can make a transaction wait for another is done in one order,
// the same in every batch, so that no two wait for each other: acknowledged
// numbers in their order, locks on traces, executions that are created, and then
// those that are there, each in the order of their ids. Statements for several
// rows follow the order of their list, since the engine's plans go through it from
// the start; should a server choose otherwise after all, it finds the deadlock,
// undoes one of the two, and the engine runs that one again.

// addSorted adds the rows of the executions in the order of their ids.
func (b *batch) addSorted() {
	order := make([]int, len(b.commits))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return strings.Compare(b.writes[b.commits[i]].id, b.writes[b.commits[j]].id)
	})
	for _, i := range order {
		w := b.writes[b.commits[i]]
		token, known := w.commit.baseToken.Text()
		base := expectation(w.commit.base, token, known)
		if n, ok := base.Int(); ok {
			base = engine.Text(strconv.FormatInt(n, 10)) // a column has one type
		}
		b.addDecision(i, w, []engine.Value{engine.Text(w.id), base})
	}
}

// emitInterleaved is emit where transactions interleave.
func (b *batch) emitInterleaved(traits *engine.Traits) {
	for _, r := range []*rows{
		&b.ackedOutbox, &b.ackedSpawns, &b.traceLocks, &b.creates.rows, &b.locked, &b.redefines.rows,
		&b.deleted, &b.appended, &b.trimmed,
		&b.outbox, &b.processed, &b.cancels, &b.schedules, &b.spawns, &b.traces, &b.trims,
	} {
		if len(r.args) > 0 {
			b.stmts = r.emit(b.stmts, traits)
		}
	}
}

// addLocks adds the locks that the rows written first do not bring by themselves.
func (b *batch) addLocks() {
	for _, r := range []*rows{&b.ackedOutbox, &b.ackedSpawns} {
		slices.SortFunc(r.args, func(x, y engine.Value) int {
			m, _ := x.Int()
			n, _ := y.Int()
			return cmp.Compare(m, n)
		})
		r.args = slices.Compact(r.args)
	}
	// A timer is removed beside commits that schedule it anew: under the lock of
	// its execution, as they do. All others of the batch are locked with it, for
	// the order's sake.
	if len(b.deleted.args) > 0 {
		for _, w := range b.writes {
			if w.kind == writeDeleteTimer || w.kind == writeCommit && w.commit.base > 0 {
				b.locked.args = append(b.locked.args, engine.Text(w.id))
			}
		}
		slices.SortFunc(b.locked.args, func(x, y engine.Value) int {
			m, _ := x.Text()
			n, _ := y.Text()
			return strings.Compare(m, n)
		})
	}
	b.lockTraces()
}

// traceBuckets is the number of locks that stand for all traces, so that a large
// batch does not fill the server's table of locks.
const traceBuckets = 256

// traceLockBase is any number; the locks of traces are those from it on.
const traceLockBase int64 = 0x51756f726174_0000

// lockTraces locks the traces that the batch appends to, since the next index is
// read before it is taken. Commits do that under the lock of their execution, so
// they only have to keep out those who append without one.
func (b *batch) lockTraces() {
	alone := make(map[int64]int64)
	for _, w := range b.writes {
		appends := w.kind == writeAppendTrace
		if !appends && (w.kind != writeCommit || w.commit.trace == "") {
			continue
		}
		h := fnv.New32a()
		h.Write([]byte(w.id))
		bucket := traceLockBase + int64(h.Sum32()%traceBuckets)
		if appends {
			alone[bucket] = 1
		} else if _, there := alone[bucket]; !there {
			alone[bucket] = 0
		}
	}
	buckets := make([]int64, 0, len(alone))
	for k := range alone {
		buckets = append(buckets, k)
	}
	slices.Sort(buckets)
	for _, k := range buckets {
		b.traceLocks.args = append(b.traceLocks.args, engine.Int(k), engine.Int(alone[k]))
	}
}

// assignReturned gives each winner the sequence numbers that statements returned.
// Other transactions take numbers in between: those of a commit that do not follow
// each other stay unknown.
func (b *batch) assignReturned(results []engine.Result, won []bool, of func(*Write) (int, *SeqRange)) {
	var all []int64
	for i := range results {
		for r := range results[i].Len() {
			seq, ok := results[i].Row(r)[0].Int()
			if !ok {
				return
			}
			all = append(all, seq)
		}
	}
	total := 0
	for i, c := range b.commits {
		if won[i] {
			n, _ := of(b.writes[c])
			total += n
		}
	}
	if total != len(all) {
		return
	}
	for i, c := range b.commits {
		if !won[i] {
			continue
		}
		n, seqs := of(b.writes[c])
		if n > 0 && all[n-1]-all[0] == int64(n-1) {
			*seqs = SeqRange{First: all[0], Len: n}
		}
		all = all[n:]
	}
}
