package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// electionWatch looks at a cluster whose leader fails, past the library under
// test: when another node leads, and when that node can write. The second is
// later, since a new leader commits nothing before a quorum has caught up with
// it; what the library is to be measured by is that.
type electionWatch struct {
	hc   *http.Client
	urls []string
	old  int
	term int64 // of the old leader

	elected  chan time.Time // gets one time: when another leader was seen, or zero
	writable chan time.Time // gets one time: when it had answered a write, or zero
}

// newElectionWatch asks node old, which leads, for its term.
func newElectionWatch(ctx context.Context, hc *http.Client, urls []string, old int) *electionWatch {
	w := &electionWatch{hc: hc, urls: urls, old: old, elected: make(chan time.Time, 1), writable: make(chan time.Time, 1)}
	w.term = w.state(ctx, old).term
	return w
}

// run looks at the nodes other than the old leader every 10 ms, and returns when
// one of them that leads has answered a write, or ctx ended.
func (w *electionWatch) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var nodes sync.WaitGroup
	for i := range w.urls {
		if i != w.old {
			nodes.Go(func() {
				defer cancel()
				w.watch(ctx, i)
			})
		}
	}
	nodes.Wait()
	first(w.elected, time.Time{})
	first(w.writable, time.Time{})
}

// watch returns when node i has led and answered a write, or ctx ended.
func (w *electionWatch) watch(ctx context.Context, i int) {
	for ctx.Err() == nil {
		if s := w.state(ctx, i); s.leads && s.term > w.term {
			first(w.elected, time.Now())
			if w.write(ctx, i) {
				first(w.writable, time.Now())
				return
			}
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// first puts t into c unless there is a time in it already.
func first(c chan time.Time, t time.Time) {
	select {
	case c <- t:
	default:
	}
}

// raftState is what a node says of itself.
type raftState struct {
	term  int64
	leads bool
}

// state asks node i.
func (w *electionWatch) state(ctx context.Context, i int) raftState {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var s struct {
		State string
		Term  json.Number
	}
	if !w.ask(ctx, http.MethodGet, w.urls[i]+"/status?key=store.raft", "", &s) {
		return raftState{}
	}
	term, _ := s.Term.Int64()
	return raftState{term, s.State == "Leader"}
}

// write sends node i a write that changes nothing and yet goes through Raft.
func (w *electionWatch) write(ctx context.Context, i int) bool {
	var a struct {
		Error   string
		Results []struct{ Error string }
	}
	return w.ask(ctx, http.MethodPost, w.urls[i]+"/db/execute", `["CREATE TABLE IF NOT EXISTS chaos_writable (n INTEGER)"]`, &a) &&
		a.Error == "" && len(a.Results) == 1 && a.Results[0].Error == ""
}

// ask reports whether there was an answer that could be read.
func (w *electionWatch) ask(ctx context.Context, method, url, body string, answer any) bool {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.hc.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(answer) == nil
}
