package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/store"
)

func fileHas(t *testing.T, dir, name string) bool {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.Size() > 0
}

const allSides = sideSecondEmit | sideProcessed | sideTimerA | sideSpawn | sideTrace

// planted returns a journal of four commits of one execution, and the database
// as they should have left it: two that won, one refused in between, and one of
// unknown outcome that was applied.
func planted() (*journal, *snapshot) {
	j := newJournal("t")
	exec, id := j.execution("own")
	one := j.begin(exec, none, allSides)
	j.end(one, verdictOK, store.CommitRef{})
	two := j.begin(exec, none, allSides)
	j.end(two, verdictConflict, store.CommitRef{})
	three := j.begin(exec, mark{1, one}, allSides|sideTimerB|sideCancelB)
	j.end(three, verdictOK, store.CommitRef{})
	four := j.begin(exec, mark{2, three}, sideCancelA|sideProcessed)
	j.end(four, verdictUnknown, store.CommitRef{ID: id})
	j.ack(one, verdictOK)
	j.ack(three, verdictUnknown)
	j.looked(lookup{exec: exec, commit: one, seen: mark{2, three}, processed: true})
	j.looked(lookup{exec: exec, commit: three, seen: mark{1, one}, processed: false})
	j.looked(lookup{exec: exec, commit: two, seen: mark{3, four}, processed: false})

	s := &snapshot{executions: map[string]row{id: {mark{3, four}, 3}}}
	for i, n := range []int64{one, three} {
		for k := range 2 {
			if n != one || k != 0 { // acknowledged
				s.outbox = append(s.outbox, sideRow{id, eventID(n, k), int64(2*i + k)})
			}
		}
		s.processed = append(s.processed, sideRow{exec: id, text: processedID(n)})
		s.spawns = append(s.spawns, sideRow{id, childID(n), int64(i)})
		s.trace = append(s.trace, sideRow{id, fmt.Sprintf("t%d", n), int64(i)})
	}
	s.outbox = append(s.outbox, sideRow{id, eventID(four, 0), 9})
	s.processed = append(s.processed, sideRow{exec: id, text: processedID(four)})
	s.timers = []timerRow{{id, "b", float64(three)}}
	return j, s
}

func TestOracleAcceptsTruth(t *testing.T) {
	j, s := planted()
	bad := &violations{}
	f := verify(j, s, bad)
	if texts, _ := bad.list(); bad.total() > 0 {
		t.Errorf("%q", texts)
	}
	if got, want := fmt.Sprint(f.applied[1:]), "[true false true true]"; got != want {
		t.Errorf("applied %s, want %s", got, want)
	}
	// The other way for the unknown one: not there at all.
	j, s = planted()
	id := j.ids[0]
	s.executions[id] = row{mark{2, 3}, 2}
	s.outbox = s.outbox[:len(s.outbox)-1]
	s.processed = s.processed[:len(s.processed)-1]
	s.timers = append(s.timers, timerRow{id, "a", 3})
	j.lookups = j.lookups[:2]
	bad = &violations{}
	if verify(j, s, bad); bad.total() > 0 {
		texts, _ := bad.list()
		t.Errorf("unknown and not applied: %q", texts)
	}
}

func TestOracleCatchesLies(t *testing.T) {
	for _, lie := range []struct {
		name, kind string
		tell       func(j *journal, s *snapshot, id string)
	}{
		{"acknowledged commit lost", kindLost, func(_ *journal, s *snapshot, id string) { delete(s.executions, id) }},
		{"last acknowledged commit undone", kindLost, func(_ *journal, s *snapshot, id string) { s.executions[id] = row{v1, 1} }},
		{"refused commit applied", kindLeft, func(j *journal, _ *snapshot, _ string) { j.commits[2].verdict = verdictConflict }},
		{"commit that was not sent applied", kindLeft, func(j *journal, _ *snapshot, _ string) { j.commits[0].verdict = verdictRefused }},
		{"refused commit left an event", kindLeft, func(_ *journal, s *snapshot, id string) {
			s.outbox = append(s.outbox, sideRow{id, eventID(2, 1), 10})
		}},
		{"refused commit left a trace", kindLeft, func(_ *journal, s *snapshot, id string) {
			s.trace = append(s.trace, sideRow{id, "t2", 2})
		}},
		{"event doubled", kindDoubled, func(_ *journal, s *snapshot, id string) {
			s.outbox = append(s.outbox, sideRow{id, eventID(1, 1), 10})
		}},
		{"spawn doubled", kindDoubled, func(_ *journal, s *snapshot, id string) {
			s.spawns = append(s.spawns, sideRow{id, childID(3), 10})
		}},
		{"event missing", kindSide, func(_ *journal, s *snapshot, _ string) { s.outbox = s.outbox[1:] }},
		{"ledger entry missing", kindSide, func(_ *journal, s *snapshot, _ string) { s.processed = s.processed[1:] }},
		{"trace missing", kindSide, func(_ *journal, s *snapshot, _ string) { s.trace = s.trace[:1] }},
		{"trace indexes with a gap", kindSide, func(_ *journal, s *snapshot, _ string) { s.trace[1].number = 5 }},
		{"events out of order", kindSide, func(_ *journal, s *snapshot, _ string) {
			s.outbox[1], s.outbox[2] = s.outbox[2], s.outbox[1]
		}},
		{"row of nobody", kindSide, func(_ *journal, s *snapshot, id string) {
			s.outbox = append(s.outbox, sideRow{id, "e99.0", 10})
		}},
		{"timer of an older commit", kindSide, func(_ *journal, s *snapshot, _ string) { s.timers[0].fireAt = 1 }},
		{"timer missing", kindSide, func(_ *journal, s *snapshot, _ string) { s.timers = nil }},
		{"cancelled timer there", kindSide, func(_ *journal, s *snapshot, id string) {
			s.timers = append(s.timers, timerRow{id, "a", 3})
		}},
		{"unknown commit half there", kindTorn, func(_ *journal, s *snapshot, _ string) { s.outbox = s.outbox[:len(s.outbox)-1] }},
		{"unknown commit's side write alone", kindTorn, func(_ *journal, s *snapshot, id string) { s.executions[id] = row{mark{2, 3}, 2} }},
		{"acknowledged event there", kindAnswer, func(_ *journal, s *snapshot, id string) {
			s.outbox = append([]sideRow{{id, eventID(1, 0), -1}}, s.outbox...)
		}},
		{"chain broken", kindChain, func(j *journal, _ *snapshot, _ string) { j.commits[2].base = mark{1, 4} }},
		{"version out of step", kindChain, func(_ *journal, s *snapshot, id string) { s.executions[id] = row{mark{4, 4}, 4} }},
		{"version differs from the document's", kindChain, func(_ *journal, s *snapshot, id string) { s.executions[id] = row{mark{3, 4}, 2} }},
		{"state by nobody", kindChain, func(_ *journal, s *snapshot, id string) { s.executions[id] = row{mark{3, -1}, 3} }},
		{"processed event denied", kindAnswer, func(j *journal, _ *snapshot, _ string) { j.lookups[0].processed = false }},
		{"event processed too early", kindAnswer, func(j *journal, _ *snapshot, _ string) { j.lookups[1].processed = true }},
		{"load of what is not in the chain", kindAnswer, func(j *journal, _ *snapshot, _ string) { j.lookups[0].seen = mark{2, 2} }},
	} {
		j, s := planted()
		lie.tell(j, s, j.ids[0])
		bad := &violations{}
		verify(j, s, bad)
		if bad.count(lie.kind) == 0 {
			texts, _ := bad.list()
			t.Errorf("%s: no %q among %q", lie.name, lie.kind, texts)
		}
	}
}
