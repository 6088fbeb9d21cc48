package rqlitetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
)

// Kind is a kind of request, or a set of kinds joined by |.
type Kind uint16

// The kinds of requests. KindAny is all of them.
const (
	KindExecute Kind = 1 << iota // /db/execute
	KindQuery                    // /db/query
	KindRequest                  // /db/request
	KindNodes                    // /nodes
	KindLeader                   // /leader
	KindStatus                   // /status
	KindReadyz                   // /readyz
	KindOther                    // every other path
	KindWire                     // no request but an event on a connection; in the log only

	KindDB  = KindExecute | KindQuery | KindRequest
	KindAny = KindDB | KindNodes | KindLeader | KindStatus | KindReadyz | KindOther
)

var kindNames = [...]string{"execute", "query", "request", "nodes", "leader", "status", "readyz", "other", "wire"}

// String returns the kinds' names, joined by |.
func (k Kind) String() string {
	var names []string
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// kindOf classes a path as the server routes it.
func kindOf(path string) Kind {
	switch {
	case strings.HasPrefix(path, "/db/execute"):
		return KindExecute
	case strings.HasPrefix(path, "/db/query"):
		return KindQuery
	case strings.HasPrefix(path, "/db/request"):
		return KindRequest
	case strings.HasPrefix(path, "/status"):
		return KindStatus
	case strings.HasPrefix(path, "/nodes"):
		return KindNodes
	case path == "/leader":
		return KindLeader
	case strings.HasPrefix(path, "/readyz"):
		return KindReadyz
	}
	return KindOther
}

// Request is a request as faults and hooks see it. They must not change it.
type Request struct {
	Node   *Node // that received it
	Kind   Kind
	Method string
	Path   string
	Query  string // raw query string
	Header http.Header
	Body   []byte // nil for an action that acts before the body is read
}

// Has reports whether the query string has the parameter, with or without a value.
func (r *Request) Has(param string) bool {
	for part := range strings.SplitSeq(r.Query, "&") {
		if name, _, _ := strings.Cut(part, "="); name == param {
			return true
		}
	}
	return false
}

// Response is an answer.
type Response struct {
	Status int // 0 stands for 200
	Header http.Header
	Body   []byte

	foreign bool // not the server's own: carries none of its headers
}

// Match says which requests a fault is for. The zero Match is for all, always.
type Match struct {
	Node        *Node               // the node that receives the request; nil for any
	Kind        Kind                // kinds of requests; 0 for any
	Skip        int                 // lets this many matching requests pass first
	Times       int                 // how many requests the fault happens to; 0 for no limit
	Probability float64             // chance for each of them; 0 stands for 1
	If          func(*Request) bool // a further condition; must not block
}

// Fault is an injected fault, to watch and to end.
type Fault struct {
	table    *faultTable
	match    Match
	action   Action
	released chan struct{} // closed when the fault is removed
	once     sync.Once

	// Guarded by the table's mu.
	skipped int
	hits    int
	wake    chan struct{}
}

// Hits returns how many requests the fault has happened to.
func (f *Fault) Hits() int {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	return f.hits
}

// WaitHits waits until the fault has happened to n requests. It returns the
// context's error, or an error if the fault is removed before.
func (f *Fault) WaitHits(ctx context.Context, n int) error {
	for {
		f.table.mu.Lock()
		hits, wake := f.hits, f.wake
		f.table.mu.Unlock()
		if hits >= n {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a fault to happen: %w", ctx.Err())
		case <-f.released:
			return fmt.Errorf("rqlitetest: fault removed after %d of %d requests", hits, n)
		}
	}
}

// Remove ends the fault. Requests that hang in it are let go of: they go on if
// the action was one that holds them back, and are reset otherwise.
func (f *Fault) Remove() {
	f.table.mu.Lock()
	for i, g := range f.table.list {
		if g == f {
			f.table.list = append(f.table.list[:i:i], f.table.list[i+1:]...)
			break
		}
	}
	f.table.mu.Unlock()
	f.release()
}

func (f *Fault) release() { f.once.Do(func() { close(f.released) }) }

// faultTable holds the injected faults in order.
type faultTable struct {
	mu   sync.Mutex
	list []*Fault
	rng  *rand.Rand
}

func newFaultTable(seed uint64) *faultTable {
	return &faultTable{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
}

func (t *faultTable) add(m Match, a Action) *Fault {
	if m.Kind == 0 {
		m.Kind = KindAny
	}
	f := &Fault{table: t, match: m, action: a, released: make(chan struct{}), wake: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, f)
	return f
}

func (t *faultTable) clear() {
	t.mu.Lock()
	list := t.list
	t.list = nil
	t.mu.Unlock()
	for _, f := range list {
		f.release()
	}
}

// pick returns the fault that happens to the request, if any. It is asked twice:
// early, when the body is unread, and late.
func (t *faultTable) pick(r *Request, early bool) *Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.list {
		if f.action.early == early && t.happens(f, r) {
			f.hits++
			close(f.wake)
			f.wake = make(chan struct{})
			return f
		}
	}
	return nil
}

func (t *faultTable) happens(f *Fault, r *Request) bool {
	m := &f.match
	switch {
	case m.Kind&r.Kind == 0, m.Node != nil && m.Node != r.Node, m.Times > 0 && f.hits >= m.Times:
		return false
	case f.action.only != nil && !f.action.only(r), m.If != nil && !m.If(r):
		return false
	}
	if f.skipped < m.Skip {
		f.skipped++
		return false
	}
	return m.Probability <= 0 || m.Probability >= 1 || t.rng.Float64() < m.Probability
}
