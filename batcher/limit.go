package batcher

import "time"

// arm makes sure that the timer fires by the deadline. Deadlines only grow, so a
// timer that is armed already fires early enough.
func (b *Batcher[T]) arm(deadline time.Time) {
	if b.armed {
		return
	}
	b.armed = true
	d := time.Until(deadline)
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.expire)
	} else {
		b.timer.Reset(d)
	}
}

// expire handles the items whose time limit has passed: those still queued are
// dropped, those in flight are reported once.
func (b *Batcher[T]) expire() {
	var dropped, overdue []*Ticket[T]
	b.mu.Lock()
	b.armed = false
	b.telling++
	now := time.Now()
	t := b.age.head
	for t != nil && !t.deadline.After(now) {
		next := t.ageNext
		switch {
		case t.state != inFlight:
			b.drop(t)
			dropped = append(dropped, t)
		case !t.overdue:
			t.overdue = true
			overdue = append(overdue, t)
		}
		t = next
	}
	if t != nil {
		b.arm(t.deadline)
	}
	b.startWorkers()
	b.mu.Unlock()

	if b.cfg.Drop != nil {
		for _, t := range dropped {
			b.cfg.Drop(t, ErrExpired)
		}
	}
	if b.cfg.Overdue != nil {
		for _, t := range overdue {
			b.cfg.Overdue(t)
		}
	}
	b.told()
}

// told ends a round of calls to Drop or Overdue, which Close waits for. The round
// begins, by counting it in telling, before the items leave the books.
func (b *Batcher[T]) told() {
	b.mu.Lock()
	b.telling--
	b.checkIdle()
	b.mu.Unlock()
}
