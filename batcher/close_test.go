package batcher

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCloseDrains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLog()
		b := mustNew(t, Config[int]{MaxItems: 10, MaxPending: 300, Flush: func(_ context.Context, got batch) {
			pass(time.Millisecond)
			l.flushed(got)
		}, Drop: l.drop})
		for i := range 100 {
			mustSubmit(t, b, &ticket{Item: i, Key: string(rune('a' + i%7))})
		}
		mustClose(t, b)
		n := 0
		for _, items := range l.seen() {
			n += len(items)
		}
		if n != 100 || len(l.dropped) != 0 {
			t.Errorf("%d flushed, %d dropped", n, len(l.dropped))
		}
		if err := b.Submit(t.Context(), &ticket{}); err != ErrClosed {
			t.Errorf("Submit after Close: %v", err)
		}
		if err := b.TrySubmit(&ticket{}); err != ErrClosed {
			t.Errorf("TrySubmit after Close: %v", err)
		}
		mustClose(t, b)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10 {
			if left, err := b.Close(ended); err != nil || left != (Leftover{}) {
				t.Errorf("Close of a closed batcher with an ended context: %+v, %v", left, err)
			}
		}
	})
}

func TestCloseOfIdleAndUnused(t *testing.T) {
	mustClose(t, mustNew(t, Config[int]{Limit: time.Hour, Flush: func(context.Context, batch) {}}))
	bubble(t, func(t *testing.T) {
		b := mustNew(t, Config[int]{Limit: time.Hour, Flush: func(context.Context, batch) {}})
		mustSubmit(t, b, &ticket{})
		synctest.Wait()
		mustClose(t, b)
	})
}

func TestCloseGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLog()
		var flushed atomic.Int32
		b := mustNew(t, Config[int]{MaxItems: 3, MaxPending: 20, Drop: l.drop, Flush: func(ctx context.Context, got batch) {
			<-ctx.Done()
			if context.Cause(ctx) != ErrClosed {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			pass(time.Second) // takes its time to come back
			flushed.Add(int32(len(got)))
		}})
		for i := range 20 {
			mustSubmit(t, b, &ticket{Item: i, Key: string(rune('a' + i%7))})
		}
		waiting := make(chan error)
		go func() { waiting <- b.Submit(t.Context(), &ticket{}) }()
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		var sum Leftover
		start := time.Now()
		for range 3 {
			wg.Go(func() {
				left, err := b.Close(ctx)
				if (err != nil) != (left != Leftover{}) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Close: %+v, %v", left, err)
				}
				if n := flushed.Load(); n != 1 {
					t.Errorf("Close returned before the flush of %d items did", n)
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				if len(l.dropped) != 19 {
					t.Errorf("Close returned when %d items were dropped", len(l.dropped))
				}
				sum.Unsent += left.Unsent
				sum.InFlight = max(sum.InFlight, left.InFlight)
			})
		}
		if err := <-waiting; err != ErrClosed {
			t.Errorf("caller that waited for room: %v", err)
		}
		wg.Wait()
		if sum != (Leftover{Unsent: 19, InFlight: 1}) || time.Since(start) != 3*time.Second {
			t.Errorf("left %+v after %v", sum, time.Since(start))
		}
		for i, err := range l.dropped {
			if err != ErrClosed {
				t.Errorf("item %d: %v", i, err)
			}
		}
		verify(t, b)
	})
}

// Close comes back only when everybody has been told what became of their items.
func TestCloseWaitsForDropAndOverdue(t *testing.T) {
	for _, how := range []string{"expired", "overdue", "withdrawn"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				telling, tell := make(chan struct{}), make(chan struct{})
				told := func(*ticket) { close(telling); <-tell }
				g := newGate()
				cfg := Config[int]{Limit: time.Second, Flush: func(ctx context.Context, _ batch) { g.wait(ctx) }}
				if how == "overdue" {
					cfg.Overdue = told
				} else {
					cfg.Drop = func(tk *ticket, _ error) { told(tk) }
				}
				b := mustNew(t, cfg)
				queued := &ticket{}
				mustSubmit(t, b, &ticket{}, queued)
				if how == "withdrawn" {
					go b.Withdraw(queued, errors.New("withdrawn"))
				}
				<-telling
				g.open()
				closed := make(chan struct{})
				go func() {
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					b.Close(ctx)
					close(closed)
				}()
				synctest.Wait()
				select {
				case <-closed:
					t.Error("Close did not wait")
				default:
				}
				close(tell)
				<-closed
				mustClose(t, b)
			})
		})
	}
}

// A caller may be given room at the moment the batcher is closed. Close does not
// wait for it, so it must not go in.
func TestRoomGrantedBeforeClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate()
		b := mustNew(t, Config[int]{MaxPending: 2, Flush: func(ctx context.Context, _ batch) { g.wait(ctx) }})
		queued := &ticket{}
		mustSubmit(t, b, &ticket{}, queued)
		late := make(chan error)
		go func() { late <- b.Submit(t.Context(), &ticket{}) }()
		synctest.Wait()
		b.mu.Lock()
		b.drop(queued) // grants the room
		b.closed = true
		b.mu.Unlock()
		if err := <-late; err != ErrClosed {
			t.Errorf("Submit: %v", err)
		}
		g.open()
		mustClose(t, b)
		if b.adm.items != 0 || b.adm.bytes != 0 {
			t.Errorf("%+v", b.adm)
		}
	})
}

func TestCloseRacesWithSubmitters(t *testing.T) {
	for range 50 {
		var flushed, admitted atomic.Int32
		var closed atomic.Bool
		b := mustNew(t, Config[int]{MaxPending: 4, MaxItems: 2, InFlight: 2, Flush: func(_ context.Context, got batch) {
			flushed.Add(int32(len(got)))
			if closed.Load() {
				t.Error("flush after Close")
			}
		}})
		var wg sync.WaitGroup
		start := make(chan struct{})
		for w := range 8 {
			wg.Go(func() {
				<-start
				for {
					err := b.Submit(context.Background(), &ticket{Key: string(rune('a' + w%3))})
					if err == ErrClosed {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					admitted.Add(1)
				}
			})
		}
		close(start)
		for admitted.Load() < 50 { // let them get going
			mustSubmit(t, b, &ticket{})
			admitted.Add(1)
		}
		for range 2 {
			wg.Go(func() {
				if left, err := b.Close(context.Background()); err != nil || left != (Leftover{}) {
					t.Errorf("Close: %+v, %v", left, err)
				}
				closed.Store(true)
			})
		}
		wg.Wait()
		if flushed.Load() != admitted.Load() {
			t.Errorf("%d admitted, %d flushed", admitted.Load(), flushed.Load())
		}
	}
}

// Items whose outcome nobody waits for leave nothing behind.
func TestNobodyWaitsForOutcomes(t *testing.T) {
	bubble(t, func(t *testing.T) { // ends only when all its goroutines have
		b := mustNew(t, Config[int]{InFlight: 4, Limit: time.Minute, Flush: func(context.Context, batch) { pass(time.Millisecond) }})
		for i := range 10_000 {
			mustSubmit(t, b, &ticket{Item: i})
		}
		mustClose(t, b)
		if s := b.Stats(); s.Items != 10_000 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	})
}
