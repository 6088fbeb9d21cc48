package client

import (
	"context"
	"time"

	"go.uber.org/ratelimit"

	"github.com/quorate/quorate/store/engine"
)

// rateLimit hands out permits at a bounded rate. One goroutine takes them from a
// ratelimit.Limiter, whose Take knows no context, and passes them on over a
// channel, where callers can give up. It takes a permit only when somebody asks
// for one; a permit that its caller did not wait for goes to the next caller.
type rateLimit struct {
	ask   chan struct{} // a caller receives from it to have a permit taken
	grant chan struct{}
	done  chan struct{} // closed to end the goroutine
	ended chan struct{} // closed when it has ended
}

func newRateLimit(perSecond float64, burst int) *rateLimit {
	l := &rateLimit{
		ask:   make(chan struct{}),
		grant: make(chan struct{}),
		done:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	interval := max(time.Duration(float64(time.Second)/perSecond), 1)
	// After a pause the limiter lets slack+1 through at once.
	limiter := ratelimit.New(1, ratelimit.Per(interval), ratelimit.WithSlack(burst-1), ratelimit.WithClock(limitClock{l.done}))
	go l.run(limiter, interval)
	return l
}

func (l *rateLimit) run(limiter ratelimit.Limiter, interval time.Duration) {
	defer close(l.ended)
	expiry := time.NewTimer(interval)
	defer expiry.Stop()
	for {
		select {
		case l.ask <- struct{}{}:
		case <-l.done:
			return
		}
		limiter.Take()
		// A permit that nobody takes for a whole interval is one that the limiter
		// has in store by now; kept beside that it would be one too many.
		expiry.Reset(interval)
		select {
		case l.grant <- struct{}{}:
		case <-expiry.C:
		case <-l.done:
			return
		}
	}
}

// wait blocks until there is a permit, ctx ends, or the limit is closed; then it
// returns nil, the context's error, or engine.ErrClosed.
func (l *rateLimit) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		select {
		case <-l.ask:
		case <-l.grant:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-l.done:
			return engine.ErrClosed
		}
	}
}

// close ends the goroutine and all waits, and returns when it has ended.
func (l *rateLimit) close() {
	close(l.done)
	<-l.ended
}

// limitClock is the time package's clock, with a sleep that close cuts short.
type limitClock struct{ done <-chan struct{} }

func (limitClock) Now() time.Time { return time.Now() }

func (c limitClock) Sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.done:
	}
}
