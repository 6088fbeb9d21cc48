package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// pool holds the connections. It has no goroutine of its own: whoever takes a
// connection looks whether it is still good.
type pool struct {
	cfg      *pgconn.Config
	pooled   *pgconn.Config // for a pooler, which knows no planner
	lifetime time.Duration
	e        *Engine
	slots    chan struct{}

	ending context.Context // ends when the pool closes
	end    context.CancelFunc
	users  sync.WaitGroup // calls that have, or wait for, a connection
	closes sync.WaitGroup // connections that are being closed

	mu     sync.Mutex
	closed bool
	idle   []*conn // the last one is taken first
	busy   map[*conn]struct{}
}

func newPool(e *Engine, cfg *pgconn.Config, o *options) *pool {
	p := &pool{cfg: cfg.Copy(), pooled: cfg, lifetime: o.maxLifetime, e: e, slots: make(chan struct{}, o.maxConns), busy: make(map[*conn]struct{})}
	if own := p.cfg.RuntimeParams["options"]; own != "" {
		p.cfg.RuntimeParams["options"] = planner + " " + own
	} else {
		p.cfg.RuntimeParams["options"] = planner
	}
	p.ending, p.end = context.WithCancel(context.Background())
	return p
}

// enter announces a call; the caller calls users.Done at its end. It returns
// false if the pool is closed.
func (p *pool) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.users.Add(1)
	}
	return !p.closed
}

// get returns a connection, which the caller gives back with put. It blocks while
// all are in use, until ctx or the pool ends.
func (p *pool) get(ctx context.Context) (*conn, *failure) {
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ended(ctx)
		case <-p.ending.Done():
			return nil, closedFailure()
		}
	}
	c, f := p.take(ctx)
	if f != nil {
		<-p.slots
		return nil, f
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.discard(c)
		<-p.slots
		return nil, closedFailure()
	}
	c.begin()
	p.busy[c] = struct{}{}
	return c, nil
}

func (p *pool) take(ctx context.Context) (*conn, *failure) {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return p.connect(ctx)
		}
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if c.isGood(p.lifetime) {
			return c, nil
		}
		p.discard(c)
	}
}

func (p *pool) connect(ctx context.Context) (*conn, *failure) {
	dialing, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ending, cancel)()
	for {
		unprepared := p.e.unprepared.Load()
		cfg := p.cfg
		if unprepared {
			cfg = p.pooled
		}
		pg, err := pgconn.ConnectConfig(dialing, cfg)
		if err == nil {
			return newConn(pg), nil
		}
		var refusal *pgconn.PgError
		switch {
		case p.ending.Err() != nil:
			return nil, closedFailure()
		case !unprepared && errors.As(err, &refusal) && refusal.Code == "08P01":
			// No PostgreSQL refuses settings at the start: this is a pooler.
			p.e.foundPooler("it refuses settings at the start of a session")
			continue
		}
		return nil, unreachable(ctx, err)
	}
}

// put gives a connection back; whoever waits for one gets it.
func (p *pool) put(c *conn) {
	good := c.finish()
	p.mu.Lock()
	delete(p.busy, c)
	if good && !p.closed {
		p.idle = append(p.idle, c)
		p.mu.Unlock()
	} else {
		p.mu.Unlock()
		p.discard(c)
	}
	<-p.slots
}

// discard closes a connection, which may take a while if the server does not
// answer.
func (p *pool) discard(c *conn) {
	p.closes.Go(func() { c.close() })
}

// interrupt closes the pool to new calls and interrupts those under way.
func (p *pool) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.end()
	for c := range p.busy {
		p.closes.Go(c.interrupt)
	}
}

// drain waits for the end of the calls under way and closes all connections.
func (p *pool) drain() {
	p.users.Wait()
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		p.discard(c)
	}
	p.closes.Wait()
}
