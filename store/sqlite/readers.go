package sqlite

import (
	"context"
	"sync"

	"github.com/quorate/quorate/store/engine"
)

// readers are the connections that read. Each holder of a slot may take one.
type readers struct {
	slots chan struct{}
	mu    sync.Mutex
	idle  []*conn // the one used last at the end, so that caches stay warm
}

// Query runs read-only stmts on one snapshot of the database and returns one
// Result for each. The snapshot contains every commit that was acknowledged, by
// any process, before Query was called, so level is always met.
//
// It waits for a free reader, under ctx; a ctx that ends interrupts the running
// statement. Errors wrap [engine.ErrNotApplied]. A statement that SQLite refuses,
// or that would write, gives an error that wraps a [*engine.StatementError].
func (e *Engine) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	if len(stmts) == 0 {
		return nil, e.usable("query", ctx)
	}
	if err := e.acquire(ctx, "query", e.readers.slots); err != nil {
		return nil, err
	}
	defer func() { <-e.readers.slots }()

	c, err := e.takeReader(ctx)
	if err != nil {
		return nil, e.openFailed(ctx, "query", err)
	}
	results, fail := c.snapshot(ctx, "query", stmts)
	e.giveReader(c, fail)
	if fail != nil {
		return nil, fail
	}
	return results, nil
}

func (e *Engine) takeReader(ctx context.Context) (*conn, error) {
	r := &e.readers
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return c, nil
	}
	r.mu.Unlock()
	return e.openConn(ctx, readerRole, false)
}

func (e *Engine) giveReader(c *conn, fail *engine.Error) {
	if c.broken {
		e.retire(c, "reader", fail)
		return
	}
	e.readers.mu.Lock()
	e.readers.idle = append(e.readers.idle, c)
	e.readers.mu.Unlock()
}

// snapshot runs stmts on one snapshot. One statement has a snapshot anyway. It
// leaves the connection outside of any transaction, or marks it broken.
func (c *conn) snapshot(ctx context.Context, op string, stmts []engine.Statement) (results []engine.Result, fail *engine.Error) {
	defer func() {
		if v := recover(); v != nil {
			c.broken = true
			results, fail = nil, panicked(op, engine.NotApplied, v)
		}
		c.call.Context, c.call.masked = context.Background(), false
	}()
	c.call.Context = ctx

	results = make([]engine.Result, len(stmts))
	index := -1
	err := c.patiently(func() (err error) {
		if len(stmts) > 1 {
			if err := c.own(c.begin); err != nil {
				return err
			}
			defer c.undo()
		}
		c.moment = moment{}
		for i := range stmts {
			index = i
			p, err := c.stmts.get(stmts[i].SQL)
			if err != nil {
				return err
			}
			if !p.readOnly {
				return refusal("the statement writes, and queries may only read")
			}
			if err := p.run(c.db, stmts[i].Args, &c.moment, &results[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		fail = c.failed(op, index, err)
	}
	c.undo()
	if fail != nil {
		return nil, fail
	}
	return results, nil
}
