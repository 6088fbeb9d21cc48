package workspace_test

import (
	"context"
	"errors"
	"testing"

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
