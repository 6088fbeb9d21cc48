package coordination

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
)

func TestLockIsExclusiveAndItsTokenGrows(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a, b := f.lock("job", LockOptions{}), f.lock("job", LockOptions{})
		h := f.acquire(a)
		if h.Token() != 1 || h.Name() != "job" || !h.Valid() {
			t.Errorf("token %d, name %q, valid %v; want 1, job, true", h.Token(), h.Name(), h.Valid())
		}
		_, err := b.TryAcquire(f.ctx)
		f.is(err, ErrWouldBlock)
		f.ok(h.Release(f.ctx))
		if h.Valid() || context.Cause(h.Context()) != ErrNotHeld {
			t.Errorf("after release: valid %v, cause %v", h.Valid(), context.Cause(h.Context()))
		}
		f.is(h.Release(f.ctx), ErrNotHeld)
		f.is(h.Renew(f.ctx), ErrNotHeld)
		other, err := b.TryAcquire(f.ctx)
		f.ok(err)
		if other.Token() != 2 {
			t.Errorf("token %d after a release, want 2", other.Token())
		}
		f.ok(other.Release(f.ctx))
		again, err := a.TryAcquire(f.ctx)
		f.ok(err)
		if again.Token() != 3 {
			t.Errorf("token %d, want 3", again.Token())
		}
		f.ok(again.Release(f.ctx))
	})
}

func TestLockIsNotReentrant(t *testing.T) {
	inBubble(t, func(f *fixture) {
		l := f.lock("job", LockOptions{Lease: time.Second})
		h := f.acquire(l)
		f.tap.spoil(nil)
		_, err := l.Acquire(f.ctx)
		f.is(err, ErrReentrant)
		_, err = l.TryAcquire(f.ctx)
		f.is(err, ErrReentrant)
		if n := f.tap.writes(); n != 0 {
			t.Errorf("%d requests sent, want none", n)
		}
		after(time.Second)
		synctest.Wait()
		f.is(h.Release(f.ctx), ErrLost)
		// What is lost can be acquired again by the same object.
		f.ok(f.acquire(l).Release(f.ctx))
	})
}

func TestLeaseEndsAtItsExactDeadline(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1_000_000)
	ticking := func(p *Provider) error { p.clock = clock.Load; return nil }
	bubble(t, func(f *fixture) {
		lease := 10 * time.Second
		a, b := f.lock("job", LockOptions{Lease: lease}), f.lock("job", LockOptions{Lease: lease})
		h := f.acquire(a)
		_, _, _, deadline := f.row("job")
		if deadline != 11_000_000 {
			t.Fatalf("deadline %d", deadline)
		}
		clock.Store(deadline - 1) // one microsecond before it: still held
		_, err := b.TryAcquire(f.ctx)
		f.is(err, ErrWouldBlock)
		f.ok(h.Renew(f.ctx))
		_, _, _, deadline = f.row("job")
		if deadline != 10_999_999+10_000_000 {
			t.Fatalf("deadline %d after a renewal", deadline)
		}
		clock.Store(deadline) // at the deadline: over for its holder, free for others
		f.is(h.Renew(f.ctx), ErrLost)
		if h.Valid() || context.Cause(h.Context()) != ErrLost {
			t.Errorf("valid %v, cause %v", h.Valid(), context.Cause(h.Context()))
		}
		other, err := b.TryAcquire(f.ctx)
		f.ok(err)
		if other.Token() != 2 {
			t.Errorf("token %d after a takeover, want 2", other.Token())
		}
	}, ticking)
}

func TestReleaseAtTheDeadlineIsTooLate(t *testing.T) {
	var clock atomic.Int64
	bubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{Lease: time.Second}))
		clock.Store(1_000_000)
		f.is(h.Release(f.ctx), ErrLost)
		if token, _, _, _ := f.row("job"); token == "" {
			t.Error("an expired row was vacated")
		}
	}, func(p *Provider) error { p.clock = clock.Load; return nil })
}

// The holder's own clock counts from before the request, and it alone decides what
// the holder may believe.
func TestHolderIsTheFirstToKnow(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.tap.hold = make(chan struct{})
		began := time.Now()
		time.AfterFunc(300*time.Millisecond, func() { close(f.tap.hold) })
		h := f.acquire(f.lock("job", LockOptions{Lease: time.Second}))
		if got := h.Until().Sub(began); got != time.Second {
			t.Errorf("certain for %v from before the request, want 1s", got)
		}
		after(700*time.Millisecond - 1)
		if synctest.Wait(); !h.Valid() || h.Context().Err() != nil {
			t.Error("over before its time")
		}
		after(1)
		if synctest.Wait(); h.Valid() || context.Cause(h.Context()) != ErrLost {
			t.Errorf("valid %v, cause %v at the end of the lease", h.Valid(), context.Cause(h.Context()))
		}
		f.is(h.Renew(f.ctx), ErrLost)
	})
}

func TestRenewalNeverTakesBackWhatEnded(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{Lease: time.Second}))
		for range 5 {
			after(900 * time.Millisecond)
			f.ok(h.Renew(f.ctx))
		}
		after(time.Second)
		f.tap.spoil(nil)
		f.is(h.Renew(f.ctx), ErrLost)
		f.is(h.Renew(f.ctx), ErrNotHeld)
		if n := f.tap.writes(); n != 0 {
			t.Errorf("%d requests of a holder whose time was up, want none", n)
		}
		if _, fence, _, _ := f.row("job"); fence != 1 {
			t.Errorf("fence %d, want 1", fence)
		}
	})
}

// A renewal that is answered after the lease's end is of no use, and what it did to
// the row is undone.
func TestRenewalAnsweredTooLate(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{Lease: time.Second}))
		after(500 * time.Millisecond)
		slow := make(chan struct{})
		f.tap.fault = func(int) (error, bool) { <-slow; return nil, true }
		time.AfterFunc(500*time.Millisecond, func() { f.tap.spoil(nil); close(slow) })
		f.is(h.Renew(f.ctx), ErrLost)
		f.ok(f.acquire(f.lock("job", LockOptions{})).Release(f.ctx))
	})
}

func TestWaiterGetsTheLockWhenItIsReleased(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{}))
		other := f.provider() // another process: nobody calls it
		if f.p.noSharedClock {
			other.noSharedClock = true
		}
		got := make(chan *Held)
		go func() {
			h, err := f.lockOf(other, "job", LockOptions{Jitter: -1}).Acquire(f.ctx)
			f.ok(err)
			got <- h
		}()
		after(time.Minute/2 + time.Millisecond)
		began := time.Now()
		f.ok(h.Release(f.ctx))
		h = <-got
		if waited := time.Since(began); waited > 100*time.Millisecond {
			t.Errorf("waited %v after the release, want one pause at most", waited)
		}
		f.ok(h.Release(f.ctx))
	})
}

func TestWaitersOfOneProcessQueueUp(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{}))
		const n = 20
		order := make(chan int, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				h, err := f.lock("job", LockOptions{}).Acquire(f.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				f.ok(h.Release(f.ctx))
			})
			synctest.Wait()
		}
		f.tap.mu.Lock()
		f.tap.reads = 0
		f.tap.mu.Unlock()
		after(10 * time.Second)
		f.tap.mu.Lock()
		reads := f.tap.reads
		f.tap.mu.Unlock()
		if reads < 80 || reads > 120 {
			t.Errorf("%d reads in 100 pauses, want those of one waiter", reads)
		}
		began := time.Now()
		f.ok(h.Release(f.ctx))
		wg.Wait()
		// SQLite may have to wait a moment for a reader; a pause is 100 ms.
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("handing on took %v, want no pause", took)
		}
		for i := range n {
			if got := <-order; got != i {
				t.Errorf("waiter %d was served at position %d", got, i)
			}
		}
	})
}

func TestDeadlineOfAWait(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.acquire(f.lock("job", LockOptions{}))
		ctx, cancel := context.WithTimeout(f.ctx, 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := f.lock("job", LockOptions{}).Acquire(ctx)
		f.is(err, ErrTimeout)
		f.is(err, ErrWouldBlock)
		f.is(err, context.DeadlineExceeded)
		var e *Error
		if !errors.As(err, &e) || e.Name != "job" || !strings.Contains(err.Error(), "acquire lock \"job\"") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		ctx, stop := context.WithCancelCause(f.ctx)
		stop(errors.New("enough"))
		_, err = f.lock("job", LockOptions{}).Acquire(ctx)
		if errors.Is(err, ErrTimeout) || err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("error %v of a wait that was cancelled", err)
		}
	})
}

func TestWaiterThatLeavesLeavesNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.tap.fault = func(n int) (error, bool) {
			if n == 0 {
				after(time.Second) // granted, but its caller is gone by then
			}
			return nil, true
		}
		f.tap.execs = nil
		ctx, cancel := context.WithTimeout(f.ctx, time.Second/2)
		defer cancel()
		l := f.lock("job", LockOptions{})
		if _, err := l.Acquire(ctx); err == nil {
			t.Fatal("acquired")
		}
		after(2 * time.Second)
		h, err := l.TryAcquire(f.ctx)
		f.ok(err)
		f.ok(h.Release(f.ctx))
	})
}

func TestLostAnswerToAnAcquire(t *testing.T) {
	inBubble(t, func(f *fixture) {
		for _, wait := range []bool{true, false} {
			f.tap.spoil(lostOnce)
			h, err := f.lock("job", LockOptions{}).acquire(f.ctx, wait)
			if err != nil {
				t.Fatal(err)
			}
			if _, fence, _, _ := f.row("job"); fence != h.Token() {
				t.Errorf("token %d, fence %d", h.Token(), fence)
			}
			f.ok(h.Release(f.ctx))
		}
		if _, fence, _, _ := f.row("job"); fence != 2 {
			t.Errorf("fence %d after two acquisitions that were sent twice, want 2", fence)
		}
	})
}

func TestAnswersThatNeverCome(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.tap.spoil(func(int) (error, bool) { return errLost, true })
		_, err := f.lock("job", LockOptions{}).TryAcquire(f.ctx)
		f.is(err, engine.ErrOutcomeUnknown)
		f.tap.spoil(nil)
		after(10 * time.Second)
		h, err := f.lock("job", LockOptions{}).TryAcquire(f.ctx)
		f.ok(err)
		f.ok(h.Release(f.ctx))
	})
}

func TestLostAnswerToARelease(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{}))
		f.tap.spoil(lostOnce)
		f.ok(h.Release(f.ctx)) // it worked the first time
		if n := f.tap.writes(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}

		// The lease ended before, and another has it.
		a := f.lock("job", LockOptions{Lease: time.Second})
		h = f.acquire(a)
		f.tap.spoil(func(n int) (error, bool) {
			if n == 0 {
				f.foreign("UPDATE quorate_locks SET token='theirs',fence=fence+1,version=version+1")
				return errLost, true
			}
			return nil, true
		})
		err := h.Release(f.ctx)
		if err == nil || errors.Is(err, engine.ErrNotApplied) {
			t.Errorf("release of a lock that another holds: %v", err)
		}
		if token, _, _, _ := f.row("job"); token != "theirs" {
			t.Errorf("the lock is held by %q", token)
		}
	})
}

// foreign changes the database past the provider.
func (f *fixture) foreign(sql string, args ...engine.Value) {
	f.Helper()
	if _, err := f.tap.Engine.Exec(context.WithoutCancel(f.ctx), []engine.Statement{{SQL: sql, Args: args}}); err != nil {
		f.Error(err)
	}
}

func TestReleaseMayBeTriedAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{}))
		f.tap.spoil(down)
		err := h.Release(f.ctx)
		f.is(err, engine.ErrUnavailable)
		if h.Valid() {
			t.Error("still certain after a release began")
		}
		f.is(h.Renew(f.ctx), ErrNotHeld)
		f.tap.spoil(nil)
		f.ok(h.Release(f.ctx))
		f.is(h.Release(f.ctx), ErrNotHeld)
	})
}

func TestReleaseWithACancelledContext(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{}))
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		if err := h.Release(ctx); err != nil {
			f.is(err, engine.ErrOutcomeUnknown)
		}
		synctest.Wait()
		h, err := f.lock("job", LockOptions{}).TryAcquire(f.ctx)
		f.ok(err)
		f.ok(h.Release(f.ctx))
	})
}

func TestOutageWhileWaiting(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.tap.spoil(down)
		time.AfterFunc(time.Minute, func() { f.tap.spoil(nil) })
		began := time.Now()
		h := f.acquire(f.lock("job", LockOptions{}))
		if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("acquired after %v, want soon after the outage of a minute", took)
		}
		f.ok(h.Release(f.ctx))

		f.tap.spoil(down)
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		_, err := f.lock("job", LockOptions{}).Acquire(ctx)
		f.is(err, ErrTimeout)
		f.is(err, engine.ErrUnavailable)
		_, err = f.lock("job", LockOptions{}).TryAcquire(f.ctx)
		f.is(err, engine.ErrUnavailable)
	})
}

func TestMinHoldKeepsItClosed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		o := LockOptions{Lease: 10 * time.Second, MinHold: 5 * time.Second}
		l := f.lock("job", o)
		h := f.acquire(l)
		after(time.Second)
		f.ok(h.Release(f.ctx))
		_, err := l.TryAcquire(f.ctx)
		f.is(err, ErrWouldBlock)
		began := time.Now()
		h = f.acquire(l)
		if took := time.Since(began); took < 4*time.Second-time.Millisecond || took > 5*time.Second {
			t.Errorf("closed for %v more, want 4 s", took)
		}
		after(5 * time.Second)
		f.ok(h.Release(f.ctx)) // held long enough
		h, err = l.TryAcquire(f.ctx)
		f.ok(err)
		if h.Token() != 3 {
			t.Errorf("token %d", h.Token())
		}
	})
}

func TestLockOptionsAndNames(t *testing.T) {
	bubble(t, func(f *fixture) {
		for _, name := range []string{"", "-a", ".a", "a b", "a\x00", "ä", "a'", strings.Repeat("a", 201)} {
			_, err := f.p.Lock(name, LockOptions{})
			f.is(err, ErrInvalidName)
			f.is(err, ErrInvalid)
			var e *NameError
			if !errors.As(err, &e) || len(err.Error()) > 300 {
				t.Errorf("%q: %v", name, err)
			}
		}
		for _, name := range []string{"a", "0", "a.b_c:d/e-F", strings.Repeat("a", 200)} {
			_, err := f.p.Lock(name, LockOptions{})
			f.ok(err)
		}
		for _, o := range []LockOptions{
			{Lease: -1}, {Lease: time.Microsecond}, {Lease: 1 << 62}, {Retry: time.Microsecond}, {Retry: -1}, {Jitter: 1.1},
			{MinHold: -1}, {MinHold: 2 * time.Minute}, {Lease: time.Second, MinHold: 2 * time.Second},
		} {
			if _, err := f.p.Lock("a", o); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", o, err)
			}
		}
	})
}

func TestClosedProvider(t *testing.T) {
	bubble(t, func(f *fixture) {
		l := f.lock("job", LockOptions{KeepAlive: true})
		h := f.acquire(l)
		f.ok(f.p.Close(f.ctx))
		f.ok(f.p.Close(f.ctx))
		f.is(h.Renew(f.ctx), ErrClosed)
		f.is(h.Release(f.ctx), ErrClosed)
		_, err := f.lock("other", LockOptions{}).Acquire(f.ctx)
		f.is(err, ErrClosed)
		_, err = l.State(f.ctx)
		f.is(err, ErrClosed)
		_, err = f.rwlock(RWLockOptions{}).State(f.ctx)
		f.is(err, ErrClosed)
		if token, _, _, _ := f.row("job"); token == "" {
			t.Error("closing released a lock")
		}
	})
}

func TestOptionsOfTheProvider(t *testing.T) {
	bubble(t, func(f *fixture) {
		for name, opts := range map[string][]Option{"nil": {nil}, "limit": {WithTimeLimit(0)}, "logger": {WithLogger(nil)}} {
			if _, err := Open(f.ctx, f.tap, opts...); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := Open(f.ctx, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("no engine: %v", err)
		}
	})
}

// Tries add up: an object that tries now and then takes over from the dead, in one
// lease with a shared clock and in two without.
func TestTriesTakeOverFromTheDead(t *testing.T) {
	inBubble(t, func(f *fixture) {
		const lease = time.Minute
		f.acquire(f.lock("job", LockOptions{Lease: lease}))
		r := f.read(f.rwlock(RWLockOptions{Lease: lease}))
		l, rw := f.lock("job", LockOptions{}), f.rwlock(RWLockOptions{})
		after(lease / 2)
		_, err := l.TryAcquire(f.ctx)
		f.is(err, ErrWouldBlock)
		_, err = rw.TryAcquireWrite(f.ctx)
		f.is(err, ErrWouldBlock)
		rest := lease / 2
		if f.p.noSharedClock {
			rest = lease
		}
		after(rest - time.Millisecond)
		_, err = l.TryAcquire(f.ctx)
		f.is(err, ErrWouldBlock)
		_, err = rw.TryAcquireWrite(f.ctx)
		f.is(err, ErrWouldBlock)
		after(time.Millisecond)
		h, err := l.TryAcquire(f.ctx)
		f.ok(err)
		f.ok(h.Release(f.ctx))
		w, err := rw.TryAcquireWrite(f.ctx)
		f.ok(err)
		f.ok(w.Release(f.ctx))
		f.is(r.Release(f.ctx), ErrLost)
	})
}
