package rqlitetest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a test with a cluster and a table on the in-memory network and fake time.
func bubble(t *testing.T, f func(t *testing.T, c *Cluster, cl *http.Client), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, cl := withTable(t, append(opts, InMemoryNetwork())...)
		f(t, c, cl)
	})
}

// await waits for a leader and checks how long that took in fake time.
func await(t *testing.T, c *Cluster, want *Node, after time.Duration) {
	t.Helper()
	start := time.Now()
	got, err := c.WaitLeader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); got != want || took != after {
		t.Fatalf("%v leads after %v, want %v after %v", got, took, want, after)
	}
}

func TestStopElectsAnother(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		c.Node(0).Stop()
		if c.Leader() != nil {
			t.Fatal("a stopped node leads")
		}
		if _, _, err := try(t.Context(), cl, c.URL(0)+"/db/execute", insert); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("stopped node: error %v, want ECONNREFUSED", err)
		}
		// The followers still name it, and fail to reach it.
		if _, body := post(t, cl, c.URL(1)+"/db/execute", insert); body != `{"results":[],"error":"dial tcp node1.rqlite.test:4002: connect: connection refused"}` {
			t.Errorf("follower before the election: %s", body)
		}
		if status, body := post(t, cl, c.URL(1)+"/db/execute?redirect", insert); status != 500 || body != "leader not found\n" {
			t.Errorf("redirect to a stopped leader: %d %s", status, body)
		}
		<-time.After(950 * time.Millisecond) // fake time: the vote is on
		if status, body := post(t, cl, c.URL(1)+"/db/execute", insert); status != 503 || body != "leader not found\n" {
			t.Errorf("follower during the election: %d %s", status, body)
		}
		await(t, c, c.Node(1), 50*time.Millisecond)
		if status, _ := post(t, cl, c.URL(2)+"/db/execute", insert); status != 200 {
			t.Errorf("after the election: status %d", status)
		}
		c.Node(0).Restart()
		if _, body := post(t, cl, c.URL(0)+"/db/query?level=none", `["SELECT count(*) FROM t"]`); !strings.Contains(body, "[[1]]") {
			t.Errorf("restarted node: %s", body)
		}
		if c.Node(0).IsLeader() {
			t.Error("the restarted node leads")
		}
	})
}

func TestRestartKillsConnections(t *testing.T) {
	both(t, func(t *testing.T, opts ...Option) {
		c, cl := withTable(t, opts...)
		post(t, cl, c.URL(1)+"/db/query?level=none", `["SELECT 1"]`)
		conn, err := c.DialContext(t.Context(), "tcp", c.Node(1).Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		addr := c.Node(1).Addr()
		c.Node(1).Restart()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a connection from before the restart lives")
		}
		if c.Node(1).Addr() != addr {
			t.Error("the address changed")
		}
		if _, _, err := try(t.Context(), client(t, c), c.URL(1)+"/db/query?level=none", `["SELECT 1"]`); err != nil {
			t.Errorf("after the restart: %v", err)
		}
	})
}

func TestPausedLeader(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		post(t, cl, c.URL(0)+"/db/execute", insert)
		c.Node(0).Pause()
		// What the client sends waits in the connection; a forwarded call hangs.
		direct, forwarded := make(chan string, 1), make(chan string, 1)
		go func() {
			_, body, err := try(t.Context(), cl, c.URL(0)+"/db/execute", insert)
			direct <- body + errText(err)
		}()
		go func() {
			_, body, err := try(t.Context(), cl, c.URL(1)+"/db/execute?timeout=3s", insert)
			forwarded <- body + errText(err)
		}()
		synctest.Wait()
		await(t, c, c.Node(1), time.Second)
		if status, _ := post(t, cl, c.URL(2)+"/db/execute", insert); status != 200 {
			t.Errorf("new leader: status %d", status)
		}
		if got, want := <-forwarded, `{"results":[],"error":"read protobuf length: read tcp node2.rqlite.test:4002-\u003enode1.rqlite.test:4002: i/o timeout"}`; got != want {
			t.Errorf("forwarded to the paused leader: %s", got)
		}
		select {
		case got := <-direct:
			t.Fatalf("the paused leader answered %s", got)
		default:
		}
		c.Node(0).Resume()
		if got := <-direct; got != `{"results":[{"last_insert_id":3,"rows_affected":1}]}` {
			t.Errorf("sent to the paused leader: %s", got) // forwarded to the new one
		}
		if n := count(t, c); n != 3 {
			t.Errorf("%d rows, want 3: none of the forwarded attempts", n)
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestResumedLeaderIsStale(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		post(t, cl, c.URL(0)+"/db/execute", insert)
		c.Node(0).Pause()
		await(t, c, c.Node(1), time.Second)
		post(t, cl, c.URL(1)+"/db/execute", insert)
		c.Node(0).ResumeStale(100 * time.Millisecond)
		const q = `["SELECT count(*) FROM t"]`
		read := func(level string) string {
			_, body := post(t, cl, c.URL(0)+"/db/query?level="+level, q)
			return body
		}
		if body := read("weak"); !strings.Contains(body, "[[1]]") {
			t.Errorf("weak read on the old leader: %s, want the old count", body)
		}
		if body := read("linearizable"); body != "leader not found\n" {
			t.Errorf("linearizable read on the old leader: %s", body)
		}
		if _, body := post(t, cl, c.URL(0)+"/db/execute", insert); body != `{"results":[],"error":"leadership lost while committing log"}` {
			t.Errorf("write on the old leader: %s", body)
		}
		<-time.After(100 * time.Millisecond) // fake time
		synctest.Wait()
		if body := read("weak"); !strings.Contains(body, "[[2]]") {
			t.Errorf("weak read after the window: %s", body)
		}
		if n := count(t, c); n != 2 {
			t.Errorf("%d rows, want 2", n)
		}
	})
}

func TestQuorumLoss(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		c.Node(1).Stop()
		c.Node(2).Stop()
		start := time.Now()
		if _, body := post(t, cl, c.URL(0)+"/db/query", `["SELECT 1"]`); !strings.Contains(body, "[[1]]") {
			t.Errorf("weak read within the lease: %s", body)
		}
		_, body := post(t, cl, c.URL(0)+"/db/execute", insert)
		if took := time.Since(start); body != `{"results":[],"error":"leadership lost while committing log"}` || took != 500*time.Millisecond {
			t.Errorf("write without quorum: %s after %v", body, took)
		}
		for path, want := range map[string]int{"/db/execute": 503, "/db/query": 503, "/db/query?level=none": 200, "/db/query?level=none&freshness=1h": 200} {
			if status, body := post(t, cl, c.URL(0)+path, `["SELECT 1"]`); status != want {
				t.Errorf("%s: %d %s, want %d", path, status, body, want)
			}
		}
		<-time.After(time.Second + 1) // fake time
		if _, body := post(t, cl, c.URL(0)+"/db/query?level=none&freshness=1s", `["SELECT 1"]`); body != `{"results":[],"error":"stale read"}` {
			t.Errorf("stale read: %s", body)
		}
		if n := count(t, c); n != 0 {
			t.Errorf("%d rows, want none", n)
		}
		c.Node(2).Restart()
		await(t, c, c.Node(0), time.Second)
	})
}

func TestElectAndLoseLeader(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		if !c.Elect(2) || c.Leader() != c.Node(2) {
			t.Fatal("node 2 does not lead")
		}
		if status, body := post(t, cl, c.URL(0)+"/db/execute", insert); status != 200 {
			t.Errorf("after Elect: %d %s", status, body)
		}
		c.LoseLeader(3 * time.Second)
		if c.Leader() != nil {
			t.Error("a node leads in the gap")
		}
		if status, _ := post(t, cl, c.URL(2)+"/db/execute", insert); status != 503 {
			t.Errorf("in the gap: status %d", status)
		}
		c.Node(1).Pause() // a change of state must not lose the end of the gap
		c.Node(1).Resume()
		await(t, c, c.Node(0), 3*time.Second)
		c.LoseLeader(0)
		<-time.After(time.Hour) // fake time
		if c.Leader() != nil {
			t.Error("a node leads without Elect")
		}
		c.Elect(1)
		await(t, c, c.Node(1), 0)
		c.Node(0).Stop()
		if c.Elect(0) {
			t.Error("a stopped node was elected")
		}
	})
}

func TestIsolatedLeader(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		c.Node(0).Isolate()
		start := time.Now()
		if _, body := post(t, cl, c.URL(0)+"/db/execute", insert); body != `{"results":[],"error":"leadership lost while committing log"}` {
			t.Errorf("write on an isolated leader: %s", body)
		}
		if took := time.Since(start); took != 500*time.Millisecond {
			t.Errorf("it noticed after %v, want the lease", took)
		}
		await(t, c, c.Node(1), 500*time.Millisecond)
		post(t, cl, c.URL(1)+"/db/execute", insert)
		if _, body := post(t, cl, c.URL(0)+"/db/query?level=none", `["SELECT count(*) FROM t"]`); !strings.Contains(body, "[[0]]") {
			t.Errorf("read on the isolated node: %s, want the old count", body)
		}
		c.Node(0).Rejoin()
		if _, body := post(t, cl, c.URL(0)+"/db/query?level=none", `["SELECT count(*) FROM t"]`); !strings.Contains(body, "[[1]]") {
			t.Errorf("read after rejoining: %s", body)
		}
	})
}

func TestFreezeAndLag(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		read := func(node int, level string) string {
			_, body := post(t, cl, c.URL(node)+"/db/query?level="+level, `["SELECT count(*) FROM t"]`)
			return body[strings.Index(body, "[["):]
		}
		c.Freeze(1)
		c.Node(2).Lag(2)
		for i, want := range []string{"[[0]]", "[[0]]", "[[1]]", "[[2]]"} {
			post(t, cl, c.URL(0)+"/db/execute", insert)
			if got := read(2, "none"); !strings.HasPrefix(got, want) {
				t.Errorf("lagging node after %d writes: %s, want %s", i+1, got, want)
			}
		}
		if got := read(1, "none"); !strings.HasPrefix(got, "[[0]]") {
			t.Errorf("frozen node: %s", got)
		}
		if got := read(1, "weak"); !strings.HasPrefix(got, "[[4]]") {
			t.Errorf("weak read through the frozen node: %s", got)
		}
		// A frozen node that comes to lead answers weak reads from the past, and
		// holds everything stronger back until it has caught up.
		c.Elect(1)
		if got := read(1, "weak"); !strings.HasPrefix(got, "[[0]]") {
			t.Errorf("weak read on the frozen leader: %s", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, _, err := try(ctx, cl, c.URL(1)+"/db/execute", insert); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("write on the frozen leader: error %v, want a deadline", err)
		}
		c.Thaw(1)
		c.Node(2).Thaw()
		synctest.Wait()
		for node, level := range map[int]string{1: "linearizable", 2: "none"} {
			if got := read(node, level); !strings.HasPrefix(got, "[[5]]") {
				t.Errorf("node %d after thawing: %s, want 5", node, got)
			}
		}
	})
}

func TestLinearizableCostsOneEntryPerTerm(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		cost := func(url, body string) uint64 {
			before := c.Index()
			post(t, cl, url, body)
			return c.Index() - before
		}
		const q = `["SELECT 1"]`
		for i, k := range []struct {
			url  string
			want uint64
		}{
			{c.URL(0) + "/db/query?level=linearizable", 1}, {c.URL(0) + "/db/query?level=linearizable", 0}, {c.URL(1) + "/db/query?level=linearizable", 0},
			{c.URL(1) + "/db/request?level=linearizable", 1}, {c.URL(0) + "/db/query?level=strong", 1}, {c.URL(0) + "/db/query", 0}, {c.URL(0) + "/db/request", 0},
		} {
			if got := cost(k.url, q); got != k.want {
				t.Errorf("request %d to %s: %d log entries, want %d", i, k.url, got, k.want)
			}
		}
		c.Elect(1)
		if got := cost(c.URL(1)+"/db/query?level=linearizable", q); got != 1 {
			t.Errorf("first linearizable read of a term: %d log entries, want 1", got)
		}
	})
}

func TestForwardedAnswerThatCannotBeEncoded(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		_, body := post(t, cl, c.URL(1)+"/db/execute", `["INSERT INTO t(v) VALUES('x') RETURNING CAST(x'ff' AS TEXT)"]`)
		if want := `{"results":[],"error":"read protobuf length: EOF"}`; body != want {
			t.Errorf("got %s, want %s", body, want)
		}
		if n := count(t, c); n != 2 {
			t.Errorf("%d rows, want 2: the follower sends it twice", n)
		}
	})
}

func TestTopologyOfABrokenCluster(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		get := func(path string) (int, string) {
			resp, err := cl.Get(c.URL(0) + path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(b)
		}
		c.Node(1).Stop()
		c.Node(2).Pause()
		start := time.Now()
		_, body := get("/nodes?ver=2&timeout=300ms")
		want := `{"nodes":[{"id":"node1","api_addr":"http://node1.rqlite.test:4001","addr":"node1.rqlite.test:4002","version":"v10.2.7","voter":true,"reachable":true,"leader":true,"time_s":"0s"},` +
			`{"id":"node2","addr":"node2.rqlite.test:4002","version":"","voter":true,"reachable":false,"leader":false,"error":"dial tcp node2.rqlite.test:4002: connect: connection refused"},` +
			`{"id":"node3","addr":"node3.rqlite.test:4002","version":"","voter":true,"reachable":false,"leader":false,"error":"timeout waiting for node to respond"}]}`
		if body != want {
			t.Errorf("nodes: %s\nwant   %s", body, want)
		}
		if took := time.Since(start); took != 300*time.Millisecond {
			t.Errorf("it took %v, want the timeout", took)
		}
		<-time.After(time.Second) // fake time: the lease is over
		for path, want := range map[string]string{
			"/leader": "503 leader not found\n", "/readyz": "500 leader address: leader not found\n", "/readyz?noleader": "200 [+]node ok",
			"/status?key=store.leader": `200 {"addr":"","node_id":""}`, "/status?key=store.raft.state": `200 "Follower"`,
		} {
			status, body := get(path)
			if got := itoa(status) + " " + body; got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	})
}

func TestStepdown(t *testing.T) {
	bubble(t, func(t *testing.T, c *Cluster, cl *http.Client) {
		if status, _ := post(t, cl, c.URL(1)+"/leader", ""); status != 200 || c.Leader() != c.Node(0) {
			t.Error("stepdown on a follower without wait did something")
		}
		if status, body := post(t, cl, c.URL(1)+"/leader?wait", `{"id":"node3"}`); status != 200 || c.Leader() != c.Node(2) {
			t.Errorf("stepdown to node3: %d %s, leader %v", status, body, c.Leader())
		}
		if status, body := post(t, cl, c.URL(2)+"/leader?wait", `{"id":"nope"}`); status != 500 || body != "stepdown: node not found in cluster\n" {
			t.Errorf("stepdown to nobody: %d %s", status, body)
		}
	})
}
