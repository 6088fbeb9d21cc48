package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// node is a server that speaks of itself as a node does: it tells the next of its
// states each time, and the last for good; with answers to writes, the same.
type node struct {
	mu             sync.Mutex
	states, writes []string
	wrote          int
	left           int    // requests until end is called
	end            func() // or nil
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left--; n.left <= 0 && n.end != nil {
		n.end()
	}
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

// watchNodes watches nodes of which the first leads.
func watchNodes(t *testing.T, ctx context.Context, nodes ...*node) (elected, writable time.Time, err error) {
	t.Helper()
	var urls []string
	for _, n := range nodes {
		s := httptest.NewServer(n)
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	hc := &http.Client{}
	t.Cleanup(hc.CloseIdleConnections)
	w, err := newElectionWatch(ctx, hc, urls, 0)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	w.run(ctx)
	return <-w.elected, <-w.writable, nil
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
	elected, writable, err := watchNodes(t, t.Context(), old, next, other)
	if err != nil || elected.IsZero() || !writable.After(elected) {
		t.Errorf("elected at %v, writable at %v, %v", elected, writable, err)
	}
	if old.wrote != 0 || next.wrote != 5 || other.wrote != 0 {
		t.Errorf("writes sent to the old leader, the new and the other: %d, %d, %d; want 0, 5, 0", old.wrote, next.wrote, other.wrote)
	}
}

// A leader that was paused or restarted may be the next one as well, and the one
// between may never have written anything.
func TestElectionWatchOldLeaderAgain(t *testing.T) {
	old := &node{states: []string{oldLeader, oldLeader, "503", follower, `{"state":"Leader","term":"6"}`}, writes: []string{written}}
	between := &node{states: []string{newLeader, follower}, writes: []string{"503"}}
	elected, writable, err := watchNodes(t, t.Context(), old, between)
	if err != nil || elected.IsZero() || !writable.After(elected) || old.wrote != 1 {
		t.Errorf("elected at %v, writable at %v, %v, %d writes sent to the old leader", elected, writable, err, old.wrote)
	}
}

// The watch ends with its context, and then tells what it saw. Without the old
// leader's term there is none: every leader would be a new one.
func TestElectionWatchEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		states  []string
		elected bool
	}{
		{"cannot write", []string{newLeader}, true},
		{"never leads", []string{follower}, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		next := &node{states: c.states, writes: []string{"503"}, left: 20, end: cancel}
		elected, writable, err := watchNodes(t, ctx, &node{states: []string{oldLeader}}, next)
		if err != nil || elected.IsZero() == c.elected || !writable.IsZero() {
			t.Errorf("%s: elected at %v, writable at %v, %v", c.name, elected, writable, err)
		}
		cancel()
	}
	for _, answer := range []string{"503", "<html>", `{"state":"Leader"}`} {
		if _, _, err := watchNodes(t, t.Context(), &node{states: []string{answer}}); err == nil {
			t.Errorf("%s: the watch began without a term", answer)
		}
	}
}

// What the cluster took is told only of what it did, and a gap may be the shorter.
func TestLags(t *testing.T) {
	var l lags
	at := time.Now()
	if over := l.add(at, time.Time{}, time.Second); over != 0 || l.describe("election") != "" {
		t.Errorf("over nothing: %v, %q", over, l.describe("election"))
	}
	for _, c := range []struct{ took, gap, over time.Duration }{
		{time.Second, 1250 * time.Millisecond, 250 * time.Millisecond},
		{2 * time.Second, 1990 * time.Millisecond, -10 * time.Millisecond},
		{3 * time.Second, 3100 * time.Millisecond, 100 * time.Millisecond},
	} {
		if over := l.add(at, at.Add(c.took), c.gap); over != c.over {
			t.Errorf("gap %v over %v: %v, want %v", c.gap, c.took, over, c.over)
		}
	}
	if got, want := l.describe("election"), "; election median 2s, max 3s; gap over it median 100ms, max 250ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
