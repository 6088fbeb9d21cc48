package storetest

import (
	"context"
	"maps"
	"time"

	"github.com/quorate/quorate/store/coordination"
)

// quick are options for elections that tests wait for.
var quick = coordination.ElectionOptions{Lease: 1500 * time.Millisecond, Retry: 50 * time.Millisecond}

func (c *coord) election(p *coordination.Provider, id string) *coordination.Election {
	c.Helper()
	o := quick
	o.ID, o.Metadata = id, map[string]string{"of": id, "sign": "ä'\"\\"}
	e, err := p.Election("nightly", o)
	c.must(err)
	return e
}

// leading lets a candidate lead, and returns its term and what ends its campaign.
func (c *coord) leading(e *coordination.Election) (term coordination.Term, work context.Context, stop func()) {
	c.Helper()
	type led struct {
		coordination.Term
		ctx context.Context
	}
	ctx, cancel := context.WithCancel(c.ctx)
	begun, ended := make(chan led, 100), make(chan error, 1)
	go func() {
		ended <- e.Lead(ctx, func(ctx context.Context, t coordination.Term) error {
			begun <- led{t, ctx}
			<-ctx.Done()
			return nil
		})
	}()
	over := false
	stop = func() {
		cancel()
		if !over {
			over = true
			<-ended
		}
	}
	c.Cleanup(stop)
	select {
	case l := <-begun:
		return l.Term, l.ctx, stop
	case err := <-ended:
		c.Fatal("the campaign ended:", err)
	}
	panic("unreachable")
}

func (c *coord) leader(e *coordination.Election) (coordination.Leader, bool) {
	c.Helper()
	l, ok, err := e.Leader(c.ctx)
	c.must(err)
	return l, ok
}

var electionCases = []coordinationCase{
	{promise: "who leads, in which term and with which metadata is told to everybody", run: func(c *coord) {
		a, b := c.election(c.p, "a"), c.election(c.another(), "b")
		if l, ok := c.leader(b); ok {
			c.Errorf("before the first campaign %+v leads", l)
		}
		term, _, stop := c.leading(a)
		l, ok := c.leader(b)
		if !ok || l.ID != "a" || l.Holder != a.Holder() || l.Term != term.Number || l.Lease != quick.Lease ||
			!maps.Equal(l.Metadata, map[string]string{"of": "a", "sign": "ä'\"\\"}) || l.Transitions != 0 {
			c.Errorf("the leader is %+v, %v", l, ok)
		}
		if term.Number != 1 || !a.IsLeader() || b.IsLeader() {
			c.Errorf("term %+v, a leads: %v, b leads: %v", term, a.IsLeader(), b.IsLeader())
		}
		c.is(b.Resign(c.ctx), coordination.ErrNotHeld)
		stop()
		if l, ok := c.leader(b); ok || a.IsLeader() {
			c.Errorf("after the end of the campaign %+v leads", l)
		}
	}},
	{promise: "terms grow over release and over another process", run: func(c *coord) {
		other := c.another()
		for i := range int64(4) {
			p := c.p
			if i%2 == 1 {
				p = other
			}
			term, _, stop := c.leading(c.election(p, "x"))
			if term.Number != i+1 || term.Transitions != i {
				c.Errorf("term %+v, want number %d after %d transitions", term, i+1, i)
			}
			stop()
		}
	}},
	{promise: "of many candidates one leads, and when it goes another follows", run: func(c *coord) {
		terms := make(chan int64, 100)
		var last int64
		ctx, cancel := context.WithCancel(c.ctx)
		defer cancel()
		go func() {
			for range 6 {
				n := <-terms
				if n <= last {
					c.Errorf("term %d after term %d", n, last)
				}
				last = n
			}
			cancel()
		}()
		c.crowd(2, func(p *coordination.Provider) {
			e := c.election(p, "one")
			for ctx.Err() == nil {
				_ = e.Lead(ctx, func(_ context.Context, t coordination.Term) error {
					terms <- t.Number
					return nil // goes at once
				})
			}
		})
	}},
	{promise: "a dead leader is succeeded by another, and finds out when it comes back", run: func(c *coord) {
		a, b := c.election(c.p, "a"), c.election(c.another(), "b")
		first, work, _ := c.leading(a)
		c.tap.playAlways(unavailable) // a is cut off
		next, _, stop := c.leading(b)
		if work.Err() == nil || a.IsLeader() {
			c.Error("two lead at once")
		}
		if next.Number <= first.Number || next.Transitions != 1 {
			c.Errorf("term %+v after %+v", next, first)
		}
		c.tap.playAlways(nil)
		stop()
		c.is(context.Cause(work), coordination.ErrLost)
		for !a.IsLeader() && c.ctx.Err() == nil {
			select { // it stands again by itself
			case <-time.After(10 * time.Millisecond):
			case <-c.ctx.Done():
			}
		}
	}},
	{promise: "a lease lives until just before its deadline, and at the deadline it is anybody's", run: func(c *coord) {
		if c.options != nil {
			return // there is no deadline without a clock that is shared
		}
		p, other, move := c.stopped()
		a, b := c.election(p, "a"), c.election(other, "b")
		_, _, stop := c.leading(a)
		c.must(p.Close(c.ctx)) // so that it cannot release
		stop()
		move(quick.Lease - time.Microsecond)
		if l, ok := c.leader(b); !ok || l.ID != "a" {
			c.Errorf("just before the deadline %+v leads: %v", l, ok)
		}
		c.is(b.Campaign(c.within(200*time.Millisecond)), context.DeadlineExceeded)
		if l, ok := c.leader(b); !ok || l.ID != "a" || l.Term != 1 {
			c.Errorf("taken over before the deadline by %+v", l)
		}
		move(time.Microsecond)
		if l, ok := c.leader(b); ok {
			c.Errorf("at the deadline %+v leads", l)
		}
		term, _, _ := c.leading(b)
		if term.Number != 2 || term.Transitions != 1 || !term.Acquired.Equal(noon.Add(quick.Lease)) {
			c.Errorf("taken over with %+v", term)
		}
	}},
	{promise: "answers that get lost and requests that arrive twice give one leader", run: func(c *coord) {
		a := c.election(c.p, "a")
		c.tap.play(answerLost, twiceSecond, requestLost)
		term, work, stop := c.leading(a)
		c.tap.play(answerLost, twiceFirst, twiceSecond, requestLost)
		for c.tap.unplayed() > 0 && c.ctx.Err() == nil {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-c.ctx.Done():
			}
		}
		if l, ok := c.leader(a); !ok || l.Holder != a.Holder() || work.Err() == nil && l.Term != term.Number {
			c.Errorf("%+v leads, in place of %+v: %v", l, term, ok)
		}
		c.tap.play(answerLost)
		stop()
		if l, ok := c.leader(a); ok {
			c.Errorf("after a release whose answer was lost %+v leads", l)
		}
	}},
}
