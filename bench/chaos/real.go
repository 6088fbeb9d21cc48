package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/rqlite/gorqlite"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlited"
)

// actual is a cluster of real nodes on this machine.
type actual struct {
	*rqlited.Cluster
	hc    *http.Client
	kinds deck

	mu   sync.Mutex
	conn *gorqlite.Connection
}

func startActual(ctx context.Context, binary string) (*actual, error) {
	c, err := rqlited.Start(ctx, rqlited.Options{Binary: binary, Nodes: 3})
	if err != nil {
		return nil, err
	}
	return &actual{Cluster: c, hc: &http.Client{}}, nil
}

func (a *actual) name() string { return "real rqlited, 3 nodes on this machine" }

func (a *actual) urls() []string { return a.URLs() }

func (a *actual) options() []client.Option { return nil }

func (a *actual) lanes() []lane { return []lane{a.failLeader} }

func (a *actual) close() error {
	if a.conn != nil {
		a.conn.Close()
	}
	a.hc.CloseIdleConnections()
	return a.Close()
}

func (a *actual) heal(ctx context.Context) error {
	_, err := a.Leader(ctx)
	return err
}

// query asks by another client than the one under test, through Raft.
func (a *actual) query(ctx context.Context, sql string, args ...any) ([][]any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		leader, err := a.Leader(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := gorqlite.Open(a.URLs()[leader])
		if err != nil {
			return nil, err
		}
		if err := conn.SetConsistencyLevel(gorqlite.ConsistencyLevelStrong); err != nil {
			return nil, err
		}
		a.conn = conn
	}
	q, err := a.conn.QueryOneParameterizedContext(ctx, gorqlite.ParameterizedStatement{Query: sql, Arguments: args})
	if err != nil {
		return nil, errors.Join(err, q.Err)
	}
	var rows [][]any
	for q.Next() {
		r, err := q.Slice()
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// electionLimit is how long a new leader, and its first write, are looked for.
const electionLimit = 30 * time.Second

// failLeader kills, pauses or stops the leader, and brings it back.
func (a *actual) failLeader(ctx context.Context, rng *rand.Rand) fault {
	kind := a.kinds.draw(rng, 3)
	hold := between(rng, 1500*time.Millisecond, 3*time.Second)
	leader, err := a.Leader(ctx)
	if err != nil {
		return fault{kind: "none: the run ended", at: time.Now(), over: time.Now()}
	}
	w, err := newElectionWatch(ctx, a.hc, a.URLs(), leader)
	if err != nil {
		return fault{kind: "none: no term", at: time.Now(), over: time.Now(), err: err}
	}
	f := fault{at: time.Now(), held: hold}
	watch, cancel := context.WithTimeout(context.Background(), electionLimit)
	defer cancel()
	go w.run(watch)
	// A node that was failed comes back even if the run is over.
	back, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var do, undo func() error
	restart := func() error { return a.Restart(back, leader) }
	switch kind {
	case 0:
		f.kill = true
		f.kind, do, undo = "leader killed (SIGKILL)", func() error { return a.Kill(leader) }, restart
	case 1:
		f.kind, do, undo = "leader paused (SIGSTOP)", func() error { return a.Pause(leader) }, func() error { return a.Resume(leader) }
	default:
		f.kind, do, undo = "leader stopped (SIGTERM)", func() error { return a.Stop(leader) }, restart
	}
	err = carryOut(do, func() error {
		f.elected = <-w.elected
		pause(ctx, hold-time.Since(f.at))
		if f.elected.IsZero() {
			return fmt.Errorf("no node led anew within %v", electionLimit)
		}
		return nil
	}, undo)
	f.over, f.err = time.Now(), err
	if f.elected.IsZero() {
		cancel() // there is nothing to wait for
	}
	f.writable = <-w.writable
	return f
}
