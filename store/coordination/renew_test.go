package coordination

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
)

func TestKeptAliveUntilReleased(t *testing.T) {
	inBubble(t, func(f *fixture) {
		l := f.lock("job", LockOptions{Lease: 30 * time.Second, KeepAlive: true})
		h := f.acquire(l)
		f.tap.spoil(nil)
		after(10*time.Minute + time.Second)
		if !h.Valid() || h.Context().Err() != nil {
			t.Error("lost although it is kept alive")
		}
		if n := f.tap.writes(); n != 60 {
			t.Errorf("%d renewals in 10 minutes, want one each 10 s", n)
		}
		_, err := f.lock("job", LockOptions{}).TryAcquire(f.ctx)
		f.is(err, ErrWouldBlock)
		f.ok(h.Release(f.ctx))
		f.tap.spoil(nil)
		after(time.Minute)
		if n := f.tap.writes(); n != 0 {
			t.Errorf("%d renewals after the release", n)
		}
		if f.acquire(l).Token() != 2 {
			t.Error("the token did not grow by one")
		}
	})
}

func TestRenewalsSurviveErrorsUntilTheLeaseEnds(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{Lease: 30 * time.Second, KeepAlive: true}))
		after(time.Second)
		f.tap.spoil(down)
		after(28 * time.Second) // the first renewal was due 10 s after the start
		if !h.Valid() {
			t.Error("lost before the lease ended")
		}
		f.tap.spoil(nil)

		h = f.acquire(f.lock("other", LockOptions{Lease: 30 * time.Second, KeepAlive: true}))
		f.tap.spoil(down)
		after(15 * time.Second)
		f.tap.spoil(nil)
		after(time.Hour)
		if !h.Valid() {
			t.Error("lost although the outage was short")
		}
		f.tap.spoil(down)
		after(30 * time.Second)
		synctest.Wait()
		if h.Valid() || context.Cause(h.Context()) != ErrLost {
			t.Errorf("valid %v, cause %v after an outage of a lease", h.Valid(), context.Cause(h.Context()))
		}
	})
}

// 1,000 locks that were taken at different times are renewed by one request a tick.
func TestManyRenewalsAreOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := rqlitetest.Start(t, rqlitetest.InMemoryNetwork())
		eng, err := client.Open(t.Context(), cluster.URLs(), client.WithDialContext(cluster.DialContext))
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		p, err := Open(t.Context(), eng)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(t.Context())
		const n = 1000
		held := make([]*Held, n)
		for i := range held {
			l, err := p.Lock(fmt.Sprint("lock-", i), LockOptions{KeepAlive: true, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if held[i], err = l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			after(3 * time.Millisecond)
		}
		after(45 * time.Second) // those that were taken one by one have fallen together
		cluster.ResetLog()
		const ticks = 9 // of a third of the lease
		after(ticks * 20 * time.Second)
		requests := cluster.LogOf(rqlitetest.KindExecute)
		if len(requests) > ticks {
			t.Errorf("%d requests in %d ticks", len(requests), ticks)
		}
		for i, h := range held {
			if !h.Valid() {
				t.Fatalf("lock %d is lost", i)
			}
		}
	})
}

func TestLostLeaseIsToldByTheRenewal(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{Lease: 30 * time.Second, KeepAlive: true}))
		kept := f.acquire(f.lock("kept", LockOptions{Lease: 30 * time.Second, KeepAlive: true}))
		f.foreign("UPDATE quorate_locks SET token='theirs',version=version+1 WHERE name='job'")
		after(10 * time.Second)
		synctest.Wait()
		if h.Valid() || context.Cause(h.Context()) != ErrLost {
			t.Errorf("valid %v, cause %v after the renewal found another's token", h.Valid(), context.Cause(h.Context()))
		}
		if !kept.Valid() {
			t.Error("the neighbour is lost too")
		}
	})
}

// A lease that ends at the very moment in which its care begins is let go of.
func TestLeaseThatEndedIsNotCaredFor(t *testing.T) {
	inBubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{Lease: time.Second}))
		after(time.Second)
		synctest.Wait()
		f.tap.spoil(nil)
		f.p.keep(&h.hold, time.Now().Add(-time.Second))
		after(time.Minute)
		if n := f.tap.writes(); n > 2 {
			t.Errorf("%d requests for a lease that ended", n)
		}
		f.p.mu.Lock()
		defer f.p.mu.Unlock()
		if len(f.p.renew.holds) > 0 || f.p.renew.wake != nil {
			t.Error("still under care")
		}
	})
}
