package main

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// fleet is one run: the reader, the workers, and what works behind them.
type fleet struct {
	db      backend
	workers int
	window  int // messages that a worker has in flight
	model   *oracle
	out     *console

	clock     atomic.Int64 // see sweeper.go
	inputDone atomic.Bool
	// A commit put something into the outbox, or into the spawns.
	emitted, spawns chan struct{}

	count counters
}

// counters are what the run did, for the progress and the report.
type counters struct {
	bytes, badLines             atomic.Int64 // of the input
	events, settled             atomic.Int64 // of the input: valid ones, and of these done
	duplicates, late, deferred  atomic.Int64
	commits, conflicts, unknown atomic.Int64
	fired, reinstated, spawned  atomic.Int64
	delivered, redelivered      atomic.Int64
}

// errInterrupted ends a run that was asked to stop before it was done.
var errInterrupted = errors.New("interrupted")

// pollInterval is how often relay, spawner and sweeper look for work that nobody
// woke them for: timers, and what other processes left.
const pollInterval = 20 * time.Millisecond

func newFleet(db backend, workers, window int, model *oracle, out *console) *fleet {
	if !db.Async() {
		window = 1 // a second one would only wait for the first
	}
	return &fleet{
		db: db, workers: workers, window: window, model: model, out: out,
		emitted: make(chan struct{}, 1), spawns: make(chan struct{}, 1),
	}
}

// run drives the fleet until all input is settled and outbox, spawns and timers
// are empty. When stop is closed it takes no more input, settles what is under
// way and returns errInterrupted. When ctx ends it gives up at once.
func (f *fleet) run(ctx context.Context, stop <-chan struct{}, input io.Reader) error {
	g, gctx := errgroup.WithContext(ctx)
	inputSettled := make(chan struct{})
	g.Go(func() error {
		defer close(inputSettled)
		return f.settleInput(gctx, stop, input)
	})
	for _, pass := range f.passes() {
		g.Go(func() error { return f.keepDoing(gctx, inputSettled, pass) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if isClosed(stop) {
		return errInterrupted
	}
	f.inputDone.Store(true)
	return f.drain(ctx, stop)
}

// settleInput reads the input to its end, or until stop, and returns when the
// workers are done with what was read.
func (f *fleet) settleInput(ctx context.Context, stop <-chan struct{}, input io.Reader) error {
	g, ctx := errgroup.WithContext(ctx)
	in := make([]chan *message, f.workers)
	for i := range in {
		in[i] = make(chan *message, f.window)
		g.Go(func() error { return f.work(ctx, in[i], f.window) })
	}
	g.Go(func() error {
		defer func() {
			for _, c := range in {
				close(c)
			}
		}()
		return f.dispatch(ctx, stop, input, in)
	})
	return g.Wait()
}

// pass is background work: do handles a page of it and returns how much it
// found, wake tells that there may be more.
type pass struct {
	do   func(context.Context) (int, error)
	wake <-chan struct{}
}

func (f *fleet) passes() []pass {
	return []pass{{f.relay, f.emitted}, {f.spawn, f.spawns}, {f.sweep, nil}}
}

// keepDoing repeats a pass until quit is closed, and rests when there is nothing
// to do.
func (f *fleet) keepDoing(ctx context.Context, quit <-chan struct{}, p pass) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return nil
		default:
		}
		n, err := f.patiently(ctx, p)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		select {
		case <-quit:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.wake:
		case <-ticker.C:
		}
	}
}

// wake tells who waits for it that there is work.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has been told already
	}
}

// drain repeats all passes side by side until none of them finds anything. Each
// may make work for the others, so only a whole round of nothing is the end.
func (f *fleet) drain(ctx context.Context, stop <-chan struct{}) error {
	for {
		var found atomic.Int64
		g, gctx := errgroup.WithContext(ctx)
		for _, p := range f.passes() {
			g.Go(func() error {
				n, err := f.patiently(gctx, p)
				found.Add(int64(n))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if found.Load() == 0 {
			return nil
		}
		if isClosed(stop) {
			return errInterrupted
		}
	}
}

// patiently runs a pass, and again while the database cannot be reached. A pass
// that ended half-way does no harm when it is repeated.
func (f *fleet) patiently(ctx context.Context, p pass) (int, error) {
	began := time.Now()
	for {
		n, err := p.do(ctx)
		switch {
		case err == nil:
			return n, nil
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case !passing(err) || time.Since(began) > patience:
			return 0, err
		}
		t := time.NewTimer(retryPause())
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return 0, context.Cause(ctx)
		}
	}
}

// settled counts what became of a message.
func (f *fleet) settled(m *message) {
	eff := m.effect
	c := &f.count
	if m.event.Seq > 0 { // of the input
		c.settled.Add(1)
		f.tick(m.event.At)
		if eff.duplicate {
			c.duplicates.Add(1)
		}
	} else if eff.duplicate && m.event.Kind != kindCreate && m.event.Kind != kindTimeout {
		c.redelivered.Add(1)
	}
	if !eff.committed {
		return
	}
	c.commits.Add(1)
	c.late.Add(eff.late)
	if eff.deferred {
		c.deferred.Add(1)
	}
	if eff.reinstated {
		c.reinstated.Add(1)
	}
	switch m.event.Kind {
	case kindTimeout:
		c.fired.Add(1)
	case kindCreate:
		c.spawned.Add(1)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
