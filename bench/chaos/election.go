package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// electionWatch looks at a cluster whose leader fails, past the library under
// test: when a node leads in a newer term, and when one that does can write. The
// second is later, since a new leader commits nothing before a quorum has caught
// up with it; the library cannot be faster than that.
type electionWatch struct {
	hc   *http.Client
	urls []string
	term int64 // of the leader that fails

	// Of each, the first time counts. They are closed when the watch ends, so
	// that whoever waits for what did not happen gets zero.
	elected, writable chan time.Time
}

// newElectionWatch asks the node that leads for its term.
func newElectionWatch(ctx context.Context, hc *http.Client, urls []string, leader int) (*electionWatch, error) {
	w := &electionWatch{hc: hc, urls: urls, elected: make(chan time.Time, len(urls)), writable: make(chan time.Time, len(urls))}
	s, err := w.state(ctx, leader)
	if err != nil {
		return nil, fmt.Errorf("ask the leader for its term: %w", err)
	}
	w.term = s.term
	return w, nil
}

// run watches until a new leader has answered a write, or ctx ends. It looks at
// all nodes, since the one that failed may be back and lead again.
func (w *electionWatch) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var nodes sync.WaitGroup
	for i := range w.urls {
		nodes.Go(func() {
			defer cancel()
			w.watch(ctx, i)
		})
	}
	nodes.Wait()
	close(w.elected)
	close(w.writable)
}

// watch looks at node i every 10 ms, and returns when it has led in a newer term
// and answered a write, or ctx ended.
func (w *electionWatch) watch(ctx context.Context, i int) {
	seen := false
	for ctx.Err() == nil {
		if s, err := w.state(ctx, i); err == nil && s.leads && s.term > w.term {
			if !seen {
				seen = true
				w.elected <- time.Now()
			}
			if w.write(ctx, i) == nil {
				w.writable <- time.Now()
				return
			}
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// raftState is what a node says of itself.
type raftState struct {
	term  int64
	leads bool
}

// state asks node i.
func (w *electionWatch) state(ctx context.Context, i int) (raftState, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var s struct {
		State string
		Term  json.Number
	}
	if err := w.ask(ctx, http.MethodGet, w.urls[i]+"/status?key=store.raft", "", &s); err != nil {
		return raftState{}, err
	}
	term, err := s.Term.Int64()
	return raftState{term, s.State == "Leader"}, err
}

// write sends node i a write that changes nothing and yet goes through Raft.
func (w *electionWatch) write(ctx context.Context, i int) error {
	var a struct {
		Error   string
		Results []struct{ Error string }
	}
	if err := w.ask(ctx, http.MethodPost, w.urls[i]+"/db/execute", `["CREATE TABLE IF NOT EXISTS chaos_writable (n INTEGER)"]`, &a); err != nil {
		return err
	}
	if a.Error != "" || len(a.Results) != 1 || a.Results[0].Error != "" {
		return fmt.Errorf("not written: %+v", a)
	}
	return nil
}

// ask sends a request and reads the answer, which must be one of status 200.
func (w *electionWatch) ask(ctx context.Context, method, url, body string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
