package store

import (
	"context"
	"errors"

	"github.com/cenkalti/backoff/v4"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// Apply sends writes in one transaction and reports the verdict of each through
// report, by its position: nil if it was applied (a commit was won), otherwise
// the error. It reports every write exactly once, on the calling goroutine, some
// before others are known, and returns when all are. Of several writes for one execution (see
// [Write.Key]) only the first is sent, the others are refused as [ErrInvalid].
//
// Writes fail one by one: a lost compare-and-swap is that commit's alone, and a
// write that the database refuses is found by halving the batch, so that the
// others are applied. When a request ends without a definite answer, the same
// request is sent again until there is one: writes are guarded, so one that was
// applied before does nothing the second time. If ctx ends or the store's limit
// passes before that, the error matches [ErrOutcomeUnknown].
func (s *Store) Apply(ctx context.Context, writes []*Write, report func(i int, err error)) {
	if len(writes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, errLimit)
	defer cancel()
	a := &application{s: s, ctx: ctx, all: writes, report: report}
	index := make([]int, 0, len(writes))
	seen := make(map[string]struct{}, len(writes))
	for i, w := range writes {
		if w.id != "" {
			if _, twice := seen[w.id]; twice {
				report(i, &InvalidError{Field: "writes", Reason: "hold a second write of one execution"})
				continue
			}
			seen[w.id] = struct{}{}
		}
		index = append(index, i)
	}
	a.run(index)
}

var errLimit = errors.New("the store's time limit for a write passed")

// application is one call of Apply.
type application struct {
	s      *Store
	ctx    context.Context
	all    []*Write
	report func(i int, err error)
}

// run applies the writes at the given positions and reports them.
func (a *application) run(index []int) {
	writes := make([]*Write, len(index))
	for i, at := range index {
		writes[i] = a.all[at]
	}
	b := a.s.newBatch(writes, a.s.unanimous(writes))
	var pause *backoff.ExponentialBackOff
	for {
		results, err := a.s.eng.Exec(a.ctx, b.stmts)
		if err == nil && len(results) != len(b.stmts) {
			err = &engine.Error{Op: "exec", Outcome: engine.Applied, Reason: engine.ErrProtocol, Err: errors.New("number of results differs from number of statements")}
		}
		if err == nil {
			won, ok := b.winners(results)
			if ok {
				a.settle(index, b, results, won)
				return
			}
			err = &engine.Error{Op: "exec", Outcome: engine.Applied, Reason: engine.ErrProtocol, Err: errors.New("results do not tell which commits were won")}
		}
		if b.undone(err) {
			// Somebody lost. Whether the request was sent before does not matter: an
			// earlier one that was applied is found by its tokens.
			a.s.rivals.met()
			b = a.s.newBatch(writes, false)
			continue
		}
		// A refusal that may pass says nothing about a request sent before, which
		// stays unknown: only an answer to this one can settle it.
		if engine.OutcomeOf(err) == engine.NotApplied && !(writes[0].uncertain && a.mayPass(err)) {
			a.refused(index, writes, err)
			return
		}
		for _, w := range writes {
			w.uncertain = true
		}
		if isRefusal(err) {
			// The database refused a statement and may not have undone those
			// before it: sending them again could only repeat that.
			a.unknown(index, err)
			return
		}
		a.s.counters.unknown.Add(1)
		if pause == nil {
			pause = retry.Pauses()
		}
		if !retry.Sleep(a.ctx, pause.NextBackOff()) {
			a.unknown(index, err)
			return
		}
		a.s.counters.resent.Add(1)
	}
}

// settle reports the winners and looks into the losers.
func (a *application) settle(index []int, b *batch, results []engine.Result, won []bool) {
	b.assignSeqs(results, won)
	var lost []int
	next := 0
	for i, at := range index {
		if next < len(b.commits) && b.commits[next] == i {
			if !won[next] {
				lost = append(lost, at)
				next++
				continue
			}
			next++
		}
		a.report(at, nil)
	}
	if len(lost) > 0 {
		a.s.rivals.met()
		a.judge(lost, nil)
	}
}

// refused handles a request that was surely not applied.
func (a *application) refused(index []int, writes []*Write, err error) {
	if len(index) > 1 && splittable(err) {
		a.s.counters.splits.Add(1)
		half := len(index) / 2
		a.run(index[:half])
		a.run(index[half:])
		return
	}
	// An earlier send of the same write may have been applied all the same, or
	// may yet be.
	var uncertain []int
	for i, at := range index {
		if writes[i].uncertain {
			uncertain = append(uncertain, at)
			continue
		}
		a.report(at, err)
	}
	if len(uncertain) > 0 {
		a.judge(uncertain, err)
	}
}

// mayPass reports whether the same request may find the database able to answer
// later.
func (a *application) mayPass(err error) bool {
	return errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrClosed) && a.ctx.Err() == nil
}

// splittable reports whether one of several writes may be to blame for the
// error.
func splittable(err error) bool {
	return isRefusal(err) || errors.Is(err, engine.ErrTooLarge) || errors.Is(err, engine.ErrProtocol)
}

// isRefusal reports whether the database refused a statement.
func isRefusal(err error) bool {
	var refused *engine.StatementError
	return errors.As(err, &refused)
}

// unknown reports writes that were sent and whose outcome cannot be learned in
// time.
func (a *application) unknown(index []int, err error) {
	for _, at := range index {
		a.reportUnknown(at, UnknownError{}, err)
	}
}

func (a *application) reportUnknown(at int, known UnknownError, err error) {
	if ended := context.Cause(a.ctx); ended != nil && !errors.Is(err, ended) {
		err = errors.Join(ended, err)
	}
	if err != nil {
		err = cause{err}
	}
	w := a.all[at]
	if !w.IsCommit() {
		a.report(at, &engine.Error{Op: "write", Outcome: engine.Unknown, Err: err})
		return
	}
	known.Ref, known.Err = w.Ref(), err
	a.report(at, &known)
}

// cause is why an outcome is unknown. It may be that a later request was surely
// not applied, which must not be taken for the outcome of them all.
type cause struct{ error }

// Is reports whether target is in the error, the kinds of outcome left aside.
func (c cause) Is(target error) bool {
	switch target {
	case engine.ErrNotApplied, engine.ErrApplied, engine.ErrOutcomeUnknown:
		return false
	}
	return errors.Is(c.error, target)
}

// As finds target in the error.
func (c cause) As(target any) bool { return errors.As(c.error, target) }
