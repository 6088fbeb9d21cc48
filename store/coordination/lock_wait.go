package coordination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// turns lets those in this process who wait for the same thing queue up, first
// come, first served: only the head of each queue asks the database.
type turns struct {
	queues map[string][]*turn
}

type turn struct {
	head chan struct{} // closed when it is at the head
	wake chan struct{} // gets a value when somebody in this process has released
}

// queueUp waits until the caller is at the head of the queue of key, or ctx ends:
// then it returns nil. The caller has to call stepOut.
func (p *Provider) queueUp(ctx context.Context, key string) *turn {
	t := &turn{head: make(chan struct{}), wake: make(chan struct{}, 1)}
	p.mu.Lock()
	if p.turns.queues == nil {
		p.turns.queues = make(map[string][]*turn)
	}
	q := append(p.turns.queues[key], t)
	p.turns.queues[key] = q
	if len(q) == 1 {
		close(t.head)
	}
	p.mu.Unlock()
	select {
	case <-t.head:
		return t
	case <-ctx.Done():
		p.stepOut(key, t)
		return nil
	}
}

func (p *Provider) stepOut(key string, t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.turns.queues[key]
	i := slices.Index(q, t)
	switch q = slices.Delete(q, i, i+1); {
	case len(q) == 0:
		delete(p.turns.queues, key)
		return
	case i == 0:
		close(q[0].head)
	}
	p.turns.queues[key] = q
}

// callHead tells the head of the queue of key not to sleep any longer.
func (p *Provider) callHead(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.turns.queues[key]; len(q) > 0 {
		select {
		case q[0].wake <- struct{}{}:
		default:
		}
	}
}

// contender is one call that wants something which others may hold.
type contender struct {
	p      *Provider
	queue  string
	retry  time.Duration
	jitter float64

	// try asks for it. It may be called again after any error: what it asks for is
	// its own if it was granted before.
	try func(ctx context.Context) (granted bool, err error)
	// look reports whether trying makes sense now.
	look func(ctx context.Context) (ready bool, err error)
	// withdraw gives back, in the background, what tries may have got: those that
	// were not answered, or, if leaves is true, also those that were refused.
	withdraw func()
	leaves   bool
	// together lets the first try go ahead of the queue: many may be granted.
	together bool
}

// contend tries once, or until ctx ends. A request whose answer was lost is sent
// again. If glance is true, a single try that was refused is followed by a look, and
// by another try if that makes sense. The error matches ErrWouldBlock, ErrTimeout, or
// what else was in the way.
func (c *contender) contend(ctx context.Context, wait, glance bool) (err error) {
	var turn *turn
	queueUp := func() error {
		if turn = c.p.queueUp(ctx, c.queue); turn == nil {
			return gaveUp(ctx, nil)
		}
		return nil
	}
	if wait && !c.together {
		if err := queueUp(); err != nil {
			return err
		}
	}
	began := time.Now()
	sent, unanswered := false, false
	defer func() {
		if turn != nil {
			c.p.stepOut(c.queue, turn)
		}
		if err != nil && (unanswered || sent && c.leaves) {
			c.withdraw()
		}
	}()
	// told is the failure to be returned: no longer a definite one after a lost answer.
	told := func(err error) error {
		if unanswered {
			return doubtful(err)
		}
		return err
	}
	for {
		granted, err := c.try(ctx)
		if granted {
			return nil
		}
		sent = sent || err == nil
		unanswered = unanswered || engine.OutcomeOf(err) != engine.NotApplied && err != nil
		rest := jittered(c.retry, c.jitter)
		switch outcome := engine.OutcomeOf(err); {
		case err == nil && !wait:
			if glance {
				glance = false
				if ready, err := c.look(ctx); ready && err == nil {
					continue
				}
			}
			return ErrWouldBlock
		case err == nil:
		case wait && ctx.Err() != nil:
			return gaveUp(ctx, told(err))
		case !passing(err) || outcome == engine.NotApplied && !wait:
			return told(err)
		case outcome != engine.NotApplied:
			if !wait && time.Since(began) > c.p.limit {
				return err
			}
			rest = jittered(resendPause, 0.5)
		}
		if err == nil && turn == nil {
			if err := queueUp(); err != nil {
				return err
			}
			continue
		}
		var wake chan struct{}
		if turn != nil {
			wake = turn.wake
		}
		last := err
		for ready := false; !ready; {
			if !sleep(ctx, rest, wake) {
				return gaveUp(ctx, told(last))
			}
			if last != nil {
				break
			}
			rest = jittered(c.retry, c.jitter)
			switch ready, last = c.look(ctx); {
			case last != nil && ctx.Err() != nil:
				return gaveUp(ctx, told(last))
			case last != nil && !passing(last):
				return told(last)
			}
		}
	}
}

// sleep waits for d or a wake-up. It returns false if ctx ended.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return ctx.Err() == nil
}

// gaveUp returns the error of a wait that ended with ctx; last is what was in the
// way of the latest request, if not a holder.
func gaveUp(ctx context.Context, last error) error {
	err := context.Cause(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = ErrTimeout
	}
	if last != nil && !errors.Is(last, ctx.Err()) {
		return fmt.Errorf("%w; the last attempt failed: %w", err, last)
	}
	return err
}
