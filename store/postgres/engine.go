package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// Engine is a PostgreSQL database. It is safe for concurrent use.
type Engine struct {
	opts       *options
	pool       *pool
	texts      texts
	unprepared atomic.Bool

	mu   sync.Mutex
	open map[*tx]struct{}
}

var _ engine.Transactor = (*Engine)(nil)

// maxParams is what the protocol can count in a statement, less a reserve; other
// engines have the same limit.
const maxParams = 32766

// Open connects to a database. target is a URL, as in
// postgres://user:password@host:port/database?sslmode=verify-full, or a list of
// key=value, with the keys that PostgreSQL's own programs know; what it does not
// say is taken from the environment, as they do. Of several hosts the first that
// is a primary is used.
//
// Without an sslmode, connections to other machines use TLS and check the
// certificate, and those within this machine do not use it. There is no fallback
// from one to the other.
//
// It blocks until there is a connection, ctx ends, or the time of
// [WithRetryLimit] has passed, while the server is not reachable or starts. Errors:
// [engine.ErrUnavailable], [engine.ErrUnauthorized], [engine.ErrInsecure],
// [engine.ErrReadOnly] (a standby), [engine.ErrProtocol] (older than PostgreSQL
// 14, or not in UTF-8), the context's.
func Open(ctx context.Context, target string, opts ...Option) (*Engine, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	cfg, err := configure(target, o)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	e := &Engine{opts: o}
	e.unprepared.Store(o.unprepared)
	e.pool = newPool(e, cfg, o)
	if err := e.do(ctx, "connect", patient, func(*conn) *failure { return nil }); err != nil {
		_ = e.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return e, nil
}

// Traits describes the engine.
func (e *Engine) Traits() engine.Traits {
	n := e.opts.maxConns
	return engine.Traits{
		Name:             "postgres",
		Dialect:          engine.PostgreSQL,
		MaxParams:        maxParams,
		RowsPerStatement: rowsPerStatement,
		MaxBatchBytes:    4 << 20,
		Writers:          max(1, min(4, n/2)),
		Readers:          max(1, min(4, n/2)),
	}
}

// Close interrupts the calls under way, waits for their end, and closes the
// connections. Calls that were interrupted, and later ones, fail with
// [engine.ErrClosed]. An interactive transaction is rolled back. Closing twice is
// no error.
func (e *Engine) Close() error {
	e.pool.interrupt()
	e.mu.Lock()
	open := slices.Collect(maps.Keys(e.open))
	e.mu.Unlock()
	for _, t := range open {
		t.Rollback()
	}
	e.pool.drain()
	return nil
}

// Ping reports whether Exec would work now. It tries once. Errors as for [Open].
func (e *Engine) Ping(ctx context.Context) error {
	return e.do(ctx, "ping", 0, func(c *conn) *failure {
		_, f := c.run(&job{stmts: []engine.Statement{{SQL: "SELECT 1"}}, texts: []*text{e.texts.get("SELECT 1")}, lost: engine.NotApplied, unprepared: e.unprepared.Load()})
		return f
	})
}

// foundPooler turns prepared statements off for good.
func (e *Engine) foundPooler(why string) {
	if !e.unprepared.Swap(true) {
		e.opts.logger.Info("quorate: a pooler is in front of PostgreSQL: statements are no longer prepared", "reason", why)
	}
}

// maxContended and maxStale bound the attempts that follow each other without a
// pause that matters.
const (
	maxContended = 20
	maxStale     = 5
)

// mode is how a call uses the pool.
type mode uint8

const (
	// patient calls wait for a server that is not there. Others are tried once,
	// but for connections that turn out to be of no use.
	patient mode = 1 << iota
	// keeping calls keep the connection if they succeed, and stay users of the
	// pool.
	keeping
)

// do runs body on a connection, again as long as it makes sense, and says what
// became of it.
func (e *Engine) do(ctx context.Context, op string, m mode, body func(*conn) *failure) (err error) {
	if !e.pool.enter() {
		return closedFailure().toError(op)
	}
	defer func() {
		if m&keeping == 0 || err != nil {
			e.pool.users.Done()
		}
	}()
	if ctx.Err() != nil {
		return ended(ctx).toError(op)
	}
	var contendedTries, staleTries int
	start, pause := time.Now(), 10*time.Millisecond
	for {
		f := e.attempt(ctx, m, body)
		if f == nil {
			return nil
		}
		if f.outcome != engine.NotApplied {
			return f.toError(op)
		}
		if f.again == stale && staleTries == maxStale {
			f.again = patiently
		}
		var delay time.Duration
		switch {
		case f.again == contended && contendedTries < maxContended:
			contendedTries++
			delay = time.Duration(rand.Int64N(int64(contendedTries) * int64(2*time.Millisecond)))
		case f.again == stale:
			staleTries++
		case f.again == patiently && m&patient != 0 && time.Since(start) < e.opts.retryLimit:
			delay = pause/2 + time.Duration(rand.Int64N(int64(pause)))
			pause = min(2*pause, time.Second)
		default:
			return f.toError(op)
		}
		if delay > 0 && !e.sleep(ctx, delay) {
			if e.pool.ending.Err() != nil {
				return closedFailure().toError(op)
			}
			f.err = errors.Join(ctx.Err(), f.err)
			return f.toError(op)
		}
	}
}

// sleep waits and returns true, or returns false as soon as ctx ends or the
// engine closes.
func (e *Engine) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-e.pool.ending.Done():
	}
	return false
}

// attempt runs body on a connection, once.
func (e *Engine) attempt(ctx context.Context, m mode, body func(*conn) *failure) *failure {
	c, f := e.pool.get(ctx)
	if f != nil {
		return f
	}
	f = e.interruptibly(ctx, c, body)
	if m&keeping == 0 || f != nil {
		e.pool.put(c)
	}
	return f
}

// interruptibly runs body on a connection, and interrupts it when ctx ends.
func (e *Engine) interruptibly(ctx context.Context, c *conn, body func(*conn) *failure) *failure {
	if ctx.Done() == nil {
		return e.explain(ctx, c, body(c))
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		c.interrupt()
	})
	f := body(c)
	if !stop() {
		<-done // or it would hit what is run next on the connection
	}
	return e.explain(ctx, c, f)
}

// explain says of a failure that it was an interruption, if it was one.
func (e *Engine) explain(ctx context.Context, c *conn, f *failure) *failure {
	if f == nil {
		return nil
	}
	if f.again == stale && (isCode(f.err, "26000") || isCode(f.err, "42P05")) {
		c.retired = true
		e.foundPooler("it lost a prepared statement")
	}
	if isCode(f.err, "0A000") {
		c.retired = true
	}
	switch {
	case !c.wasInterrupted():
	case e.pool.ending.Err() != nil:
		f.reason, f.again = engine.ErrClosed, never
	case ctx.Err() != nil:
		f.again = never
		if f.outcome == engine.NotApplied {
			return ended(ctx)
		}
		f.err = errors.Join(ctx.Err(), f.err)
	}
	return f
}
