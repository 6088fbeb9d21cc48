package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// leadership is what the client believes about who leads. A leader that was just
// found is on trial: one request, the pilot, goes first, and the others follow
// when it has succeeded. So a node that only thinks that it leads costs one
// request, and not all that wait.
type leadership struct {
	proven atomic.Pointer[node] // node, if it is proven; read without the lock

	mu      sync.Mutex
	node    *node // nil: unknown
	pilot   time.Time
	changed chan struct{} // closed and replaced when the above changes
	last    *node         // the last one that was proven
	streak  int           // leaders lost since a request last succeeded
}

// pilotTime is how long the others wait for a pilot at most. Then another goes.
const pilotTime = 100 * time.Millisecond

func newLeadership() *leadership { return &leadership{changed: make(chan struct{})} }

func (l *leadership) broadcast() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// acquire returns the leader, or nil and what to wait for: a change, at most for
// the given time, if positive. Unknown says that nobody is known to lead.
func (l *leadership) acquire() (n *node, changed <-chan struct{}, atMost time.Duration, unknown bool) {
	if n := l.proven.Load(); n != nil {
		return n, nil, 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node == nil {
		return nil, l.changed, 0, true
	}
	if l.proven.Load() == l.node {
		return l.node, nil, 0, false
	}
	now := time.Now()
	if wait := l.pilot.Add(pilotTime).Sub(now); !l.pilot.IsZero() && wait > 0 {
		return nil, l.changed, wait, false
	}
	l.pilot = now
	return l.node, nil, 0, false
}

// current returns the node that is believed to lead, or nil.
func (l *leadership) current() *node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node
}

// follow reports whether n is believed to lead, and returns what tells of changes.
func (l *leadership) follow(n *node) (leads bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node == n, l.changed
}

// confirm notes that n has answered as a leader does. It reports whether n is a
// new leader.
func (l *leadership) confirm(n *node) bool {
	if l.proven.Load() == n {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node != n {
		return false
	}
	l.proven.Store(n)
	l.pilot, l.streak = time.Time{}, 0
	isNew := l.last != n
	l.last = n
	l.broadcast()
	return isNew
}

// drop notes that n does not lead or does not answer.
func (l *leadership) drop(n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node == n {
		l.node, l.pilot = nil, time.Time{}
		l.proven.Store(nil)
		l.streak++
		l.broadcast()
	}
}

// replace puts a new leader on trial in the place of old, unless somebody was
// faster. Old may be nil.
func (l *leadership) replace(old, n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node != old || old == n {
		return
	}
	l.node, l.pilot = n, time.Time{}
	l.proven.Store(nil)
	l.broadcast()
}

// release notes that a request at n ended and showed nothing.
func (l *leadership) release(n *node) {
	if l.proven.Load() == n {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node == n && !l.pilot.IsZero() {
		l.pilot = time.Time{}
		l.broadcast()
	}
}

func (l *leadership) losses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streak
}

// awaitLeader returns the leader. If none is known it waits until one is found
// or ctx ends. However many callers wait, one search is under way.
func (c *cluster) awaitLeader(ctx context.Context) (*node, *failure) {
	for {
		n, changed, atMost, unknown := c.lead.acquire()
		if n != nil {
			return n, nil
		}
		n, f := c.awaitChange(ctx, changed, atMost, unknown)
		if f != nil {
			return n, f
		}
	}
}

func (c *cluster) awaitChange(ctx context.Context, changed <-chan struct{}, atMost time.Duration, search bool) (*node, *failure) {
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	var found <-chan singleflightResult
	if search {
		found = c.search.DoChan("leader", c.discover)
	}
	var limit <-chan time.Time
	if atMost > 0 {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case r := <-found:
		var f *failure
		if r.Val != nil {
			f = r.Val.(*failure)
		}
		return nil, f
	case <-changed:
	case <-limit:
	case <-ctx.Done():
		return nil, &failure{outcome: engine.NotApplied, reason: engine.ErrUnavailable, err: c.trouble(ctx.Err())}
	case <-c.base.Done():
		return nil, closedFailure()
	}
	return nil, nil
}

func closedFailure() *failure {
	return &failure{outcome: engine.NotApplied, reason: engine.ErrClosed}
}

// question is what a client asks a node to find the leader.
type question func(ctx context.Context, n *node) finding

// finding is the answer to a question.
type finding struct {
	from   *node
	leader *node    // nil if the node knows none
	why    *failure // if leader is nil
}

// discover asks the nodes, one after the other, until one knows the leader. It
// ends early when nobody waits any more. Its value is a *failure if there is no
// use in going on. There is only one at a time.
func (c *cluster) discover() (any, error) {
	if !c.begin() {
		return closedFailure(), nil
	}
	defer c.end()
	done := make(chan struct{})
	defer close(done)

	// The pauses go on growing over the searches until a request succeeds.
	first := time.Duration(0)
	if c.lead.losses() <= 1 || c.pace == nil {
		c.pace = newDiscoveryBackOff()
	} else {
		first = c.pace.NextBackOff()
	}
	tick := time.NewTimer(first)
	defer tick.Stop()

	s := &search{c: c, done: done, answers: make(chan finding), asked: make(map[*node]bool), last: make(map[*node]*failure)}
	for {
		select {
		case <-tick.C:
			if c.waiting.Load() == 0 {
				return nil, nil
			}
			s.askNext()
			tick.Reset(c.pace.NextBackOff())
		case f := <-s.answers:
			delete(s.asked, f.from)
			if f.leader != nil {
				c.setTrouble(nil)
				c.lead.replace(nil, f.leader)
				return nil, nil
			}
			s.last[f.from] = f.why
			c.setTrouble(f.why)
			if fatal := s.hopeless(); fatal != nil {
				return fatal, nil
			}
			if f.why.noAnswer && len(s.last) < len(c.nodes.all()) {
				s.askFresh() // the failure was quick, and others were not asked yet
			}
		case <-c.base.Done():
			return closedFailure(), nil
		}
	}
}

// search is the state of one discovery.
type search struct {
	c       *cluster
	done    <-chan struct{} // closed when the search is over
	answers chan finding
	asked   map[*node]bool     // whose answer is outstanding
	last    map[*node]*failure // latest answers
}

// askNext asks the next node that has no question to answer.
func (s *search) askNext() {
	for _, n := range s.c.nodes.next() {
		if s.asked[n] {
			continue
		}
		s.asked[n] = true
		s.c.goAsk(n, s.c.askWhoLeads, s.answers, s.done)
		return
	}
}

// askFresh asks the next node that was not asked in this search, if there is one.
// One that fails at once is asked again only at the search's pace.
func (s *search) askFresh() {
	for _, n := range s.c.nodes.next() {
		if _, answered := s.last[n]; answered || s.asked[n] {
			continue
		}
		s.asked[n] = true
		s.c.goAsk(n, s.c.askWhoLeads, s.answers, s.done)
		return
	}
}

// goAsk asks a node on a goroutine of its own. Nobody has to wait for the answer:
// the question is not cut off, which would cost the connection, but ends by its
// own time limit or with the cluster.
func (c *cluster) goAsk(n *node, ask question, answers chan<- finding, done <-chan struct{}) {
	if !c.begin() {
		return
	}
	go func() {
		defer c.end()
		f := ask(c.base, n)
		select {
		case answers <- f:
		case <-done:
		case <-c.base.Done():
		}
	}()
}

// hopeless returns a failure that trying again does not cure, if there is one
// and no node has answered better.
func (s *search) hopeless() *failure {
	var fatal *failure
	for _, n := range s.c.nodes.all() {
		f, ok := s.last[n]
		switch {
		case !ok:
			return nil
		case !f.transient:
			fatal = f
		case !f.noAnswer:
			return nil
		}
	}
	return fatal
}

// askAll asks all given nodes at once and returns the first leader that one
// knows of, or else the failure that says most.
func (c *cluster) askAll(ctx context.Context, nodes []*node, ask question) finding {
	answers, done := make(chan finding), make(chan struct{})
	defer close(done)
	for _, n := range nodes {
		c.goAsk(n, ask, answers, done)
	}
	best := finding{why: &failure{outcome: engine.NotApplied, reason: engine.ErrUnavailable, err: errors.New("no node to ask"), transient: true, noAnswer: true}}
	for i := range nodes {
		select {
		case f := <-answers:
			if f.leader != nil {
				return f
			}
			// An answer says more than silence, a permanent failure more than a
			// silent node, an answer without a leader more than that.
			if i == 0 || weight(f.why) > weight(best.why) {
				best = f
			}
		case <-c.base.Done():
			best.why = closedFailure()
			return best
		case <-ctx.Done():
			if i > 0 {
				return best
			}
			best.why = &failure{outcome: engine.NotApplied, reason: engine.ErrUnavailable, err: ctx.Err(), transient: true, noAnswer: true}
			return best
		}
	}
	return best
}

func weight(f *failure) int {
	switch {
	case f.noAnswer && f.transient:
		return 0
	case !f.transient:
		return 1
	}
	return 2
}

// askWhoLeads asks a node by a query that only a leader answers; others name the
// leader in a redirect. It needs no permission but that of queries.
func (c *cluster) askWhoLeads(ctx context.Context, n *node) finding {
	r, f := c.probe(ctx, n, http.MethodPost, "/db/query", "level=weak&redirect", leaderQuestion)
	switch {
	case f == nil:
		_, err := decodeAnswer(r.buf.b, 1)
		top, hasTop := topLevelError(r.buf.b)
		r.buf.release()
		switch {
		case err != nil:
			f = &failure{outcome: engine.NotApplied, reason: engine.ErrProtocol, err: c.scrubbed(n, err)}
		case hasTop:
			f = classifyTop(top)
			f.err = c.scrubbed(n, f.err)
		default:
			return finding{from: n, leader: n}
		}
	case f.redirect != "":
		leader, err := c.resolveRedirect(ctx, n, f.redirect, "/db/query")
		if err == nil {
			return finding{from: n, leader: leader}
		}
		f = &failure{outcome: engine.NotApplied, reason: engine.ErrProtocol, err: c.scrubbed(n, err)}
	}
	return finding{from: n, why: f}
}

var leaderQuestion = []byte(`["SELECT 1"]`)

// resolveRedirect returns the node at which a redirect points. If it is not in
// the set of nodes, the node that sent the redirect is asked which nodes its
// cluster has.
func (c *cluster) resolveRedirect(ctx context.Context, from *node, location, path string) (*node, error) {
	c.stats.redirects.Add(1)
	n, err := c.nodes.lookup(location, path)
	if errors.Is(err, errUnlisted) {
		if f := c.refresh(ctx, from); f != nil {
			return nil, fmt.Errorf("redirected to an unknown node: %w", err)
		}
		n, err = c.nodes.lookup(location, path)
	}
	if err != nil {
		return nil, fmt.Errorf("redirected: %w", err)
	}
	return n, nil
}

// listed is what /nodes says of one node.
type listed struct {
	APIAddr   string `json:"api_addr"`
	Reachable bool   `json:"reachable"`
	Leader    bool   `json:"leader"`
}

// list asks a node which nodes its cluster has. It needs the permission "status".
func (c *cluster) list(ctx context.Context, n *node) ([]listed, *failure) {
	r, f := c.probe(ctx, n, http.MethodGet, "/nodes", "timeout=300ms", nil)
	if f != nil {
		return nil, f
	}
	defer r.buf.release()
	var byID map[string]listed
	if err := json.Unmarshal(r.buf.b, &byID); err != nil {
		return nil, &failure{outcome: engine.NotApplied, reason: engine.ErrProtocol, err: errors.New("/nodes: not the expected JSON")}
	}
	nodes := make([]listed, 0, len(byID))
	for _, l := range byID {
		nodes = append(nodes, l)
	}
	return nodes, nil
}

// refresh takes over the nodes that n lists.
func (c *cluster) refresh(ctx context.Context, n *node) *failure {
	nodes, f := c.list(ctx, n)
	if f == nil {
		c.nodes.discovered(nodes, c.lead.current())
	}
	return f
}

// askWhoLeadsNow asks a node for the state of all nodes, and returns the leader
// if it can be reached. Unlike a redirect this does not wait for a hung leader.
func (c *cluster) askWhoLeadsNow(ctx context.Context, n *node) finding {
	nodes, f := c.list(ctx, n)
	if f != nil && f.reason == engine.ErrUnauthorized {
		return c.askWhoLeads(ctx, n)
	}
	if f != nil {
		return finding{from: n, why: f}
	}
	c.nodes.discovered(nodes, c.lead.current())
	for _, l := range nodes {
		if !l.Leader || !l.Reachable {
			continue
		}
		u, err := c.nodes.acceptable(l.APIAddr)
		if err == nil {
			return finding{from: n, leader: c.nodes.add(*u, false)}
		}
	}
	return finding{from: n, why: &failure{outcome: engine.NotApplied, reason: engine.ErrNoLeader, err: errors.New("no reachable leader"), transient: true}}
}

// probeTimeout bounds a question to a node. It grows while a node is silent, for
// the sake of slow networks.
func probeTimeout(failures int) time.Duration {
	return time.Second << min(failures, 2)
}

// probe sends one request to one node, without retries.
func (c *cluster) probe(ctx context.Context, n *node, method, path, query string, body []byte) (reply, *failure) {
	n.mu.Lock()
	failures := n.failures
	n.mu.Unlock()
	c.stats.probes.Add(1)
	cl := &call{op: "probe", method: method, path: path, query: query, limit: probeTimeout(failures), probe: true}
	if body != nil {
		cl.body = newBuffer()
		cl.body.b = append(cl.body.b, body...)
		defer cl.body.release()
	}
	return c.attempt(ctx, n, cl)
}

// trouble joins why a caller gave up with the latest reason for there being no
// leader, which for the caller is the cause.
func (c *cluster) trouble(why error) error {
	f := c.latest.Load()
	if f == nil {
		return fmt.Errorf("waiting for a leader: %w", why)
	}
	if f.reason == engine.ErrNoLeader {
		return fmt.Errorf("waiting for a leader: %w; %w: %w", why, engine.ErrNoLeader, f.err)
	}
	return fmt.Errorf("waiting for a leader: %w; %w", why, f.err)
}

func (c *cluster) setTrouble(f *failure) { c.latest.Store(f) }
