package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/engine"
)

// shortLease is a lease that a test can wait for, and that outlives any request.
const shortLease = 500 * time.Millisecond

func (c *coord) lock(p *coordination.Provider, o coordination.LockOptions) *coordination.Lock {
	c.Helper()
	if o.Retry == 0 {
		o.Retry = 5 * time.Millisecond
	}
	l, err := p.Lock("lock", o)
	c.must(err)
	return l
}

func (c *coord) acquire(p *coordination.Provider, o coordination.LockOptions) *coordination.Held {
	c.Helper()
	h, err := c.lock(p, o).Acquire(c.ctx)
	c.must(err)
	return h
}

var lockCases = []coordinationCase{
	{promise: "one holder at a time, and tokens that grow over release, takeover and another process", run: func(c *coord) {
		other := c.another()
		state := func(want coordination.LockState) {
			c.Helper()
			got, err := c.lock(other, coordination.LockOptions{}).State(c.ctx)
			c.must(err)
			if got != want {
				c.Errorf("state %+v, want %+v", got, want)
			}
		}
		state(coordination.LockState{})
		h := c.acquire(c.p, coordination.LockOptions{})
		if h.Token() != 1 {
			c.Errorf("token %d, want 1", h.Token())
		}
		state(coordination.LockState{Held: true, Token: 1})
		_, err := c.lock(other, coordination.LockOptions{}).TryAcquire(c.ctx)
		c.is(err, coordination.ErrWouldBlock)
		_, err = c.lock(other, coordination.LockOptions{}).Acquire(c.within(50 * time.Millisecond))
		c.is(err, coordination.ErrTimeout)
		c.must(h.Release(c.ctx))
		state(coordination.LockState{Token: 1})
		h, err = c.lock(other, coordination.LockOptions{Lease: shortLease}).TryAcquire(c.ctx)
		c.must(err)
		if h.Token() != 2 {
			c.Errorf("token %d after a release, want 2", h.Token())
		}
		h = c.acquire(c.p, coordination.LockOptions{}) // when the lease has ended
		if h.Token() != 3 {
			c.Errorf("token %d after a takeover, want 3", h.Token())
		}
		c.must(h.Release(c.ctx))
	}},
	{promise: "who lost its lease can neither renew nor release, and does not harm its successor", run: func(c *coord) {
		old := c.acquire(c.p, coordination.LockOptions{Lease: shortLease})
		h := c.acquire(c.another(), coordination.LockOptions{})
		if old.Valid() {
			c.Error("two holders at once")
		}
		<-old.Context().Done()
		c.is(old.Renew(c.ctx), coordination.ErrLost)
		c.is(old.Release(c.ctx), coordination.ErrLost)
		c.must(h.Renew(c.ctx))
		c.must(h.Release(c.ctx))
	}},
	{promise: "a lease that is renewed goes on under the same token", run: func(c *coord) {
		h := c.acquire(c.p, coordination.LockOptions{})
		until := h.Until()
		c.must(h.Renew(c.ctx))
		if !h.Until().After(until) {
			c.Errorf("certain until %v, before it was %v", h.Until(), until)
		}
		c.must(h.Release(c.ctx))
		if h = c.acquire(c.p, coordination.LockOptions{}); h.Token() != 2 {
			c.Errorf("token %d, want 2", h.Token())
		}
		c.must(h.Release(c.ctx))
	}},
	{promise: "a lease that another has taken over is found lost by the renewal", run: func(c *coord) {
		h := c.acquire(c.p, coordination.LockOptions{})
		c.exec("UPDATE quorate_locks SET token=?,fence=fence+1,version=version+1", "theirs")
		c.is(h.Renew(c.ctx), coordination.ErrLost)
		if h.Valid() || context.Cause(h.Context()) != coordination.ErrLost {
			c.Errorf("valid %v, cause %v", h.Valid(), context.Cause(h.Context()))
		}
	}},
	{promise: "leases that are kept alive do not end", run: func(c *coord) {
		h := c.acquire(c.p, coordination.LockOptions{Lease: 2 * shortLease, KeepAlive: true})
		_, err := c.lock(c.another(), coordination.LockOptions{}).Acquire(c.within(5 * shortLease))
		c.is(err, coordination.ErrTimeout)
		if !h.Valid() {
			c.Error("lost")
		}
		c.must(h.Release(c.ctx))
	}},
	{promise: "many leases are kept alive together, and one that is lost is lost alone", run: func(c *coord) {
		const n = 20
		held := make([]*coordination.Held, n)
		for i := range held {
			l, err := c.p.Lock(fmt.Sprint("lock-", i), coordination.LockOptions{Lease: 2 * shortLease, KeepAlive: true})
			c.must(err)
			held[i], err = l.Acquire(c.ctx)
			c.must(err)
		}
		c.exec("UPDATE quorate_locks SET token=?,fence=fence+1,version=version+1 WHERE name=?", "theirs", "lock-7")
		<-held[7].Context().Done()
		blocker := c.acquire(c.p, coordination.LockOptions{Lease: 4 * shortLease})
		<-blocker.Context().Done() // time passes
		for i, h := range held {
			if h.Valid() != (i != 7) {
				c.Errorf("lock %d: valid %v", i, h.Valid())
			}
			if i != 7 {
				c.must(h.Release(c.ctx))
			}
		}
	}},
	{promise: "whatever becomes of requests and answers, a lock is held once and released truly", run: func(c *coord) {
		for name, f := range map[string]fault{
			"answers lost":  alternate(answerLost, pass),
			"requests lost": alternate(requestLost, pass),
			"results lost":  alternate(resultsLost, pass),
			"twice, first":  twiceFirst, "twice, second": twiceSecond,
			"twice, and all": alternate(answerLost, twiceSecond, requestLost, twiceFirst),
		} {
			c.tap.playAlways(f)
			l := c.lock(c.p, coordination.LockOptions{})
			h, err := l.TryAcquire(c.ctx)
			if err != nil {
				c.Fatalf("%s: %v", name, err)
			}
			err = h.Renew(c.ctx)
			for errors.Is(err, engine.ErrOutcomeUnknown) || errors.Is(err, engine.ErrApplied) {
				err = h.Renew(c.ctx)
			}
			if err != nil {
				c.Errorf("%s: renew: %v", name, err)
			}
			if err := h.Release(c.ctx); err != nil {
				c.Errorf("%s: release: %v", name, err)
			}
			c.is(h.Release(c.ctx), coordination.ErrNotHeld)
			c.tap.playAlways(nil)
			again, err := l.TryAcquire(c.ctx)
			if err != nil {
				c.Fatalf("%s: the lock is not free: %v", name, err)
			}
			if again.Token() != h.Token()+1 {
				c.Errorf("%s: token %d after %d", name, again.Token(), h.Token())
			}
			c.must(again.Release(c.ctx))
		}
	}},
	{promise: "an outage is told by a try, waited for by a wait, and leaves a release to be tried again", run: func(c *coord) {
		c.tap.playAlways(unavailable)
		_, err := c.lock(c.p, coordination.LockOptions{}).TryAcquire(c.ctx)
		c.is(err, engine.ErrUnavailable)
		c.is(err, engine.ErrNotApplied)
		_, err = c.lock(c.p, coordination.LockOptions{}).Acquire(c.within(50 * time.Millisecond))
		c.is(err, coordination.ErrTimeout)
		c.is(err, engine.ErrUnavailable)
		c.tap.playAlways(nil)
		c.tap.play(unavailable, unavailable)
		h := c.acquire(c.p, coordination.LockOptions{})
		c.tap.play(unavailable)
		c.is(h.Release(c.ctx), engine.ErrUnavailable)
		c.must(h.Release(c.ctx))
	}},
	{promise: "a request that arrives after the release of its token takes nothing", run: func(c *coord) {
		var l late
		c.tap.play(l.leave)
		h, err := c.lock(c.p, coordination.LockOptions{}).TryAcquire(c.ctx)
		c.must(err)
		c.must(h.Release(c.ctx))
		c.must(l.arrive(c.ctx, c.db.Engine))
		h, err = c.lock(c.p, coordination.LockOptions{}).TryAcquire(c.ctx)
		c.must(err)
		c.must(h.Release(c.ctx))
	}},
	{promise: "a renewal that arrives late does not shorten the lease", run: func(c *coord) {
		h := c.acquire(c.p, coordination.LockOptions{Lease: shortLease})
		var l late
		c.tap.play(l.copy)
		c.must(h.Renew(c.ctx))
		before := c.deadline()
		c.must(h.Renew(c.ctx))
		after := c.deadline()
		c.must(l.arrive(c.ctx, c.db.Engine))
		if at := c.deadline(); after <= before || at < after {
			c.Errorf("deadline %d, %d after the second renewal, %d after the first one arrived again", before, after, at)
		}
	}},
	{promise: "a waiter whose request was under way when it left leaves the lock free", run: func(c *coord) {
		hold := c.tap.holdExec()
		ctx, leave := context.WithCancel(c.ctx)
		left := make(chan error)
		go func() {
			_, err := c.lock(c.p, coordination.LockOptions{}).Acquire(ctx)
			left <- err
		}()
		hold.entered()
		leave()
		c.is(<-left, context.Canceled)
		h, err := c.lock(c.another(), coordination.LockOptions{}).Acquire(c.within(time.Minute / 2))
		c.must(err)
		c.must(h.Release(c.ctx))
	}},
	{promise: "a lock with a minimal time stays closed after its release", run: func(c *coord) {
		began := time.Now()
		o := coordination.LockOptions{Lease: time.Minute, MinHold: shortLease}
		h := c.acquire(c.p, o)
		c.must(h.Release(c.ctx))
		_, err := c.lock(c.p, o).TryAcquire(c.ctx)
		if time.Since(began) < shortLease {
			c.is(err, coordination.ErrWouldBlock)
		}
		h = c.acquire(c.p, coordination.LockOptions{})
		if took := time.Since(began); took < shortLease {
			c.Errorf("open again after %v", took)
		}
		c.must(h.Release(c.ctx))
	}},
	{promise: "what contenders of several processes do under the lock never overlaps", run: func(c *coord) {
		c.counter()
		const each, rounds = 4, 5
		c.crowd(each, func(p *coordination.Provider) {
			l, err := p.Lock("lock", coordination.LockOptions{Retry: 2 * time.Millisecond})
			if err != nil {
				c.Error(err)
				return
			}
			for range rounds {
				h, err := l.Acquire(c.ctx)
				if err != nil {
					c.Error(err)
					return
				}
				c.count(c.db.Engine, h.Token())
				if err := h.Release(c.ctx); err != nil {
					c.Error(err)
				}
			}
		})
		if n, _ := c.counted(c.db.Engine); n != 3*each*rounds {
			c.Errorf("counted to %d, want %d", n, 3*each*rounds)
		}
	}},
	{promise: "locks of other names have nothing to do with it", run: func(c *coord) {
		h := c.acquire(c.p, coordination.LockOptions{})
		for _, name := range []string{"lock-", "loc", "LOCK", "lock:1"} {
			l, err := c.p.Lock(name, coordination.LockOptions{})
			c.must(err)
			other, err := l.TryAcquire(c.ctx)
			c.must(err)
			if other.Token() != 1 {
				c.Errorf("%s: token %d", name, other.Token())
			}
			c.must(other.Release(c.ctx))
		}
		c.must(h.Release(c.ctx))
	}},
}

// deadline returns that of the only lock.
func (c *coord) deadline() int64 {
	c.Helper()
	res, err := c.db.Engine.Query(c.ctx, engine.Linearizable, []engine.Statement{statement("SELECT deadline_us FROM quorate_locks")})
	c.must(err)
	if res[0].Len() != 1 {
		c.Fatalf("%d locks", res[0].Len())
	}
	n, _ := res[0].Row(0)[0].Int()
	return n
}
