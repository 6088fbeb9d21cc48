package batcher

import (
	"runtime"
	"time"
)

// Gathering is what a worker does between two batches: it waits a moment, so that
// the callers whose items were just done can hand in their next ones. Callers
// that wait for each result before they submit again are the rule.
//
// With one slot, they would otherwise fall into halves that take turns, one
// flying while the other queues. That pays the fixed cost of a flight (a sync, a
// round trip) twice for the same items, but lets callers prepare one half while
// the other flies. So one batch of all is better if the fixed cost, which is
// estimated from flights of different sizes, is most of a flight and they come
// back within it: the worker waits that long, at most, for about as many items as
// went out.
//
// With more slots flights overlap, and where the fixed cost is small halves do as
// well: nothing is gained by one batch of all.
// There the worker waits for half of what went out, so that neither the first
// caller to come back takes the slot for an item of its own, nor one flight
// grows at the cost of the others.
//
// If few come, these callers do not submit again at once, and gathering is left
// out for a while, longer each time. Meanwhile the gate is shut for anything less
// than a full batch. A batch of one item is not worth waiting after, so a lone
// caller never waits, nor does an idle batcher.
type gathering struct {
	skip    int // flights to go without
	penalty int // how many the next fruitless one will cost
	cost    costModel
}

const (
	gatherShare      = 4 // at most this fraction of the flight's time
	gatherMin        = 50 * time.Microsecond
	gatherMax        = 5 * time.Millisecond
	gatherMaxPenalty = 256
)

// costModel estimates what a flight costs that carries nothing, by a least
// squares fit of flight times against sizes in which older flights count less and
// less. As long as the sizes hardly differ the last estimate stands.
type costModel struct {
	n, t, nn, nt float64 // moving averages of size, time, and their products
	fixed        time.Duration
	known        bool
}

const costWeight = 1.0 / 16

func (c *costModel) observe(size int, took time.Duration) {
	n, t := float64(size), float64(took)
	if c.n == 0 {
		c.n, c.t, c.nn, c.nt = n, t, n*n, n*t
		return
	}
	c.n += (n - c.n) * costWeight
	c.t += (t - c.t) * costWeight
	c.nn += (n*n - c.nn) * costWeight
	c.nt += (n*t - c.nt) * costWeight
	variance := c.nn - c.n*c.n
	if variance < c.n*c.n/64 {
		return
	}
	perItem := max(0, (c.nt-c.n*c.t)/variance)
	c.fixed, c.known = time.Duration(max(0, c.t-perItem*c.n)), true
}

// expect returns how many items should be queued after the batch of f, counted
// from how many, and how long they are worth waiting for.
func (b *Batcher[T]) expect(f *flight[T]) (from, target int, d time.Duration) {
	n := len(f.batch)
	from, d = b.queue.len, min(f.took/gatherShare, gatherMax)
	if f.landing {
		from = f.queued
	}
	c := &b.gathering.cost
	if b.cfg.InFlight > 1 || c.known && 2*c.fixed < f.took {
		target = min((n+1)/2, b.cfg.MaxItems)
		return min(from, target), target, d
	}
	if c.known {
		d = min(d, c.fixed)
	}
	return from, min(from+n-n/16, b.cfg.MaxItems), d
}

// Landing may be called by Flush, once, when it is about to tell callers the
// results of its batch. From there on submissions count as theirs; without it,
// only from the end of the flush, when the first of them may be back already.
func (b *Batcher[T]) Landing(batch []*Ticket[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.flights {
		if &f.batch[0] == &batch[0] {
			f.landing, f.queued = true, b.queue.len
		}
	}
}

// gather waits for the items that are expected after the batch of f.
func (b *Batcher[T]) gather(f *flight[T]) {
	b.mu.Lock()
	from, target, d := b.expect(f)
	switch {
	case len(f.batch) < 2:
		b.mu.Unlock()
		return
	case b.closed || b.full():
		b.mu.Unlock()
		return
	case b.queue.len >= target:
		b.mu.Unlock()
		runtime.Gosched() // stragglers would wait for the flights of others
		return
	case d < gatherMin:
		// Too short for a timer: let those run who are ready to.
		b.mu.Unlock()
		runtime.Gosched()
		return
	case b.gathering.skip > 0:
		b.gathering.skip--
		b.mu.Unlock()
		return
	}
	if f.wake == nil {
		f.wake = make(chan struct{}, 1)
		f.timer = time.NewTimer(d)
	} else {
		f.timer.Reset(d)
	}
	f.target = target
	b.gatherers = append(b.gatherers, f)
	b.mu.Unlock()

	select {
	case <-f.wake:
		f.timer.Stop()
		runtime.Gosched() // as above
	case <-f.timer.C:
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	for i, g := range b.gatherers {
		if g == f {
			b.gatherers = append(b.gatherers[:i], b.gatherers[i+1:]...)
			break
		}
	}
	select {
	case <-f.wake: // it came together with the timer
	default:
	}
	switch got, hoped := b.queue.len-from, target-from; {
	case got < 0: // another worker took them
	case 2*got >= hoped:
		b.gathering.penalty = 0
	default:
		b.gathering.penalty = min(max(2*b.gathering.penalty, 4), gatherMaxPenalty)
		b.gathering.skip = b.gathering.penalty
	}
}

// gathered wakes the workers that wait for no more than what is queued now.
func (b *Batcher[T]) gathered() {
	for _, f := range b.gatherers {
		if b.queue.len >= f.target || b.closed || b.full() {
			select {
			case f.wake <- struct{}{}:
			default:
			}
		}
	}
}
