package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/store/engine"
)

// unanimousStore is a fakeStore that counts on there being no rivals.
func unanimousStore(eng *fakeEngine) *Store {
	s := fakeStore(eng)
	s.rivals.wait.Store(0)
	return s
}

// isUnanimous reports whether a request is a unanimous batch.
func isUnanimous(stmts []engine.Statement) bool {
	return slices.ContainsFunc(stmts, func(st engine.Statement) bool { return st.SQL == sqlTally })
}

// allWon answers a unanimous batch as a database does in which all win.
func allWon(b []engine.Statement) []engine.Result {
	results := make([]engine.Result, len(b))
	for i, st := range b {
		if st.SQL == sqlTally {
			results[i-1].RowsAffected, _ = st.Args[0].Int()
		}
	}
	return results
}

// someLost answers a unanimous batch as a database does in which one loses.
func someLost(stmts []engine.Statement) error {
	at := slices.IndexFunc(stmts, func(st engine.Statement) bool { return st.SQL == sqlTally })
	return &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: &engine.StatementError{Index: at, Message: "NOT NULL constraint failed: quorate_lost.id"}}
}

// Nothing in a unanimous batch tests a guard but the executions, each statement of
// which is counted by the next; and nothing else comes before them.
func TestAUnanimousBatchDecidesFirst(t *testing.T) {
	for _, rows := range []int{1, 64} {
		traits := fakeTraits
		traits.RowsPerStatement = rows
		s := unanimousStore(&fakeEngine{traits: traits})
		writes := fullCommits(t, s)
		ack, err := s.PrepareAckOutbox(7)
		if err != nil {
			t.Fatal(err)
		}
		b := s.newBatch(append(writes, ack), true)
		deciding := 6
		if rows > 1 {
			deciding = 3
		}
		if len(b.tallies) != deciding {
			t.Fatalf("%d rows a statement: %d tallies, want %d", rows, len(b.tallies), deciding)
		}
		for i, st := range b.stmts {
			isExecution := strings.HasPrefix(st.SQL, "INSERT INTO executions") || strings.Contains(st.SQL, "UPDATE executions")
			if want := i < 2*deciding && i%2 == 0; isExecution != want {
				t.Errorf("%d rows a statement: statement %d: %s", rows, i, st.SQL)
			}
			if isTally := st.SQL == sqlTally; isTally != (i < 2*deciding && i%2 == 1) {
				t.Errorf("%d rows a statement: statement %d: %s", rows, i, st.SQL)
			} else if isTally {
				if n, _ := st.Args[0].Int(); n != int64(6/deciding) {
					t.Errorf("statement %d counts to %d, want %d", i, n, 6/deciding)
				}
			}
			if strings.Contains(st.SQL, guard) || strings.Contains(st.SQL, "FROM quorate_lost") || st.Returning {
				t.Errorf("statement %d is guarded, or returns rows: %s", i, st.SQL)
			}
		}
		// Outbox, ledger, timer, removal of a timer, spawn, trace and its trim; and
		// the acknowledgement.
		sides := 7*6/min(rows, 6) + 1
		if got := len(b.stmts) - 2*deciding; got != sides {
			t.Errorf("%d rows a statement: %d statements beside the executions, want %d", rows, got, sides)
		}
		won, ok := b.winners(allWon(b.stmts))
		if !ok || len(won) != 6 || slices.Contains(won, false) {
			t.Errorf("%d rows a statement: winners %v, %t", rows, won, ok)
		}
		bad := allWon(b.stmts)
		bad[2].RowsAffected--
		if _, ok := b.winners(bad); ok {
			t.Errorf("%d rows a statement: a count that is too small does not matter", rows)
		}
	}
}

// A batch that was taken back is sent again in the form that names the winners,
// and so are the next ones, until there was no conflict for a while.
func TestAUnanimousBatchThatLosesIsToldApart(t *testing.T) {
	eng := &fakeEngine{traits: fakeTraits}
	s := unanimousStore(eng)
	lost := map[string]bool{"b": true}
	var forms []bool
	eng.exec = func(_ int, stmts []engine.Statement) ([]engine.Result, error) {
		forms = append(forms, isUnanimous(stmts))
		var won []string
		any := false
		for _, st := range stmts {
			if !strings.Contains(st.SQL, "INSERT INTO executions") {
				continue
			}
			for i := 0; i < len(st.Args); i += sqlCreate.cols {
				id, _ := st.Args[i].Text()
				if lost[id] {
					any = true
				} else {
					won = append(won, id)
				}
			}
		}
		if !isUnanimous(stmts) {
			return returned(stmts, won...), nil
		}
		if any {
			return nil, someLost(stmts)
		}
		return allWon(stmts), nil
	}
	eng.query = func(int, []engine.Statement) ([]engine.Result, error) {
		return rowsOf(peekColumns, engine.Text("b"), engine.Int(1), engine.Text(newToken())), nil
	}
	apply := func(ids ...string) {
		t.Helper()
		forms = nil
		for i, err := range fakeApply(t, t.Context(), s, fakeWrites(t, s, ids...)) {
			var conflict *ConflictError
			if lost[ids[i]] != errors.As(err, &conflict) || !lost[ids[i]] && err != nil {
				t.Errorf("commit of %s: %v", ids[i], err)
			}
		}
	}
	want := func(what string, w ...bool) {
		t.Helper()
		if !slices.Equal(forms, w) {
			t.Errorf("%s: unanimous requests %v, want %v", what, forms, w)
		}
	}
	apply("a", "c")
	want("all win", true)
	apply("a", "b", "c")
	want("one loses", true, false)
	for range rivalry - 5 {
		apply("a", "c")
		want("after a conflict", false)
	}
	apply("a", "b")
	want("another conflict", false)
	for range rivalry {
		apply("a", "c")
		want("after another conflict", false)
	}
	apply("a", "c")
	want("no conflict for long", true)
	if c := s.Counters(); c.Conflicts != 2 || c.Splits != 0 || c.Unknown != 0 || c.Resent != 0 {
		t.Errorf("counters %+v", c)
	}
}

// When the first answer was lost, the copy finds that all have lost by then, and
// their tokens tell that they had won.
func TestAUnanimousBatchWhoseAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := &fakeEngine{traits: fakeTraits}
		s := unanimousStore(eng)
		writes := fakeWrites(t, s, "a", "b", "c")
		eng.exec = func(n int, stmts []engine.Statement) ([]engine.Result, error) {
			switch n {
			case 1:
				return nil, fakeUnknown()
			case 2:
				if !isUnanimous(stmts) {
					t.Error("the request was not sent again as it was")
				}
				return nil, someLost(stmts)
			}
			return returned(stmts), nil
		}
		eng.query = func(int, []engine.Statement) ([]engine.Result, error) {
			var rows []engine.Value
			for i, w := range writes {
				token := w.token
				if i == 2 {
					token = newToken()
				}
				rows = append(rows, engine.Text(w.id), engine.Int(1), engine.Text(token))
			}
			return rowsOf(peekColumns, rows...), nil
		}
		errs := fakeApply(t, t.Context(), s, writes)
		if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], ErrConflict) {
			t.Errorf("verdicts %v", errs)
		}
		if c := s.Counters(); eng.execs != 3 || c.Recovered != 2 || c.Conflicts != 1 {
			t.Errorf("%d requests, counters %+v", eng.execs, c)
		}
	})
}

// Only the refusal of a tally says that somebody lost, and only if all was undone.
func TestWhatUndoesAUnanimousBatch(t *testing.T) {
	s := unanimousStore(&fakeEngine{traits: fakeTraits})
	writes := fullCommits(t, s)
	refused := func(outcome engine.Outcome, at int) error {
		return &engine.Error{Op: "exec", Outcome: outcome, Err: &engine.StatementError{Index: at, Message: "no"}}
	}
	for _, c := range []struct {
		name      string
		unanimous bool
		err       error
		want      bool
	}{
		{"the first tally", true, refused(engine.NotApplied, 1), true},
		{"the last tally", true, refused(engine.NotApplied, 5), true},
		{"an execution", true, refused(engine.NotApplied, 2), false},
		{"a side write", true, refused(engine.NotApplied, 6), false},
		{"a tally, but perhaps not undone", true, refused(engine.Unknown, 1), false},
		{"unavailable", true, fakeRefusal(engine.ErrUnavailable), false},
		{"unknown", true, fakeUnknown(), false},
		{"no error", true, nil, false},
		{"another form", false, refused(engine.NotApplied, 1), false},
	} {
		if got := s.newBatch(writes, c.unanimous).undone(c.err); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestWhichBatchesAreUnanimous(t *testing.T) {
	s := unanimousStore(&fakeEngine{traits: fakeTraits})
	plain := func() *Write {
		w, err := s.PrepareCommit(&Commit{Execution: NewExecution("d")})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	sent := plain()
	sent.uncertain = true
	full := fullCommits(t, s)
	one, postgres := fakeTraits, fakeTraits
	one.RowsPerStatement, postgres.Dialect = 1, engine.PostgreSQL
	for _, c := range []struct {
		name   string
		writes []*Write
		traits engine.Traits
		rivals bool
		want   bool
	}{
		{"two commits", []*Write{plain(), plain()}, fakeTraits, false, true},
		{"full commits", full, fakeTraits, false, true},
		{"where there are rivals", full, fakeTraits, true, false},
		{"a single one, whose verdict is a count", full[:1], fakeTraits, false, false},
		{"one that was sent before", []*Write{plain(), sent}, fakeTraits, false, false},
		{"one row a statement", []*Write{plain(), plain()}, one, false, false},
		{"one row a statement, many side writes", full, one, false, true},
		{"where transactions interleave", full, postgres, false, false},
		{"nothing", nil, fakeTraits, false, false},
	} {
		s.traits = c.traits
		s.rivals.wait.Store(0)
		if c.rivals {
			s.rivals.met()
		}
		if got := s.unanimous(c.writes); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
