package client

import (
	"context"
	"net/http"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// pingLimit bounds a Ping, so that a health check gets an answer in time.
const pingLimit = 1500 * time.Millisecond

// Ping reports whether Exec would work now. It asks the leader for a read that a
// quorum must confirm, without any row. It takes at most 1.5 s, or until ctx
// ends. The errors are [engine.ErrUnavailable] (with [engine.ErrNoLeader] if
// nodes answered but none leads), [engine.ErrUnauthorized], [engine.ErrInsecure],
// [engine.ErrProtocol] and [engine.ErrClosed].
func (e *Engine) Ping(ctx context.Context) error {
	return e.c.ping(ctx, "ping", pingLimit)
}

func (c *cluster) ping(ctx context.Context, op string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cl := call{
		op: op, method: http.MethodPost, path: "/db/query", query: "redirect",
		linear: true, deadline: true, urgent: true, body: newBuffer(),
	}
	defer cl.body.release()
	cl.body.b = append(cl.body.b, leaderQuestion...)
	cl.accept = func(body []byte, _ version) *failure {
		d, err := decodeAnswer(body, 1)
		switch {
		case err != nil:
			return &failure{reason: engine.ErrProtocol, err: err}
		case d.hasTop:
			return classifyTop(d.top)
		case d.failed >= 0:
			return classifyStatement(d.failed, d.message, true)
		}
		return nil
	}
	r, err := c.do(ctx, &cl)
	if err != nil {
		return err
	}
	r.buf.release()
	return nil
}
