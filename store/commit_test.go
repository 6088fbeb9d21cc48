package store

import (
	"math"
	"testing"
	"time"
)

func TestEpochSecondsAndBack(t *testing.T) {
	for _, at := range []time.Time{
		time.Unix(0, 0), time.Unix(1700000000, 0), time.Unix(1700000000, 500_000_000), time.Unix(-1, 250_000_000), time.Unix(-1700000000, 750_000_000),
		time.Date(2262, 1, 2, 3, 4, 5, 123456000, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		back := EpochTime(EpochSeconds(at))
		if d := back.Sub(at).Abs(); d > 50*time.Microsecond || back.Location() != time.UTC {
			t.Errorf("%v became %v", at, back)
		}
	}
	if at := EpochTime(1700000000.5); at != time.Unix(1700000000, 500_000_000).UTC() {
		t.Errorf("got %v", at)
	}
	if s := EpochSeconds(time.Unix(-1, 500_000_000)); s != -0.5 {
		t.Errorf("got %v", s)
	}
}

func TestTimersFoldPerPath(t *testing.T) {
	s := fakeStore(&fakeEngine{traits: fakeTraits})
	w, err := s.PrepareCommit(&Commit{Execution: NewExecution("d"), Timers: []TimerOp{
		{Path: "a", FireAt: 1}, {Path: "b", FireAt: math.Copysign(0, -1)}, CancelTimer("a"), {Path: "c", FireAt: 2}, {Path: "c", FireAt: 3}, CancelTimer("d"), {Path: "d", FireAt: 4},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := w.commit
	if len(c.cancels) != 1 || c.cancels[0] != "a" || len(c.timers) != 3 || c.timers[1] != (timerRow{"c", 3}) || c.timers[2] != (timerRow{"d", 4}) {
		t.Errorf("cancels %v, timers %v", c.cancels, c.timers)
	}
	if math.Signbit(c.timers[0].fireAt) {
		t.Error("-0 stayed -0")
	}
}

func TestCommitKnowsWhatItWasBuiltOn(t *testing.T) {
	s := fakeStore(&fakeEngine{traits: fakeTraits})
	x := NewExecution("d")
	prepare := func(x *Execution) *Write {
		t.Helper()
		w, err := s.PrepareCommit(&Commit{Execution: x})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	a := prepare(x)
	b := prepare(a.Next())
	if !a.commit.baseToken.IsNull() || a.commit.base != 0 || a.Key() != x.ID || !a.IsCommit() {
		t.Errorf("the first commit: %+v", a.commit)
	}
	if token, _ := b.commit.baseToken.Text(); token != a.token || b.commit.base != 1 || b.token == a.token {
		t.Errorf("the second commit: base %d, token %q, built on %q", b.commit.base, token, a.token)
	}
	if a.Committed().Ref() != a.Ref() || a.Ref() != (CommitRef{ID: x.ID, Base: 0, Token: a.token}) {
		t.Errorf("references %+v and %+v", a.Committed().Ref(), a.Ref())
	}
	if r := (SeqRange{First: 5, Len: 3}); r.At(0) != 5 || r.At(2) != 7 {
		t.Errorf("%d, %d", r.At(0), r.At(2))
	}
	if first, second := a.Next(), a.Next(); first == second {
		t.Error("two calls share one execution")
	}
}
