package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// The model of one execution: a register with a compare-and-swap. Its state is a
// mark. Numbers of commits are unique, so that a state tells which commit made
// it. A commit on base b
//
//   - that was acknowledged took place where the state was b;
//   - that met a conflict took place where the state was not b, and changed
//     nothing. Where the version it found instead is known and differs from b's,
//     somebody looked while the commit was under way, and there was such a state;
//   - whose outcome is unknown changed nothing, or took place where the state was
//     b, at any time from its call on, for ever.
//
// A load took place where the state was what it read.

// model returns the model for porcupine. Each state has a set of possible next
// states; only unknown outcomes make it more than one.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{mark{}} },
		Equal: func(a, b any) bool { return a.(mark) == b.(mark) },
		Hash:  func(s any) uint64 { m := s.(mark); return uint64(m.Commit)*0x9e3779b97f4a7c15 + uint64(m.Version) },
		Step: func(s, in, _ any) []any {
			state, op := s.(mark), in.(*operation)
			next := mark{Version: op.Base.Version + 1, Commit: op.Commit}
			switch {
			case op.Commit == 0 && state == op.Found:
				return []any{s}
			case op.Commit == 0:
				return nil
			case op.Verdict == verdictOK && state == op.Base:
				return []any{next}
			case op.Verdict == verdictConflict && state != op.Base && op.admits(state.Version):
				return []any{s}
			case op.Verdict == verdictUnknown && state == op.Base:
				return []any{s, next}
			case op.Verdict == verdictUnknown:
				return []any{s}
			}
			return nil
		},
		DescribeOperation: func(in, _ any) string { return in.(*operation).String() },
		DescribeState:     func(s any) string { return s.(mark).String() },
	}
	return m.ToModel()
}

// admits reports whether a conflict may have met that version.
func (op *operation) admits(version int64) bool {
	return op.Found.Version == unseen || op.Found.Version == op.Base.Version || op.Found.Version == version
}

// String describes a mark for people.
func (m mark) String() string {
	if m.Version == 0 {
		return "none"
	}
	return fmt.Sprintf("v%d by #%d", m.Version, m.Commit)
}

// String describes an operation for people.
func (op *operation) String() string {
	switch {
	case op.Commit == 0:
		return "load: " + op.Found.String()
	case op.Verdict == verdictConflict && op.Found.Version != unseen:
		return fmt.Sprintf("commit #%d on %s: conflict, found v%d", op.Commit, op.Base, op.Found.Version)
	}
	return fmt.Sprintf("commit #%d on %s: %s", op.Commit, op.Base, op.Verdict)
}

// forever is the end of operations that may take effect at any time.
const forever = math.MaxInt64 / 2

// prepare returns what there is to search of a history. What follows from the
// numbers of commits alone is settled first, which spares the search choices:
//
//   - A commit of unknown outcome whose state was seen, by a load or by a commit
//     that was built on it and won, was applied. It has until for ever to return.
//   - One that alone can have made a version was applied, if somebody met that
//     version or a later one.
//   - If another one on the same base was applied, it was not and never will be.
//   - Any other stays open: it was applied or not.
func prepare(ops []operation) []operation {
	seen := make(map[int64]bool) // commits
	used := make(map[mark]int64) // bases, with the commit that was built on them
	for i := range ops {
		switch op := &ops[i]; {
		case op.Commit == 0:
			seen[op.Found.Commit] = true
		case op.Verdict == verdictOK:
			seen[op.Base.Commit], used[op.Base] = true, op.Commit
		}
	}
	top := int64(0) // the last version that somebody met
	for i := range ops {
		if rank := ops[i].rank(); rank >= 0 {
			top = max(top, rank/2)
		}
	}
	// A commit that was seen shows that those below it were applied.
	for changed := true; changed; {
		changed = markOnlyMakers(ops, top, seen, used)
		for i := range ops {
			op := &ops[i]
			if op.Commit != 0 && op.Verdict == verdictUnknown && seen[op.Commit] && used[op.Base] == 0 {
				seen[op.Base.Commit], used[op.Base], changed = true, op.Commit, true
			}
		}
	}
	list := make([]operation, 0, len(ops))
	for _, op := range ops {
		if op.Verdict == verdictUnknown {
			op.Return = forever
			if seen[op.Commit] {
				op.Verdict = verdictOK
			} else if used[op.Base] != 0 {
				continue
			}
		}
		list = append(list, op)
	}
	// Operations that overlap get different lanes, as drawing them demands.
	slices.SortFunc(list, func(a, b operation) int { return cmp.Compare(a.Call, b.Call) })
	var ends []int64
	for i := range list {
		lane := slices.IndexFunc(ends, func(end int64) bool { return end < list[i].Call })
		if lane < 0 {
			lane = len(ends)
			ends = append(ends, 0)
		}
		ends[lane], list[i].lane = list[i].Return, lane
	}
	return list
}

// markOnlyMakers marks as seen each commit of unknown outcome that alone can have
// made a version up to top, and reports whether there were any.
func markOnlyMakers(ops []operation, top int64, seen map[int64]bool, used map[mark]int64) bool {
	made := make(map[int64]bool) // versions
	for base := range used {
		made[base.Version+1] = true
	}
	makers := make(map[int64][]int)
	for i := range ops {
		op := &ops[i]
		if v := op.Base.Version + 1; op.Commit != 0 && op.Verdict == verdictUnknown && v <= top && !made[v] && used[op.Base] == 0 {
			makers[v] = append(makers[v], i)
		}
	}
	any := false
	for _, m := range makers {
		if op := &ops[m[0]]; len(m) == 1 && !seen[op.Commit] {
			seen[op.Commit], any = true, true
		}
	}
	return any
}
