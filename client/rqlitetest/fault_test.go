package rqlitetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	insert  = `[["INSERT INTO t(v) VALUES(?)","x"]]`
	insertR = `[["INSERT INTO t(v) VALUES(?) RETURNING id","x"]]`
)

// withTable starts a cluster with a table t.
func withTable(t testing.TB, opts ...Option) (*Cluster, *http.Client) {
	t.Helper()
	c := Start(t, opts...)
	if _, err := c.Exec(t.Context(), "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)"); err != nil {
		t.Fatal(err)
	}
	return c, client(t, c)
}

// count returns the number of rows of t.
func count(t testing.TB, c *Cluster) int64 {
	t.Helper()
	rows, err := c.SQL(t.Context(), "SELECT count(*) FROM t")
	if err != nil {
		t.Fatal(err)
	}
	return rows[0][0].(int64)
}

// try sends a request and returns what came of it.
func try(ctx context.Context, cl *http.Client, url, body string) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.GetBody = nil // so that the transport cannot send it twice
	resp, err := cl.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// TestActions drives each action with a one-row insert and checks the answer, or
// the error, and how many rows are there in the end.
func TestActions(t *testing.T) {
	const normal = `{"results":[{"last_insert_id":1,"rows_affected":1}]}`
	for _, k := range []struct {
		name    string
		action  Action
		query   string
		body    string
		status  int
		answer  string
		failure string // part of the client's error
		rows    int64
		applied int
	}{
		{name: "no leader", action: NoLeader(), status: 503, answer: "leader not found\n"},
		{name: "no leader, redirect", action: NoLeader(), query: "?redirect", status: 500, answer: "leader not found\n"},
		{name: "redirect", action: RedirectTo("http://elsewhere.example:1/"), query: "?a=b", status: 301},
		{name: "error unapplied", action: ErrorUnapplied(TextNotLeader), status: 200, answer: `{"results":[],"error":"not leader"}`},
		{name: "error applied", action: ErrorApplied(TextLeadershipLost), status: 200, answer: `{"results":[],"error":"leadership lost while committing log"}`, rows: 1, applied: 1},
		{name: "fewer", action: FewerResults(1), status: 200, answer: `{"results":[]}`, rows: 1, applied: 1},
		{name: "more", action: MoreResults(1), status: 200, answer: `{"results":[{"last_insert_id":1,"rows_affected":1},{"rows_affected":1}]}`, rows: 1, applied: 1},
		{name: "statement", action: FailStatement(1, "disk I/O error"), query: "?transaction", body: `["INSERT INTO t VALUES(1,'a')","INSERT INTO t VALUES(2,'b')","INSERT INTO t VALUES(3,'c')"]`,
			status: 200, answer: `{"results":[{"last_insert_id":1,"rows_affected":1},{"error":"disk I/O error"}]}`, applied: 1},
		{name: "statement without transaction", action: FailStatement(1, "disk I/O error"), body: `["INSERT INTO t VALUES(1,'a')","INSERT INTO t VALUES(2,'b')","INSERT INTO t VALUES(3,'c')"]`,
			status: 200, answer: `{"results":[{"last_insert_id":1,"rows_affected":1},{"error":"disk I/O error"},{"last_insert_id":3,"rows_affected":1}]}`, rows: 2, applied: 1},
		{name: "returning", action: LoseReturning(), body: insertR, status: 200, answer: `{"results":[{"columns":["id"],"types":["integer"]}]}`, rows: 1, applied: 1},
		{name: "twice", action: ApplyTwice(), status: 200, answer: `{"results":[{"last_insert_id":2,"rows_affected":1}]}`, rows: 2, applied: 2},
		{name: "unauthorized", action: Unauthorized(), status: 401},
		{name: "html", action: HTML(), status: 200, answer: "<!DOCTYPE html><html><body><h1>Welcome</h1></body></html>\n"},
		{name: "respond", action: Respond(502, "text/plain", "bad gateway"), status: 502, answer: "bad gateway"},
		{name: "func answers", action: Func(func(*Request) *Response { return &Response{Status: 418, Body: []byte("tea")} }), status: 418, answer: "tea"},
		{name: "func passes", action: Func(func(*Request) *Response { return nil }), status: 200, answer: normal, rows: 1, applied: 1},
		{name: "edit", action: Edit(func(r *Response) { r.Body = append(r.Body, ' ') }), status: 200, answer: normal + " ", rows: 1, applied: 1},
		{name: "reset", action: Reset(), failure: "connection reset by peer"},
		{name: "reset unread", action: ResetUnread(), failure: "connection reset by peer"},
		{name: "reset applied", action: ResetApplied(), failure: "connection reset by peer", rows: 1, applied: 1},
		{name: "close applied", action: CloseApplied(), failure: "EOF", rows: 1, applied: 1},
		{name: "cut", action: CutAnswer(10), failure: "unexpected EOF", rows: 1, applied: 1},
		{name: "cut half", action: CutAnswer(-1), failure: "unexpected EOF", rows: 1, applied: 1},
		{name: "slow", action: Slow(time.Millisecond, time.Millisecond), status: 200, answer: normal, rows: 1, applied: 1},
	} {
		t.Run(k.name, func(t *testing.T) {
			both(t, func(t *testing.T, opts ...Option) {
				c, cl := withTable(t, opts...)
				fault := c.Inject(Match{Kind: KindExecute, Times: 1}, k.action)
				body := k.body
				if body == "" {
					body = insert
				}
				status, answer, err := try(t.Context(), cl, c.URL(0)+"/db/execute"+k.query, body)
				if k.failure != "" {
					if err == nil || !strings.Contains(err.Error(), k.failure) {
						t.Errorf("error %v, want one with %q", err, k.failure)
					}
				} else if err != nil || status != k.status || answer != k.answer {
					t.Errorf("got %d %q, error %v; want %d %q", status, answer, err, k.status, k.answer)
				}
				if n := count(t, c); n != k.rows {
					t.Errorf("%d rows, want %d", n, k.rows)
				}
				if fault.Hits() != 1 {
					t.Errorf("the fault happened %d times, want once", fault.Hits())
				}
				log := c.LogOf(KindExecute)
				if len(log) != 1 || log[0].Fault != k.action.String() || log[0].Applied != k.applied || log[0].Outcome == "open" {
					t.Errorf("log %+v, want one request, fault %q, applied %d times", log, k.action, k.applied)
				}
				// One time was all: the next request is served.
				if status, answer, err := try(t.Context(), cl, c.URL(0)+"/db/execute", insert); err != nil || status != 200 || !strings.Contains(answer, "rows_affected") {
					t.Errorf("after the fault: %d %q, error %v", status, answer, err)
				}
			})
		})
	}
}

func TestResetIsAConnectionReset(t *testing.T) {
	both(t, func(t *testing.T, opts ...Option) {
		c, cl := withTable(t, opts...)
		c.Inject(Match{}, Reset())
		if _, _, err := try(t.Context(), cl, c.URL(0)+"/db/execute", insert); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("error %v, want ECONNRESET", err)
		}
	})
}

func TestMatch(t *testing.T) {
	both(t, func(t *testing.T, opts ...Option) {
		c, cl := withTable(t, opts...)
		c.Inject(Match{Node: c.Node(1), Kind: KindExecute, Skip: 1, Times: 2, If: func(r *Request) bool {
			return strings.Contains(string(r.Body), "x")
		}}, NoLeader())
		var got []int
		for range 5 {
			status, _ := post(t, cl, c.URL(1)+"/db/execute", insert)
			got = append(got, status)
		}
		if want := []int{200, 503, 503, 200, 200}; !equal(got, want) {
			t.Errorf("node 1 answered %v, want %v", got, want)
		}
		for _, other := range []string{c.URL(0) + "/db/execute", c.URL(2) + "/db/execute", c.URL(1) + "/db/request"} {
			if status, body := post(t, cl, other, insert); status != 200 {
				t.Errorf("%s: %d %s", other, status, body)
			}
		}
	})
}

func equal[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestProbabilityRepeatsWithTheSeed(t *testing.T) {
	run := func(seed uint64) (bits []int) {
		c, cl := withTable(t, Seed(seed))
		c.Inject(Match{Probability: 0.5}, NoLeader())
		for range 40 {
			status, _ := post(t, cl, c.URL(0)+"/db/execute", insert)
			bits = append(bits, status)
		}
		return bits
	}
	first := run(7)
	if !equal(first, run(7)) {
		t.Error("the same seed gave other faults")
	}
	if equal(first, run(8)) {
		t.Error("another seed gave the same faults")
	}
}

func TestRedirectRound(t *testing.T) {
	both(t, func(t *testing.T, opts ...Option) {
		c, cl := withTable(t, opts...)
		c.Inject(Match{}, RedirectNext())
		url := c.URL(0) + "/db/query?redirect"
		for i := range 4 {
			resp, err := cl.Post(url, "application/json", strings.NewReader(`["SELECT 1"]`))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			url = resp.Header.Get("Location")
			if want := c.URL((i+1)%3) + "/db/query?redirect"; url != want {
				t.Fatalf("hop %d leads to %s, want %s", i, url, want)
			}
		}
	})
}

func TestSlowIsServedThoughTheClientGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cl := withTable(t, InMemoryNetwork())
		c.Inject(Match{Times: 1}, Slow(time.Minute, 0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := try(ctx, cl, c.URL(0)+"/db/execute", insert); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v, want a deadline", err)
		}
		if n := count(t, c); n != 0 {
			t.Fatalf("%d rows before the delay is over", n)
		}
		<-time.After(time.Minute) // fake time
		synctest.Wait()
		if n := count(t, c); n != 1 {
			t.Errorf("%d rows after the delay, want 1", n)
		}
	})
}

func TestHangAndBlock(t *testing.T) {
	both(t, func(t *testing.T, opts ...Option) {
		c, cl := withTable(t, opts...)
		type reply struct {
			status int
			err    error
		}
		send := func() <-chan reply {
			ch := make(chan reply, 1)
			go func() {
				status, _, err := try(t.Context(), cl, c.URL(0)+"/db/execute", insert)
				ch <- reply{status, err}
			}()
			return ch
		}
		for _, k := range []struct {
			action Action
			ok     bool
			rows   int64
		}{{Hang(), false, 0}, {HangApplied(), false, 1}, {Block(), true, 2}} {
			f := c.Inject(Match{}, k.action)
			ch := send()
			if err := f.WaitHits(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			select {
			case r := <-ch:
				t.Fatalf("%v: answered %+v", k.action, r)
			default:
			}
			f.Remove()
			r := <-ch
			if (r.err == nil) != k.ok {
				t.Errorf("%v: error %v after the fault was removed", k.action, r.err)
			}
			if n := count(t, c); n != k.rows {
				t.Errorf("%v: %d rows, want %d", k.action, n, k.rows)
			}
		}
	})
}

func TestHugeBody(t *testing.T) {
	c, cl := withTable(t)
	c.Inject(Match{}, HugeBody(3<<20))
	if status, body := post(t, cl, c.URL(0)+"/db/query", `["SELECT 1"]`); status != 200 || len(body) != 3<<20 || !json.Valid([]byte(body)) {
		t.Errorf("status %d, %d bytes", status, len(body))
	}
}

func TestIdleConnections(t *testing.T) {
	both(t, func(t *testing.T, opts ...Option) {
		c, cl := withTable(t, opts...)
		n := c.Node(0)
		post(t, cl, c.URL(0)+"/db/execute", insert)
		post(t, cl, c.URL(0)+"/db/execute", insert)
		if n.Accepted() != 1 || n.OpenConns() != 1 {
			t.Fatalf("%d connections accepted, %d open; want 1 and 1", n.Accepted(), n.OpenConns())
		}
		if doomed := waitIdle(n.DoomIdle); doomed != 1 {
			t.Fatalf("%d connections doomed, want 1", doomed)
		}
		if _, _, err := try(t.Context(), cl, c.URL(0)+"/db/execute", insert); err == nil {
			t.Error("a request on a doomed connection was answered")
		}
		if rows := count(t, c); rows != 2 {
			t.Errorf("%d rows, want 2", rows)
		}
		if wire := c.LogOf(KindWire); len(wire) != 1 {
			t.Errorf("wire log %+v, want one entry", wire)
		}
		post(t, cl, c.URL(0)+"/db/execute", insert)
		if n.Accepted() != 2 {
			t.Errorf("%d connections accepted, want 2", n.Accepted())
		}
		if closed := waitIdle(n.CloseIdle); closed != 1 {
			t.Errorf("%d idle connections closed, want 1", closed)
		}
	})
}

// waitIdle calls f until it has found an idle connection: a connection becomes
// idle a moment after its answer was read.
func waitIdle(f func() int) int {
	for range 1000 {
		if n := f(); n > 0 {
			return n
		}
		<-time.After(time.Millisecond)
	}
	return 0
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cl := withTable(t, InMemoryNetwork())
		post(t, cl, c.URL(0)+"/db/execute", insert)
		soon := func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Second) }

		c.Node(0).Silence()
		ctx, cancel := soon()
		if _, _, err := try(ctx, cl, c.URL(0)+"/db/execute", insert); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("on a silent connection: error %v, want a deadline", err)
		}
		cancel()
		if _, _, err := try(t.Context(), cl, c.URL(0)+"/db/execute", insert); err != nil {
			t.Errorf("on a new connection: %v", err)
		}
		if rows := count(t, c); rows != 2 {
			t.Errorf("%d rows, want 2", rows)
		}

		c.Node(0).BlackHole()
		ctx, cancel = soon()
		if _, _, err := try(ctx, client(t, c), c.URL(0)+"/db/execute", insert); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("in a black hole: error %v, want a deadline", err)
		}
		cancel()

		c.Node(1).DropDials()
		ctx, cancel = soon()
		if _, err := c.DialContext(ctx, "tcp", c.Node(1).Addr()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial: error %v, want a deadline", err)
		}
		cancel()

		c.Node(0).Heal()
		c.Node(1).Heal()
		for i := range 2 {
			if _, _, err := try(t.Context(), client(t, c), c.URL(i)+"/db/execute", insert); err != nil {
				t.Errorf("node %d after healing: %v", i, err)
			}
		}
	})
}

func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cl := withTable(t, InMemoryNetwork())
		f := c.Inject(Match{}, QueueFull())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := try(ctx, cl, c.URL(0)+"/db/execute?queue", insert); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want a deadline", err)
		}
		if status, _ := post(t, cl, c.URL(0)+"/db/execute", insert); status != 200 {
			t.Errorf("a write that is not queued: status %d", status)
		}
		f.Remove()
		if status, body := post(t, cl, c.URL(0)+"/db/execute?queue&wait", insert); status != 200 || !strings.Contains(body, `{"results":[],"sequence_number":`) {
			t.Errorf("queued write: %d %s", status, body)
		}
		if rows := count(t, c); rows != 3 {
			t.Errorf("%d rows, want 3: the write held back was queued in the end", rows)
		}
	})
}

func TestCredentialsRotate(t *testing.T) {
	both(t, func(t *testing.T, opts ...Option) {
		c, cl := withTable(t, append(opts, BasicAuth("bob", "old"))...)
		ask := func(node int, password string) (int, string, http.Header) {
			req, _ := http.NewRequest("POST", c.URL(node)+"/db/execute", strings.NewReader(insert))
			req.SetBasicAuth("bob", password)
			resp, err := cl.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(b), resp.Header
		}
		if status, body, h := ask(1, "old"); status != 200 || h.Get("Www-Authenticate") == "" {
			t.Fatalf("right password: %d %s", status, body)
		}
		if status, body, _ := ask(0, "new"); status != 401 || body != "" {
			t.Fatalf("wrong password: %d %q", status, body)
		}
		c.Node(1).SetAuth("bob", "new")
		if status, body, _ := ask(1, "new"); status != 401 || body != "remote Execute not authorized\n" {
			t.Fatalf("password the leader does not know: %d %q", status, body)
		}
		c.SetAuth("bob", "new")
		if status, body, _ := ask(1, "new"); status != 200 {
			t.Fatalf("rotated password: %d %q", status, body)
		}
		if status, _, _ := ask(0, "old"); status != 401 {
			t.Fatalf("old password: %d", status)
		}
	})
}

func TestTLS(t *testing.T) {
	for name, opt := range map[string]Option{"server": TLS(), "mutual": MutualTLS()} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, opts ...Option) {
				c, cl := withTable(t, append(opts, opt)...)
				resp, err := cl.Post(c.URL(1)+"/db/execute?redirect", "application/json", strings.NewReader(insert))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.ProtoMajor != 2 || resp.Header.Get("Location") != c.URL(0)+"/db/execute?redirect" || !strings.HasPrefix(c.URL(0), "https://") {
					t.Errorf("HTTP/%d, Location %q", resp.ProtoMajor, resp.Header.Get("Location"))
				}
				if status, body := post(t, cl, c.URL(0)+"/db/execute", insert); status != 200 {
					t.Errorf("%d %s", status, body)
				}
				c.Inject(Match{Times: 1}, ResetApplied())
				if _, _, err := try(t.Context(), cl, c.URL(0)+"/db/execute", insert); err == nil {
					t.Error("no error from a reset connection")
				}
				if rows := count(t, c); rows != 2 {
					t.Errorf("%d rows, want 2", rows)
				}
			})
		})
	}
	t.Run("no client certificate", func(t *testing.T) {
		both(t, func(t *testing.T, opts ...Option) {
			c := Start(t, append(opts, MutualTLS())...)
			tr := c.Transport()
			tr.TLSClientConfig.Certificates = nil
			defer tr.CloseIdleConnections()
			if _, err := (&http.Client{Transport: tr}).Get(c.URL(0) + "/readyz"); err == nil {
				t.Error("a client without a certificate was answered")
			}
			if log := c.LogOf(KindAny); len(log) != 0 {
				t.Errorf("its request was read: %+v", log)
			}
		})
	})
}
