package workspace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// Transact runs fn in a transaction on one workspace: nothing that fn has read
// changes before it commits, and all that it writes is applied, or nothing is.
// It commits when fn returns nil. An error of fn is returned as it is and, like a
// panic, undoes everything.
//
// Transactions of one workspace wait for each other, those of one process in the
// order in which they began; on SQLite, so do those of different workspaces. Within
// fn use its Tx alone: calls of the store that write give [ErrNested] when they are
// made with the context that fn got. What fn does must not wait for them either, nor
// for reads of the store: on PostgreSQL a transaction holds one of the engine's
// connections, and where all are held by such transactions, no read gets one; on
// SQLite nothing else on the same engine (a store.Store, package coordination, an
// asynchronous log) can write until fn has returned, and waiting for it in fn takes
// until its time limit.
//
// On an engine without interactive transactions (rqlite), fn runs on a snapshot,
// and runs again when somebody else was faster. So fn must be fit to run several
// times: it takes what it needs from its Tx, has no effect outside of it, and sets
// the variables of its surroundings anew in each run. On every engine, what fn
// decided counts only once Transact has returned nil.
//
// When ctx ends before the commit is sent, nothing is applied. Errors:
// [ErrInvalid], [ErrConflict], [ErrUnavailable], [ErrClosed], the context's, an
// [engine.StatementError], and [ErrOutcomeUnknown], which carries a reference for
// [Store.Resolve]. fn is never run again after that.
func (s *Store) Transact(ctx context.Context, ref Ref, fn func(ctx context.Context, tx *Tx) error) error {
	if err := ref.check(); err != nil {
		return err
	}
	if fn == nil {
		return &store.InvalidError{Field: "function", Reason: "is nil"}
	}
	if err := s.Outside(ctx); err != nil {
		return err
	}
	next, err := s.turns.take(ctx, ref)
	if err != nil {
		return &engine.Error{Op: "transact", Outcome: engine.NotApplied, Err: err}
	}
	defer next()
	if s.tr != nil {
		return s.locked(ctx, ref, fn)
	}
	return s.optimistic(ctx, ref, fn)
}

// call runs fn once on t.
func (s *Store) call(ctx context.Context, t *Tx, fn func(context.Context, *Tx) error) error {
	defer func() { t.done = true }()
	return fn(context.WithValue(ctx, within{s}, true), t)
}

// locked lands a transaction where the engine has interactive ones: the row of the
// workspace is locked from before the first read to the end.
func (s *Store) locked(ctx context.Context, ref Ref, fn func(context.Context, *Tx) error) error {
	etx, err := s.tr.Begin(ctx)
	if err != nil {
		return wrap(ref, err)
	}
	defer etx.Rollback()
	results, err := etx.Exec(ctx, []engine.Statement{{SQL: sqlLockAndRead, Args: args(ref), Returning: true}})
	if err != nil {
		return wrap(ref, err)
	}
	snap, err := snapshotOf(results)
	if err != nil {
		return wrap(ref, err)
	}
	t := newTx(s, ref, snap, etx.Exec)
	if err := s.call(ctx, t, fn); err != nil {
		return err
	}
	if t.failed != nil {
		return wrap(ref, t.failed)
	}
	if !t.dirty() {
		return nil
	}
	c := t.commit()
	if results, err = etx.Exec(ctx, c.stmts); err != nil {
		return wrap(ref, err)
	}
	if len(results) != len(c.stmts) || results[0].RowsAffected != 1 {
		return wrap(ref, protocol("exec", engine.NotApplied, "the locked row did not move"))
	}
	err = etx.Commit(ctx)
	if err != nil && engine.OutcomeOf(err) == engine.Unknown {
		s.counters.unknown.Add(1)
		err = s.settle(ctx, c, err)
	}
	if err != nil && engine.OutcomeOf(err) != engine.Applied {
		return wrap(ref, err)
	}
	s.watch.raise(ref, t.snap.seq)
	return nil
}

func wrap(ref Ref, err error) error { return fmt.Errorf("transact on workspace %v: %w", ref, err) }

// settle finds out what became of a commit of an interactive transaction whose
// answer was lost. A transaction of our own, once it has the row, knows that the
// other one is over, and moves the database on so that it stays so.
func (s *Store) settle(ctx context.Context, c *commit, lost error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, errLimit)
	defer cancel()
	pause := retry.Pauses()
	for {
		v, err := s.settleOnce(ctx, c)
		switch {
		case err == nil && v == store.ResolutionCommitted:
			s.counters.recovered.Add(1)
			return nil
		case err == nil && (v == store.ResolutionOpen || v == store.ResolutionLost):
			return &engine.Error{Op: "commit", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable, Err: cause{lost}}
		case err == nil || !retry.Sleep(ctx, pause.NextBackOff()):
			return c.unknown(joined(ctx, lost, err))
		}
	}
}

func (s *Store) settleOnce(ctx context.Context, c *commit) (store.Resolution, error) {
	etx, err := s.tr.Begin(ctx)
	if err != nil {
		return store.ResolutionUnclear, err
	}
	defer etx.Rollback()
	results, err := etx.Exec(ctx, []engine.Statement{{SQL: sqlLock, Args: args(c.ref.Ref)}, c.ref.ask()})
	if err != nil {
		return store.ResolutionUnclear, err
	}
	v, err := c.ref.verdict(&results[1])
	if err != nil {
		return store.ResolutionUnclear, err
	}
	return v, etx.Commit(ctx)
}

// optimistic lands a transaction where the engine has no interactive ones.
func (s *Store) optimistic(ctx context.Context, ref Ref, fn func(context.Context, *Tx) error) error {
	for attempt := 1; ; attempt++ {
		done, err := s.attempt(ctx, ref, fn)
		if done || err != nil {
			return err
		}
		s.counters.reruns.Add(1)
		if attempt >= s.attempts {
			s.counters.conflicts.Add(1)
			return &ConflictError{Ref: ref, Attempts: attempt}
		}
		if !retry.Sleep(ctx, breath(attempt)) {
			return wrap(ref, &engine.Error{Op: "transact", Outcome: engine.NotApplied, Err: retry.Ended(ctx)})
		}
	}
}

// breath is the pause before another attempt: random, so that rivals part, up to
// 1 ms at first and 250 ms at last.
func breath(attempt int) time.Duration {
	return rand.N(min(time.Millisecond<<min(attempt-1, 10), 250*time.Millisecond))
}

// attempt runs fn on a snapshot and commits. It returns false if it lost.
//
// The snapshot's row is read linearizably, and every later read is checked to be
// of the same revision. So whatever fn has seen was true at one moment after
// Transact began, which is enough for what it returns without writing anything.
func (s *Store) attempt(ctx context.Context, ref Ref, fn func(context.Context, *Tx) error) (done bool, err error) {
	row := engine.Statement{SQL: sqlRow, Args: args(ref)}
	results, err := s.query(ctx, engine.Linearizable, row)
	if err != nil {
		return true, wrap(ref, err)
	}
	snap, err := snapshotOf(results)
	if err != nil {
		return true, wrap(ref, err)
	}
	moved := false
	t := newTx(s, ref, snap, func(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
		results, err := s.query(ctx, engine.Weak, append([]engine.Statement{row}, stmts...)...)
		if err != nil {
			return nil, err
		}
		now, err := snapshotOf(results)
		if err != nil {
			return nil, err
		}
		if now.revision != snap.revision {
			moved = true
			return nil, errMoved
		}
		return results[1:], nil
	})
	err = s.call(ctx, t, fn)
	switch {
	case moved:
		return false, nil
	case err != nil:
		return true, err
	case t.failed != nil:
		return true, wrap(ref, t.failed)
	case !t.dirty():
		return true, nil
	}
	c := t.commit()
	won, err := s.land(ctx, c)
	if err != nil {
		return true, wrap(ref, err)
	}
	if won {
		s.watch.raise(ref, t.snap.seq)
	}
	return won, nil
}

// errMoved ends an attempt whose snapshot is gone. fn sees it, the caller never.
var errMoved = &engine.Error{Op: "read", Outcome: engine.NotApplied, Err: fmt.Errorf("the workspace has moved on: %w", ErrConflict)}

// land sends a commit until its outcome is definite, and reports whether it won.
// The request is guarded, so sending it again does no harm.
func (s *Store) land(ctx context.Context, c *commit) (won bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, errLimit)
	defer cancel()
	uncertain := false
	pause := retry.Pauses()
	for {
		results, err := s.eng.Exec(ctx, c.stmts)
		if err == nil && len(results) != len(c.stmts) {
			err = protocol("exec", engine.Unknown, "number of results differs from number of statements")
		}
		if err == nil && results[0].RowsAffected == 1 {
			return true, nil
		}
		if err != nil && engine.OutcomeOf(err) == engine.NotApplied && !uncertain {
			return false, err
		}
		if err != nil {
			s.counters.unknown.Add(1)
			uncertain = true
		}
		// Something between us and the database may have sent the request twice,
		// so a loss is looked into even if the answer was definite.
		v, asked := s.Resolve(ctx, c.ref)
		switch {
		case asked == nil && v == store.ResolutionCommitted:
			s.counters.recovered.Add(1)
			return true, nil
		case asked == nil && v == store.ResolutionLost:
			return false, nil
		case asked == nil && v == store.ResolutionUnclear, refused(err), errors.Is(asked, ErrClosed):
			return false, c.unknown(joined(ctx, err, asked))
		}
		if !retry.Sleep(ctx, pause.NextBackOff()) {
			return false, c.unknown(joined(ctx, err, asked))
		}
	}
}

// refused reports whether the database refused a statement. If it may not have
// undone those before it, sending them again could only repeat that.
func refused(err error) bool {
	var st *engine.StatementError
	return errors.As(err, &st)
}
