package workspace_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/workspace"
)

// lossy loses the answers to commits of interactive transactions.
type lossy struct {
	engine.Transactor
	lose    func(tx engine.Tx, ctx context.Context) error // in place of the next Commit
	noBegin error                                         // of Begin, after that
}

func (e *lossy) Begin(ctx context.Context) (engine.Tx, error) {
	if e.lose == nil && e.noBegin != nil {
		return nil, e.noBegin
	}
	tx, err := e.Transactor.Begin(ctx)
	return &lossyTx{tx, e}, err
}

type lossyTx struct {
	engine.Tx
	e *lossy
}

func (tx *lossyTx) Commit(ctx context.Context) error {
	if lose := tx.e.lose; lose != nil {
		tx.e.lose = nil
		return lose(tx.Tx, ctx)
	}
	return tx.Tx.Commit(ctx)
}

var errLost = &engine.Error{Op: "commit", Outcome: engine.Unknown, Reason: engine.ErrUnavailable}

// TestLostAnswerToACommitIsSettled loses the answer to a COMMIT that was applied, to
// one that was not, and to one that nobody can ask about.
func TestLostAnswerToACommitIsSettled(t *testing.T) {
	eng := &lossy{Transactor: openEngine(t, "")}
	s := openStore(t, eng, workspace.WithTimeLimit(1e8))
	runs := 0
	try := func(id string) error {
		return s.Transact(t.Context(), ref, func(ctx context.Context, tx *workspace.Tx) error {
			runs++
			_, err := tx.Append(ctx, entry(id))
			return err
		})
	}
	applied := func(tx engine.Tx, ctx context.Context) error { return errors.Join(tx.Commit(ctx), errLost) }
	dropped := func(tx engine.Tx, _ context.Context) error { tx.Rollback(); return errLost }

	eng.lose = applied
	must(t, try("applied"))
	eng.lose = dropped
	if err := try("dropped"); !errors.Is(err, engine.ErrNotApplied) || errors.Is(err, engine.ErrOutcomeUnknown) || !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("got %v, want not applied", err)
	}
	eng.lose, eng.noBegin = applied, &engine.Error{Op: "begin", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable}
	err := try("unknown")
	var unknown *workspace.UnknownError
	if !errors.As(err, &unknown) || !errors.Is(err, engine.ErrOutcomeUnknown) || errors.Is(err, engine.ErrNotApplied) {
		t.Fatalf("got %v, want unknown", err)
	}
	eng.noBegin = nil
	if v, err := s.Resolve(t.Context(), unknown.Commit); v.String() != "committed" || err != nil {
		t.Errorf("resolved as %v, %v", v, err)
	}
	if runs != 3 {
		t.Errorf("%d runs, want 3", runs)
	}
	if log := denseLog(t, s, ref); len(log) != 2 || log[0].ID != "applied" || log[1].ID != "unknown" {
		t.Errorf("the log is %v", log)
	}
}

// TestACallerThatLeavesNeedNotWaitForTheVerdict loses the answer to a COMMIT, and
// the caller's context ends while nobody can be asked.
func TestACallerThatLeavesNeedNotWaitForTheVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := &lossy{Transactor: openEngine(t, ""), noBegin: &engine.Error{Op: "begin", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable}}
		s := openStore(t, eng, workspace.WithTimeLimit(time.Hour))
		eng.lose = func(tx engine.Tx, _ context.Context) error { tx.Rollback(); return errLost }
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		err := transact(ctx, s, ref, nil, "a")
		if !errors.Is(err, engine.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want unknown, and why", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestRecordsOfCommitsArePruned has appends take every second revision, so that
// those of transactions have a pattern.
func TestRecordsOfCommitsArePruned(t *testing.T) {
	eng := openEngine(t, "")
	s := openStore(t, eng)
	must(t, transact(t.Context(), s, ref, nil, "a"))
	_, err := eng.Exec(t.Context(), []engine.Statement{{SQL: "UPDATE quorate_ws_workspaces SET revision=100000"}})
	must(t, err)
	for i := range 1000 { // fails by bad luck once in 7 million runs
		must(t, s.Transact(t.Context(), ref, func(_ context.Context, tx *workspace.Tx) error {
			return workspace.SaveState(tx, "r", "[]", i)
		}))
		appendTo(t, s, ref, name("e", i))
	}
	results, err := eng.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: "SELECT count(*) AS n FROM quorate_ws_commits WHERE revision=1"}})
	must(t, err)
	if n, _ := results[0].Row(0)[0].Int(); n != 0 {
		t.Error("the first commit is on record for ever")
	}
}

// TestAnEndedContextIsToldByErrorAndCause: callers may look for either.
func TestAnEndedContextIsToldByErrorAndCause(t *testing.T) {
	s := openStore(t, openEngine(t, ""))
	errCause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	want := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errCause) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	want("a transaction", transact(ctx, s, ref, nil, "a"))
	for _, err := range s.Subscribe(ctx, ref, 0) {
		want("a subscription", err)
	}
	err := s.Transact(t.Context(), ref, func(context.Context, *workspace.Tx) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- transact(ctx, s, ref, nil, "a") }()
		for s.Waiting(ref) == 0 {
			runtime.Gosched()
		}
		cancel(errCause)
		want("a turn", <-ended)
		return nil
	})
	must(t, err)
}
