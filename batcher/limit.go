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

// grace is how much longer than their limit items in flight may take, so that a
// flight that has the same limit, and perhaps a definite outcome, can tell it
// first.
func (b *Batcher[T]) grace() time.Duration { return min(b.cfg.Limit/10, 250*time.Millisecond) }

// expire handles the items whose time limit has passed: those still queued are
// dropped, those in flight are reported once.
func (b *Batcher[T]) expire() {
	var dropped, overdue []*Ticket[T]
	b.mu.Lock()
	b.armed = false
	b.telling++
	now, grace := time.Now(), b.grace()
	var waiting *Ticket[T] // the oldest in flight that still has its grace
	t := b.age.head
	for t != nil && !t.deadline.After(now) {
		next := t.ageNext
		switch {
		case t.state != inFlight:
			b.drop(t)
			dropped = append(dropped, t)
		case t.overdue:
		case !t.deadline.Add(grace).After(now):
			t.overdue = true
			overdue = append(overdue, t)
		case waiting == nil:
			waiting = t
		}
		t = next
	}
	switch {
	case waiting != nil && (t == nil || waiting.deadline.Add(grace).Before(t.deadline)):
		b.arm(waiting.deadline.Add(grace))
	case t != nil:
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
