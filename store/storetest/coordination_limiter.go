package storetest

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/engine"
)

func (c *coord) limiter(p *coordination.Provider, r coordination.Rate) *coordination.Limiter {
	c.Helper()
	l, err := p.Limiter("api", r)
	c.must(err)
	return l
}

var limiterCases = []coordinationCase{
	{promise: "decisions are exact to the microsecond", run: func(c *coord) {
		p, other, move := c.stopped()
		l, too := c.limiter(p, coordination.Rate{Limit: 10, Window: time.Second}), c.limiter(other, coordination.Rate{Limit: 10, Window: time.Second})
		ms := time.Millisecond
		for i, step := range []struct {
			move time.Duration
			cost int64
			want coordination.Decision
		}{
			{0, 9, coordination.Decision{Allowed: true, Limit: 10, Remaining: 1, ResetAfter: 900 * ms}},
			{0, 2, coordination.Decision{Limit: 10, Remaining: 1, RetryAfter: 100 * ms, ResetAfter: 900 * ms}},
			{100*ms - time.Microsecond, 2, coordination.Decision{Limit: 10, Remaining: 1, RetryAfter: time.Microsecond, ResetAfter: 800*ms + time.Microsecond}},
			{time.Microsecond, 2, coordination.Decision{Allowed: true, Limit: 10, ResetAfter: 1000 * ms}},
			{time.Hour, 10, coordination.Decision{Allowed: true, Limit: 10, ResetAfter: 1000 * ms}},
			{-time.Hour, 1, coordination.Decision{Limit: 10, RetryAfter: 100 * ms, ResetAfter: 1000 * ms}},
			{100 * ms, 1, coordination.Decision{Allowed: true, Limit: 10, ResetAfter: 1000 * ms}},
		} {
			move(step.move)
			if i%2 == 1 {
				l, too = too, l
			}
			if d, err := l.Allow(c.ctx, "x'4b'", step.cost); err != nil || d != step.want {
				c.Errorf("step %d: %+v, %v, want %+v", i, d, err, step.want)
			}
		}
		if d, err := l.Peek(c.ctx, "k"); err != nil || d != (coordination.Decision{Allowed: true, Limit: 10, Remaining: 10}) {
			c.Errorf("another key: %+v, %v", d, err)
		}
		c.must(l.Reset(c.ctx, "x'4b'"))
		if d, err := too.Peek(c.ctx, "x'4b'"); err != nil || d.Remaining != 10 {
			c.Errorf("after a reset: %+v, %v", d, err)
		}
	}},
	{promise: "all processes together get no more than the limit", run: func(c *coord) {
		var allowed atomic.Int64
		c.crowd(10, func(p *coordination.Provider) {
			l := c.limiter(p, coordination.Rate{Limit: 25, Window: 24 * time.Hour})
			for range 3 {
				d, err := l.Allow(c.ctx, "k", 1)
				if err != nil {
					c.Error(err)
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
		if n := allowed.Load(); n != 25 {
			c.Errorf("%d of 90 were allowed, want 25", n)
		}
	}},
	{promise: "a charge whose answer is lost is unknown and not sent again", run: func(c *coord) {
		l := c.limiter(c.p, coordination.Rate{Limit: 10, Window: 24 * time.Hour})
		before := c.tap.traffic().execs
		c.tap.play(answerLost)
		_, err := l.Allow(c.ctx, "k", 4)
		c.is(err, engine.ErrOutcomeUnknown)
		if n := c.tap.traffic().execs - before; n != 1 {
			c.Errorf("sent %d times", n)
		}
		if d, err := l.Peek(c.ctx, "k"); err != nil || d.Remaining != 6 {
			c.Errorf("charged %+v, %v", d, err)
		}
	}},
}
