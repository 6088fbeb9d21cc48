package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

func commit(n int64, base mark, v verdict, call, ret int64) operation {
	return operation{Commit: n, Base: base, Verdict: v, Call: call, Return: ret}
}

func conflict(n int64, base mark, found, call, ret int64) operation {
	return operation{Commit: n, Base: base, Verdict: verdictConflict, Found: mark{Version: found}, Call: call, Return: ret}
}

func load(found mark, call, ret int64) operation {
	return operation{Verdict: verdictOK, Found: found, Call: call, Return: ret}
}

var none, v1, v2 = mark{}, mark{1, 1}, mark{2, 2}

// The checker has to accept what a correct store may do.
func TestCheckerAcceptsTruth(t *testing.T) {
	for name, ops := range map[string][]operation{
		"one after the other":           {commit(1, none, verdictOK, 1, 2), load(v1, 3, 4), commit(2, v1, verdictOK, 5, 6), load(v2, 7, 8)},
		"a load beside a commit":        {commit(1, none, verdictOK, 1, 9), load(none, 2, 3), load(v1, 4, 5)},
		"a conflict that was one":       {commit(1, none, verdictOK, 1, 9), conflict(2, none, 1, 2, 8)},
		"a conflict on a lost base":     {commit(1, none, verdictOK, 1, 2), conflict(3, mark{2, 9}, 1, 3, 4)},
		"a conflict that nobody saw":    {commit(1, none, verdictOK, 1, 9), conflict(2, none, unseen, 2, 8)},
		"unknown, and applied later":    {commit(1, none, verdictUnknown, 1, 2), load(none, 3, 4), load(v1, 5, 6)},
		"unknown, and never applied":    {commit(1, none, verdictUnknown, 1, 2), load(none, 3, 4), commit(2, none, verdictOK, 5, 6), load(mark{1, 2}, 7, 8)},
		"unknown, and built upon":       {commit(1, none, verdictUnknown, 1, 2), commit(2, v1, verdictOK, 3, 4)},
		"two unknown, the second seen":  {commit(1, none, verdictUnknown, 1, 2), commit(2, v1, verdictUnknown, 3, 4), load(v2, 5, 6)},
		"unknown, told by a conflict":   {commit(1, none, verdictUnknown, 1, 2), conflict(2, none, 1, 3, 4)},
		"unknown, between two that won": {commit(1, none, verdictOK, 1, 2), commit(2, v1, verdictUnknown, 3, 4), commit(3, v2, verdictOK, 5, 6)},
	} {
		if j := judgeHistory(ops, time.Minute); j.result != porcupine.Ok {
			t.Errorf("%s: %s%s", name, j.result, j.why)
		}
	}
}

// The checker has to catch each kind of lie, and say something about it.
func TestCheckerCatchesLies(t *testing.T) {
	for name, ops := range map[string][]operation{
		"lost update":                      {commit(1, none, verdictOK, 1, 2), commit(2, v1, verdictOK, 3, 6), commit(3, v1, verdictOK, 4, 5)},
		"stale read":                       {commit(1, none, verdictOK, 1, 2), commit(2, v1, verdictOK, 3, 4), load(v1, 5, 6)},
		"read from the future":             {load(v1, 1, 2), commit(1, none, verdictOK, 3, 4)},
		"read of what nobody wrote":        {commit(1, none, verdictOK, 1, 2), load(mark{2, 7}, 3, 4)},
		"acknowledged and gone":            {commit(1, none, verdictOK, 1, 2), load(none, 3, 4)},
		"going back in time":               {commit(1, none, verdictOK, 1, 9), load(v1, 2, 3), load(none, 4, 5)},
		"conflict with oneself":            {commit(1, none, verdictOK, 1, 2), conflict(2, v1, unseen, 3, 4)},
		"conflict, and applied":            {commit(1, none, verdictOK, 1, 2), conflict(2, v1, 2, 3, 4), load(v2, 5, 6)},
		"conflict with a version to come":  {commit(1, none, verdictOK, 1, 2), conflict(3, none, 2, 3, 4), commit(2, v1, verdictOK, 5, 6)},
		"unknown, seen and gone":           {commit(1, none, verdictUnknown, 1, 2), load(v1, 3, 4), load(none, 5, 6)},
		"unknown, seen before it was sent": {load(v1, 1, 2), commit(1, none, verdictUnknown, 3, 4)},
		"unknown, applied beside another":  {commit(1, none, verdictUnknown, 1, 2), commit(2, none, verdictOK, 3, 4), load(v1, 5, 6)},
	} {
		j := judgeHistory(ops, time.Minute)
		if j.result != porcupine.Illegal {
			t.Errorf("%s: %s", name, j.result)
		}
		if j.why == "" {
			t.Errorf("%s: nothing is said about it", name)
		}
	}
}

// A lie among many truths fails the history, and leaves files to look at.
func TestCheckerReportsAndSaves(t *testing.T) {
	bad := &violations{}
	c := newChecker(time.Minute, t.TempDir(), bad)
	truth := &history{id: "truth", ops: []operation{commit(1, none, verdictOK, 1, 2)}}
	lie := &history{id: "lie", ops: []operation{commit(1, none, verdictOK, 1, 2), load(none, 3, 4)}}
	c.add(truth)
	c.add(lie)
	c.stop()
	if got := bad.count(kindHistory); got != 1 || bad.total() != 1 {
		t.Errorf("%d histories failed of %d violations; want 1 of 1", got, bad.total())
	}
	texts, notes := bad.list()
	if len(texts) != 1 || !strings.Contains(texts[0], "execution lie") || len(notes) > 0 {
		t.Errorf("told %q, noted %q", texts, notes)
	}
	for _, name := range []string{"lie.json", "lie.html"} {
		if !fileHas(t, c.out, name) {
			t.Errorf("%s was not written", name)
		}
	}
}

// Settling and narrowing must not change what porcupine says. Random histories,
// of a true register and with lies planted, are judged with and without.
func TestPreparationChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 0))
	var legal, illegal int
	for range 3000 {
		ops := randomHistory(rng)
		got := judgeHistory(ops, time.Minute).result
		raw := make([]operation, len(ops))
		for i, op := range ops {
			if op.Verdict == verdictUnknown {
				op.Return = forever
			}
			raw[i] = op
		}
		want := porcupine.CheckEventsTimeout(model(), events(raw), time.Minute)
		if got != want {
			for i := range ops {
				t.Logf("[%d, %d] %v", ops[i].Call, ops[i].Return, &ops[i])
			}
			t.Fatalf("prepared: %s, as it was: %s", got, want)
		}
		if want == porcupine.Ok {
			legal++
		} else {
			illegal++
		}
	}
	t.Logf("%d legal, %d illegal", legal, illegal)
	if legal < 300 || illegal < 300 {
		t.Errorf("%d legal and %d illegal histories are no fair trial", legal, illegal)
	}
}

// randomHistory runs a few operations against a register, each with an interval
// around the moment at which it takes effect, and sometimes changes an answer.
func randomHistory(rng *rand.Rand) []operation {
	state, known := none, []mark{none}
	var ops []operation
	for i := range int64(9) {
		at := 100 * (i + 1)
		op := operation{Verdict: verdictOK, Call: at - rng.Int64N(300), Return: at + rng.Int64N(300)}
		if rng.IntN(3) == 0 {
			op.Found = state
		} else {
			op.Commit, op.Base = i+1, known[max(0, len(known)-1-rng.IntN(2))]
			next := mark{op.Base.Version + 1, op.Commit}
			switch applies := op.Base == state; {
			case rng.IntN(4) == 0:
				op.Verdict = verdictUnknown
				if applies && rng.IntN(2) == 0 {
					state, known = next, append(known, next)
				}
			case applies:
				state, known = next, append(known, next)
			default:
				op.Verdict, op.Found = verdictConflict, mark{Version: state.Version}
				if rng.IntN(3) == 0 {
					op.Found.Version = unseen
				}
			}
		}
		ops = append(ops, op)
	}
	if rng.IntN(2) == 0 {
		switch op := &ops[rng.IntN(len(ops))]; {
		case op.Commit == 0:
			op.Found = known[rng.IntN(len(known))]
		case op.Verdict == verdictOK:
			op.Verdict, op.Found = verdictConflict, mark{Version: unseen}
		default:
			op.Verdict, op.Found = verdictOK, mark{}
		}
	}
	slices.SortFunc(ops, func(a, b operation) int { return int(a.Call - b.Call) })
	return ops
}

// Contention of dozens must not make the check explode.
func TestCheckerCopesWithCrowds(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 1))
	var ops []operation
	state, n := none, int64(0)
	const width = 64 // operations that overlap
	for i := range int64(1500) {
		at := 100 * (i + width)
		op := operation{Verdict: verdictOK, Call: at - 100*rng.Int64N(width), Return: at + 100*rng.Int64N(width)}
		switch n++; rng.IntN(6) {
		case 0:
			op.Commit, op.Base = n, state
			state = mark{state.Version + 1, n}
		case 1:
			op.Commit, op.Base, op.Verdict = n, state, verdictUnknown
		case 2, 3:
			op.Commit, op.Base, op.Verdict = n, mark{state.Version + 1, n + 1e6}, verdictConflict
			op.Found.Version = state.Version
		default:
			op.Found = state
		}
		ops = append(ops, op)
	}
	if j := judgeHistory(ops, time.Minute); j.result != porcupine.Ok {
		t.Errorf("%s%s", j.result, j.why)
	}
}

// One unknown outcome that explains what a crowd met must not either: tried too
// early, it is spent, and then every order of the crowd in vain.
func TestCheckerCopesWithACrowdBehindAnUnknownOutcome(t *testing.T) {
	ops := []operation{commit(1, none, verdictOK, 1, 2), commit(2, v1, verdictUnknown, 3, 4)}
	for i := range int64(40) {
		ops = append(ops, load(v1, 5+i, 100+i))
	}
	for i := range int64(40) {
		ops = append(ops, conflict(10+i, v1, 2, 50+i, 200+i))
	}
	if j := judgeHistory(ops, time.Minute); j.result != porcupine.Ok {
		t.Errorf("%s%s", j.result, j.why)
	}
}
