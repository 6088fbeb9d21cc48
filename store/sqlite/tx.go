package sqlite

import (
	"context"
	"errors"
	"sync"

	"github.com/quorate/quorate/store/engine"
)

var _ engine.Transactor = (*Engine)(nil)

// Begin starts a transaction that may write. It waits for its turn among the
// transactions of this Engine, in order of arrival, and for those of other
// connections to the file, under ctx and the busy timeout; then it is the only
// one that writes to the database until it ends. Errors wrap
// [engine.ErrNotApplied].
//
// The caller must end it. If it does not, because its goroutine died, nobody
// else can write through this Engine or to the file until [Engine.Close], which
// rolls it back. Within the transaction, calls of this Engine that write wait for
// it to end, so its own goroutine must not make any.
func (e *Engine) Begin(ctx context.Context) (engine.Tx, error) {
	if err := e.acquire(ctx, "begin", e.writer.slot); err != nil {
		return nil, err
	}
	c, fail := e.takeWriter(ctx, "begin")
	if fail != nil {
		e.giveWriter(nil, nil)
		return nil, fail
	}
	if fail := c.enter(ctx, "begin"); fail != nil {
		e.giveWriter(c, fail)
		return nil, fail
	}
	t := &tx{e: e, c: c}
	e.writer.mu.Lock()
	defer e.writer.mu.Unlock()
	if e.closing.Load() {
		t.end(nil)
		return nil, closed("begin")
	}
	e.writer.open = t
	return t, nil
}

// tx is an open transaction. It holds the writer's slot.
type tx struct {
	e *Engine

	mu     sync.Mutex // held while the connection is used: Close may interfere
	c      *conn      // nil once the transaction is over
	closed bool       // it was the engine's Close that ended it
}

var errOver = errors.New("the transaction is over")

// over is the error of a call after the end.
func (t *tx) over(op string) *engine.Error {
	if t.closed {
		return closed(op)
	}
	return &engine.Error{Op: op, Outcome: engine.NotApplied, Err: errOver}
}

// end undoes what is left of the transaction and lets the next one in. fail is
// what ended it, or nil.
func (t *tx) end(fail *engine.Error) {
	c := t.c
	if c == nil {
		return
	}
	t.c = nil
	if !c.broken {
		c.undo()
	}
	t.e.giveWriter(c, fail)
}

// Exec runs stmts in order and returns one Result for each. A ctx that ends
// interrupts the running statement, which ends the transaction, as every error
// does.
func (t *tx) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == nil {
		return nil, t.over("exec")
	}
	results := make([]engine.Result, len(stmts))
	if fail := t.c.inside(ctx, "exec", stmts, results); fail != nil {
		t.end(fail)
		return nil, fail
	}
	return results, nil
}

// inside runs stmts in the open transaction.
func (c *conn) inside(ctx context.Context, op string, stmts []engine.Statement, results []engine.Result) (fail *engine.Error) {
	defer c.rest(op, engine.NotApplied, &fail)
	c.call.Context = ctx
	if c.call.Err() != nil {
		return c.interrupted(op)
	}
	c.moment = moment{}
	if index, err := c.runAll(stmts, results); err != nil {
		return c.failed(op, index, err)
	}
	return nil
}

// Commit ends the transaction: see [engine.Tx]. Only an I/O error gives
// [engine.ErrOutcomeUnknown].
func (t *tx) Commit(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == nil {
		return t.over("commit")
	}
	fail := t.c.leave(ctx, "commit")
	t.end(fail)
	if fail != nil {
		return fail
	}
	t.e.checkpoints.consider()
	return nil
}

// Rollback undoes the transaction. After Commit, or another Rollback, it does
// nothing.
func (t *tx) Rollback() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(nil)
}

// abort ends the transaction because the engine closes. A statement that is
// running has been told to stop; a COMMIT is waited for.
func (t *tx) abort() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c != nil {
		t.closed = true
		t.end(nil)
	}
}
