package batcher

import (
	"context"
	"fmt"
)

// Leftover says what Close found when it gave up waiting.
type Leftover struct {
	// Unsent is the number of items that were given to Drop.
	Unsent int
	// InFlight is the number of items whose flush had not returned.
	InFlight int
}

// Close stops admission (callers waiting for room get ErrClosed) and waits until
// everything admitted is done. If ctx ends first it gives up: items that were not
// sent go to Drop with ErrClosed, the context of the flushes in flight ends, and
// Close waits for them to return. It returns what was left over, and the
// context's error wrapped if it gave up. Closing again waits in the same way.
func (b *Batcher[T]) Close(ctx context.Context) (Leftover, error) {
	b.mu.Lock()
	b.closed = true
	b.adm.refuse()
	idle := b.whenIdle()
	b.mu.Unlock()

	select {
	case <-idle:
		b.finish()
		return Leftover{}, nil
	case <-ctx.Done():
	}

	b.mu.Lock()
	var dropped []*Ticket[T]
	for t := b.age.head; t != nil; {
		next := t.ageNext
		if t.state != inFlight {
			dropped = append(dropped, t)
		}
		t = next
	}
	// Youngest first, so that no item comes forward when the one before it goes.
	for i := len(dropped) - 1; i >= 0; i-- {
		b.remove(dropped[i])
		b.stats.Dropped++
	}
	left := Leftover{Unsent: len(dropped), InFlight: b.flying}
	b.mu.Unlock()

	b.abort(ErrClosed)
	if b.cfg.Drop != nil {
		for _, t := range dropped {
			b.cfg.Drop(t, ErrClosed)
		}
	}
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
	if b.idle != nil {
		return b.idle
	}
	ch := make(chan struct{})
	if b.age.len == 0 {
		close(ch)
	} else {
		b.idle = ch
	}
	return ch
}

func (b *Batcher[T]) finish() {
	b.abort(ErrClosed)
	b.mu.Lock()
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Unlock()
}
