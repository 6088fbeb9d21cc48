package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/quorate/quorate/store/engine"
)

// writer is the one connection that writes. Whoever holds the slot may use it.
type writer struct {
	slot chan struct{}
	conn *conn // nil after it had to be closed

	mu   sync.Mutex
	open *tx // holds the slot, if an interactive transaction does
}

// Exec runs stmts in one transaction, in order, and returns one Result for each.
//
// It waits for the transactions before it in this Engine, in order of arrival,
// and for those of other connections to the file, under ctx and the busy
// timeout. A ctx that ends before COMMIT has begun rolls the transaction back:
// the error wraps ctx.Err() and [engine.ErrNotApplied]. COMMIT is not
// interrupted.
//
// A statement that SQLite refuses gives an error that wraps a
// [*engine.StatementError]; a full disk [engine.ErrFull]; a file that cannot be
// written [engine.ErrReadOnly]; a file that others keep locked
// [engine.ErrUnavailable]. In all these cases nothing was applied, and the
// Engine goes on to work. Only an I/O error of COMMIT gives
// [engine.ErrOutcomeUnknown].
//
// Statements may not begin or end transactions, attach databases, or change the
// connection's settings.
func (e *Engine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if len(stmts) == 0 {
		return nil, e.usable("exec", ctx)
	}
	results := make([]engine.Result, len(stmts))
	err := e.write(ctx, "exec", func(c *conn) (int, error) { return c.runAll(stmts, results) })
	if err != nil {
		return nil, err
	}
	return results, nil
}

// runAll runs stmts in the open transaction. On an error it returns the index of
// the statement that failed.
func (c *conn) runAll(stmts []engine.Statement, results []engine.Result) (int, error) {
	for i := range stmts {
		p, err := c.stmts.get(stmts[i].SQL)
		if err == nil {
			err = p.run(c.db, stmts[i].Args, &c.moment, &results[i])
		}
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}

// write runs body in a transaction of the writer. On an error body returns the
// index of the statement that failed.
func (e *Engine) write(ctx context.Context, op string, body func(*conn) (int, error)) error {
	if err := e.acquire(ctx, op, e.writer.slot); err != nil {
		return err
	}
	c, fail := e.takeWriter(ctx, op)
	if fail == nil {
		fail = c.transact(ctx, op, body)
	}
	e.giveWriter(c, fail)
	if fail != nil {
		return fail
	}
	e.checkpoints.consider()
	return nil
}

// takeWriter returns the connection that writes, to the holder of the slot.
func (e *Engine) takeWriter(ctx context.Context, op string) (*conn, *engine.Error) {
	if e.writer.conn == nil {
		c, err := e.openConn(ctx, writerRole, false)
		if err != nil {
			return nil, e.openFailed(ctx, op, err)
		}
		e.writer.conn = c
	}
	return e.writer.conn, nil
}

// giveWriter gives the slot back, and replaces the connection if it is broken. c
// is nil if there was none to take.
func (e *Engine) giveWriter(c *conn, fail *engine.Error) {
	if c != nil && c.broken {
		e.writer.conn = nil
		e.retire(c, "writer", fail)
	}
	<-e.writer.slot
}

// transact runs body between BEGIN IMMEDIATE and COMMIT. It leaves the connection
// outside of any transaction, or marks it broken.
func (c *conn) transact(ctx context.Context, op string, body func(*conn) (int, error)) *engine.Error {
	if fail := c.enter(ctx, op); fail != nil {
		return fail
	}
	if fail := c.body(ctx, op, body); fail != nil {
		return fail
	}
	return c.leave(ctx, op)
}

// enter begins a transaction. On an error there is none.
func (c *conn) enter(ctx context.Context, op string) (fail *engine.Error) {
	defer c.rest(op, engine.NotApplied, &fail)
	c.call.Context = ctx
	if err := c.patiently(func() error { return c.own(c.begin) }); err != nil {
		fail = c.failed(op, -1, err)
		c.undo()
		return fail
	}
	c.waitSince, c.moment = time.Time{}, moment{}
	return nil
}

// body runs the statements between. On an error the transaction is undone.
func (c *conn) body(ctx context.Context, op string, body func(*conn) (int, error)) (fail *engine.Error) {
	defer c.rest(op, engine.NotApplied, &fail)
	c.call.Context = ctx
	if index, err := body(c); err != nil {
		fail = c.failed(op, index, err)
		c.undo()
		return fail
	}
	return nil
}

// leave commits, unless ctx has ended. The transaction is over then.
func (c *conn) leave(ctx context.Context, op string) (fail *engine.Error) {
	outcome := engine.NotApplied
	defer func() { c.settle(op, outcome, &fail, recover()) }()
	c.call.Context = ctx
	if c.call.Err() != nil {
		fail = c.interrupted(op)
		c.undo()
		return fail
	}
	c.call.masked, c.waitSince = true, time.Time{}
	outcome = engine.Unknown
	if err := c.own(c.commit); err != nil {
		return c.commitFailed(op, err)
	}
	return nil
}

// rest ends a use of the connection: it is deferred. A panic of the library marks
// the connection broken and becomes an error.
func (c *conn) rest(op string, outcome engine.Outcome, fail **engine.Error) {
	c.settle(op, outcome, fail, recover())
}

func (c *conn) settle(op string, outcome engine.Outcome, fail **engine.Error, panicValue any) {
	if panicValue != nil {
		c.broken = true
		*fail = panicked(op, outcome, panicValue)
	}
	c.call.Context, c.call.masked = context.Background(), false
}

// interrupted is the error of a call whose context has ended, or whose engine
// closes.
func (c *conn) interrupted(op string) *engine.Error { return c.failed(op, -1, sqlite3.INTERRUPT) }

// commitFailed finds out what became of a transaction whose COMMIT failed.
//
// A COMMIT that finds the file locked, which happens in memory only, or a
// deferred constraint violated, leaves the transaction open. After any other
// error SQLite has rolled it back. A full disk stops the log before its last
// frame, the one that makes the transaction count, is whole. But where syncing
// the log failed, all frames may be in it, and a crash before the next
// transaction overwrites them would bring the transaction back to life.
func (c *conn) commitFailed(op string, err error) *engine.Error {
	fail := c.failed(op, -1, err)
	switch codeOf(err) {
	case sqlite3.BUSY, sqlite3.LOCKED, sqlite3.CONSTRAINT, sqlite3.FULL, sqlite3.READONLY:
	default:
		fail.Outcome = engine.Unknown
		c.broken = true
	}
	c.undo()
	return fail
}
