package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// told is an event and who told it.
type told struct {
	worker int
	event
}

// entry is a row of the journal: a write that the database accepted.
type entry struct {
	name, writer string
	n, token     int64
}

// verdict is the outcome of a run.
type verdict struct {
	grants, releases, takeovers     int
	writes, refused, stale, unclear int
	claims, terms, troubles         int
	violations                      []string
}

func (v *verdict) violated(format string, args ...any) {
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

// grant is one hold of a lock or one term of a leadership.
type grant struct {
	worker   int
	token    int64
	sent, at int64 // when it was asked for, when the answer was there
	seen     int64 // the latest moment before it was said to be valid
	released bool
}

// judge looks for contradictions in what was told and what is in the database.
func judge(events []told, journal []entry) *verdict {
	v := new(verdict)
	grants := make(map[string]map[int64]*grant)
	acknowledged := make(map[string]told) // writes by id
	won := make(map[int64]int)            // claims
	for _, e := range events {
		switch e.Kind {
		case "grant":
			of := grants[e.Name]
			if of == nil {
				of = make(map[int64]*grant)
				grants[e.Name] = of
			}
			if other := of[e.Token]; other != nil {
				v.violated("%s: token %d was given to worker %d and to worker %d", e.Name, e.Token, other.worker, e.worker)
				continue
			}
			of[e.Token] = &grant{worker: e.worker, token: e.Token, sent: e.Sent, at: e.At, seen: e.Sent}
			if e.Name == electionName {
				v.terms++
			} else {
				v.grants++
			}
		case "seen", "end":
			if g := grants[e.Name][e.Token]; g != nil {
				g.seen = max(g.seen, e.At)
				g.released = g.released || e.OK
			}
		case "write":
			v.writes++
			switch {
			case e.Err != "":
				v.unclear++
			case e.OK:
				acknowledged[e.ID] = e
			default:
				v.refused++
				if e.Valid {
					v.violated("%s: a write of worker %d with token %d was refused although its handle was valid afterwards", e.Name, e.worker, e.Token)
				}
			}
			if e.Stale {
				v.stale++
			}
		case "claim":
			v.claims++
			if first, again := won[e.Due]; again {
				v.violated("%s: the tick of %v was won by worker %d and by worker %d", e.Name, time.Unix(0, e.Due).UTC(), first, e.worker)
			}
			won[e.Due] = e.worker
		case "trouble":
			v.troubles++
		}
	}
	for name, of := range grants {
		v.judgeGrants(name, of)
	}
	v.judgeJournal(journal, acknowledged)
	return v
}

// judgeGrants checks the holds of one name against each other.
func (v *verdict) judgeGrants(name string, of map[int64]*grant) {
	list := make([]*grant, 0, len(of))
	for _, g := range of {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *grant) int { return cmp.Compare(a.token, b.token) })
	var last *grant // of those before, the one that was valid longest
	for i, g := range list {
		if last != nil && last.seen > g.at {
			v.violated("%s: worker %d held token %d at least until %v after worker %d had got token %d",
				name, last.worker, last.token, time.Duration(last.seen-g.at), g.worker, g.token)
		}
		if last == nil || g.seen > last.seen {
			last = g
		}
		if i > 0 && name != electionName {
			if list[i-1].released {
				v.releases++
			} else {
				v.takeovers++
			}
		}
	}
	// A token that was given before another was asked for must be smaller.
	bySent := slices.SortedFunc(slices.Values(list), func(a, b *grant) int { return cmp.Compare(a.sent, b.sent) })
	byAnswer := slices.SortedFunc(slices.Values(list), func(a, b *grant) int { return cmp.Compare(a.at, b.at) })
	var largest *grant
	next := 0
	for _, g := range bySent {
		for ; byAnswer[next].at < g.sent; next++ {
			if largest == nil || byAnswer[next].token > largest.token {
				largest = byAnswer[next]
			}
		}
		if largest != nil && largest.token >= g.token {
			v.violated("%s: worker %d got token %d after worker %d had token %d", name, g.worker, g.token, largest.worker, largest.token)
		}
	}
}

// judgeJournal checks the writes that the database accepted, in its order.
func (v *verdict) judgeJournal(journal []entry, acknowledged map[string]told) {
	slices.SortFunc(journal, func(a, b entry) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.n, b.n)) })
	written := make(map[string]bool, len(journal))
	for i, e := range journal {
		written[e.writer] = true
		if i == 0 || journal[i-1].name != e.name {
			if e.n != 1 {
				v.violated("%s: the journal begins with number %d", e.name, e.n)
			}
			continue
		}
		before := journal[i-1]
		if e.n != before.n+1 {
			v.violated("%s: number %d of the journal follows on %d", e.name, e.n, before.n)
		}
		if e.token < before.token {
			v.violated("%s: a write with token %d was accepted after one with token %d", e.name, e.token, before.token)
		}
	}
	for id, e := range acknowledged {
		if !written[id] {
			v.violated("%s: write %s of worker %d was acknowledged and is not there", e.Name, id, e.worker)
		}
	}
}
