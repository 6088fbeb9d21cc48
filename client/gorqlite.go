package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rqlite/gorqlite"

	"github.com/quorate/quorate/store/engine"
)

// Gorqlite returns a gorqlite connection for SQL of the application's own. It
// uses the engine's connections, credentials and leader, and ends with the
// engine. Its queries are linearizable and its lists of writes are transactions.
//
// Take care: its options are shared by all who use it, so do not change them.
// Its writes are not guarded as the store's are: when one fails with an unknown
// outcome it is not sent again, here or below, and only the application can find
// out what became of it. Large integers pass through a float64 on their way back.
// Queued writes are refused, since the server may lose them.
func (e *Engine) Gorqlite() *gorqlite.Connection { return e.adhoc }

// openAdhoc opens a gorqlite connection over the cluster. Its own cluster
// discovery, which repeats writes on each node, stays off.
func openAdhoc(c *cluster) (*gorqlite.Connection, error) {
	conn, err := gorqlite.OpenWithClient("http://rqlite/?disableClusterDiscovery=true&level=linearizable",
		&http.Client{Transport: c})
	if err != nil {
		return nil, fmt.Errorf("gorqlite: %w", err)
	}
	// Set once: it is state that all requests share.
	if err := conn.SetExecutionWithTransaction(true); err != nil {
		return nil, fmt.Errorf("gorqlite: %w", err)
	}
	return conn, nil
}

// Define runs schema statements in one transaction. Each must be idempotent; one
// that adds a column which is already there counts as done, and the others are
// sent again without it. Since repeating them is safe, Define goes on after an
// unknown outcome, until ctx ends. The errors are those of [Engine.Exec].
func (e *Engine) Define(ctx context.Context, ddl []string) error {
	left := make([]int, len(ddl)) // positions of what is to be sent
	for i := range left {
		left[i] = i
	}
	pause := newRetryBackOff()
	var unsure error // an earlier attempt ended with this, and may have been applied
	for len(left) > 0 {
		if ctx.Err() != nil {
			if unsure != nil {
				return unsure
			}
			return &engine.Error{Op: "define", Outcome: engine.NotApplied, Err: context.Cause(ctx)}
		}
		stmts := make([]string, len(left))
		for i, pos := range left {
			if stmts[i] = ddl[pos]; stmts[i] == "" {
				return &engine.Error{Op: "define", Outcome: engine.NotApplied, Err: fmt.Errorf("statement %d: empty: %w", pos, ErrUnbindable)}
			}
		}
		var cause error
		results, err := e.adhoc.WriteContext(context.WithValue(ctx, causeKey{}, &cause), stmts)
		switch {
		case err == nil && len(results) == len(stmts):
			return nil
		case errors.Is(err, gorqlite.ErrClosed):
			return closedFailure().toError("define", true)
		case cause != nil:
			// gorqlite flattens errors to text; this is the one that it was given.
			if errors.Is(cause, engine.ErrOutcomeUnknown) {
				unsure = cause
			} else if unsure != nil {
				return unsure
			} else {
				return cause
			}
			if ctx.Err() != nil {
				return cause
			}
			if !e.c.sleep(ctx, pause.NextBackOff()) {
				return cause
			}
			continue
		}
		failed := -1
		var refused *gorqlite.StatementError
		for i := range results {
			if errors.As(results[i].Err, &refused) {
				failed = i
				break
			}
		}
		if failed < 0 || failed >= len(left) {
			if err == nil {
				err = fmt.Errorf("%d results for %d statements", len(results), len(stmts))
			}
			return &engine.Error{Op: "define", Reason: engine.ErrProtocol, Err: err}
		}
		if !strings.HasPrefix(refused.Message, "duplicate column name") {
			return classifyStatement(left[failed], refused.Message, true).toError("define", true)
		}
		left = append(left[:failed], left[failed+1:]...)
	}
	return e.usable("define")
}

// causeKey is the context key of a *error that gets the typed error.
type causeKey struct{}

// maxAdhocBody is about the size of the largest value that SQLite takes.
const maxAdhocBody = 1 << 30

// RoundTrip sends a request of a foreign client to the cluster. It is part of
// the http.RoundTripper interface.
func (c *cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.roundTrip(req)
	if err != nil {
		if p, ok := req.Context().Value(causeKey{}).(*error); ok {
			*p = err
		}
		return nil, err
	}
	return resp, nil
}

func (c *cluster) roundTrip(req *http.Request) (*http.Response, error) {
	cl := &call{op: "request", method: req.Method, path: req.URL.Path, query: req.URL.RawQuery}
	if req.Body != nil {
		cl.body = newBuffer()
		defer cl.body.release()
		err := cl.body.readFrom(req.Body, req.ContentLength, maxAdhocBody)
		req.Body.Close()
		if err != nil {
			return nil, &engine.Error{Op: cl.op, Outcome: engine.NotApplied, Err: fmt.Errorf("reading the request: %w", err)}
		}
	}
	query, err := url.ParseQuery(cl.query)
	if err != nil {
		return nil, &engine.Error{Op: cl.op, Outcome: engine.NotApplied, Err: errors.New("malformed query parameters")}
	}
	if query.Has("queue") {
		return nil, &engine.Error{Op: cl.op, Outcome: engine.NotApplied, Err: errors.New("queued writes are not supported, since they may be lost")}
	}
	switch cl.path {
	case "/db/query":
		if strings.EqualFold(query.Get("level"), "linearizable") {
			query.Del("level")
			cl.linear = true
		}
	case "/db/execute", "/db/request":
		cl.write = true
		if req.Context().Value(causeKey{}) != nil {
			cl.op = "define"
		}
	default:
		if req.Method != http.MethodGet {
			return nil, &engine.Error{Op: cl.op, Outcome: engine.NotApplied, Err: errors.New("unsupported request")}
		}
		cl.spread = true
	}
	if !cl.spread {
		query.Set("redirect", "")
		cl.accept = func(body []byte, _ version) *failure {
			if text, ok := topLevelError(body); ok {
				return classifyTop(text)
			}
			return nil
		}
	}
	cl.query = query.Encode()
	r, fail := c.do(req.Context(), cl)
	if fail != nil {
		return nil, fail
	}
	// The caller keeps the body as long as it likes.
	body := bytes.Clone(r.buf.b)
	r.buf.release()
	header := r.header.Clone()
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Del("Transfer-Encoding")
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)),
		StatusCode:    r.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}, nil
}
