package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
)

// preparedPerSecond is how many commits are encoded for each second of the window
// before the clock starts, but no more than preparedAtOnce at a time.
const (
	preparedPerSecond = 250_000
	preparedAtOnce    = 32_768
)

// send sends one prepared commit and waits for its verdict.
type send func(ctx context.Context) error

// runPrepared measures commits without their encoding: it encodes many with the
// clock stopped, sends them with the clock running, and repeats that until the
// clock has run for the window.
func (e *entry) runPrepared(ctx context.Context, window time.Duration) (*round, error) {
	t, ok := e.target.(*storeTarget)
	if !ok {
		return nil, fmt.Errorf("the mode does not go through the store")
	}
	n := min(preparedAtOnce, int(window.Seconds()*preparedPerSecond))
	var sum *round
	for sum == nil || sum.window < window {
		sends, err := t.prepare(ctx, e.callers, max(1, n/e.callers))
		if err != nil {
			return nil, err
		}
		begin := readUsage()
		loops := make([]loop, len(sends))
		var wg sync.WaitGroup
		for i, mine := range sends {
			wg.Go(func() { loops[i].sendAll(ctx, mine) })
		}
		wg.Wait()
		r := newRound(begin, readUsage())
		for i := range loops {
			if loops[i].err != nil {
				return nil, loops[i].err
			}
			r.ops += loops[i].ops
			r.latency.merge(&loops[i].latency)
		}
		if sum == nil {
			sum = r
			continue
		}
		sum.ops += r.ops
		sum.window += r.window
		sum.cpu += r.cpu
		sum.allocs += r.allocs
		sum.bytes += r.bytes
		sum.latency.merge(&r.latency)
	}
	sum.allOps = sum.ops
	return sum, nil
}

func (l *loop) sendAll(ctx context.Context, sends []send) {
	for _, s := range sends {
		start := time.Now()
		if l.err = s(ctx); l.err != nil {
			return
		}
		l.latency.record(time.Since(start), 1)
		l.ops++
	}
}

// prepare encodes n commits for each caller.
func (t *storeTarget) prepare(ctx context.Context, callers, n int) ([][]send, error) {
	out := make([][]send, callers)
	for i := range out {
		lo, hi := share(len(t.execs), i, callers)
		for k := range n {
			c := &store.Commit{Execution: t.execs[lo+k%(hi-lo)]}
			s, err := t.prepareOne(ctx, c)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], s)
		}
	}
	return out, nil
}

func (t *storeTarget) prepareOne(ctx context.Context, c *store.Commit) (send, error) {
	if t.actor == nil {
		w, err := t.conn.store.PrepareCommit(c)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (err error) {
			t.conn.store.Apply(ctx, []*store.Write{w}, func(_ int, e error) { err = e })
			return err
		}, nil
	}
	req, future, err := t.actor.PrepareCommit(ctx, c)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return mail(ctx, t.actor, req, future) }, nil
}

// mail sends a request to the actor's mailbox and waits for its future.
func mail(ctx context.Context, s *actor.Store, req *actor.Request, future *actor.CommitFuture) error {
	select {
	case s.Mailbox() <- req:
	case <-s.Done():
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := future.Await(ctx)
	return err
}
