package coordination

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// LockOptions set up a [Lock]. Zero fields take the defaults named with them.
type LockOptions struct {
	// Lease is how long the lock is held without being renewed; a holder that dies
	// blocks the others for that long. At least 1 ms. Default 60 s, or 15 s with
	// KeepAlive.
	Lease time.Duration

	// Retry is how long a waiting call pauses between looks at the lock. At least
	// 1 ms. Default 100 ms.
	Retry time.Duration

	// Jitter is the share of Retry by which each pause varies at random, up to 1.
	// Default 0.1; a negative value means none.
	Jitter float64

	// KeepAlive renews the lease in the background, each time a third of it has
	// passed, until the handle is released or the provider closed. Errors are
	// survived until the lease ends. All leases of a provider that are due go in one
	// request.
	KeepAlive bool

	// MinHold keeps the lock closed, for everybody, until so much time has passed
	// since it was acquired, also if it is released before: for a job that must not
	// run twice within a period, however short it is. At most Lease. Default 0.
	MinHold time.Duration
}

func (o *LockOptions) complete(kind string) error {
	lease := time.Minute
	if o.KeepAlive {
		lease = 15 * time.Second
	}
	for _, f := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{{"Lease", &o.Lease, lease}, {"Retry", &o.Retry, 100 * time.Millisecond}} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < time.Millisecond {
			return invalid(kind+"."+f.name, "is shorter than 1 ms")
		}
		if *f.v > longestLease {
			return invalid(kind+"."+f.name, "is longer than 100 years")
		}
	}
	switch {
	case o.Jitter == 0:
		o.Jitter = 0.1
	case o.Jitter < 0:
		o.Jitter = 0
	case !(o.Jitter <= 1):
		return invalid(kind+".Jitter", "is above 1")
	}
	switch {
	case o.MinHold < 0:
		return invalid(kind+".MinHold", "is negative")
	case o.MinHold > o.Lease:
		return invalid(kind+".MinHold", "is longer than the lease")
	}
	return nil
}

// longestLease keeps deadlines far from the end of the integers.
const longestLease = 100 * 365 * 24 * time.Hour

// Lock is a named lock that at most one handle in the whole database holds. It is
// not reentrant: an object that holds it, or waits for it, refuses to acquire it
// again, so make one object for each goroutine that contends; they are cheap. It is
// safe for concurrent use. See [Provider.Lock].
type Lock struct {
	p    *Provider
	name string
	opts LockOptions

	mu   sync.Mutex
	busy bool
	seen watched // whose it is to use who has set busy
}

// Lock returns a lock. Nothing is sent. The error is [ErrInvalidName] (see
// [NameError]) or [ErrInvalid].
func (p *Provider) Lock(name string, opts LockOptions) (*Lock, error) {
	if err := checkName("lock", name); err != nil {
		return nil, err
	}
	if err := opts.complete("LockOptions"); err != nil {
		return nil, err
	}
	return &Lock{p: p, name: name, opts: opts}, nil
}

// Name returns the lock's name.
func (l *Lock) Name() string { return l.name }

// Held is the handle of a lock that was acquired. Its methods are safe for
// concurrent use.
type Held struct {
	hold
	fence int64
}

// Name returns the lock's name.
func (h *Held) Name() string { return h.name }

// Token returns the fencing token: a positive number that is larger than those of
// all who held this lock before, for the life of the database. Give it to what the
// lock protects, and let that refuse a smaller one than it has seen: then not even a
// holder that was paused beyond its lease does harm.
func (h *Held) Token() int64 { return h.fence }

// Acquire takes the lock, and waits for it until ctx ends. Those who wait in one
// process are served first come, first served, and only the first of them asks the
// database; between processes there is no order.
//
// While the database is unavailable it goes on trying. When ctx ends, the error is
// [ErrTimeout] after a deadline, else the context's; if the request on its way then
// still gets the lock, it is given back in the background. Other errors:
// [ErrReentrant], [ErrClosed], and those of the engine which time does not heal.
func (l *Lock) Acquire(ctx context.Context) (*Held, error) { return l.acquire(ctx, true) }

// TryAcquire takes the lock if nobody holds it, by one request; it is sent again
// only if its answer is lost, for at most the provider's time limit. Errors:
// [ErrWouldBlock] if another holds it, [ErrReentrant], and those of the engine. After
// an error that is [engine.ErrOutcomeUnknown] the lock is given back in the
// background, if it was taken.
func (l *Lock) TryAcquire(ctx context.Context) (*Held, error) { return l.acquire(ctx, false) }

func (l *Lock) acquire(ctx context.Context, wait bool) (*Held, error) {
	if !l.enter() {
		return nil, &Error{"acquire lock", l.name, ErrReentrant}
	}
	h, err := l.contend(ctx, wait)
	if err != nil {
		l.leave()
		return nil, &Error{"acquire lock", l.name, err}
	}
	return h, nil
}

func (l *Lock) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	entered := !l.busy
	l.busy = true
	return entered
}

func (l *Lock) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
}

func (l *Lock) contend(ctx context.Context, wait bool) (*Held, error) {
	h := &Held{hold: hold{p: l.p, kind: kindLock, name: l.name, token: newToken(), lease: l.opts.Lease}}
	var sent time.Time // when the request left that got it
	h.renewal = func() engine.Statement { return l.p.lockRenew(h.name, h.token, h.lease) }
	h.vacating = func(why leaving) []engine.Statement {
		var linger time.Duration
		if why == released && l.opts.MinHold > 0 {
			linger = l.opts.MinHold - time.Since(sent)
		}
		return []engine.Statement{l.p.lockRelease(h.name, h.token, linger)}
	}
	h.vacated = func(ctx context.Context) (bool, error) { return l.p.lockVacated(ctx, h.name, h.token) }
	queue := "lock " + l.name
	h.freed = func() {
		l.leave()
		l.p.callHead(queue)
	}

	ready := int64(never) // the version at which it may be taken over
	c := contender{
		p: l.p, queue: queue, retry: l.opts.Retry, jitter: l.opts.Jitter,
		try: func(ctx context.Context) (bool, error) {
			sent = time.Now()
			res, err := l.p.submit(ctx, l.name, []engine.Statement{l.p.lockAcquire(l.name, h.token, l.opts.Lease, ready)}, false)
			if err != nil || res[0].Len() == 0 {
				return false, err
			}
			h.fence, _ = res[0].Row(0)[0].Int()
			return h.start(sent)
		},
		look: func(ctx context.Context) (bool, error) {
			row, err := l.p.lockRow(ctx, l.name)
			if err != nil {
				return false, err
			}
			if !row.live {
				ready = never
				return true, nil
			}
			if l.p.noSharedClock && l.seen.unchanged(row.version, row.lease) {
				ready = row.version
				return true, nil
			}
			return false, nil
		},
		withdraw: func() { h.abandon(unused) },
	}
	if err := c.contend(ctx, wait, l.p.noSharedClock); err != nil {
		return nil, err
	}
	if l.opts.KeepAlive {
		l.p.keep(&h.hold, sent)
	}
	return h, nil
}

// LockState is a picture of a lock: see [Lock.State].
type LockState struct {
	// Held tells whether somebody holds it, or it is kept closed by MinHold.
	Held bool
	// Token is the fencing token of the latest holder, 0 if there was none.
	Token int64
}

// State returns how the lock is at this moment, by one linearizable read; it may be
// otherwise when the answer is there. Without a shared clock a holder that died
// counts until somebody has taken over. Errors are those of the engine.
func (l *Lock) State(ctx context.Context) (LockState, error) {
	var row lockRow
	err := l.p.usable()
	if err == nil {
		row, err = l.p.lockRow(ctx, l.name)
	}
	if err != nil {
		return LockState{}, &Error{"look at lock", l.name, err}
	}
	return LockState{Held: row.live, Token: row.fence}, nil
}

// watched is a version of a row and since when it was seen, on the own monotonic
// clock.
type watched struct {
	version int64
	since   time.Time
}

// unchanged notes the version that a read has shown, and reports whether it was
// seen for a whole lease. It counts from the answer to the first read on, which is
// later than the request by which the holder got that version.
func (w *watched) unchanged(version int64, lease time.Duration) bool {
	if now := time.Now(); w.since.IsZero() || w.version != version {
		w.version, w.since = version, now
	}
	return time.Since(w.since) >= lease
}

// lockRow is a row of quorate_locks.
type lockRow struct {
	token, released string
	fence, version  int64
	lease           time.Duration
	live            bool
}

// lockRow reads a row; that of an unknown name is vacant.
func (p *Provider) lockRow(ctx context.Context, name string) (lockRow, error) {
	res, err := p.query(ctx, engine.Linearizable, p.lockLook(name))
	if err != nil || res[0].Len() == 0 {
		return lockRow{}, err
	}
	row := res[0].Row(0)
	var r lockRow
	r.token, _ = row[0].Text()
	r.released, _ = row[1].Text()
	r.fence, _ = row[2].Int()
	r.version, _ = row[3].Int()
	r.lease = microseconds(row[4])
	r.live = isOne(row[5])
	return r, nil
}

// lockVacated finds out what became of a release whose answer was lost, when
// sending it again has found nothing to release.
func (p *Provider) lockVacated(ctx context.Context, name, token string) (bool, error) {
	row, err := p.lockRow(ctx, name)
	switch {
	case err != nil:
		return false, err
	case row.released == token:
		return true, nil
	case row.token == token:
		return false, nil
	}
	return false, errUntold
}
