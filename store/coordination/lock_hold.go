package coordination

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// newToken returns a token that nobody else has: 130 random bits.
func newToken() string { return rand.Text() }

const kindLock = "lock"

// leaving is why a lease is given back before it ends.
type leaving uint8

const (
	released leaving = iota // the holder has done with it
	unused                  // nobody has ever known of it
	lapsed                  // the holder had to take it for lost
)

// hold is what a holder knows about its lease. Once it is over it stays over: a
// lease that ended is never taken back, also if the database would allow it.
type hold struct {
	p     *Provider
	kind  string // kindLock, "read lock", "write lock"
	name  string
	token string
	lease time.Duration

	// renewal returns the statement that prolongs the lease: one row changes if it
	// is still held.
	renewal func() engine.Statement
	// vacating returns the list that gives it back; a row of its last statement
	// changes if it was still held.
	vacating func(why leaving) []engine.Statement
	// vacated tells, from a read, whether the token was released in time.
	vacated func(ctx context.Context) (bool, error)
	// freed is called once, when it is over.
	freed func()

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	until   time.Time
	timer   *time.Timer
	over    error // why it is over, or nil
	leaving bool  // a release began: it is no longer certain, but not over
	unclear bool  // a release was sent that has no answer
	isFreed bool

	due     time.Time // of the next renewal in the background; guarded by Provider.mu
	failing bool      // the last one failed; the renewer's
}

// start begins the life of a hold whose lease was asked for at the moment sent. It
// returns true, or ErrLost if the lease has ended already.
func (h *hold) start(sent time.Time) (bool, error) {
	until := sent.Add(h.lease)
	left := time.Until(until)
	if left <= 0 {
		return false, ErrLost
	}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = until
	h.timer = time.AfterFunc(left, h.tick)
	return true, nil
}

// tick ends the hold if its time is up.
func (h *hold) tick() {
	h.mu.Lock()
	if left := time.Until(h.until); h.over == nil && left > 0 {
		h.timer.Reset(left)
		h.mu.Unlock()
		return
	}
	h.endLocked(ErrLost)
}

// endLocked makes it over, once, and lets go of the lock of h.
func (h *hold) endLocked(why error) {
	if h.over == nil {
		h.over = why
		h.timer.Stop()
	}
	free := !h.isFreed
	h.isFreed = true
	h.mu.Unlock()
	h.p.keepNoMore(h)
	if free {
		h.freed() // first, so that who waits for the context can acquire again
	}
	h.cancel(why)
}

// extend notes that the lease was renewed by a request made at the moment sent. It
// returns false if the holder had to take it for lost by now.
func (h *hold) extend(sent time.Time) bool {
	h.mu.Lock()
	if h.over == nil && !time.Now().Before(h.until) {
		h.endLocked(ErrLost)
		return false
	}
	defer h.mu.Unlock()
	if h.over != nil {
		return false
	}
	if until := sent.Add(h.lease); until.After(h.until) {
		h.until = until
	}
	return true
}

// lose notes that the database does not know the lease any longer.
func (h *hold) lose() {
	h.mu.Lock()
	if h.leaving {
		// A release on its way explains it.
		h.mu.Unlock()
		return
	}
	h.endLocked(ErrLost)
}

// state returns nil while it is certain that the lease is held.
func (h *hold) state() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over != nil:
		return h.over
	case h.leaving:
		return ErrNotHeld
	case !time.Now().Before(h.until):
		return ErrLost
	}
	return nil
}

func (h *hold) fail(op string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return &Error{op + " " + h.kind, h.name, err}
}

// Context returns a context that ends as soon as it is no longer certain that the
// lease is held: when it was released or lost, or its time is up by the monotonic
// clock of this process. Its cause is then [ErrNotHeld] or [ErrLost]. Use it for the
// work that needs the lock. A process that was paused notices a moment after it goes
// on; where that is too late, ask Valid, or let the fencing token decide.
func (h *hold) Context() context.Context { return h.ctx }

// Valid reports whether it is certain, at this very moment, that the lease is held.
func (h *hold) Valid() bool { return h.state() == nil }

// Until returns the time up to which the lease is certain, unless it is released or
// renewed before: the moment before it was asked for, plus the lease. It carries a
// monotonic reading and so does not move when the clock is set.
func (h *hold) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// Renew prolongs the lease to its full length from now. It blocks until the answer
// is there or ctx ends. [ErrLost] means that the lease ended or that another has it:
// it is over then, and never taken back. [ErrNotHeld] means that it was released.
// After any other error, one of the database's, it may have been renewed or not, and
// is certain until [Held.Until] only; calling again is safe.
func (h *hold) Renew(ctx context.Context) error {
	if err := h.state(); err != nil {
		return h.fail("renew", err)
	}
	sent := time.Now()
	res, err := h.p.submit(ctx, h.name, []engine.Statement{h.renewal()}, false)
	if err == nil {
		err = h.renewed(sent, res[0].RowsAffected)
	}
	if err != nil {
		return h.fail("renew", err)
	}
	return nil
}

// renewed takes the answer to a renewal.
func (h *hold) renewed(sent time.Time, rows int64) error {
	if rows == 0 {
		h.lose()
		return h.state()
	}
	if !h.extend(sent) {
		over := h.state()
		if over == ErrLost {
			// The answer came too late to be of use. The row must not stay behind
			// without an owner.
			h.abandon(lapsed)
		}
		return over
	}
	return nil
}

// Release gives the lock back. It is over for the holder at once, before anything is
// sent. The request is carried out even if ctx ends, in the background, for at most
// the provider's time limit; ctx bounds the waiting, and its end gives
// [engine.ErrOutcomeUnknown]. So a deferred Release with a cancelled context is fine, if the
// process goes on or ends with [Provider.Close], which waits for it.
//
// nil means that the lock was still held and is free now. [ErrLost] means that the
// lease had ended before. [ErrNotHeld] means that it was released before. After any
// other error it may be called again. If answers were lost, and others have held and
// released the lock in the meantime, nobody can tell any longer: that is
// [engine.ErrOutcomeUnknown] too, and the lock is not held.
func (h *hold) Release(ctx context.Context) error {
	h.mu.Lock()
	if h.over != nil {
		defer h.mu.Unlock()
		return h.fail("release", h.over)
	}
	h.leaving = true
	h.mu.Unlock()
	h.cancel(ErrNotHeld)
	h.p.keepNoMore(h)

	answer := make(chan error, 1)
	if !h.p.spawn(func(ctx context.Context) { answer <- h.vacate(ctx) }) {
		return h.fail("release", unsent(ErrClosed))
	}
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		select {
		case err = <-answer:
		default:
			err = &engine.Error{Op: "exec", Outcome: engine.Unknown, Err: context.Cause(ctx)}
		}
	}
	if err != nil {
		return h.fail("release", err)
	}
	return nil
}

// vacate sends the release until there is a definite answer or its time is up.
func (h *hold) vacate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.p.limit)
	defer cancel()
	for {
		res, err := h.p.submit(ctx, h.name, h.vacating(released), true)
		if err == nil {
			done := res[len(res)-1].RowsAffected > 0
			if !done {
				// An earlier send may have done it, by us or by a node in between.
				if done, err = h.vacated(ctx); err == errUntold && !h.isUnclear() {
					err = nil
				}
			}
			switch {
			case err == nil && done:
				h.end(ErrNotHeld)
				return nil
			case err == nil:
				h.end(ErrLost)
				return ErrLost
			case errors.Is(err, errUntold):
				h.end(ErrNotHeld)
				return &engine.Error{Op: "exec", Outcome: engine.Unknown, Err: err}
			}
			return h.told(err)
		}
		if engine.OutcomeOf(err) == engine.NotApplied {
			return h.told(err)
		}
		h.mu.Lock()
		h.unclear = true
		h.mu.Unlock()
		if !retry.Sleep(ctx, jittered(resendPause, 0.5)) {
			return err
		}
	}
}

// told returns the failure of a release, of which an earlier sending may have worked.
func (h *hold) told(err error) error {
	if h.isUnclear() {
		return doubtful(err)
	}
	return err
}

func (h *hold) isUnclear() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unclear
}

// resendPause is waited before a request without a definite answer is sent again.
const resendPause = 20 * time.Millisecond

// errUntold: too much has happened since to tell.
var errUntold = errors.New("others have held it since")

func (h *hold) end(why error) {
	h.mu.Lock()
	h.endLocked(why)
}

// abandon gives back, in the background and as well as it can, what nobody will use.
func (h *hold) abandon(why leaving) {
	h.p.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, h.p.limit)
		defer cancel()
		for {
			_, err := h.p.submit(ctx, h.name, h.vacating(why), true)
			if err == nil {
				return
			}
			if engine.OutcomeOf(err) == engine.NotApplied || !retry.Sleep(ctx, jittered(resendPause, 0.5)) {
				h.p.log.Warn("giving back what is not used failed; its lease has to end", "kind", h.kind, "name", h.name, "error", err)
				return
			}
		}
	})
}
