package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// contest is a group of modes that are measured against each other: one op, one
// number of callers.
type contest struct {
	op      op
	callers int
	entries []*entry
}

// entry is a mode in a contest.
type entry struct {
	mode    *mode
	target  target
	callers int // of this mode: one for sync-one
	rounds  []*round
}

// round is one measured stretch of one mode.
type round struct {
	ops     uint64 // finished within the window
	window  time.Duration
	latency histogram
	cpu     time.Duration // of this process within the window; negative if unknown
	allocs  uint64
	bytes   uint64 // allocated

	// These are of the whole round, with its warm-up, and so is allOps.
	allOps  uint64
	sent    traffic
	entries uint64 // of the replicated log
	logged  bool
}

// run measures the contest in interleaved rounds: every mode once, then every
// mode once more, so that a drift of the machine meets all alike. Each round
// starts with another mode, so that none always comes first. A mode that fails
// leaves the contest; the others go on. The error is the context's.
func (c *contest) run(ctx context.Context, env *environment, progress func(e *entry, round int), failed func(e *entry, err error)) error {
	order := slices.Clone(c.entries)
	for i := range env.cfg.rounds {
		for k := range order {
			e := order[(k+i)%len(order)]
			if !slices.Contains(c.entries, e) {
				continue
			}
			r, err := e.round(ctx, env, c.op)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				c.entries = slices.DeleteFunc(c.entries, func(x *entry) bool { return x == e })
				failed(e, fmt.Errorf("%s, %s, %d callers: %w", e.mode.name, c.op, e.callers, err))
				continue
			}
			e.rounds = append(e.rounds, r)
			progress(e, i)
		}
	}
	return nil
}

func (e *entry) round(ctx context.Context, env *environment, o op) (*round, error) {
	// Nobody starts with the garbage of another.
	runtime.GC()
	before := e.target.traffic()
	logBefore, err := env.logLength(ctx)
	if err != nil {
		return nil, err
	}
	share := env.cfg.duration / time.Duration(env.cfg.rounds)
	var r *round
	if o == opPrepared {
		r, err = e.runPrepared(ctx, share)
	} else {
		r, err = e.runFor(ctx, o, env.cfg.warmup, share)
	}
	if err != nil {
		return nil, err
	}
	r.sent = e.target.traffic().since(before)
	logAfter, err := env.logLength(ctx)
	if err != nil {
		return nil, err
	}
	r.entries, r.logged = logAfter-logBefore, env.backend.logLength != nil
	return r, nil
}

func (env *environment) logLength(ctx context.Context) (uint64, error) {
	if env.backend.logLength == nil {
		return 0, nil
	}
	n, err := env.backend.logLength(ctx)
	if err != nil {
		return 0, fmt.Errorf("length of the Raft log: %w", err)
	}
	return n, nil
}

// The phases of a round.
const (
	warming int32 = iota
	measuring
	stopping
)

// loop is one goroutine of a round.
type loop struct {
	ops, allOps uint64
	latency     histogram
	err         error
}

// runFor runs the loops of an op for a warm-up and a window. An operation counts
// if it finished within the window. Every operation that was begun is finished
// before runFor returns.
func (e *entry) runFor(ctx context.Context, o op, warmup, window time.Duration) (*round, error) {
	steps, err := e.target.steps(o, e.callers)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var phase atomic.Int32
	var any atomic.Bool
	var wg sync.WaitGroup
	loops := make([]loop, len(steps))
	for i, s := range steps {
		wg.Go(func() {
			if err := loops[i].run(ctx, s, &phase, &any); err != nil {
				loops[i].err = err
				cancel()
			}
		})
	}
	wait(ctx, warmup)
	begin := readUsage()
	phase.Store(measuring)
	wait(ctx, window)
	// A window in which nothing was finished would say nothing.
	for limit := time.Now().Add(mostWindow); !any.Load() && ctx.Err() == nil && time.Now().Before(limit); {
		wait(ctx, window)
	}
	phase.Store(stopping)
	end := readUsage()
	wg.Wait()
	r := newRound(begin, end)
	var errs []error
	for i := range loops {
		l := &loops[i]
		r.ops += l.ops
		r.allOps += l.allOps
		r.latency.merge(&l.latency)
		if l.err != nil && (!errors.Is(l.err, context.Canceled) || len(errs) == 0) {
			errs = append(errs, l.err)
		}
	}
	if len(errs) > 0 {
		return nil, errs[len(errs)-1] // the last one is no mere cancellation, if any
	}
	if r.ops == 0 {
		return nil, fmt.Errorf("no operation finished within %v", r.window.Round(time.Millisecond))
	}
	return r, nil
}

// mostWindow is how much longer than it should a window may last for want of a
// finished operation.
const mostWindow = 30 * time.Second

func (l *loop) run(ctx context.Context, s step, phase *atomic.Int32, any *atomic.Bool) error {
	for phase.Load() != stopping {
		n, took, err := s(ctx)
		if err != nil {
			return err
		}
		l.allOps += uint64(n)
		if phase.Load() == measuring {
			if l.ops == 0 {
				any.Store(true)
			}
			l.ops += uint64(n)
			l.latency.record(took, n)
		}
	}
	return nil
}

// newRound returns a round with what was used between two readings.
func newRound(begin, end usage) *round {
	r := &round{
		window: end.at.Sub(begin.at), cpu: end.cpu - begin.cpu,
		allocs: end.allocs - begin.allocs, bytes: end.allocBytes - begin.allocBytes,
	}
	if begin.cpu < 0 || end.cpu < 0 {
		r.cpu = -1
	}
	return r
}

// wait returns after d, or as soon as ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
