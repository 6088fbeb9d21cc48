package batcher

import (
	"context"
	"fmt"
	"time"
)

// Leftover says what Close found when it gave up waiting.
type Leftover struct {
	// Unsent is the number of items that were given to Drop.
	Unsent int
	// InFlight is the number of items whose flush had not returned.
	InFlight int
}

// Close stops admission (callers waiting for room get ErrClosed) and waits until
// everything admitted is done and every call of Drop and Overdue has returned. If
// ctx ends first it gives up: items that were not sent go to Drop with ErrClosed,
// the context of the flushes in flight ends, and Close waits for them to return.
// It returns what was left over, and the context's error wrapped if anything was.
// Closing again, or at the same time, waits in the same way.
func (b *Batcher[T]) Close(ctx context.Context) (Leftover, error) {
	b.mu.Lock()
	b.closed = true
	b.adm.refuse()
	b.gathered()
	idle := b.whenIdle()
	b.mu.Unlock()

	select {
	case <-idle:
		b.finish()
		return Leftover{}, nil
	case <-ctx.Done():
	}

	b.mu.Lock()
	b.telling++
	var unsent []*Ticket[T]
	for t := b.age.head; t != nil; t = t.ageNext {
		if t.state != inFlight {
			unsent = append(unsent, t)
		}
	}
	// Youngest first, so that no item comes forward when the one before it goes.
	for i := len(unsent) - 1; i >= 0; i-- {
		b.drop(unsent[i])
	}
	left := Leftover{Unsent: len(unsent), InFlight: b.flying}
	b.mu.Unlock()

	b.abort(ErrClosed)
	if b.cfg.Drop != nil {
		for _, t := range unsent {
			b.cfg.Drop(t, ErrClosed)
		}
	}
	b.told()
	<-idle
	b.finish()
	if left.Unsent == 0 && left.InFlight == 0 {
		return left, nil
	}
	return left, fmt.Errorf("batcher: close gave up: %w", ctx.Err())
}

// whenIdle returns a channel that is closed when nothing is pending. It is
// called with the lock held, after closed was set.
func (b *Batcher[T]) whenIdle() <-chan struct{} {
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.checkIdle()
	return idle
}

// checkIdle wakes those who wait for the batcher to be idle, if it is.
func (b *Batcher[T]) checkIdle() {
	if b.idle != nil && b.age.len == 0 && b.telling == 0 {
		close(b.idle)
		b.idle = nil
	}
}

func (b *Batcher[T]) finish() {
	b.abort(ErrClosed)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over = true
		close(b.quit)
	}
	for _, t := range []*time.Timer{b.timer, b.gateTimer} {
		if t != nil {
			t.Stop()
		}
	}
}
