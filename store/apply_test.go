package store

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// An answer that does not tell who won is no answer: the request was applied, and
// is sent again.
func TestApplySendsAgainWhatWasAnsweredBadly(t *testing.T) {
	ids := []string{"a", "b", "c"}
	for name, bad := range map[string]func(stmts []engine.Statement) []engine.Result{
		"no results":      func([]engine.Statement) []engine.Result { return nil },
		"too few results": func(stmts []engine.Statement) []engine.Result { return returned(stmts[:1], ids...) },
		"too many results": func(stmts []engine.Statement) []engine.Result {
			return append(returned(stmts, ids...), engine.Result{})
		},
		"no rows":            func(stmts []engine.Statement) []engine.Result { return make([]engine.Result, len(stmts)) },
		"somebody else's id": func(stmts []engine.Statement) []engine.Result { return returned(stmts, "a", "x") },
		"an id twice":        func(stmts []engine.Statement) []engine.Result { return returned(stmts, "a", "b", "a") },
		"an id is no text": func(stmts []engine.Statement) []engine.Result {
			res := returned(stmts, ids...)
			res[len(res)-1].Values[1] = engine.Int(1)
			return res
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := &fakeEngine{traits: fakeTraits}
				eng.exec = func(n int, stmts []engine.Statement) ([]engine.Result, error) {
					if n == 1 {
						return bad(stmts), nil
					}
					return returned(stmts, "c", "a", "b"), nil // in any order
				}
				s := fakeStore(eng)
				for i, err := range fakeApply(t, t.Context(), s, fakeWrites(t, s, ids...)) {
					if err != nil {
						t.Errorf("commit %d: %v", i, err)
					}
				}
				if eng.execs != 2 || s.Counters().Unknown != 1 || s.Counters().Resent != 1 {
					t.Errorf("%d requests, counters %+v", eng.execs, s.Counters())
				}
			})
		})
	}
}

func TestApplyRejectsCountsAboveOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := fakeTraits
		traits.RowsPerStatement = 1
		eng := &fakeEngine{traits: traits}
		eng.exec = func(n int, stmts []engine.Statement) ([]engine.Result, error) {
			res := make([]engine.Result, len(stmts))
			res[len(res)-1].RowsAffected = int64(3 - n) // 2, then 1
			return res, nil
		}
		s := fakeStore(eng)
		if errs := fakeApply(t, t.Context(), s, fakeWrites(t, s, "a")); errs[0] != nil || eng.execs != 2 {
			t.Errorf("%v after %d requests, want none after 2", errs[0], eng.execs)
		}
	})
}

// A request that some write may be to blame for is halved; one that nobody is to
// blame for is not.
func TestApplyHalvesOnlyWhereAWriteMayBeToBlame(t *testing.T) {
	const n = 16
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("x", i)
	}
	for _, c := range []struct {
		name   string
		err    error
		halved bool
	}{
		{"statement", &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: &engine.StatementError{Message: "no"}}, true},
		{"too large", fakeRefusal(engine.ErrTooLarge), true},
		{"unavailable", fakeRefusal(engine.ErrUnavailable), false},
		{"no leader", fakeRefusal(engine.ErrNoLeader), false},
		{"unauthorized", fakeRefusal(engine.ErrUnauthorized), false},
		{"closed", fakeRefusal(engine.ErrClosed), false},
		{"full", fakeRefusal(engine.ErrFull), false},
		{"read-only", fakeRefusal(engine.ErrReadOnly), false},
		{"no reason", fakeRefusal(nil), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			eng := &fakeEngine{traits: fakeTraits}
			eng.exec = func(_ int, stmts []engine.Statement) ([]engine.Result, error) {
				var here []string
				last := stmts[len(stmts)-1] // the creations
				for i := 0; i < len(last.Args); i += sqlCreate.cols {
					id, _ := last.Args[i].Text()
					if id == "x5" {
						return nil, c.err
					}
					here = append(here, id)
				}
				return returned(stmts, here...), nil
			}
			s := fakeStore(eng)
			for i, err := range fakeApply(t, t.Context(), s, fakeWrites(t, s, ids...)) {
				if want := i == 5 || !c.halved; (err != nil) != want || want && (!errors.Is(err, c.err) || errors.Is(err, ErrOutcomeUnknown)) {
					t.Errorf("commit %d: %v", i, err)
				}
			}
			want := 1
			if c.halved {
				want = 2*bits.Len(n-1) + 1
			}
			if eng.execs != want || eng.queries != 0 {
				t.Errorf("%d requests and %d reads, want %d and none", eng.execs, eng.queries, want)
			}
		})
	}
}

func TestApplyEndsAtTheTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := &fakeEngine{traits: fakeTraits}
		eng.exec = func(int, []engine.Statement) ([]engine.Result, error) { return nil, fakeUnknown() }
		s := fakeStore(eng)
		began := time.Now()
		writes := fakeWrites(t, s, "a", "b")
		ack, err := s.PrepareAckOutbox(1)
		if err != nil {
			t.Fatal(err)
		}
		errs := fakeApply(t, t.Context(), s, append(writes, ack))
		if took := time.Since(began); took != s.limit {
			t.Errorf("took %v, want the limit of %v", took, s.limit)
		}
		for i, w := range writes {
			var u *UnknownError
			if !errors.As(errs[i], &u) || u.Ref != w.Ref() || u.Seen || !errors.Is(errs[i], errFake) || !errors.Is(errs[i], errLimit) {
				t.Errorf("commit %d: %v", i, errs[i])
			}
		}
		if !errors.Is(errs[2], ErrOutcomeUnknown) || !errors.Is(errs[2], errFake) {
			t.Errorf("acknowledgement: %v", errs[2])
		}
		if eng.execs < 30 || eng.execs > 100 {
			t.Errorf("%d requests in %v", eng.execs, s.limit)
		}
	})
}

func TestApplyStopsAtOnceWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		eng := &fakeEngine{traits: fakeTraits}
		eng.exec = func(n int, _ []engine.Statement) ([]engine.Result, error) {
			if n == 3 {
				cancel(errFake)
			}
			return nil, fakeUnknown()
		}
		s := fakeStore(eng)
		errs := fakeApply(t, ctx, s, fakeWrites(t, s, "a"))
		if !errors.Is(errs[0], ErrOutcomeUnknown) || !errors.Is(errs[0], errFake) || eng.execs != 3 {
			t.Errorf("%v after %d requests", errs[0], eng.execs)
		}
	})
}

// What is refused after an unknown answer is still unknown, unless the database
// says what became of the first request.
func TestApplyKeepsInMindWhatWasSentBefore(t *testing.T) {
	mine := func(w *Write) engine.Value { return engine.Text(w.token) }
	for _, c := range []struct {
		name string
		// after the first answer, which is unknown
		refusal error
		row     func(w *Write) []engine.Value
		peek    error
		want    error
	}{
		{"ours is there", fakeRefusal(engine.ErrUnauthorized), func(w *Write) []engine.Value { return []engine.Value{engine.Text("a"), engine.Int(1), mine(w)} }, nil, nil},
		{"ours is there, built upon", fakeRefusal(engine.ErrUnauthorized), func(w *Write) []engine.Value { return []engine.Value{engine.Text("a"), engine.Int(7), mine(w)} }, nil, nil},
		{"another's is there", fakeRefusal(engine.ErrUnauthorized), func(*Write) []engine.Value {
			return []engine.Value{engine.Text("a"), engine.Int(1), engine.Text("another")}
		}, nil, ErrConflict},
		{"nothing is there", fakeRefusal(engine.ErrUnauthorized), func(*Write) []engine.Value { return nil }, nil, ErrOutcomeUnknown},
		{"it has moved on", fakeRefusal(engine.ErrUnauthorized), func(*Write) []engine.Value {
			return []engine.Value{engine.Text("a"), engine.Int(2), engine.Text("another")}
		}, nil, ErrOutcomeUnknown},
		{"it cannot be read", fakeRefusal(engine.ErrUnauthorized), nil, fakeRefusal(engine.ErrUnauthorized), ErrOutcomeUnknown},
		{"its version is no number", fakeRefusal(engine.ErrUnauthorized), func(*Write) []engine.Value {
			return []engine.Value{engine.Text("a"), engine.Text("?"), engine.Text("")}
		}, nil, ErrOutcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := &fakeEngine{traits: fakeTraits}
				s := fakeStore(eng)
				writes := fakeWrites(t, s, "a")
				eng.exec = func(n int, _ []engine.Statement) ([]engine.Result, error) {
					if n == 1 {
						return nil, fakeUnknown()
					}
					return nil, c.refusal
				}
				eng.query = func(int, []engine.Statement) ([]engine.Result, error) {
					if c.peek != nil {
						return nil, c.peek
					}
					return rowsOf(peekColumns, c.row(writes[0])...), nil
				}
				err := fakeApply(t, t.Context(), s, writes)[0]
				if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if errors.Is(c.want, ErrOutcomeUnknown) {
					var refusal *engine.Error
					if !errors.Is(err, engine.ErrUnauthorized) || !errors.Is(err, errFake) || !errors.As(err, &refusal) {
						t.Errorf("%v does not say why", err)
					}
					if errors.Is(err, engine.ErrNotApplied) || engine.OutcomeOf(err) != engine.Unknown {
						t.Errorf("%v says that it was not applied", err)
					}
				}
				if eng.execs != 2 {
					t.Errorf("%d requests, want 2", eng.execs)
				}
			})
		})
	}
}

// A commit whose first answer was lost, and which then loses although the row is
// still as it was before, is sent again: somebody's delayed write may have come
// and gone. If time runs out meanwhile, its outcome is unknown.
func TestApplySendsAgainWhatIsStillOpen(t *testing.T) {
	for _, answers := range []int{1, 1 << 30} { // how often it loses in vain
		synctest.Test(t, func(t *testing.T) {
			eng := &fakeEngine{traits: fakeTraits}
			s := fakeStore(eng)
			writes := fakeWrites(t, s, "a")
			eng.exec = func(n int, stmts []engine.Statement) ([]engine.Result, error) {
				switch {
				case n == 1:
					return nil, fakeUnknown()
				case n <= 1+answers:
					return returned(stmts), nil
				}
				return returned(stmts, "a"), nil
			}
			eng.query = func(int, []engine.Statement) ([]engine.Result, error) { return rowsOf(peekColumns), nil }
			err := fakeApply(t, t.Context(), s, writes)[0]
			if answers == 1 {
				if err != nil || eng.execs != 3 {
					t.Errorf("got %v after %d requests, want success after 3", err, eng.execs)
				}
				return
			}
			var unknown *UnknownError
			if !errors.As(err, &unknown) || !unknown.Seen || unknown.Found != NoVersion || unknown.Ref != writes[0].Ref() {
				t.Errorf("got %v, want the outcome unknown and what was seen", err)
			}
		})
	}
}

// Errors say what was found and what was expected.
func TestErrorsTellWhatWasFound(t *testing.T) {
	for want, err := range map[string]error{
		`execution "x": conflict: expected version 3, found none`:                                           &ConflictError{ID: "x", Expected: 3, Found: NoVersion},
		`execution "x": conflict: expected none, found version 3`:                                           &ConflictError{ID: "x", Found: 3},
		`execution "x": conflict: version 3 is another commit's`:                                            &ConflictError{ID: "x", Expected: 3, Found: 3},
		`execution "x": conflict: expected version 3, found 4`:                                              &ConflictError{ID: "x", Expected: 3, Found: 4},
		`execution "x": outcome of the commit on version 3 is unknown`:                                      &UnknownError{Ref: CommitRef{ID: "x", Base: 3}},
		`execution "x": outcome of the commit on version 3 is unknown, no row was found`:                    &UnknownError{Ref: CommitRef{ID: "x", Base: 3}, Seen: true, Found: NoVersion},
		`execution "x": outcome of the commit on version 3 is unknown, found version 5: ` + errFake.Error(): &UnknownError{Ref: CommitRef{ID: "x", Base: 3}, Seen: true, Found: 5, Err: errFake},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A lost commit of which nothing was unknown is a conflict, whatever the row says
// by the time it is looked at.
func TestApplyCallsADefiniteLossAConflict(t *testing.T) {
	for name, row := range map[string][]engine.Value{
		"gone":             nil,
		"as it was before": {engine.Text("a"), engine.Int(4), engine.Text("")},
		"moved on":         {engine.Text("a"), engine.Int(9), engine.Text("another")},
	} {
		t.Run(name, func(t *testing.T) {
			eng := &fakeEngine{traits: fakeTraits}
			s := fakeStore(eng)
			x := NewExecution("d")
			x.ID, x.Version = "a", 4
			w, err := s.PrepareCommit(&Commit{Execution: x})
			if err != nil {
				t.Fatal(err)
			}
			eng.exec = func(_ int, stmts []engine.Statement) ([]engine.Result, error) { return returned(stmts), nil }
			eng.query = func(int, []engine.Statement) ([]engine.Result, error) { return rowsOf(peekColumns, row...), nil }
			var c *ConflictError
			want := NoVersion
			if row != nil {
				want, _ = row[1].Int()
			}
			if err := fakeApply(t, t.Context(), s, []*Write{w})[0]; !errors.As(err, &c) || c.Expected != 4 || c.Found != want {
				t.Errorf("got %v, want a conflict that found %d", err, want)
			}
			if eng.execs != 1 || eng.queries != 1 {
				t.Errorf("%d requests and %d reads", eng.execs, eng.queries)
			}
		})
	}
}

func TestApplyOfNothingSendsNothing(t *testing.T) {
	eng := &fakeEngine{traits: fakeTraits}
	fakeApply(t, t.Context(), fakeStore(eng), nil)
	if eng.execs != 0 {
		t.Errorf("%d requests", eng.execs)
	}
}

// Numbers that the counts do not bear out are not reported.
func TestSequenceNumbersStayUnknownWhereCountsDoNotAdd(t *testing.T) {
	for name, res := range map[string]engine.Result{
		"no number":      {RowsAffected: 2},
		"too few":        {RowsAffected: 1, LastInsertID: 10},
		"too many":       {RowsAffected: 3, LastInsertID: 10},
		"negative":       {RowsAffected: -2, LastInsertID: 10},
		"below the rows": {RowsAffected: 2, LastInsertID: 1},
	} {
		eng := &fakeEngine{traits: fakeTraits}
		eng.exec = func(_ int, stmts []engine.Statement) ([]engine.Result, error) {
			out := returned(stmts, "a", "b")
			out[0] = res
			return out, nil
		}
		s := fakeStore(eng)
		writes := fakeWrites(t, s, "a", "b")
		for i, err := range fakeApply(t, t.Context(), s, writes) {
			if got := writes[i].Committed(); err != nil || got.Outbox != (SeqRange{}) {
				t.Errorf("%s: commit %d: %+v, %v", name, i, got.Outbox, err)
			}
		}
	}
}

// Of several writes for one execution only the first is sent.
func TestSecondWriteOfAnExecutionIsRefused(t *testing.T) {
	eng := &fakeEngine{traits: fakeTraits}
	eng.exec = func(_ int, stmts []engine.Statement) ([]engine.Result, error) { return returned(stmts, "a", "b"), nil }
	s := fakeStore(eng)
	errs := fakeApply(t, t.Context(), s, fakeWrites(t, s, "a", "b", "a"))
	if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], ErrInvalid) {
		t.Errorf("%v", errs)
	}
	if eng.execs != 1 {
		t.Errorf("%d requests", eng.execs)
	}
}

func TestZeroCommitted(t *testing.T) {
	if c := (Committed{}); c.Execution() != nil || c.Ref() != (CommitRef{}) {
		t.Error("a zero Committed has an execution or an identity")
	}
}
