package storetest

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/store/coordination"
)

func (c *coord) rwlock(p *coordination.Provider, o coordination.RWLockOptions) *coordination.RWLock {
	c.Helper()
	o.Retry = 5 * time.Millisecond
	l, err := p.RWLock("doc", o)
	c.must(err)
	return l
}

func (c *coord) read(p *coordination.Provider, o coordination.RWLockOptions) *coordination.ReadHeld {
	c.Helper()
	h, err := c.rwlock(p, o).AcquireRead(c.ctx)
	c.must(err)
	return h
}

func (c *coord) write(p *coordination.Provider, o coordination.RWLockOptions) *coordination.WriteHeld {
	c.Helper()
	h, err := c.rwlock(p, o).AcquireWrite(c.ctx)
	c.must(err)
	return h
}

func (c *coord) state(want coordination.RWState) {
	c.Helper()
	got, err := c.rwlock(c.p, coordination.RWLockOptions{}).State(c.ctx)
	c.must(err)
	if got != want {
		c.Errorf("state %+v, want %+v", got, want)
	}
}

var rwlockCases = []coordinationCase{
	{promise: "readers share, a writer is alone, and its token grows", run: func(c *coord) {
		other, o := c.another(), coordination.RWLockOptions{}
		c.state(coordination.RWState{})
		a, b := c.read(c.p, o), c.read(other, o)
		c.state(coordination.RWState{Readers: 2})
		_, err := c.rwlock(other, o).TryAcquireWrite(c.ctx)
		c.is(err, coordination.ErrWouldBlock)
		c.must(a.Renew(c.ctx))
		c.must(a.Release(c.ctx))
		c.must(b.Release(c.ctx))
		for token := int64(1); token <= 2; token++ {
			w := c.write(other, o)
			if w.Token() != token || w.Poisoned() {
				c.Errorf("token %d, poisoned %v; want %d, false", w.Token(), w.Poisoned(), token)
			}
			_, err = c.rwlock(c.p, o).TryAcquireRead(c.ctx)
			c.is(err, coordination.ErrWouldBlock)
			_, err = c.rwlock(c.p, o).TryAcquireWrite(c.ctx)
			c.is(err, coordination.ErrWouldBlock)
			c.must(w.Renew(c.ctx))
			c.must(w.Release(c.ctx))
			r := c.read(c.p, o)
			if r.Generation() != token {
				c.Errorf("generation %d, want %d", r.Generation(), token)
			}
			c.must(r.Release(c.ctx))
		}
	}},
	{promise: "a writer that waits keeps new readers out, and lets them in when it gives up", run: func(c *coord) {
		other, o := c.another(), coordination.RWLockOptions{}
		r := c.read(c.p, o)
		_, err := c.rwlock(other, o).AcquireWrite(c.within(50 * time.Millisecond))
		c.is(err, coordination.ErrTimeout)
		again, err := c.rwlock(c.p, o).AcquireRead(c.within(time.Minute / 2)) // waits for the withdrawal
		c.must(err)
		c.must(again.Release(c.ctx))
		got := make(chan *coordination.WriteHeld)
		go func() {
			w, err := c.rwlock(other, o).AcquireWrite(c.ctx)
			if err != nil {
				c.Error(err)
			}
			got <- w
		}()
		for waiting := 0; waiting == 0; {
			s, err := c.rwlock(c.p, o).State(c.ctx)
			c.must(err)
			waiting = s.WaitingWriters
		}
		_, err = c.rwlock(c.p, o).TryAcquireRead(c.ctx)
		c.is(err, coordination.ErrWouldBlock)
		c.must(r.Renew(c.ctx))
		c.must(r.Release(c.ctx))
		w := <-got
		c.state(coordination.RWState{Generation: 1, Writing: true})
		c.must(w.Release(c.ctx))
		c.state(coordination.RWState{Generation: 1})
	}},
	{promise: "a writer whose lease ended poisons the next, and cannot come back", run: func(c *coord) {
		other := c.another()
		old := c.write(c.p, coordination.RWLockOptions{Lease: shortLease})
		w := c.write(other, coordination.RWLockOptions{})
		if !w.Poisoned() || w.Token() != 2 || old.Valid() {
			c.Errorf("poisoned %v, token %d, two holders %v", w.Poisoned(), w.Token(), old.Valid())
		}
		c.is(old.Renew(c.ctx), coordination.ErrLost)
		c.is(old.Release(c.ctx), coordination.ErrLost)
		c.must(w.Release(c.ctx))
		if w = c.write(c.p, coordination.RWLockOptions{}); w.Poisoned() {
			c.Error("poisoned after a release")
		}
		c.must(w.Release(c.ctx))
	}},
	{promise: "a reader whose lease ended blocks nobody", run: func(c *coord) {
		old := c.read(c.p, coordination.RWLockOptions{Lease: shortLease})
		w := c.write(c.another(), coordination.RWLockOptions{})
		if w.Poisoned() || old.Valid() {
			c.Errorf("poisoned %v, two holders %v", w.Poisoned(), old.Valid())
		}
		c.is(old.Renew(c.ctx), coordination.ErrLost)
		c.is(old.Release(c.ctx), coordination.ErrLost)
		c.must(w.Release(c.ctx))
	}},
	{promise: "a writer becomes a reader without a gap", run: func(c *coord) {
		w := c.write(c.p, coordination.RWLockOptions{})
		r, err := w.Downgrade(c.ctx)
		c.must(err)
		if w.Valid() || !r.Valid() || r.Generation() != w.Token() {
			c.Errorf("writer valid %v, reader valid %v, generation %d", w.Valid(), r.Valid(), r.Generation())
		}
		c.state(coordination.RWState{Generation: 1, Readers: 1})
		_, err = c.rwlock(c.another(), coordination.RWLockOptions{}).TryAcquireWrite(c.ctx)
		c.is(err, coordination.ErrWouldBlock)
		c.must(r.Release(c.ctx))
		c.state(coordination.RWState{Generation: 1})
	}},
	{promise: "whatever becomes of requests and answers, it is held once and released truly", run: func(c *coord) {
		var token int64
		for name, f := range map[string]fault{
			"answers lost":  alternate(answerLost, pass),
			"requests lost": alternate(requestLost, pass),
			"twice, first":  twiceFirst, "twice, second": twiceSecond,
			"twice, and all": alternate(answerLost, twiceSecond, requestLost, twiceFirst),
		} {
			token++
			c.tap.playAlways(f)
			l := c.rwlock(c.p, coordination.RWLockOptions{})
			w, err := l.AcquireWrite(c.ctx)
			if err != nil {
				c.Fatalf("%s: %v", name, err)
			}
			if w.Token() != token || w.Poisoned() {
				c.Errorf("%s: token %d, poisoned %v; want %d", name, w.Token(), w.Poisoned(), token)
			}
			r, err := w.Downgrade(c.ctx)
			if err != nil {
				c.Fatalf("%s: downgrade: %v", name, err)
			}
			if err := r.Release(c.ctx); err != nil {
				c.Errorf("%s: release: %v", name, err)
			}
			r, err = l.AcquireRead(c.ctx)
			c.must(err)
			c.must(r.Release(c.ctx))
			w, err = l.TryAcquireWrite(c.ctx)
			c.must(err)
			if err := w.Release(c.ctx); err != nil {
				c.Errorf("%s: release: %v", name, err)
			}
			token++
			c.tap.playAlways(nil)
			c.state(coordination.RWState{Generation: token})
		}
	}},
	{promise: "a request that arrives after its writer gave up takes nothing", run: func(c *coord) {
		var l late
		c.tap.play(l.leave)
		_, err := c.rwlock(c.p, coordination.RWLockOptions{}).AcquireWrite(c.within(time.Millisecond))
		c.is(err, coordination.ErrTimeout)
		c.must(c.p.Close(c.ctx)) // waits for the withdrawal
		c.must(l.arrive(c.ctx, c.db.Engine))
		c.p = c.another()
		c.state(coordination.RWState{})
	}},
	{promise: "no reader ever meets a writer, over several processes", run: func(c *coord) {
		c.counter()
		var readers, writers, writes atomic.Int64
		c.crowd(3, func(p *coordination.Provider) {
			l := c.rwlock(p, coordination.RWLockOptions{})
			for i := range 6 {
				if i%3 == 0 {
					h, err := l.AcquireWrite(c.ctx)
					if err != nil {
						c.Error(err)
						return
					}
					if writers.Add(1) != 1 || readers.Load() != 0 {
						c.Error("a writer is not alone")
					}
					c.count(c.db.Engine, h.Token())
					writes.Add(1)
					writers.Add(-1)
					if err := h.Release(c.ctx); err != nil {
						c.Error(err)
					}
					continue
				}
				h, err := l.AcquireRead(c.ctx)
				if err != nil {
					c.Error(err)
					return
				}
				readers.Add(1)
				if _, token := c.counted(c.db.Engine); token != h.Generation() || writers.Load() != 0 {
					c.Errorf("a reader of generation %d reads what %d wrote, beside %d writers", h.Generation(), token, writers.Load())
				}
				readers.Add(-1)
				if err := h.Release(c.ctx); err != nil {
					c.Error(err)
				}
			}
		})
		if n, _ := c.counted(c.db.Engine); n != writes.Load() || n != 18 {
			c.Errorf("counted to %d after %d writes", n, writes.Load())
		}
	}},
}
