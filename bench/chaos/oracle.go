package main

import (
	"fmt"
	"slices"
)

// facts is what the database says about the commits of a journal.
type facts struct {
	applied []bool // by the commit's number
	chains  map[int32][]int64
}

// verify holds the database against the journal. It reports
//
//   - acknowledged commits that are not there, and refused ones that are;
//   - executions whose state is not the end of an unbroken chain of commits, each
//     built on the one before;
//   - side writes that are missing, doubled, out of order, or of a commit that was
//     not applied, and timers that are not as the last commit left them;
//   - loads that were told wrongly whether an event had been processed.
func verify(j *journal, s *snapshot, bad *violations) *facts {
	f := &facts{applied: make([]bool, len(j.commits)+1), chains: make(map[int32][]int64)}
	for exec, id := range j.ids {
		if row, there := s.executions[id]; there {
			f.follow(j, int32(exec), row, bad)
		}
	}
	for i := range j.commits {
		n, c := int64(i+1), &j.commits[i]
		switch {
		case c.verdict == verdictOK && !f.applied[n]:
			bad.add(kindLost, "commit #%d on %s of %s", n, c.base, j.ids[c.exec])
		case (c.verdict == verdictConflict || c.verdict == verdictRefused) && f.applied[n]:
			bad.add(kindLeft, "commit #%d on %s of %s was answered %s, and is in the state", n, c.base, j.ids[c.exec], c.verdict)
		}
	}
	f.sides(j, s, bad)
	f.timers(j, s, bad)
	for _, l := range j.lookups {
		c := &j.commits[l.commit-1]
		want := f.applied[l.commit] && c.sides.has(sideProcessed) && c.base.Version < l.seen.Version
		if l.processed != want {
			bad.add(kindAnswer, "load of %s at %s: processed event of commit #%d: answered %v, true is %v", j.ids[l.exec], l.seen, l.commit, l.processed, want)
		}
		if chain := f.chains[l.exec]; l.seen.Version > int64(len(chain)) || l.seen.Version > 0 && chain[l.seen.Version-1] != l.seen.Commit {
			bad.add(kindAnswer, "load of %s saw %s, which is not in its chain of commits", j.ids[l.exec], l.seen)
		}
	}
	return f
}

// follow walks an execution's chain of commits from its end to its beginning.
func (f *facts) follow(j *journal, exec int32, end row, bad *violations) {
	id := j.ids[exec]
	if end.document != end.Version {
		bad.add(kindChain, "execution %s: version %d in its column, %d in its document", id, end.Version, end.document)
	}
	var chain []int64
	for at := end.mark; at != (mark{}); {
		if at.Commit < 1 || at.Commit > int64(len(j.commits)) {
			bad.add(kindChain, "execution %s: version %d is by nobody", id, at.Version)
			break
		}
		c := &j.commits[at.Commit-1]
		if c.exec != exec || c.base.Version+1 != at.Version || f.applied[at.Commit] {
			bad.add(kindChain, "execution %s: version %d holds commit #%d, which was on %s of %s", id, at.Version, at.Commit, c.base, j.ids[c.exec])
			break
		}
		f.applied[at.Commit] = true
		chain = append(chain, at.Commit)
		at = c.base
	}
	slices.Reverse(chain)
	f.chains[exec] = chain
}

// place says where a side write belongs: which commit it is of, and which of
// its kind it is.
type place struct {
	kind   byte
	commit int64
	k      int
}

// sides counts the side writes of each commit.
func (f *facts) sides(j *journal, s *snapshot, bad *violations) {
	found := make(map[place]int)
	last := make(map[string]place)
	count := func(table string, rows []sideRow, read func(text string) (place, bool), ordered bool) {
		clear(last)
		for _, r := range rows {
			p, ok := read(r.text)
			if !ok || p.commit < 1 || p.commit > int64(len(j.commits)) || j.ids[j.commits[p.commit-1].exec] != r.exec {
				bad.add(kindSide, "%s holds a row %q of %q that belongs to nobody", table, r.text, r.exec)
				continue
			}
			found[p]++
			if before, ok := last[r.exec]; ok && ordered && found[p] == 1 && f.applied[p.commit] && f.applied[before.commit] && !j.precedes(before, p) {
				bad.add(kindSide, "%s holds %q of %q after that of commit #%d", table, r.text, r.exec, before.commit)
			}
			last[r.exec] = p
		}
	}
	numbered := func(letter byte) func(string) (place, bool) {
		return func(text string) (place, bool) {
			p := place{kind: letter}
			return p, parse(text, string(letter)+"%d", &p.commit)
		}
	}
	count("outbox", s.outbox, func(text string) (place, bool) {
		p := place{kind: 'e'}
		return p, parse(text, "e%d.%d", &p.commit, &p.k)
	}, true)
	count("processed_events", s.processed, numbered('p'), false)
	count("spawns", s.spawns, numbered('s'), true)
	count("trace", s.trace, numbered('t'), true)

	for i := range j.commits {
		n, c := int64(i+1), &j.commits[i]
		for k := range 2 {
			f.compare(j, n, place{'e', n, k}, k < c.sides.emits(), found, bad)
		}
		f.compare(j, n, place{'p', n, 0}, c.sides.has(sideProcessed), found, bad)
		f.compare(j, n, place{'s', n, 0}, c.sides.has(sideSpawn), found, bad)
		f.compare(j, n, place{'t', n, 0}, c.sides.has(sideTrace), found, bad)
	}
	next := make(map[string]int64)
	for _, r := range s.trace {
		if r.number != next[r.exec] {
			bad.add(kindSide, "trace of %s: index %d where %d was due", r.exec, r.number, next[r.exec])
		}
		next[r.exec] = r.number + 1
	}
}

// precedes reports whether a side write comes before another of its execution.
func (j *journal) precedes(a, b place) bool {
	va, vb := j.commits[a.commit-1].base.Version, j.commits[b.commit-1].base.Version
	return va < vb || va == vb && a.k < b.k
}

// compare holds one side write against what the commit asked for.
func (f *facts) compare(j *journal, n int64, p place, asked bool, found map[place]int, bad *violations) {
	c, got, want := &j.commits[n-1], found[p], 0
	if asked && f.applied[n] {
		want = 1
	}
	if p.kind == 'e' && p.k == 0 && want == 1 {
		switch {
		case c.acked == verdictOK, c.acked == verdictUnknown && got == 0:
			want = 0
		}
	}
	if got == want {
		return
	}
	what := fmt.Sprintf("commit #%d on %s of %s, answered %s: %d rows of %s, %d due", n, c.base, j.ids[c.exec], c.verdict, got, p, want)
	unknown := c.verdict == verdictUnknown || c.verdict == verdictPending
	switch {
	case !f.applied[n] && (unknown || c.verdict == verdictOK):
		bad.add(kindTorn, "%s", what)
	case !f.applied[n]:
		bad.add(kindLeft, "%s", what)
	case got > want && want == 0:
		bad.add(kindAnswer, "%s (acknowledged, yet there)", what)
	case got > want:
		bad.add(kindDoubled, "%s", what)
	case unknown:
		bad.add(kindTorn, "%s", what)
	default:
		bad.add(kindSide, "%s", what)
	}
}

// String names a side write.
func (p place) String() string {
	switch p.kind {
	case 'e':
		return fmt.Sprintf("event %d", p.k)
	case 'p':
		return "processed event"
	case 's':
		return "spawn"
	}
	return "trace step"
}

// timers checks that each execution's timers are as its last commits left them.
func (f *facts) timers(j *journal, s *snapshot, bad *violations) {
	type key struct {
		exec int32
		path string
	}
	want := make(map[key]float64)
	for exec, chain := range f.chains {
		for _, n := range chain {
			c := &j.commits[n-1]
			for _, t := range [...]struct {
				set, cancel sides
				path        string
			}{{sideTimerA, sideCancelA, "a"}, {sideTimerB, sideCancelB, "b"}} {
				switch {
				case c.sides.has(t.set):
					want[key{exec, t.path}] = float64(n)
				case c.sides.has(t.cancel):
					delete(want, key{exec, t.path})
				}
			}
		}
	}
	for _, t := range s.timers {
		exec, known := j.byID[t.exec]
		k := key{exec, t.path}
		if due, ok := want[k]; !known || !ok || due != t.fireAt {
			bad.add(kindSide, "timer %q of %s is that of commit #%.0f, due is #%.0f", t.path, t.exec, t.fireAt, due)
		}
		delete(want, k)
	}
	for k, due := range want {
		bad.add(kindSide, "timer %q of %s is missing, due is that of commit #%.0f", k.path, j.ids[k.exec], due)
	}
}
