package client_test

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

// CL-16.
func TestLevelOfQueries(t *testing.T) {
	for v, want := range map[string]string{"v10.2.7": "linearizable", "v8.32.4": "linearizable", "v8.32.3": "strong", "v7.21.4": "strong"} {
		inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
			for range 20 {
				if _, err := e.Query(t.Context(), engine.Linearizable, selectOne); err != nil {
					t.Fatal(err)
				}
			}
			n := 0
			for _, r := range c.LogOf(rqlitetest.KindQuery) {
				q, err := url.ParseQuery(r.Query)
				if err != nil {
					t.Fatal(err)
				}
				if string(r.Body) == `[["SELECT 1"]]` {
					n++
					if q.Get("level") != want {
						t.Errorf("server %s was asked for level %q", v, q.Get("level"))
					}
				}
				if want != "strong" && q.Get("level") == "strong" {
					t.Errorf("server %s got a strong read", v)
				}
			}
			if n != 20 {
				t.Errorf("%d queries sent, want 20", n)
			}
		}, rqlitetest.Version(v))
	}
}

// An old server that is met for the first time takes the level linearizable for
// weak; its answer does not count.
func TestAnswerOfAnUnknownOldServerIsNotTrusted(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, _ *client.Engine) {
		var mu sync.Mutex
		version := "v10.2.7"
		c.Inject(rqlitetest.Match{}, rqlitetest.Edit(func(r *rqlitetest.Response) {
			mu.Lock()
			defer mu.Unlock()
			r.Header.Set("X-Rqlite-Version", version)
		}))
		e := open(t, c)
		synctest.Wait()
		mu.Lock()
		version = "v8.30.0" // somebody has replaced the server by an older one
		mu.Unlock()
		c.ResetLog()
		if _, err := e.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: "SELECT 2"}}); err != nil {
			t.Fatal(err)
		}
		log := c.LogOf(rqlitetest.KindQuery)
		if len(log) != 2 || !strings.Contains(log[0].Query, "level=linearizable") || !strings.Contains(log[1].Query, "level=strong") {
			t.Errorf("requests:%s", describe(log))
		}
	})
}

// CL-15.
func TestReadSeesEveryAcknowledgedWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		for i := range 3 {
			if c.Leader() != c.Node(i) {
				c.Freeze(i) // followers answer from old data
			}
		}
		for i := range 200 {
			if _, err := e.Exec(t.Context(), count("a")); err != nil {
				t.Fatal(err)
			}
			res, err := e.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: `SELECT n FROM t WHERE id = 'a'`}})
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := res[0].Row(0)[0].Int(); n != int64(i+1) {
				t.Fatalf("after %d writes a read saw %d", i+1, n)
			}
		}
		for _, r := range c.LogOf(rqlitetest.KindQuery) {
			if strings.Contains(r.Query, "level=none") {
				t.Errorf("a read with level none: %s", r.Query)
			}
		}
		// The weaker level is there for those who ask for it, from any node.
		c.ResetLog()
		for range 30 {
			if _, err := e.Query(t.Context(), engine.Stale, selectOne); err != nil {
				t.Fatal(err)
			}
		}
		nodes := map[string]bool{}
		for _, r := range c.LogOf(rqlitetest.KindQuery) {
			nodes[r.Node] = true
		}
		if len(nodes) != 3 {
			t.Errorf("stale reads went to %v", nodes)
		}
	})
}

// CL-17.
func TestNothingIsEverQueued(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		if _, err := e.Exec(t.Context(), count("a")); err != nil {
			t.Error(err)
		}
		if err := e.Define(t.Context(), []string{schema}); err != nil {
			t.Error(err)
		}
		if _, err := e.Gorqlite().WriteOneContext(t.Context(), `DELETE FROM t`); err != nil {
			t.Error(err)
		}
		if _, err := e.Gorqlite().QueueOneContext(t.Context(), `DELETE FROM t`); err == nil {
			t.Error("a queued write was accepted")
		}
		log := c.LogOf(rqlitetest.KindExecute)
		if len(log) != 3 {
			t.Errorf("%d writes, want 3", len(log))
		}
		for _, r := range log {
			if strings.Contains(r.Query, "queue") {
				t.Errorf("%s", r.Query)
			}
		}
	})
}

// CL-18: each request has the parameters that belong to its body.
func TestParametersDoNotCrossOver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				for i := range 12 {
					var err error
					switch (w + i) % 6 {
					case 0:
						_, err = e.Exec(t.Context(), append(count("write-list"), count("b")...))
					case 1:
						_, err = e.Query(within(t, time.Hour), engine.Linearizable, []engine.Statement{{SQL: "SELECT 'linear-one'"}})
					case 2:
						_, err = e.Query(t.Context(), engine.Weak, []engine.Statement{{SQL: "SELECT 'weak-list'"}, {SQL: "SELECT 2"}})
					case 3:
						_, err = e.Query(t.Context(), engine.Stale, []engine.Statement{{SQL: "SELECT 'stale-one'"}})
					case 4:
						_, err = e.Gorqlite().QueryOneContext(t.Context(), "SELECT 'adhoc-read'")
					case 5:
						_, err = e.Gorqlite().WriteContext(t.Context(), []string{"DELETE FROM t WHERE id = 'adhoc-write'", "DELETE FROM t WHERE id = 'x'"})
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		want := map[string]string{ // marker -> level transaction deadline
			"write-list":  "- tx -",
			"linear-one":  "linearizable - db_timeout",
			"weak-list":   "weak tx -",
			"stale-one":   "none - -",
			"adhoc-read":  "linearizable tx -",
			"adhoc-write": "linearizable tx -", // gorqlite sends the level with everything
		}
		seen := map[string]int{}
		for _, r := range c.LogOf(rqlitetest.KindDB) {
			q, err := url.ParseQuery(r.Query)
			if err != nil {
				t.Fatal(err)
			}
			for marker, params := range want {
				if !bytes.Contains(r.Body, []byte(marker)) {
					continue
				}
				seen[marker]++
				got := []string{"-", "-", "-"}
				if q.Has("level") {
					got[0] = q.Get("level")
				}
				if q.Has("transaction") {
					got[1] = "tx"
				}
				if q.Has("db_timeout") {
					got[2] = "db_timeout"
				}
				if s := strings.Join(got, " "); s != params {
					t.Errorf("%s was sent with %q, want %q", marker, s, params)
				}
			}
		}
		for marker := range want {
			if seen[marker] != 128 {
				t.Errorf("%s was sent %d times, want 128", marker, seen[marker])
			}
		}
	})
}

func TestDefineIsIdempotent(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		ddl := []string{
			schema,
			`ALTER TABLE t ADD COLUMN one TEXT NOT NULL DEFAULT ''`,
			`CREATE INDEX IF NOT EXISTS t_one ON t (one)`,
			`ALTER TABLE t ADD COLUMN two TEXT`,
		}
		if err := e.Define(t.Context(), ddl[:2]); err != nil {
			t.Fatal(err)
		}
		// Many workers at once, some of whose answers are lost.
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Probability: 0.2}, rqlitetest.ResetApplied())
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if err := e.Define(within(t, time.Minute), ddl); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		c.ClearFaults()
		rows, err := c.SQL(t.Context(), `SELECT count(*) FROM pragma_table_info('t') WHERE name IN ('one', 'two')`)
		if err != nil || rows[0][0] != int64(2) {
			t.Errorf("%v, %v", rows, err)
		}
		for i, bad := range []string{"CREATE TABLE", "ALTER TABLE nope ADD COLUMN x TEXT", ""} {
			err := e.Define(t.Context(), []string{schema, ddl[1], bad})
			wantKinds(t, err, engine.ErrNotApplied)
			if i < 2 && !strings.Contains(err.Error(), "statement 2") {
				t.Errorf("%v does not name the statement", err)
			}
		}
		c.LoseLeader(0)
		wantKinds(t, e.Define(within(t, time.Second), ddl), engine.ErrNotApplied, engine.ErrUnavailable, engine.ErrNoLeader)
	})
}

// gorqlite goes over the same leader and connections, and its writes are not sent
// again when they may have been applied.
func TestGorqliteSharesTheCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		write := func() error {
			_, err := e.Gorqlite().WriteOneContext(within(t, 5*time.Second), `INSERT INTO t (id, n) VALUES ('a', 1) ON CONFLICT (id) DO UPDATE SET n = n + 1`)
			return err
		}
		c.Elect(2)
		if err := write(); err != nil {
			t.Fatal(err)
		}
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, rqlitetest.NoLeader())
		if err := write(); err != nil {
			t.Fatal(err)
		}
		for _, a := range []rqlitetest.Action{rqlitetest.ResetApplied(), rqlitetest.ErrorApplied(rqlitetest.TextLeadershipLost)} {
			c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, a)
			if err := write(); err == nil {
				t.Error("no error for a lost answer")
			}
		}
		if n := applied(t, c, "a"); n != 4 {
			t.Errorf("applied %d times, want 4", n)
		}
		res, err := e.Gorqlite().QueryOneContext(t.Context(), `SELECT n FROM t`)
		var n int64
		if err != nil || !res.Next() || res.Scan(&n) != nil || n != 4 {
			t.Errorf("read %d, %v", n, err)
		}
		e.Close()
		if err := write(); err == nil {
			t.Error("gorqlite works after Close")
		}
	})
}

// OP-04, OP-05: the limit is on calls, not on the search for a leader.
func TestRateLimitedEngine(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, _ *client.Engine) {
		e := open(t, c, client.WithRateLimit(10, 5))
		<-time.After(5 * time.Second)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 35 {
			wg.Go(func() {
				if _, err := e.Exec(t.Context(), count(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("35 calls took %v", d)
		}
		_, err := e.Exec(within(t, 10*time.Millisecond), count("late"))
		wantKinds(t, err, engine.ErrNotApplied)
		if err := e.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
