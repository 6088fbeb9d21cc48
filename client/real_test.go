package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlited"
	"github.com/quorate/quorate/store/engine"
)

// realCluster starts a real three-node cluster and opens an engine on it.
func realCluster(t *testing.T, opts ...client.Option) (*rqlited.Cluster, *client.Engine) {
	t.Helper()
	bin := rqlited.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := rqlited.Start(ctx, rqlited.Options{Binary: bin, Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	e, err := client.Open(ctx, c.URLs(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return c, e
}

func TestRealClusterRoundTrip(t *testing.T) {
	_, e := realCluster(t)
	ctx := t.Context()
	ddl := []string{
		`CREATE TABLE IF NOT EXISTS t (id TEXT PRIMARY KEY, n INTEGER, r REAL, b BLOB)`,
		`ALTER TABLE t ADD COLUMN extra TEXT`,
	}
	for range 2 {
		if err := e.Define(ctx, ddl); err != nil {
			t.Fatal(err)
		}
	}
	res, err := e.Exec(ctx, []engine.Statement{
		{SQL: `INSERT INTO t (id, n, r, b) VALUES (?, ?, ?, ?)`, Args: []engine.Value{engine.Text("a\"\x01<é>😀"), engine.Int(9223372036854775807), engine.Float(1), engine.Blob("\x00\xff")}},
		{SQL: `UPDATE t SET n = 0 WHERE id = ?`, Args: []engine.Value{engine.Text("none")}},
		{SQL: `INSERT INTO t (id, n, r) VALUES (?, ?, ?) RETURNING id, n`, Args: []engine.Value{engine.Text("b"), engine.Int(-9007199254740993), engine.Null()}, Returning: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if res[0].RowsAffected != 1 || res[1].RowsAffected != 0 || res[2].Len() != 1 {
		t.Errorf("results: %+v", res)
	}
	for _, level := range []engine.Consistency{engine.Linearizable, engine.Weak} {
		rows, err := e.Query(ctx, level, []engine.Statement{{SQL: `SELECT id, n, r, b FROM t ORDER BY id`}, {SQL: `SELECT 1 WHERE 0`}})
		if err != nil {
			t.Fatal(err)
		}
		got := rows[0].Row(0)
		want := []engine.Value{engine.Text("a\"\x01<é>😀"), engine.Int(9223372036854775807), engine.Float(1), engine.Blob("\x00\xff")}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%v: column %d: %v, want %v", level, i, got[i], want[i])
			}
		}
		if n, _ := rows[0].Row(1)[1].Int(); n != -9007199254740993 {
			t.Errorf("n = %d", n)
		}
		if rows[1].Len() != 0 {
			t.Errorf("%d rows, want none", rows[1].Len())
		}
	}
	_, err = e.Exec(ctx, []engine.Statement{
		{SQL: `INSERT INTO t (id) VALUES ('c')`},
		{SQL: `INSERT INTO t (id) VALUES ('b')`},
	})
	var se *engine.StatementError
	if !errors.As(err, &se) || se.Index != 1 || !errors.Is(err, engine.ErrNotApplied) {
		t.Errorf("constraint: %v", err)
	}
	if err := e.Ping(ctx); err != nil {
		t.Error(err)
	}
	qr, err := e.Gorqlite().QueryOneContext(ctx, `SELECT count(*) FROM t`)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	if qr.Next(); qr.Scan(&n) != nil || n != 2 {
		t.Errorf("count = %d", n)
	}
	t.Logf("%v %+v", e, e.Stats())
}

// A leader that is killed, paused, stopped and restarted under load: what was
// acknowledged is there once, what was not applied is not there, and what is
// unknown is there at most once.
func TestRealClusterUnderFaults(t *testing.T) {
	c, e := realCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := e.Define(ctx, []string{schema}); err != nil {
		t.Fatal(err)
	}
	const writers = 16
	var (
		mu       sync.Mutex
		outcomes = map[string]error{}
		acked    atomic.Int64
		slowest  atomic.Int64 // latency of acknowledged writes
		reads    atomic.Int64
	)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", w, i)
				began := time.Now()
				_, err := e.Exec(ctx, count(id))
				mu.Lock()
				outcomes[id] = err
				mu.Unlock()
				if err == nil {
					acked.Add(1)
					for d := int64(time.Since(began)); ; {
						if old := slowest.Load(); old >= d || slowest.CompareAndSwap(old, d) {
							break
						}
					}
				}
				if i%8 != 0 {
					continue
				}
				res, err2 := e.Query(ctx, engine.Linearizable, []engine.Statement{{SQL: `SELECT n FROM t WHERE id = ?`, Args: []engine.Value{engine.Text(id)}}})
				if err2 != nil {
					t.Errorf("read: %v", err2)
				} else if err == nil && res[0].Len() != 1 {
					t.Errorf("an acknowledged write is not seen")
				}
				reads.Add(1)
			}
		})
	}
	// progress waits until n more writes were acknowledged.
	progress := func(n int64) {
		t.Helper()
		for until := acked.Load() + n; acked.Load() < until; {
			select {
			case <-ctx.Done():
				t.Fatal("no progress")
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	progress(500)
	for _, fault := range []struct {
		name      string
		do, after func(i int) error
	}{
		{"kill", c.Kill, func(i int) error { return c.Restart(ctx, i) }},
		{"pause", c.Pause, c.Resume},
		{"stop", c.Stop, func(i int) error { return c.Restart(ctx, i) }},
		{"kill again", c.Kill, func(i int) error { return c.Restart(ctx, i) }},
		{"short pause", func(i int) error { return errors.Join(c.Pause(i), c.Resume(i)) }, func(int) error { return nil }},
	} {
		slowest.Store(0)
		leader, err := c.Leader(ctx)
		check(err)
		before := e.Stats()
		began := time.Now()
		check(fault.do(leader))
		progress(1)
		t.Logf("%s: first write acknowledged %v after the fault", fault.name, time.Since(began).Round(time.Millisecond))
		progress(500)
		check(fault.after(leader))
		progress(500)
		after := e.Stats()
		t.Logf("%s: slowest acknowledged write %v; %d unknown, %d retries, %d probes, %d redirects", fault.name,
			time.Duration(slowest.Load()).Round(time.Millisecond), after.Unknown-before.Unknown, after.Retries-before.Retries,
			after.Probes-before.Probes, after.Redirects-before.Redirects)
	}
	close(stop)
	wg.Wait()

	res, err := e.Query(ctx, engine.Linearizable, []engine.Statement{{SQL: `SELECT id, n FROM t`}})
	check(err)
	stored := map[string]int64{}
	for i := range res[0].Len() {
		row := res[0].Row(i)
		id, _ := row[0].Text()
		stored[id], _ = row[1].Int()
	}
	kinds := map[engine.Outcome]int{}
	lost := 0
	for id, err := range outcomes {
		n := stored[id]
		o := engine.OutcomeOf(err)
		kinds[o]++
		switch {
		case o == engine.Applied && n != 1, o == engine.NotApplied && n != 0, n > 1:
			t.Errorf("write %s with outcome %v (%v) was applied %d times", id, o, err, n)
		case o == engine.Unknown && n == 0:
			lost++
		}
	}
	t.Logf("%d acknowledged, %d not applied, %d unknown (of which %d were not applied), %d reads; %+v",
		kinds[engine.Applied], kinds[engine.NotApplied], kinds[engine.Unknown], lost, reads.Load(), e.Stats())
}

// Wrong credentials, an untrusted certificate and mutual TLS with a real server.
func TestRealClusterCredentials(t *testing.T) {
	bin := rqlited.Require(t)
	dir := t.TempDir()
	auth := filepath.Join(dir, "auth.json")
	if err := os.WriteFile(auth, []byte(`[{"username":"bob","password":"p@ss/w%rd#;","perms":["all"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := rqlited.Start(ctx, rqlited.Options{Binary: bin, Nodes: 1, ExtraArgs: []string{"-auth", auth}, Username: "bob", Password: oddPassword})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := client.Open(ctx, c.URLs(), client.WithBasicAuth("bob", "wrong")); !errors.Is(err, engine.ErrUnauthorized) {
		t.Errorf("wrong password: %v", err)
	}
	if _, err := client.Open(ctx, c.URLs()); !errors.Is(err, engine.ErrUnauthorized) {
		t.Errorf("no password: %v", err)
	}
	e, err := client.Open(ctx, []string{withAuth(c.URLs()[0], "bob", oddPassword)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Define(ctx, []string{schema}); err != nil {
		t.Error(err)
	}
	if _, err := e.Exec(ctx, count("a")); err != nil {
		t.Error(err)
	}
	if _, err := client.Open(ctx, []string{strings.Replace(c.URLs()[0], "http", "https", 1)}); !errors.Is(err, engine.ErrInsecure) {
		t.Errorf("https to a plain port: %v", err)
	}
}
