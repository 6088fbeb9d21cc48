package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/rqlite/gorqlite"

	"github.com/quorate/quorate/store/engine"
)

// Engine is an rqlite cluster as an [engine.Engine]. It is safe for concurrent
// use. See [Open].
type Engine struct {
	c      *cluster
	adhoc  *gorqlite.Connection
	rows   int // per statement
	closed atomic.Bool
}

// defaultRows is how many rows a statement carries. The server parses its text
// anew each time.
const defaultRows = 1024

var _ engine.Engine = (*Engine)(nil)

// Exec runs stmts in one transaction, in order, and returns one result for each.
//
// The list goes to the leader in one request. What was surely not applied is
// sent again, to the leader of the moment, until ctx ends; then the error is
// [engine.ErrNotApplied] with reason [engine.ErrUnavailable], and wraps the
// context's error and the last failure. When a request may have been applied,
// but there is no answer, Exec returns an error that is
// [engine.ErrOutcomeUnknown] at once and sends nothing again.
//
// Other errors are not applied: a statement that the database refuses
// ([*engine.StatementError]), one that cannot be sent unchanged
// ([ErrUnbindable]), refused credentials ([engine.ErrUnauthorized]), untrusted
// TLS ([engine.ErrInsecure]), a closed engine ([engine.ErrClosed]). A write whose
// results are lost or unreadable is [engine.ErrApplied].
func (e *Engine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if len(stmts) == 0 {
		return nil, e.usable("exec")
	}
	cl := call{
		op:     "exec",
		method: http.MethodPost,
		path:   "/db/execute",
		query:  "transaction&redirect",
		write:  true,
		whole:  true,
	}
	returning := false
	for i := range stmts {
		returning = returning || stmts[i].Returning
		if stmts[i].Returning && i < len(stmts)-1 {
			// Its rows may be what cannot be answered, and a later statement
			// may have undone the list.
			cl.whole = false
		}
	}
	var results []engine.Result
	cl.accept = func(body []byte, v version) *failure {
		d, err := decodeAnswer(body, len(stmts))
		if err != nil {
			return &failure{reason: engine.ErrProtocol, err: err}
		}
		if d.hasTop {
			return classifyTop(d.top)
		}
		if d.failed >= 0 {
			// Before a certain version a failing list with RETURNING in it was
			// not always undone.
			return classifyStatement(d.failed, d.message, !returning || !v.before(rollbackSince))
		}
		if len(d.results) != len(stmts) {
			return &failure{reason: engine.ErrProtocol, err: fmt.Errorf("%d results for %d statements", len(d.results), len(stmts))}
		}
		if d.value != nil {
			return &failure{outcome: engine.Applied, reason: engine.ErrProtocol, err: d.value}
		}
		for i := range stmts {
			if stmts[i].Returning && d.results[i].Columns == nil {
				return &failure{outcome: engine.Applied, reason: engine.ErrProtocol, err: fmt.Errorf("statement %d: no columns in answer to RETURNING", i)}
			}
		}
		results = d.results
		return nil
	}
	if err := e.send(ctx, &cl, stmts); err != nil {
		return nil, err
	}
	return results, nil
}

// Query runs read-only stmts on one snapshot and returns one result for each.
//
// [engine.Linearizable] and [engine.Weak] queries go to the leader,
// [engine.Stale] ones to any node. Servers older than 8.32.4 get the level
// strong in place of linearizable. Since reads are safe to repeat, Query sends
// them again after any failure that may pass, until ctx ends. All its errors are
// [engine.ErrNotApplied]; the reasons are those of [Engine.Exec]. A value that
// cannot be represented exactly is a [*DecodeError].
func (e *Engine) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	if len(stmts) == 0 {
		return nil, e.usable("query")
	}
	cl := call{op: "query", method: http.MethodPost, path: "/db/query", query: "redirect", deadline: true}
	switch level {
	case engine.Linearizable:
		cl.linear = true
	case engine.Weak:
		cl.query = "level=weak&redirect"
	case engine.Stale:
		cl.query, cl.spread = "level=none", true
	default:
		return nil, &engine.Error{Op: "query", Outcome: engine.NotApplied, Err: fmt.Errorf("invalid consistency level %d", level)}
	}
	if len(stmts) > 1 {
		cl.query += "&transaction"
	}
	var results []engine.Result
	cl.accept = func(body []byte, _ version) *failure {
		d, err := decodeAnswer(body, len(stmts))
		switch {
		case err != nil:
			return &failure{reason: engine.ErrProtocol, err: err}
		case d.hasTop:
			return classifyTop(d.top)
		case d.failed >= 0:
			return classifyStatement(d.failed, d.message, true)
		case len(d.results) != len(stmts):
			return &failure{reason: engine.ErrProtocol, err: fmt.Errorf("%d results for %d statements", len(d.results), len(stmts))}
		case d.value != nil:
			return &failure{reason: engine.ErrProtocol, err: d.value}
		}
		results = d.results
		return nil
	}
	if err := e.send(ctx, &cl, stmts); err != nil {
		return nil, err
	}
	return results, nil
}

// send encodes stmts and sends the call. A nil error stays a nil interface.
func (e *Engine) send(ctx context.Context, cl *call, stmts []engine.Statement) error {
	cl.body = newBuffer()
	defer cl.body.release()
	var err error
	if cl.body.b, err = appendStatements(cl.body.b, stmts); err != nil {
		return &engine.Error{Op: cl.op, Outcome: engine.NotApplied, Err: err}
	}
	r, fail := e.c.do(ctx, cl)
	if fail != nil {
		return fail
	}
	r.buf.release()
	return nil
}

func (e *Engine) usable(op string) error {
	if e.closed.Load() {
		return closedFailure().toError(op, true)
	}
	return nil
}

// Traits describes rqlite over HTTP: up to 32,766 parameters per statement, and
// many rows per statement, since the server parses each statement's text anew.
// If Open met a server older than 9.4.2, which does not always undo a list in which a statement
// with RETURNING fails, it is one row per statement, which needs no RETURNING.
// Measured on three nodes, the rows per second that multi-row inserts reach grow
// with their size up to 1 MiB and fall beyond 2 MiB.
func (e *Engine) Traits() engine.Traits {
	return engine.Traits{
		Name:             "rqlite",
		MaxParams:        32766,
		RowsPerStatement: e.rows,
		MaxBatchBytes:    1 << 20,
		Writers:          4,
		Readers:          4,
	}
}

// Stats returns a snapshot of the engine's counters. It does not block.
func (e *Engine) Stats() Stats { return e.c.stats.snapshot() }

// Close ends all calls that are under way, closes all connections, and returns
// when no goroutine of the engine is left. Later calls fail with
// [engine.ErrClosed]. Closing twice is no error.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	e.adhoc.Close()
	e.c.close()
	return nil
}

// String returns the nodes' addresses, without credentials.
func (e *Engine) String() string {
	var b strings.Builder
	b.WriteString("rqlite(")
	for i, n := range e.c.nodes.all() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(n.String())
	}
	b.WriteString(")")
	return b.String()
}

// GoString is String, so that no format prints credentials.
func (e *Engine) GoString() string { return e.String() }
