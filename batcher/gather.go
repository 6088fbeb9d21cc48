package batcher

import (
	"runtime"
	"time"
)

// Gathering is what a worker does between two batches: it waits a moment, so that
// the callers whose items were just done can hand in their next ones.
//
// Callers that wait for each result before they submit again are the rule.
// Without gathering they fall into halves that take turns, one flying while the
// other queues, and every flight carries half of what it could. So after a flight
// of several items the worker waits until about as many have come in as went out,
// for at most an eighth of the time the flight took: that is what it can cost
// those who are queued already. If few come, these callers do not submit again at
// once, and gathering is left out for a while, longer each time. Meanwhile the
// gate is shut for anything less than a full batch: otherwise the first caller to
// come back would take the slot for an item of its own. A batch of one item is
// not worth waiting after, so a lone caller never waits, nor does an idle
// batcher.
type gathering struct {
	skip    int // flights to go without
	penalty int // how many the next fruitless one will cost
}

const (
	gatherShare      = 8 // at most this fraction of the flight's time
	gatherMin        = 50 * time.Microsecond
	gatherMax        = 5 * time.Millisecond
	gatherMaxPenalty = 256
)

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
	n := len(f.batch)
	if n < 2 {
		return
	}
	d := min(f.took/gatherShare, gatherMax)
	b.mu.Lock()
	from := b.queue.len
	if f.landing {
		from = f.queued
	}
	target := min(from+n-n/16, b.cfg.MaxItems)
	switch {
	case b.closed || b.full() || b.queue.len >= target:
		b.mu.Unlock()
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
	if 2*(b.queue.len-from) >= target-from {
		b.gathering.penalty = 0
	} else {
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
