package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// minTry is the shortest time that one try to connect may take.
const minTry = time.Second

// Open connects to an rqlite cluster. It returns when a node has answered and one
// leads, so a worker may start beside its cluster: by default it tries 30 times,
// 1 s apart ([WithConnectRetry]), as long as ctx allows. Ctx bounds the opening
// only.
//
// Each URL is the HTTP address of a node, such as http://10.0.0.1:4001, or a
// comma-separated list of them: http://user:password@host1:4001,host2:4001. The
// scheme is http or https and carries over to the elements of a list that have
// none. A path is put before rqlite's own paths. Credentials in URLs are
// percent-encoded, and all that are given must be the same. One URL suffices, as
// the other nodes are found by it, if the user may read /nodes (permission
// "status"); more URLs help when that node is down.
//
// Wrong credentials ([engine.ErrUnauthorized]), an unusable URL ([ErrInvalidURL]),
// a TLS failure ([engine.ErrInsecure]) and a server that is not rqlite
// ([engine.ErrProtocol]) end it at once. When the tries are used up, or ctx ends,
// the error is [engine.ErrUnavailable] and wraps the last failure. No error holds
// a password.
func Open(ctx context.Context, urls []string, opts ...Option) (*Engine, error) {
	fail := func(err error) (*Engine, error) {
		return nil, &engine.Error{Op: "connect", Outcome: engine.NotApplied, Err: err}
	}
	o, err := newOptions(opts)
	if err != nil {
		return fail(err)
	}
	nodes, err := newEndpoints(urls, o)
	if err != nil {
		return fail(err)
	}
	c := newCluster(nodes, o)
	e := &Engine{c: c}
	if e.adhoc, err = openAdhoc(c); err != nil {
		c.close()
		return fail(err)
	}
	if err := c.connect(ctx, o.connectTries, o.connectInterval); err != nil {
		e.Close()
		return nil, err
	}
	e.rows = defaultRows
	for _, n := range nodes.all() {
		if n.version().before(rollbackSince) {
			e.rows = 1
		}
	}
	return e, nil
}

// connect finds the leader and the other nodes.
func (c *cluster) connect(ctx context.Context, tries int, interval time.Duration) error {
	var last error
	for try := 1; ; try++ {
		began := time.Now()
		err := c.connectOnce(ctx, max(interval, minTry))
		if err == nil {
			return nil
		}
		if !errors.Is(err, engine.ErrUnavailable) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if try == tries {
			return connectError(fmt.Errorf("gave up after %d tries: %w", tries, causeOf(last)))
		}
		if ctx.Err() != nil || !c.sleep(ctx, interval-time.Since(began)) {
			return connectError(fmt.Errorf("gave up in try %d: %w; last failure: %w", try, ctx.Err(), causeOf(last)))
		}
	}
}

func connectError(err error) error {
	return &engine.Error{Op: "connect", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable, Err: err}
}

// causeOf takes the cause out of an error of connectOnce, which would repeat the
// operation and the reason.
func causeOf(err error) error {
	var e *engine.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}

// connectOnce asks all nodes at once, and then the leader whether it really
// leads.
func (c *cluster) connectOnce(ctx context.Context, limit time.Duration) error {
	if !c.begin() {
		return closedFailure().toError("connect", false)
	}
	defer c.end()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f := c.askAll(ctx, c.nodes.all(), c.askWhoLeads)
	if f.leader == nil {
		return f.why.toError("connect", false)
	}
	c.lead.replace(nil, f.leader)
	if err := c.ping(ctx, "connect", limit); err != nil {
		return err
	}
	// Without the permission for it, the configured nodes are all there is.
	if why := c.refresh(ctx, f.leader); why != nil {
		c.log.Warn("rqlite nodes cannot be listed; only the configured ones are used", "error", why.err)
	}
	return nil
}
