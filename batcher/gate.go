package batcher

import "time"

// The gate decides whether a free slot is used for what is queued.
//
// When nothing is in flight whatever is queued goes at once. Otherwise a free
// slot is used only for a batch worth a request of its own: one that is full, or
// that holds about as many items as are in flight already. So a steady load
// settles at a few batches of equal size that take turns, instead of a stream of
// small ones: each request has a fixed cost, and splitting the same items over
// more requests lowers the throughput of all.
//
// A flight that takes much longer than flights usually do may never end, and
// does not count: what is queued behind it goes as if it were not there, as long
// as there are free slots.

// A flight is late after this many times the usual duration, within bounds: the
// lower keeps scheduling noise out, the upper bounds what a stuck flight can
// cost the items of others.
const (
	lateFactor = 4
	lateMin    = 10 * time.Millisecond
	lateMax    = 200 * time.Millisecond
)

func (b *Batcher[T]) full() bool {
	return b.queue.len >= b.cfg.MaxItems || b.queue.bytes >= b.cfg.MaxBytes
}

// sendable reports whether a batch should be sent now.
func (b *Batcher[T]) sendable() bool {
	switch {
	case b.queue.len == 0 || len(b.flights)+b.between >= b.cfg.InFlight:
		return false
	case b.full():
		return true
	case b.between > 0:
		return false // whoever comes back from its batch takes it
	}
	counted, flights := b.flying, len(b.flights)
	for _, f := range b.flights {
		if f.late {
			counted -= len(f.batch)
			flights--
		}
	}
	if flights == 0 || b.queue.len >= counted-counted/4 {
		return true
	}
	b.watchFlights()
	return false
}

// measure notes how long a flight took that has ended.
func (b *Batcher[T]) measure(took time.Duration) {
	if b.usual == 0 {
		b.usual = took
	} else {
		b.usual += (took - b.usual) / 8
	}
}

func (b *Batcher[T]) lateAfter() time.Duration {
	if b.usual > lateMax/lateFactor {
		return lateMax
	}
	return max(lateFactor*b.usual, lateMin)
}

// watchFlights makes sure that somebody looks when the oldest flight that the
// gate counts becomes late. There is always one when the gate is shut.
func (b *Batcher[T]) watchFlights() {
	if b.gateArmed {
		return
	}
	b.gateArmed = true
	var oldest time.Time
	for _, f := range b.flights {
		if !f.late && (oldest.IsZero() || f.start.Before(oldest)) {
			oldest = f.start
		}
	}
	d := time.Until(oldest.Add(b.lateAfter()))
	if b.gateTimer == nil {
		b.gateTimer = time.AfterFunc(d, b.passLate)
	} else {
		b.gateTimer.Reset(d)
	}
}

// passLate marks the flights that have become late and lets the queue pass them.
func (b *Batcher[T]) passLate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gateArmed = false
	after := b.lateAfter()
	for _, f := range b.flights {
		if time.Since(f.start) >= after {
			f.late = true
		}
	}
	b.startWorkers()
}
