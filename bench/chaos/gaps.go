package main

import (
	"sync"
	"time"
)

// shortGap is the time without an acknowledgement that is not worth noting.
const shortGap = 20 * time.Millisecond

// gap is a time without an acknowledgement.
type gap struct{ from, to time.Time }

func (g gap) length() time.Duration { return g.to.Sub(g.from) }

// gaps watches the acknowledgements of commits.
type gaps struct {
	mu      sync.Mutex
	last    time.Time
	longest gap
	list    []gap
}

// start begins the watch.
func (g *gaps) start(t time.Time) {
	g.mu.Lock()
	g.last = t
	g.mu.Unlock()
}

// ack notes an acknowledgement.
func (g *gaps) ack(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	this := gap{g.last, t}
	if this.length() > g.longest.length() {
		g.longest = this
	}
	if this.length() > shortGap {
		g.list = append(g.list, this)
	}
	if t.After(g.last) {
		g.last = t
	}
}

// within returns the longest gap that has a part between from and to.
func (g *gaps) within(from, to time.Time) gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	var best gap
	for i := len(g.list) - 1; i >= 0 && g.list[i].to.After(from); i-- {
		if this := g.list[i]; this.from.Before(to) && this.length() > best.length() {
			best = this
		}
	}
	return best
}

func (g *gaps) max() gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.longest
}

// over returns the gaps that were longer than d.
func (g *gaps) over(d time.Duration) []gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []gap
	for _, this := range g.list {
		if this.length() > d {
			list = append(list, this)
		}
	}
	return list
}
