package sqlite

import (
	"context"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/quorate/quorate/store/engine"
)

// writer is the one connection that writes. Whoever holds the slot may use it.
type writer struct {
	slot chan struct{}
	conn *conn // nil after it had to be closed
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
	err := e.write(ctx, "exec", func(c *conn) (int, error) {
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
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// write runs body in a transaction of the writer. On an error body returns the
// index of the statement that failed.
func (e *Engine) write(ctx context.Context, op string, body func(*conn) (int, error)) error {
	if err := e.acquire(ctx, op, e.writer.slot); err != nil {
		return err
	}
	defer func() { <-e.writer.slot }()

	c := e.writer.conn
	if c == nil {
		var err error
		if c, err = e.openConn(ctx, writerRole, false); err != nil {
			return e.openFailed(ctx, op, err)
		}
		e.writer.conn = c
	}
	fail := c.transact(ctx, op, body)
	if c.broken {
		e.writer.conn = nil
		e.retire(c, "writer", fail)
	}
	if fail != nil {
		return fail
	}
	e.checkpoints.consider()
	return nil
}

// transact runs body between BEGIN IMMEDIATE and COMMIT. It leaves the connection
// outside of any transaction, or marks it broken.
func (c *conn) transact(ctx context.Context, op string, body func(*conn) (int, error)) (fail *engine.Error) {
	outcome := engine.NotApplied // of a panic from here on
	defer func() {
		if v := recover(); v != nil {
			c.broken = true
			fail = panicked(op, outcome, v)
		}
		c.call.Context, c.call.masked = context.Background(), false
	}()
	c.call.Context = ctx

	if err := c.patiently(func() error { return c.own(c.begin) }); err != nil {
		fail = c.failed(op, -1, err)
		c.undo()
		return fail
	}
	c.waitSince, c.moment = time.Time{}, moment{}
	if index, err := body(c); err != nil {
		fail = c.failed(op, index, err)
		c.undo()
		return fail
	}
	if err := c.call.Err(); err != nil {
		fail = c.failed(op, -1, sqlite3.INTERRUPT)
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
