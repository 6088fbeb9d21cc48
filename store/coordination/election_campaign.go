package coordination

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// term is a leadership of this process.
type term struct {
	Term
	ctx   context.Context
	end   context.CancelCauseFunc
	asked time.Time   // before the last successful renewal was sent
	fuse  *time.Timer // ends the term at the renew deadline
}

// over reports whether the term's time has passed. With a shared clock the lease
// ends by the time of day, which goes on while a machine is suspended, unlike the
// monotonic clock: so whichever says so first counts.
func (e *Election) over(t *term) bool {
	now, d := time.Now(), e.opts.RenewDeadline
	return now.Sub(t.asked) >= d || !e.p.noSharedClock && now.Round(0).Sub(t.asked.Round(0)) >= d
}

// Campaign stands in the election until ctx ends: it tries to lead, renews, and
// tries again after a loss, whatever errors the database gives meanwhile (they are
// logged). Once ctx ends it stops leading, releases the lease, for which it takes
// at most half of the RenewDeadline, and returns the context's cause. Before that
// it returns [ErrReentrant] if a campaign of this Election is under way, and
// [ErrClosed] once the provider or the engine is closed: end campaigns first.
//
// Work that needs the leadership is easier done by [Election.Lead].
func (e *Election) Campaign(ctx context.Context) error {
	if err := e.enter(); err != nil {
		return err
	}
	return e.campaign(ctx, ctx)
}

// enter makes sure that there is one campaign at a time.
func (e *Election) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return &Error{"campaign in election", e.name, ErrReentrant}
	}
	e.running = true
	return nil
}

func (e *Election) exit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = false
}

// Lead stands in the election like [Election.Campaign] and runs fn in each term
// that it wins, on the caller's goroutine, until fn returns from a term that still
// lasts; then it releases the lease and returns fn's error.
//
// The context of fn is derived from ctx. It ends with ctx, or with cause [ErrLost]
// when the term does: at the RenewDeadline at the latest. Fn should return soon
// after: before what the Lease leaves beyond the RenewDeadline has passed. What it
// returns then is dropped, and Lead campaigns on. Once ctx ends, the term is
// renewed until fn has returned, so that nobody else begins before; then Lead
// releases the lease and returns the context's cause. A panic of fn releases too.
//
// Errors beside those: [ErrReentrant] and [ErrClosed] as for Campaign.
func (e *Election) Lead(ctx context.Context, fn func(ctx context.Context, t Term) error) error {
	if fn == nil {
		return invalid("fn", "is nil")
	}
	if err := e.enter(); err != nil {
		return err
	}
	// The campaign goes on while fn comes to its end.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- e.campaign(running, ctx)
	}()
	defer func() {
		stop()
		for range ended {
		}
	}()
	for {
		e.mu.Lock()
		t, turn := e.term, e.turn
		e.mu.Unlock()
		if t != nil && ctx.Err() == nil {
			if done, err := leadTerm(ctx, t, fn); done {
				return err
			}
			continue
		}
		select {
		case <-turn:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// leadTerm runs fn in a term and reports whether it returned before the end of it.
func leadTerm(ctx context.Context, t *term, fn func(context.Context, Term) error) (bool, error) {
	work, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(t.ctx, func() { end(context.Cause(t.ctx)) })()
	err := fn(work, t.Term)
	return ctx.Err() == nil && t.ctx.Err() == nil, err
}

// campaign stands until ctx ends; values is the context that terms take values
// from.
func (e *Election) campaign(ctx, values context.Context) error {
	defer e.exit()
	if e.opts.OnChange != nil {
		var reporter sync.WaitGroup
		quit := make(chan struct{})
		reporter.Go(func() { e.report(quit) })
		defer reporter.Wait()
		defer close(quit)
	}
	c := candidate{Election: e, values: context.WithoutCancel(values), watched: never}
	defer c.stop()
	for {
		wait, err := c.attempt(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrClosed):
			return err
		}
		c.note(err)
		if !retry.Sleep(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// candidate is the state of one campaign.
type candidate struct {
	*Election
	values   context.Context
	informed bool // looks before it stands: at first, nobody is likely to lead
	unclear  bool // a candidacy whose answer was lost may have been won

	watched int64     // version of the row, for a takeover without a shared clock
	since   time.Time // when it was seen first

	failing time.Time // when errors began
	logged  time.Time
}

// logEvery is how often something that goes on failing is logged.
const logEvery = 30 * time.Second

func (c *candidate) note(err error) {
	now := time.Now()
	switch {
	case err == nil && !c.failing.IsZero():
		c.p.log.Info("election: the database answers again", "election", c.name, "after", now.Sub(c.failing))
		c.failing = time.Time{}
	case err == nil:
	case c.failing.IsZero() || now.Sub(c.logged) >= logEvery:
		if c.failing.IsZero() {
			c.failing = now
		}
		c.logged = now
		c.p.log.Warn("election: an attempt failed", "election", c.name, "error", err)
	}
}

// attempt renews, or looks and stands if it is worth it. It returns how long to
// wait before the next attempt.
func (c *candidate) attempt(ctx context.Context) (time.Duration, error) {
	next := c.p.nextTick(c.opts.Retry, c.opts.Jitter)
	c.mu.Lock()
	t, seen, holder := c.term, c.seen, c.holder
	if t != nil && c.over(t) {
		c.endTerm(t, ErrLost)
		t = nil
	}
	rest := time.Until(c.sitOut)
	c.mu.Unlock()
	if t == nil && rest > 0 {
		return rest, nil
	}
	// An answer that takes longer is given up, so that there is time to ask again
	// before the deadline.
	ctx, cancel := context.WithTimeout(ctx, c.opts.RenewDeadline/3)
	defer cancel()
	if t == nil && c.informed {
		r, err := c.look(ctx)
		if err != nil {
			return next, err
		}
		if unchanged, wait, worth := c.judge(r, holder); !worth {
			c.saw(r)
			return min(next, wait), nil
		} else if err := c.stand(ctx, holder, nil, seen, unchanged); err == nil && c.leads() {
			return next, nil
		} else if err != nil {
			return next, err
		}
	} else if err := c.stand(ctx, holder, t, seen, never); err != nil || c.leads() {
		return next, err
	}
	r, err := c.look(ctx)
	if err != nil {
		return next, err
	}
	_, wait, _ := c.judge(r, holder)
	c.informed = true
	c.saw(r)
	return min(next, wait), nil
}

// nextTick returns how long to wait for d, give or take the share jitter and less up
// to an eighth. The end is on a grid that all elections of the provider share, and
// those that woke together get the same jitter: so what falls together once goes
// in one request from then on, while other processes, with other grids, have their
// own times.
func (p *Provider) nextTick(d time.Duration, jitter float64) time.Duration {
	step := max(int64(d)/8, 1)
	now := time.Now().UnixNano() + p.phase
	u := rand.New(rand.NewPCG(uint64(now/step), uint64(p.phase))).Float64()*2 - 1
	wait := int64(d) + int64(u*jitter*float64(d))
	return time.Duration(wait - (now+wait)%step)
}

// stand sends a candidacy, or the renewal of t, and enters or prolongs the term
// that was won.
func (c *candidate) stand(ctx context.Context, holder string, t *term, seen, unchanged int64) error {
	held := int64(0)
	if t != nil {
		held = t.Number
	}
	asked := time.Now()
	r, err := c.Election.stand(ctx, holder, held, seen, unchanged)
	if err != nil {
		c.unclear = c.unclear || engine.OutcomeOf(err) != engine.NotApplied
		// If requests arrive and answers do not, a candidate must not keep a lease
		// of which it does not know: from now on it looks first.
		c.informed = true
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder != holder {
		return nil // it has resigned meanwhile
	}
	if r == nil {
		if t != nil {
			c.endTerm(t, ErrLost)
		}
		return nil
	}
	c.seen = max(c.seen, r.Term)
	fresh := &term{Term: Term{Number: r.Term, Transitions: r.Transitions, Acquired: r.Acquired}, asked: asked}
	if c.over(fresh) {
		return nil // the answer came too late to believe in it
	}
	if t != nil && r.Term == t.Number {
		if c.term == t {
			t.asked = asked
			t.fuse.Reset(c.left(t))
			c.leader = r.Leader
		}
		return nil
	}
	if t != nil {
		c.endTerm(t, ErrLost) // somebody removed the row
	}
	c.unclear = false
	fresh.ctx, fresh.end = context.WithCancelCause(c.values)
	fresh.fuse = time.AfterFunc(c.left(fresh), func() { c.burn(fresh) })
	c.term, c.leader = fresh, r.Leader
	c.changed()
	return nil
}

// burn ends the term at its deadline, unless it was prolonged just then.
func (e *Election) burn(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over(t):
		e.endTerm(t, ErrLost)
	case e.term == t:
		t.fuse.Reset(e.left(t))
	}
}

// left is how long the term lasts unless it is renewed.
func (e *Election) left(t *term) time.Duration {
	return time.Until(t.asked.Add(e.opts.RenewDeadline))
}

// endTerm ends the term, if it has not ended. The lock is held.
func (e *Election) endTerm(t *term, cause error) {
	t.fuse.Stop()
	t.end(cause)
	if e.term == t {
		e.term, e.leader = nil, Leader{}
		e.changed()
	}
}

// changed wakes whoever waits for a change. The lock is held.
func (e *Election) changed() {
	close(e.turn)
	e.turn = make(chan struct{})
}

func (e *Election) leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term != nil
}

// judge says whether a row, just read, is worth standing for: it is, if nobody's
// lease lives. It returns the version of a row that nobody has renewed for a whole
// lease, where no clock is shared, or never; and how long the row is surely not worth
// it.
func (c *candidate) judge(r *electionRow, holder string) (unchanged int64, wait time.Duration, worth bool) {
	spread := time.Duration(0)
	if c.opts.Jitter > 0 {
		spread = jittered(c.opts.Retry, c.opts.Jitter) / 8 // so that not all come at once
	}
	switch {
	case r.Holder == "" || r.expires == 0 || r.Holder == holder:
		return never, 0, true
	case !c.p.noSharedClock:
		return never, r.remaining + spread, r.remaining <= 0
	}
	if now := time.Now(); c.watched != r.version {
		c.watched, c.since = r.version, now
	} else if now.Sub(c.since) >= r.Lease {
		return r.version, 0, true
	}
	return never, time.Until(c.since.Add(r.Lease)) + spread, false
}

// saw takes notice of who leads.
func (e *Election) saw(r *electionRow) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = max(e.seen, r.Term)
	if e.term != nil {
		return
	}
	var l Leader
	if e.live(r) && r.Holder != e.holder {
		l = r.Leader
	}
	was := e.leader
	if e.leader = l; was.Holder != l.Holder || was.Term != l.Term {
		e.changed()
	}
}

// stop ends the term, first here and then in the database.
func (c *candidate) stop() {
	c.mu.Lock()
	t, number := c.term, int64(0)
	if t != nil {
		number = t.Number
		c.endTerm(t, errResigned)
	}
	c.leader = Leader{}
	if t == nil && !c.unclear {
		c.mu.Unlock()
		return
	}
	holder := c.newHolder()
	c.mu.Unlock()
	if c.unclear {
		number = 0 // whichever term the lost answer was about
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.values), c.opts.RenewDeadline/2)
	defer cancel()
	if err := c.release(ctx, holder, number); err != nil && !errors.Is(err, ErrLost) {
		c.p.log.Warn("election: the lease was not released and ends by itself", "election", c.name, "error", err)
	}
}

// report calls OnChange for what has changed since it was called last.
func (e *Election) report(quit <-chan struct{}) {
	var last Change
	for ending := false; ; {
		e.mu.Lock()
		now, turn := Change{Leading: e.term != nil, Leader: e.leader}, e.turn
		e.mu.Unlock()
		if now.Leading != last.Leading || now.Leader.Holder != last.Leader.Holder || now.Leader.Term != last.Leader.Term {
			e.opts.OnChange(now)
			last = now
		}
		if ending {
			return
		}
		select {
		case <-turn:
		case <-quit:
			ending = true
		}
	}
}
