package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// tx is an interactive transaction. It holds a connection to its end.
type tx struct {
	e *Engine

	mu sync.Mutex // for the engine's Close
	c  *conn      // nil when it is over
}

var beginTx = engine.Statement{SQL: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"}

// Begin starts a transaction at READ COMMITTED: each statement sees what was
// committed before it, and rows that it writes or locks keep others who want them
// waiting until the end. Errors as for [Engine.Exec], always
// [engine.ErrNotApplied].
//
// A deadlock, or the end of a connection, in the middle of a transaction cannot be
// repaired here: its methods then fail with [engine.ErrUnavailable], and the
// transaction may be run again from its beginning.
func (e *Engine) Begin(ctx context.Context) (engine.Tx, error) {
	t := &tx{e: e}
	err := e.do(ctx, "begin", patient|keeping, func(c *conn) *failure {
		j, f := e.newJob([]engine.Statement{beginTx}, engine.NotApplied)
		if f == nil {
			_, f = c.run(j)
		}
		if f == nil {
			t.c = c
		}
		return f
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if e.open == nil {
		e.open = make(map[*tx]struct{})
	}
	e.open[t] = struct{}{}
	e.mu.Unlock()
	if e.pool.ending.Err() != nil {
		t.Rollback() // Close may have looked already
		return nil, closedFailure().toError("begin")
	}
	return t, nil
}

// Exec runs stmts in the transaction, in one round trip. The present, as
// [engine.Now] means it, is when the call began, not the transaction, which may
// have waited for others since.
func (t *tx) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == nil {
		return nil, t.over().toError("exec")
	}
	if len(stmts) == 0 {
		return nil, nil
	}
	if f := t.e.forbid(stmts); f != nil {
		t.rollback()
		return nil, f.toError("exec")
	}
	var results []engine.Result
	f := t.with(ctx, func(c *conn) *failure {
		stmts, f := t.settleNow(c, stmts)
		if f != nil {
			return f
		}
		j, f := t.e.newJob(stmts, engine.NotApplied)
		if f == nil {
			results, f = c.run(j)
		}
		return f
	})
	if f != nil {
		t.rollback()
		return nil, f.toError("exec")
	}
	return results, nil
}

var askNow = engine.Statement{SQL: "SELECT (extract(epoch from clock_timestamp())*1000000)::bigint AS now"}

// settleNow asks for the present, if it is wanted, and puts it where it belongs.
func (t *tx) settleNow(c *conn, stmts []engine.Statement) ([]engine.Statement, *failure) {
	wanted := false
	for i := range stmts {
		for _, v := range stmts[i].Args {
			wanted = wanted || v.Kind() == engine.KindNow
		}
	}
	if !wanted {
		return stmts, nil
	}
	j, f := t.e.newJob([]engine.Statement{askNow}, engine.NotApplied)
	if f != nil {
		return nil, f
	}
	results, f := c.run(j)
	if f != nil {
		return nil, f
	}
	us, _ := results[0].Row(0)[0].Int()
	now := time.UnixMicro(us)
	out := make([]engine.Statement, len(stmts))
	for i := range stmts {
		out[i] = stmts[i]
		out[i].Args = make([]engine.Value, len(stmts[i].Args))
		for k, v := range stmts[i].Args {
			out[i].Args[k] = v.At(now)
		}
	}
	return out, nil
}

// Commit ends the transaction. If the connection breaks meanwhile the outcome is
// unknown.
func (t *tx) Commit(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == nil {
		return t.over().toError("commit")
	}
	if ctx.Err() != nil {
		t.rollback()
		return ended(ctx).toError("commit")
	}
	// It does not hang on ctx: it is short, and half of it would help nobody.
	f := t.e.interruptibly(context.Background(), t.c, func(c *conn) *failure {
		j, f := t.e.newJob([]engine.Statement{end}, engine.Unknown)
		if f == nil {
			j.commits = true
			_, f = c.run(j)
		}
		return f
	})
	t.release()
	if f != nil {
		return f.toError("commit")
	}
	return nil
}

// Rollback undoes the transaction. It blocks for one round trip, and for two
// seconds at most: a connection whose server does not answer is given up, and
// with it all that the transaction holds.
func (t *tx) Rollback() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c != nil {
		t.rollback()
	}
}

func (t *tx) rollback() {
	t.c.leave()
	t.release()
}

func (t *tx) release() {
	c := t.c
	t.c = nil
	t.e.mu.Lock()
	delete(t.e.open, t)
	t.e.mu.Unlock()
	t.e.pool.put(c)
	t.e.pool.users.Done()
}

// with runs body on the transaction's connection, interruptibly. An interruption
// ends the transaction, even where it came too late for body.
func (t *tx) with(ctx context.Context, body func(*conn) *failure) *failure {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	f := t.e.interruptibly(ctx, t.c, body)
	if f == nil && t.c.wasInterrupted() {
		f = t.e.explain(ctx, t.c, &failure{outcome: engine.NotApplied})
	}
	return f
}

func (t *tx) over() *failure {
	if t.e.pool.ending.Err() != nil {
		return closedFailure()
	}
	return &failure{outcome: engine.NotApplied, err: errors.New("the transaction is over")}
}
