package coordination

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/migration"
)

// Provider serves locks, read-write locks, elections, schedules, caches and
// limiters on one database. One per engine is enough for any number of them, and
// best: what its users ask for at the same time travels in one request. It is safe
// for concurrent use. See [Open].
type Provider struct {
	eng           engine.Engine
	traits        engine.Traits
	limit         time.Duration
	log           *slog.Logger
	noSharedClock bool
	clock         func() int64 // microseconds, in place of the engine's clock; only in tests

	ctx   context.Context // of background work; ends when Close gives up
	abort context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	tasks  int           // goroutines of the provider that run
	idle   chan struct{} // closed when there are none; made by Close
	group  group
	turns  turns
	renew  renewer
	reads  reads
	sweep  sweeper
	phase  int64 // of the times at which elections wake, in nanoseconds
}

// Option sets up a [Provider]. See [Open].
type Option func(*Provider) error

// WithLogger sets where the provider logs what no caller is told: renewals and
// releases in the background that failed, and jobs that failed or were missed. The
// default is [slog.Default].
func WithLogger(l *slog.Logger) Option {
	return func(p *Provider) error {
		if l == nil {
			return invalid("WithLogger", "is nil")
		}
		p.log = l
		return nil
	}
}

// WithTimeLimit bounds every request, whatever the caller's context says,
// overriding the default of 5 s. What was sent and is not answered by then has an
// unknown outcome.
func WithTimeLimit(d time.Duration) Option {
	return func(p *Provider) error {
		if d <= 0 {
			return invalid("WithTimeLimit", "is not positive")
		}
		p.limit = d
		return nil
	}
}

// WithoutSharedClock makes the provider trust no clock but its own monotonic one.
// Who wants what another holds takes it over only after seeing its row unchanged
// for a whole lease, by a compare-and-set on the row's version. Nobody then needs
// to agree on the time of day, and a clock that is set changes nothing; in
// exchange, a takeover after a crash takes up to two leases, and only an object that
// has looked for so long can take over: by waiting, or by trying more than once.
//
// Without it, a lease ends by the engine's clock (see [engine.Now]): on SQLite the
// host's, which all processes share; on PostgreSQL the server's; on rqlite that of
// the process which asks, so that a lease must be far longer than the clocks of
// machines differ. A clock that jumps forward by a lease ends leases early, whose
// holders do not know; the fencing token tells them apart.
//
// All processes on one database must choose the same.
func WithoutSharedClock() Option {
	return func(p *Provider) error {
		p.noSharedClock = true
		return nil
	}
}

// Open makes a provider on eng and creates its tables, or brings them to the
// newest form. Any number of processes may do so at once. The engine stays the
// caller's: close it after the provider. Ctx bounds the opening only. Errors are
// those of the engine, of package migration, and [ErrInvalid] for an option.
func Open(ctx context.Context, eng engine.Engine, opts ...Option) (*Provider, error) {
	if eng == nil {
		return nil, invalid("engine", "is nil")
	}
	p := &Provider{eng: eng, traits: eng.Traits(), limit: 5 * time.Second, log: slog.Default()}
	for _, opt := range opts {
		if opt == nil {
			return nil, invalid("option", "is nil")
		}
		if err := opt(p); err != nil {
			return nil, err
		}
	}
	if err := migration.Run(ctx, eng, "coordination", steps); err != nil {
		return nil, fmt.Errorf("open the coordination provider: %w", err)
	}
	p.ctx, p.abort = context.WithCancelCause(context.Background())
	p.phase = rand.Int64N(int64(time.Hour))
	return p, nil
}

// Close ends the renewals in the background and waits, until ctx ends, for the
// goroutines of the provider: releases and requests that are under way. What is
// left then is cut off, and the error is that of ctx. Later calls fail with
// [ErrClosed]. Close releases nothing by itself: what is held stays held until it
// is released, which fails from now on, or its lease ends. Closing twice is no
// error.
func (p *Provider) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	if p.idle == nil {
		p.idle = make(chan struct{})
		if p.tasks == 0 {
			close(p.idle)
		}
	}
	idle := p.idle
	p.renew.stop()
	p.sweep.stop()
	p.mu.Unlock()
	defer p.abort(ErrClosed)
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	p.abort(ErrClosed)
	<-idle
	return fmt.Errorf("close the coordination provider: %w", context.Cause(ctx))
}

// spawn runs f on a goroutine for which Close waits. It returns false if the
// provider is closed; then f does not run. The context ends when Close gives up.
func (p *Provider) spawn(f func(ctx context.Context)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.spawnLocked(f)
	return true
}

// spawnLocked is spawn with the lock held, for a provider that is not closed or a
// task that ends another.
func (p *Provider) spawnLocked(f func(ctx context.Context)) {
	p.tasks++
	go func() {
		defer p.ended()
		f(p.ctx)
	}()
}

func (p *Provider) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks--
	if p.tasks == 0 && p.idle != nil {
		close(p.idle)
	}
}
