package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/singleflight"

	"github.com/quorate/quorate/store/engine"
)

type singleflightResult = singleflight.Result

// maxHops is how many redirects one call follows. From the third on it pauses
// between them, since nodes may disagree for a moment.
const maxHops = 8

// cluster sends requests to the node that leads. It tracks the leader, follows
// redirects, and sends again what was surely not applied. It is also an
// http.RoundTripper, for clients that bring requests of their own.
type cluster struct {
	nodes *endpoints
	pool  *pool
	lead  *leadership
	stats *counters
	log   *slog.Logger
	limit *rateLimit // nil: none

	attemptTimeout time.Duration
	maxResponse    int64

	search  singleflight.Group
	pace    backoff.BackOff // belongs to the search for a leader
	waiting atomic.Int64    // callers that wait for a leader
	latest  atomic.Pointer[failure]

	base   context.Context // ends when the cluster is closed
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup // calls and goroutines under way
}

func newCluster(nodes *endpoints, o *options) *cluster {
	c := &cluster{
		nodes:          nodes,
		lead:           newLeadership(),
		stats:          new(counters),
		log:            o.logger,
		attemptTimeout: o.attemptTimeout,
		maxResponse:    o.maxResponse,
	}
	c.base, c.cancel = context.WithCancel(context.Background())
	c.pool = newPool(c.base, o, c.stats)
	if o.perSecond > 0 {
		c.limit = newRateLimit(o.perSecond, o.burst)
	}
	return c
}

// begin registers a call or goroutine. It reports false if the cluster is closed.
func (c *cluster) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.busy.Add(1)
	return true
}

func (c *cluster) end() { c.busy.Done() }

// close ends all calls and waits for them. No connection and no goroutine is
// left.
func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	if c.limit != nil {
		c.limit.close()
	}
	c.busy.Wait()
	c.pool.close()
}

// sleep waits for d. It reports false if ctx or the cluster ended before.
func (c *cluster) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.base.Done():
	}
	return false
}

// call is one request as the caller means it. The cluster may send it many times.
type call struct {
	op     string
	method string
	path   string
	query  string // raw
	body   *buffer

	write  bool // has effects, so it is sent again only if surely not applied
	spread bool // any node may serve it
	probe  bool // one attempt, and not counted as a request
	urgent bool // exempt from the rate limit
	whole  bool // results can be lost only after the whole list was applied

	// linear says that the query asks for the level linearizable, which servers
	// that are too old for it take for weak.
	linear bool
	// deadline says that the server is told how long the caller waits.
	deadline bool

	limit time.Duration // of one attempt; 0 means the default

	// accept judges an answer with status 200. Nil accepts all.
	accept func(body []byte, v version) *failure
}

// reply is a complete answer.
type reply struct {
	status int
	header http.Header
	buf    *buffer // the body; the caller releases it
	strong bool    // the level strong was asked for in place of linearizable
}

// do sends a request until there is a definite answer or ctx ends.
func (c *cluster) do(ctx context.Context, cl *call) (reply, *engine.Error) {
	if !c.begin() {
		return reply{}, closedFailure().toError(cl.op, cl.write)
	}
	defer c.end()
	if c.limit != nil && !cl.urgent {
		if err := c.limit.wait(ctx); err != nil {
			if err == engine.ErrClosed {
				return reply{}, closedFailure().toError(cl.op, cl.write)
			}
			return reply{}, &engine.Error{Op: cl.op, Outcome: engine.NotApplied, Reason: engine.ErrUnavailable, Err: fmt.Errorf("waiting for the rate limit: %w", err)}
		}
	}
	var (
		last     *failure
		pause    backoff.BackOff
		attempts int
		hops     int
	)
	for {
		n, f := c.route(ctx, cl)
		if f != nil {
			if last != nil && ctx.Err() != nil {
				f = &failure{outcome: engine.NotApplied, reason: engine.ErrUnavailable, err: gaveUp(ctx, last)}
			}
			return reply{}, f.toError(cl.op, cl.write)
		}
		if f, again := c.admit(ctx, n, cl); f != nil {
			if last != nil && ctx.Err() != nil {
				f.err = gaveUp(ctx, last)
			}
			return reply{}, f.toError(cl.op, cl.write)
		} else if again {
			continue
		}
		if attempts > 0 {
			c.stats.retries.Add(1)
		}
		attempts++
		r, f := c.attempt(ctx, n, cl)
		n.slots.release()
		if f == nil && cl.linear && !r.strong && n.version().before(linearizableSince) {
			// Only now the node is known to be too old; ask it again, for strong.
			r.buf.release()
			continue
		}
		if f == nil && cl.accept != nil {
			if f = cl.accept(r.buf.b, n.version()); f != nil {
				r.buf.release()
				if _, refused := f.err.(*engine.StatementError); !refused {
					f.err = c.scrubbed(n, f.err)
				}
			}
		}
		if f == nil {
			if !cl.spread {
				c.confirm(n)
			}
			return r, nil
		}
		c.learn(ctx, cl, n, f)
		if !f.retryable(cl.write) {
			if ctx.Err() != nil && last != nil && f.outcome == engine.NotApplied {
				f.err = gaveUp(ctx, last)
			}
			if cl.write && f.outcome == engine.Unknown {
				c.stats.unknown.Add(1)
			}
			return reply{}, f.toError(cl.op, cl.write)
		}
		last = f
		if f.redirect != "" {
			if hops++; hops > maxHops {
				err := fmt.Errorf("%d redirects in a row, the last from node %s", hops, n)
				return reply{}, &engine.Error{Op: cl.op, Outcome: engine.NotApplied, Reason: engine.ErrProtocol, Err: err}
			}
			if hops <= 2 {
				continue
			}
		}
		// The first retry may go at once, to a node found meanwhile; those that
		// wait for a leader together are paced by the search for it.
		if attempts == 1 && f.redirect == "" {
			continue
		}
		if pause == nil {
			pause = newRetryBackOff()
		}
		if !c.sleep(ctx, pause.NextBackOff()) {
			if c.base.Err() != nil {
				return reply{}, closedFailure().toError(cl.op, cl.write)
			}
			return reply{}, &engine.Error{Op: cl.op, Outcome: engine.NotApplied, Reason: engine.ErrUnavailable, Err: gaveUp(ctx, last)}
		}
	}
}

// gaveUp says that the context ended, and what the last failure was.
func gaveUp(ctx context.Context, last *failure) error {
	if last.reason == engine.ErrNoLeader {
		return fmt.Errorf("%w; last failure: %w: %w", ctx.Err(), engine.ErrNoLeader, last.err)
	}
	return fmt.Errorf("%w; last failure: %w", ctx.Err(), last.err)
}

// route chooses the node for an attempt.
func (c *cluster) route(ctx context.Context, cl *call) (*node, *failure) {
	if c.base.Err() != nil {
		return nil, closedFailure()
	}
	if err := ctx.Err(); err != nil {
		return nil, &failure{outcome: engine.NotApplied, reason: engine.ErrUnavailable, err: err}
	}
	if cl.spread {
		return c.nodes.next()[0], nil
	}
	return c.awaitLeader(ctx)
}

// admit waits for one of the node's connections to be free. It reports again if
// meanwhile the node is no longer believed to lead, so that those who wait here
// do not all go on to a node that has just refused the first of them.
func (c *cluster) admit(ctx context.Context, n *node, cl *call) (f *failure, again bool) {
	select {
	case n.slots <- struct{}{}:
		return nil, false
	default:
	}
	var changed <-chan struct{}
	if !cl.spread {
		leads, ch := c.lead.follow(n)
		if !leads {
			return nil, true
		}
		changed = ch
	}
	for {
		select {
		case n.slots <- struct{}{}:
			return nil, false
		case <-changed:
			leads, ch := c.lead.follow(n)
			if !leads {
				return nil, true
			}
			changed = ch
		case <-ctx.Done():
			c.lead.release(n)
			return &failure{outcome: engine.NotApplied, reason: engine.ErrUnavailable, err: fmt.Errorf("waiting for a connection to node %s: %w", n, ctx.Err())}, false
		case <-c.base.Done():
			return closedFailure(), false
		}
	}
}

// learn draws the conclusions from a failure for the calls to come.
func (c *cluster) learn(ctx context.Context, cl *call, n *node, f *failure) {
	if cl.spread {
		return
	}
	switch {
	case f.redirect != "":
		leader, err := c.resolveRedirect(ctx, n, f.redirect, cl.path)
		switch {
		case err != nil:
			c.lead.drop(n)
			f.err = fmt.Errorf("node %s: %w", n, err)
			if errors.Is(err, errUnlisted) || errors.Is(err, ErrInvalidURL) {
				f.reason, f.transient = engine.ErrProtocol, false
			}
		case leader == n:
			c.lead.drop(n)
		default:
			c.lead.replace(n, leader)
		}
	case ctx.Err() != nil && f.noAnswer:
		// The caller went away, which says nothing about the node.
		c.lead.release(n)
	case f.transient, f.reason == engine.ErrFull:
		c.lead.drop(n)
		c.setTrouble(f)
	case f.reason == nil && !f.noAnswer:
		// It refuses a statement: only a leader does.
		c.confirm(n)
	default:
		c.lead.release(n)
	}
}

// confirm notes that n has answered as a leader does.
func (c *cluster) confirm(n *node) {
	if !c.lead.confirm(n) {
		return
	}
	c.log.Info("rqlite leader", "node", n.String())
	if c.stats.leaderChanges.Add(1) == 1 {
		return // Open is about to list the nodes
	}
	// Over the years all nodes of a cluster may be replaced. Nobody waits.
	c.search.DoChan("refresh", func() (any, error) {
		if c.begin() {
			defer c.end()
			c.refresh(c.base, n)
		}
		return nil, nil
	})
}

// rawQuery returns the query string of an attempt.
func (cl *call) rawQuery(ctx context.Context, strong bool, limit time.Duration) string {
	q := cl.query
	if cl.linear {
		if strong {
			q = "level=strong&" + q
		} else {
			q = "level=linearizable&" + q
		}
	}
	if !cl.deadline {
		return q
	}
	end, ok := ctx.Deadline()
	if !ok {
		return q
	}
	// A server that goes on after the caller has left wastes its time. For a
	// write there is no such parameter that would be safe.
	left := strconv.FormatInt(max(1, min(limit, time.Until(end)).Milliseconds()), 10)
	q += "&timeout=" + left + "ms"
	if !strong {
		// As part of a log entry it would be timed on each node for itself.
		q += "&db_timeout=" + left + "ms"
	}
	if cl.linear && !strong {
		q += "&linearizable_timeout=" + left + "ms"
	}
	return q
}

// attempt sends a request to a node once and reads the whole answer.
func (c *cluster) attempt(ctx context.Context, n *node, cl *call) (reply, *failure) {
	limit := cl.limit
	if limit == 0 {
		limit = c.attemptTimeout
	}
	actx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.base, func() { cancel(engine.ErrClosed) })()
	fl := &flight{since: time.Now(), cancel: cancel}
	timeout := time.AfterFunc(limit, func() { cancel(errAttemptTimeout) })
	defer timeout.Stop()
	if !cl.probe {
		c.stats.requests.Add(1)
		n.enter(fl)
		defer n.leave(fl)
		defer time.AfterFunc(hangAfter, func() { c.suspect(n) }).Stop()
	}

	var (
		own    *conn
		before int64
		fresh  bool
		got    bool
	)
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		got, fresh = true, !info.Reused
		if own = connOf(info.Conn); own != nil {
			before = own.offered.Load()
		}
	}}
	strong := cl.linear && n.version().before(linearizableSince)
	req := &http.Request{
		Method: cl.method,
		URL: &url.URL{
			Scheme: n.base.Scheme, Host: n.base.Host,
			Path: n.base.Path + cl.path, RawQuery: cl.rawQuery(ctx, strong, limit),
		},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: n.header,
		Host:   n.base.Host,
	}
	var body *requestBody
	if cl.body != nil {
		// Without GetBody, and POST being no method to repeat, net/http never
		// sends the request again by itself.
		body = newRequestBody(cl.body)
		req.Body, req.ContentLength = body, int64(len(cl.body.b))
		req.Header = n.post
	}
	resp, err := c.pool.http.RoundTrip(req.WithContext(httptrace.WithClientTrace(actx, trace)))
	if err != nil {
		// Whether the request was sent can be told for sure only when no more of
		// it can follow.
		if own != nil {
			own.Close()
		}
		sent := got && (body == nil || body.complete()) &&
			(own == nil || (own.offered.Load() != before && !own.cut.Load()))
		return reply{}, c.noAnswer(ctx, actx, n, cl, err, sent, fresh, time.Since(fl.since))
	}
	defer resp.Body.Close()
	n.noteVersion(resp.Header.Get("X-Rqlite-Version"))
	buf := newBuffer()
	if err := buf.readFrom(resp.Body, resp.ContentLength, c.maxResponse); err != nil {
		if own != nil {
			own.Close()
		}
		f := classifyStatus(resp.StatusCode, resp.Header.Get("Location"), buf.b, false)
		buf.release()
		if f != nil && f.outcome == engine.NotApplied && resp.StatusCode < 500 {
			// The status alone says enough.
			f.err = c.scrubbed(n, f.err)
			return reply{}, f
		}
		return reply{}, c.noAnswer(ctx, actx, n, cl, fmt.Errorf("reading the answer: %w", err), true, false, time.Since(fl.since))
	}
	n.noteAnswer()
	if f := classifyStatus(resp.StatusCode, resp.Header.Get("Location"), buf.b, cl.whole); f != nil {
		buf.release()
		f.err = c.scrubbed(n, f.err)
		return reply{}, f
	}
	return reply{status: resp.StatusCode, header: resp.Header, buf: buf, strong: strong}, nil
}

// noAnswer classifies an exchange that failed, and says why it was cut off if it
// was.
func (c *cluster) noAnswer(ctx, actx context.Context, n *node, cl *call, err error, sent, fresh bool, took time.Duration) *failure {
	hung := took >= hangAfter
	cause := context.Cause(actx)
	switch {
	case ctx.Err() != nil:
		// The caller's context has ended.
		f := classifyTransport(fmt.Errorf("node %s: %w", n, ctx.Err()), sent, false)
		f.transient = false
		if errors.Is(ctx.Err(), context.Canceled) {
			f.reason = nil
		}
		if hung && !cl.probe {
			c.pool.dropIdle()
		}
		return f
	case cause != nil:
		if cause == errAttemptTimeout {
			n.noteSilence()
			if !cl.probe {
				c.pool.dropIdle()
			}
		}
		return classifyTransport(fmt.Errorf("node %s: %w", n, cause), sent, false)
	}
	f := classifyTransport(err, sent, fresh)
	f.err = c.scrubbed(n, f.err)
	if f.noAnswer {
		n.noteSilence()
	}
	return f
}

// scrubbed names the node and keeps secrets out of what a server said, in its
// body or in a header that an error quotes.
func (c *cluster) scrubbed(n *node, err error) error {
	var server *ServerError
	if errors.As(err, &server) {
		server.Message = c.nodes.scrub(server.Message)
	}
	if text := err.Error(); c.nodes.scrub(text) != text {
		return fmt.Errorf("node %s: %s", n, c.nodes.scrub(text))
	}
	return fmt.Errorf("node %s: %w", n, err)
}
