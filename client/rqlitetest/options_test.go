package rqlitetest

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	_, err := New(Nodes(0), ElectionTimeout(0), LeaderLease(-1), Latency(-1, 0), LogLimit(-1))
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"Nodes", "ElectionTimeout", "LeaderLease", "Latency", "LogLimit"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("error %q does not name %s", err, name)
		}
	}
}

func TestLatency(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		took := func(path string) time.Duration {
			start := time.Now()
			post(t, cl, c.URL(0)+path, `["SELECT 1"]`)
			return time.Since(start)
		}
		if w, r := took("/db/execute"), took("/db/query"); w != 5*time.Millisecond || r != time.Millisecond {
			t.Errorf("write took %v, read %v; want 5ms and 1ms", w, r)
		}
		// Writes wait side by side.
		start := time.Now()
		done := make(chan error, 10)
		for range cap(done) {
			go func() {
				_, _, err := try(t.Context(), cl, c.URL(0)+"/db/execute", insert)
				done <- err
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(start); d != 5*time.Millisecond {
			t.Errorf("10 writes took %v, want 5ms", d)
		}
		c.SetLatency(0, 0)
		if d := took("/db/execute"); d != 0 {
			t.Errorf("a write took %v after the latency was taken away", d)
		}
	}, Latency(5*time.Millisecond, time.Millisecond))
}

func TestForeignKeys(t *testing.T) {
	for on, want := range map[bool]string{true: "FOREIGN KEY constraint failed", false: "rows_affected"} {
		var opts []Option
		if on {
			opts = append(opts, ForeignKeys())
		}
		c := Start(t, opts...)
		_, body := post(t, client(t, c), c.URL(0)+"/db/execute", `["CREATE TABLE p(id INTEGER PRIMARY KEY)","CREATE TABLE q(p REFERENCES p(id))","INSERT INTO q VALUES(1)"]`)
		if !strings.Contains(body, want) {
			t.Errorf("foreign keys %v: %s, want %q", on, body, want)
		}
	}
}

func TestVersionAndHeaders(t *testing.T) {
	c := Start(t, Version("v9.9.9"))
	resp, err := client(t, c).Get(c.URL(0) + "/nope")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("X-Rqlite-Version"); resp.StatusCode != 404 || got != "v9.9.9" {
		t.Errorf("status %d, version %q", resp.StatusCode, got)
	}
}

func TestRequestLog(t *testing.T) {
	c, cl := withTable(t, LogLimit(3))
	for range 5 {
		post(t, cl, c.URL(1)+"/db/execute?transaction", insert)
	}
	log := c.Log()
	if len(log) != 3 || log[0].Seq != 3 || log[2].Seq != 5 {
		t.Fatalf("%d entries: %+v", len(log), log)
	}
	e := log[2]
	if e.Node != "node2" || e.Kind != KindExecute || e.Method != "POST" || e.Path != "/db/execute" || e.Query != "transaction" || string(e.Body) != insert ||
		e.Header.Get("Content-Type") != "application/json" || e.Status != 200 || e.Applied != 1 || e.ServedBy != c.Node(0).RaftAddr() || e.Outcome != "answered" || e.Fault != "" {
		t.Errorf("entry %+v", e)
	}
	c.ResetLog()
	if n := len(c.Log()); n != 0 {
		t.Errorf("%d entries after ResetLog", n)
	}
}

func TestOracle(t *testing.T) {
	c, _ := withTable(t)
	ctx := t.Context()
	if n, err := c.Exec(ctx, "INSERT INTO t(v) VALUES(?),(?)", "a", []byte{0xff}); n != 2 || err != nil {
		t.Fatalf("%d rows, error %v", n, err)
	}
	rows, err := c.SQL(ctx, "SELECT v, ?, ?, ?, ? FROM t ORDER BY id", 1, 2.0, nil, true)
	if err != nil || len(rows) != 2 {
		t.Fatalf("rows %v, error %v", rows, err)
	}
	if b, ok := rows[1][0].([]byte); !ok || len(b) != 1 || rows[0][0] != "a" || rows[0][1] != int64(1) || rows[0][2] != 2.0 || rows[0][3] != nil || rows[0][4] != int64(1) {
		t.Errorf("rows %v", rows)
	}
	for _, q := range []string{"SELECT nope", "INSERT INTO t(v) VALUES('x')", "SELECT ?"} {
		if rows, err := c.SQL(ctx, q); err == nil {
			t.Errorf("%s: rows %v, want an error", q, rows)
		}
	}
	if _, err := c.SQL(ctx, "SELECT ?", struct{}{}); err == nil {
		t.Error("an argument of an unknown type was taken")
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.SQL(canceled, "SELECT 1"); err == nil {
		t.Error("a canceled context was not heeded")
	}
	c.Close()
	if _, err := c.SQL(ctx, "SELECT 1"); err == nil {
		t.Error("a closed cluster answered")
	}
}

// TestCloseEndsEverything closes a cluster in which all that can hang hangs.
func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cl := withTable(t, InMemoryNetwork())
		c.Inject(Match{Node: c.Node(1), Times: 1}, Hang())
		c.Inject(Match{Node: c.Node(1), Times: 1}, Block())
		c.Inject(Match{Node: c.Node(1), Times: 1}, Slow(time.Hour, 0))
		c.Inject(Match{Node: c.Node(1), Times: 1}, HangApplied())
		var errs []chan error
		send := func(url string) {
			ch := make(chan error, 1)
			errs = append(errs, ch)
			go func() {
				_, _, err := try(context.Background(), cl, url, insert)
				ch <- err
			}()
			synctest.Wait()
		}
		for range 4 {
			send(c.URL(1) + "/db/execute")
		}
		c.Node(0).Pause()
		send(c.URL(0) + "/db/execute")
		send(c.URL(2) + "/db/execute")
		send(c.URL(2) + "/db/execute?redirect")
		send(c.URL(2) + "/db/execute?queue&wait")
		send(c.URL(2) + "/nodes")
		c.Node(2).BlackHole()
		send(c.URL(2) + "/db/query?level=none")
		start := time.Now()
		c.Close()
		c.Close()
		for i, ch := range errs {
			if err := <-ch; err == nil && i != 8 { // /nodes is no POST endpoint
				t.Errorf("request %d was answered", i)
			}
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("Close took %v", d)
		}
	})
}
