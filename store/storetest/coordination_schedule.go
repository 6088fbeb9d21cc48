package storetest

import (
	"sync"
	"time"

	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/engine"
)

func (c *coord) schedule(p *coordination.Provider, name string) *coordination.Schedule {
	c.Helper()
	s, err := p.Schedule(name)
	c.must(err)
	return s
}

func (c *coord) claims(s *coordination.Schedule, due time.Time, want bool) {
	c.Helper()
	if won, err := s.Claim(c.ctx, due); err != nil || won != want {
		c.Errorf("claim of %v: %v, %v, want %v", due, won, err, want)
	}
}

var scheduleCases = []coordinationCase{
	{promise: "only a moment later than the last can be claimed", run: func(c *coord) {
		s, other := c.schedule(c.p, "report"), c.schedule(c.another(), "report")
		if at, ok, err := s.LastFired(c.ctx); ok || err != nil {
			c.Errorf("fired at %v before the first claim, %v", at, err)
		}
		c.claims(s, noon, true)
		c.claims(other, noon, false)
		c.claims(other, noon.Add(-time.Hour), false)
		c.claims(other, noon.Add(time.Microsecond), true)
		c.claims(c.schedule(c.p, "report/2"), noon, true)
		if at, ok, err := s.LastFired(c.ctx); err != nil || !ok || !at.Equal(noon.Add(time.Microsecond)) {
			c.Errorf("last fired at %v, %v, %v", at, ok, err)
		}
	}},
	{promise: "of all who claim a moment one wins", run: func(c *coord) {
		const moments = 10
		var mu sync.Mutex
		wins := make(map[int]int)
		c.crowd(4, func(p *coordination.Provider) {
			s := c.schedule(p, "report")
			for i := range moments {
				won, err := s.Claim(c.ctx, noon.Add(time.Duration(i)*time.Second))
				if err != nil {
					c.Error(err)
				}
				if won {
					mu.Lock()
					wins[i]++
					mu.Unlock()
				}
			}
		})
		for i, n := range wins {
			if n != 1 {
				c.Errorf("moment %d was won %d times", i, n)
			}
		}
		if wins[moments-1] != 1 {
			c.Errorf("the last moment was not won: %v", wins)
		}
	}},
	{promise: "a claim tells the truth after lost answers and doubled requests", run: func(c *coord) {
		s := c.schedule(c.p, "report")
		due := noon
		for _, faults := range [][]fault{{answerLost}, {requestLost}, {twiceFirst}, {twiceSecond}, {answerLost, answerLost, requestLost}, {resultsLost}} {
			due = due.Add(time.Second)
			c.tap.play(faults...)
			c.claims(s, due, true)
			c.claims(s, due, false)
			c.tap.play(faults...)
			c.claims(s, due, false)
		}
		c.tap.play(unavailable)
		won, err := s.Claim(c.ctx, due.Add(time.Second))
		if won || engine.OutcomeOf(err) != engine.NotApplied {
			c.Errorf("without a database: %v, %v", won, err)
		}
	}},
	{promise: "a claim that was overtaken before its answer came is unknown, not lost", run: func(c *coord) {
		s, other := c.schedule(c.p, "report"), c.schedule(c.another(), "report")
		c.tap.play(then(answerLost, func() { c.claims(other, noon.Add(time.Hour), true) }))
		won, err := s.Claim(c.ctx, noon)
		if won || engine.OutcomeOf(err) != engine.Unknown {
			c.Errorf("got %v, %v", won, err)
		}
	}},
}
