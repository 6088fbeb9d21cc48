package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// node is a server that speaks of itself as a node does. When it is asked of
// itself it tells the next of its states, and the last for good; with writes,
// the same.
type node struct {
	mu             sync.Mutex
	states, writes []string
	wrote          int
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := &n.states
	if r.Method == http.MethodPost {
		next = &n.writes
		n.wrote++
	}
	answer := (*next)[0]
	if len(*next) > 1 {
		*next = (*next)[1:]
	}
	if answer == "503" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, answer)
}

const (
	oldLeader = `{"state":"Leader","term":"4"}`
	follower  = `{"state":"Follower","term":"4"}`
	newLeader = `{"state":"Leader","term":"5"}`
	written   = `{"results":[{}]}`
)

func watchNodes(t *testing.T, ctx context.Context, nodes ...*node) (elected, writable time.Time) {
	t.Helper()
	var urls []string
	for _, n := range nodes {
		s := httptest.NewServer(n)
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	hc := &http.Client{}
	t.Cleanup(hc.CloseIdleConnections)
	w := newElectionWatch(ctx, hc, urls, 0)
	w.run(ctx)
	return <-w.elected, <-w.writable
}

// A leader counts as elected when it says so in a newer term, and as writable
// when it has answered a write without an error in any place.
func TestElectionWatch(t *testing.T) {
	old := &node{states: []string{oldLeader}, writes: []string{written}}
	next := &node{
		states: []string{"503", "<html>", oldLeader, follower, newLeader},
		writes: []string{"503", `{"results":[],"error":"leader not found"}`, `{"results":[{"error":"disk full"}]}`, `{"results":[]}`, written},
	}
	other := &node{states: []string{follower}, writes: []string{written}}
	elected, writable := watchNodes(t, t.Context(), old, next, other)
	if elected.IsZero() || !writable.After(elected) {
		t.Errorf("elected at %v, writable at %v", elected, writable)
	}
	if old.wrote != 0 || next.wrote != 5 || other.wrote != 0 {
		t.Errorf("writes sent to the old leader, the new and the other: %d, %d, %d; want 0, 5, 0", old.wrote, next.wrote, other.wrote)
	}
}

// A leader that cannot write until the watch ends was elected all the same.
func TestElectionWatchEnds(t *testing.T) {
	for _, c := range []struct {
		states  []string
		elected bool
	}{
		{[]string{newLeader}, true},
		{[]string{follower}, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		asked := &endAfter{n: 20, end: cancel}
		next := &node{states: c.states, writes: []string{"503"}}
		s := httptest.NewServer(asked.around(next))
		hc := &http.Client{}
		w := newElectionWatch(ctx, hc, []string{"http://127.0.0.1:0", s.URL}, 0)
		w.run(ctx)
		elected, writable := <-w.elected, <-w.writable
		if elected.IsZero() == c.elected || !writable.IsZero() {
			t.Errorf("%s: elected at %v, writable at %v", strings.Join(c.states, " "), elected, writable)
		}
		cancel()
		hc.CloseIdleConnections()
		s.Close()
	}
}

// endAfter calls end with the nth request.
type endAfter struct {
	mu  sync.Mutex
	n   int
	end func()
}

func (e *endAfter) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.n--
		over := e.n <= 0
		e.mu.Unlock()
		if over {
			e.end()
		}
		h.ServeHTTP(w, r)
	})
}
