package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrInvalidURL says that a node's address cannot be used. The error never
// repeats the address, since that may hold a password.
var ErrInvalidURL = errors.New("invalid node URL")

// node is one HTTP address of the cluster.
type node struct {
	base   url.URL     // scheme, host, and path prefix without a slash at the end
	header http.Header // sent with each request; never changed
	post   http.Header // the same for requests with a body
	seed   bool
	slots  slots // one for each connection that there may be

	seen atomic.Pointer[version] // what the node said last

	mu       sync.Mutex
	failures int       // in a row, to reach it
	downTill time.Time // leave it alone until then
	flights  map[*flight]struct{}
}

// slots is a counting semaphore: a send takes one.
type slots chan struct{}

func (s slots) release() { <-s }

// flight is one attempt that is under way at a node.
type flight struct {
	since  time.Time
	cancel context.CancelCauseFunc
}

// String returns the address, which holds no credentials.
func (n *node) String() string { return n.base.String() }

func (n *node) version() version {
	if v := n.seen.Load(); v != nil {
		return *v
	}
	return version{}
}

// noteVersion stores the version that an answer names.
func (n *node) noteVersion(s string) {
	if s == "" {
		return
	}
	if v := parseVersion(s); v != n.version() {
		n.seen.Store(&v)
	}
}

// noteAnswer and noteSilence keep account of whether the node can be reached.
func (n *node) noteAnswer() {
	n.mu.Lock()
	n.failures, n.downTill = 0, time.Time{}
	n.mu.Unlock()
}

func (n *node) noteSilence() {
	n.mu.Lock()
	n.failures++
	n.downTill = time.Now().Add(downTime(n.failures))
	n.mu.Unlock()
}

// down returns until when the node should be left alone.
func (n *node) down() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.downTill
}

func (n *node) enter(f *flight) {
	n.mu.Lock()
	if n.flights == nil {
		n.flights = make(map[*flight]struct{})
	}
	n.flights[f] = struct{}{}
	n.mu.Unlock()
}

func (n *node) leave(f *flight) {
	n.mu.Lock()
	delete(n.flights, f)
	n.mu.Unlock()
}

// stuck returns the flights that began before t.
func (n *node) stuck(t time.Time) []*flight {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []*flight
	for f := range n.flights {
		if !f.since.After(t) {
			list = append(list, f)
		}
	}
	return list
}

// endpoints is the set of nodes that may be contacted: those configured, and
// those that a node of the set lists as nodes of its cluster. Credentials go to
// no other address.
type endpoints struct {
	secure bool        // all seeds use TLS, so no address without it is accepted
	header http.Header // for all nodes
	post   http.Header // the same for requests with a body
	conns  int         // connections to a node there may be
	secret []string    // forms of the password, to be kept out of messages

	mu    sync.Mutex
	nodes []*node
	turn  int
}

// newEndpoints builds the set from the configured URLs.
func newEndpoints(urls []string, o *options) (*endpoints, error) {
	e := &endpoints{secure: true, conns: o.maxConns}
	user, pass, hasAuth := o.username, o.password, o.hasAuth
	var bases []url.URL
	for i, raw := range splitURLs(urls) {
		u, err := parseNodeURL(raw)
		if err != nil {
			return nil, fmt.Errorf("node URL %d: %w", i+1, err)
		}
		if u.User != nil {
			p, _ := u.User.Password()
			switch {
			case o.hasAuth:
			case !hasAuth:
				user, pass, hasAuth = u.User.Username(), p, true
			case user != u.User.Username() || pass != p:
				return nil, fmt.Errorf("node URL %d has other credentials than the one before: %w", i+1, ErrInvalidURL)
			}
		}
		if u.Scheme != "https" {
			e.secure = false
		}
		bases = append(bases, url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath})
	}
	if len(bases) == 0 {
		return nil, fmt.Errorf("no node URL given: %w", ErrInvalidURL)
	}
	e.header = http.Header{"User-Agent": {"quorate"}}
	if hasAuth {
		if strings.ContainsFunc(user+pass, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			return nil, errors.New("credentials hold a control character")
		}
		e.header.Set("Authorization", "Basic "+basicAuth(user, pass))
		e.secret = secretForms(user, pass)
	}
	e.post = e.header.Clone()
	e.post.Set("Content-Type", "application/json")
	for _, b := range bases {
		e.add(b, true)
	}
	return e, nil
}

func basicAuth(user, pass string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + pass))
}

// secretForms returns the texts that give a password away.
func secretForms(user, pass string) []string {
	if pass == "" {
		return nil
	}
	u := url.UserPassword(user, pass).String()
	_, inUserinfo, _ := strings.Cut(u, ":")
	return []string{
		basicAuth(user, pass),
		base64.StdEncoding.EncodeToString([]byte(pass)),
		base64.RawURLEncoding.EncodeToString([]byte(pass)),
		url.QueryEscape(pass), url.PathEscape(pass), inUserinfo,
		pass,
	}
}

// scrub removes the password from text that came from outside.
func (e *endpoints) scrub(s string) string {
	for _, secret := range e.secret {
		s = strings.ReplaceAll(s, secret, "[redacted]")
	}
	return s
}

// splitURLs splits lists like "http://user:pw@host1:4001,host2:4001". An element
// without a scheme has that of the element before it. A comma in a password must
// be written %2C.
func splitURLs(urls []string) []string {
	var out []string
	scheme := "http://"
	for _, list := range urls {
		for _, s := range strings.Split(list, ",") {
			s = strings.TrimSpace(s)
			if s == "" {
				continue
			}
			if i := strings.Index(s, "://"); i >= 0 {
				scheme = s[:i+3]
			} else {
				s = scheme + s
			}
			out = append(out, s)
		}
	}
	return out
}

// parseNodeURL parses the address of a node. Its errors do not repeat it.
func parseNodeURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		// The text of err holds the address.
		return nil, fmt.Errorf("it cannot be parsed: %w", ErrInvalidURL)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("its scheme is neither http nor https: %w", ErrInvalidURL)
	case u.Hostname() == "":
		return nil, fmt.Errorf("it has no host: %w", ErrInvalidURL)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("it has a query or a fragment: %w", ErrInvalidURL)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// add adds a node, unless it is there, and returns it.
func (e *endpoints) add(base url.URL, seed bool) *node {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.nodes {
		if n.base.Scheme == base.Scheme && n.base.Host == base.Host {
			return n
		}
	}
	n := &node{base: base, seed: seed, header: e.header, post: e.post, slots: make(slots, e.conns)}
	e.nodes = append(e.nodes, n)
	return n
}

// all returns the nodes.
func (e *endpoints) all() []*node {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.nodes)
}

// discovered takes over the addresses that a node of the set lists. If the list
// is complete, nodes that were discovered earlier and are no longer listed go,
// except keep.
func (e *endpoints) discovered(list []listed, keep *node) {
	listing := make(map[string]bool)
	complete := len(list) > 0
	for _, l := range list {
		if l.APIAddr == "" {
			complete = false // an unreachable node has no address
			continue
		}
		u, err := e.acceptable(l.APIAddr)
		if err != nil {
			complete = false
			continue
		}
		listing[e.add(*u, false).String()] = true
	}
	if !complete {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes = slices.DeleteFunc(e.nodes, func(n *node) bool {
		return !n.seed && n != keep && !listing[n.String()]
	})
}

// acceptable parses an address that a server gave.
func (e *endpoints) acceptable(raw string) (*url.URL, error) {
	u, err := parseNodeURL(raw)
	if err != nil {
		return nil, err
	}
	if u.User != nil {
		return nil, fmt.Errorf("it has credentials: %w", ErrInvalidURL)
	}
	if e.secure && u.Scheme != "https" {
		return nil, fmt.Errorf("it has no TLS: %w", ErrInvalidURL)
	}
	return u, nil
}

// lookup finds the node at which a redirect points; the path is that of the
// request. The address has to be one of the set.
func (e *endpoints) lookup(location, path string) (*node, error) {
	// Only scheme, host and path prefix matter: the client keeps its own
	// parameters.
	if i := strings.IndexAny(location, "?#"); i >= 0 {
		location = location[:i]
	}
	u, err := e.acceptable(location)
	if err != nil {
		return nil, fmt.Errorf("redirect: %w", err)
	}
	prefix, ok := strings.CutSuffix(u.Path, path)
	if !ok {
		return nil, fmt.Errorf("redirect to another path: %w", ErrInvalidURL)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, n := range e.nodes {
		if n.base.Scheme != u.Scheme || n.base.Host != u.Host {
			continue
		}
		if n.base.Path != prefix {
			// The node itself knows best where its API begins.
			moved := &node{base: n.base, seed: n.seed, header: n.header, post: n.post, slots: n.slots}
			moved.base.Path, moved.base.RawPath = prefix, ""
			e.nodes[i] = moved
			n = moved
		}
		return n, nil
	}
	return nil, errUnlisted
}

// errUnlisted says that an address is none of the set.
var errUnlisted = errors.New("node is neither configured nor listed by a known node")

// next returns the nodes in the order in which to try them: each call begins
// with another one, and nodes that cannot be reached come last.
func (e *endpoints) next() []*node {
	e.mu.Lock()
	order := append(slices.Clone(e.nodes[e.turn%len(e.nodes):]), e.nodes[:e.turn%len(e.nodes)]...)
	e.turn++
	e.mu.Unlock()
	now := time.Now()
	until := make(map[*node]time.Time, len(order))
	for _, n := range order {
		if t := n.down(); t.After(now) {
			until[n] = t
		}
	}
	if len(until) > 0 {
		slices.SortStableFunc(order, func(a, b *node) int { return until[a].Compare(until[b]) })
	}
	return order
}
