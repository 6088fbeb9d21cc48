package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// CL-11.
func TestConnectionsAreReused(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		large := strings.Repeat("x", 300<<10)
		for _, a := range []rqlitetest.Action{
			rqlitetest.Respond(400, "text/plain", large),
			rqlitetest.Respond(500, "text/plain", "boom"),
			rqlitetest.NoLeader(),
		} {
			c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Probability: 0.02}, a)
		}
		var wg sync.WaitGroup
		for w := range 32 {
			wg.Go(func() {
				for i := range 30 {
					_, _ = e.Exec(t.Context(), count(fmt.Sprint(w)))
					if i == w%30 {
						if _, err := e.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: "SELECT ?", Args: []engine.Value{engine.Text(large)}}}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		accepted := 0
		for _, n := range c.Nodes() {
			accepted += n.Accepted()
		}
		if accepted > 40 {
			t.Errorf("%d connections for 32 callers", accepted)
		}
		if s := e.Stats(); s.Connections > 40 || s.Requests < 32*30 {
			t.Errorf("stats %+v", s)
		}
		e.Close()
		synctest.Wait()
		for _, n := range c.Nodes() {
			if k := n.OpenConns(); k != 0 {
				t.Errorf("%d connections to %s are open after Close", k, n)
			}
		}
	}, rqlitetest.Latency(2*time.Millisecond, time.Millisecond))
}

// CL-12.
func TestSilentConnectionsAreDropped(t *testing.T) {
	for name, opts := range map[string][]rqlitetest.Option{
		"plain": {rqlitetest.Latency(2*time.Millisecond, time.Millisecond)},
		"TLS":   {rqlitetest.Latency(2*time.Millisecond, time.Millisecond), rqlitetest.TLS()},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
				round := func() (failed int) {
					var mu sync.Mutex
					var wg sync.WaitGroup
					for i := range 8 {
						wg.Go(func() {
							_, err := e.Exec(within(t, time.Second), count(fmt.Sprint(i)))
							if err != nil {
								mu.Lock()
								failed++
								mu.Unlock()
								wantKinds(t, err, engine.ErrOutcomeUnknown, context.DeadlineExceeded)
							}
						})
					}
					wg.Wait()
					return failed
				}
				if n := round(); n != 0 {
					t.Fatalf("%d failures with nothing wrong", n)
				}
				if n := e.Stats().OpenConnections; n < 8 {
					t.Fatalf("%d connections, want 8", n)
				}
				silence := func() {
					for _, n := range c.Nodes() {
						n.Silence()
					}
				}
				silence()
				_, err := e.Exec(within(t, time.Second), count("x"))
				wantKinds(t, err, engine.ErrOutcomeUnknown, context.DeadlineExceeded)
				<-time.After(3 * time.Second)
				for i := range 3 {
					if n := round(); n != 0 {
						t.Errorf("%d failures in round %d after that", n, i)
					}
				}

				// With time left a read goes on, over a new connection.
				patient := open(t, c, client.WithAttemptTimeout(time.Second))
				e = patient
				if n := round(); n != 0 {
					t.Fatalf("%d failures with nothing wrong", n)
				}
				silence()
				began := time.Now()
				if _, err := patient.Query(within(t, time.Minute), engine.Linearizable, selectOne); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d > 1500*time.Millisecond {
					t.Errorf("a read took %v", d)
				}
			}, opts...)
		})
	}
}

// CL-13: connections that the server closed while they were idle are not used.
func TestIdleConnectionsClosedByTheServerDoNoHarm(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		for range 500 {
			if _, err := e.Exec(t.Context(), count("a")); err != nil {
				t.Fatal(err)
			}
			<-time.After(50*time.Millisecond + time.Duration(rand.IntN(6)-3)*time.Millisecond)
			c.Leader().CloseIdle()
		}
		if n := applied(t, c, "a"); n != 500 {
			t.Errorf("applied %d times", n)
		}
	})
}

// CL-13: a connection that the server closes just as a request is written. Reads
// go on; of a write nobody can tell, and the next one works.
func TestConnectionClosedJustAsWeWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		for i := range 50 {
			if _, err := e.Exec(t.Context(), count("a")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // until the node sees that the connection is idle
			if c.Leader().DoomIdle() == 0 {
				t.Fatal("no idle connection")
			}
			if i%2 == 0 {
				if _, err := e.Query(within(t, time.Second), engine.Linearizable, selectOne); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if _, err := e.Exec(within(t, time.Second), count("b")); err != nil {
				wantKinds(t, err, engine.ErrOutcomeUnknown)
			}
		}
		if n := applied(t, c, "a"); n != 50 {
			t.Errorf("applied %d times", n)
		}
		if n := applied(t, c, "b"); n > 25 {
			t.Errorf("25 writes were applied %d times", n)
		}
	})
}

// CL-14.
func TestCancelledCallerLeavesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		slow := c.Inject(rqlitetest.Match{Kind: rqlitetest.KindDB, If: func(r *rqlitetest.Request) bool { return !isProbe(r) }}, rqlitetest.Slow(5*time.Second, 0))
		began := time.Now()
		var wg sync.WaitGroup
		var said [200]engine.Outcome
		for i := range 200 {
			wg.Go(func() {
				ctx := within(t, 50*time.Millisecond)
				if i%2 == 0 {
					_, err := e.Query(ctx, engine.Linearizable, []engine.Statement{{SQL: "SELECT 2"}})
					wantKinds(t, err, engine.ErrNotApplied, context.DeadlineExceeded)
					return
				}
				_, err := e.Exec(ctx, count(fmt.Sprint(i)))
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				// Those that got no connection in time were not sent.
				if !errors.Is(err, engine.ErrOutcomeUnknown) && !errors.Is(err, engine.ErrNotApplied) {
					t.Errorf("%v", err)
				}
				said[i] = engine.OutcomeOf(err)
			})
		}
		wg.Wait()
		if d := time.Since(began); d > 200*time.Millisecond {
			t.Errorf("the callers left after %v", d)
		}
		<-time.After(10 * time.Second) // a request may arrive just after its caller has left
		slow.Remove()
		sent := map[string]bool{}
		for _, r := range c.LogOf(rqlitetest.KindExecute) {
			sent[string(r.Body)] = true
		}
		unsent := 0
		for i := 1; i < 200; i += 2 {
			if n := applied(t, c, fmt.Sprint(i)); n == 0 {
				unsent++
			} else if said[i] == engine.NotApplied {
				t.Errorf("write %d was called not applied, and was %d times", i, n)
			}
		}
		// The node may notice that the caller is gone before it applies.
		if unsent+len(sent) < 100 || len(sent) == 0 {
			t.Errorf("%d writes sent and %d not applied, of 100", len(sent), unsent)
		}
		for _, r := range c.LogOf(rqlitetest.KindQuery) {
			q, err := url.ParseQuery(r.Query)
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Body) != `[["SELECT 2"]]` {
				continue
			}
			for _, p := range []string{"timeout", "db_timeout", "linearizable_timeout"} {
				if d, err := time.ParseDuration(q.Get(p)); err != nil || d > 50*time.Millisecond {
					t.Errorf("%s = %q for a caller with 50 ms", p, q.Get(p))
				}
			}
		}
		for _, r := range c.LogOf(rqlitetest.KindExecute) {
			if strings.Contains(r.Query, "timeout") {
				t.Errorf("a write with a time limit on the server: %s", r.Query)
			}
		}
	})
}

// The outcome of a cancelled write is known if it was not sent.
func TestCancelledBeforeItWasSentMeansNotApplied(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := e.Exec(ctx, count("a"))
		wantKinds(t, err, engine.ErrNotApplied, context.Canceled)

		one := open(t, c, client.WithMaxConns(1))
		hang := c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, rqlitetest.Block())
		done := make(chan error)
		go func() {
			_, err := one.Exec(context.Background(), count("b"))
			done <- err
		}()
		synctest.Wait()
		// The only connection is taken, so this one waits.
		_, err = one.Exec(within(t, 100*time.Millisecond), count("c"))
		wantKinds(t, err, engine.ErrNotApplied, context.DeadlineExceeded)
		hang.Remove()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := applied(t, c, "c"); n != 0 {
			t.Errorf("applied %d times", n)
		}
	})
}

// OP-08: an outage at 500 calls per second takes a bounded number of sockets.
func TestOutageIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		for _, n := range c.Nodes() {
			n.BlackHole()
		}
		var wg sync.WaitGroup
		most := int64(0)
		for range 500 {
			wg.Go(func() {
				_, err := e.Exec(within(t, time.Second), count("x"))
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
			})
			<-time.After(2 * time.Millisecond)
			most = max(most, e.Stats().OpenConnections)
		}
		wg.Wait()
		if most > 2*client.DefaultMaxConns {
			t.Errorf("%d sockets at once", most)
		}
		for _, n := range c.Nodes() {
			n.Heal()
		}
		if _, err := e.Exec(within(t, 5*time.Second), count("y")); err != nil {
			t.Error(err)
		}
	})
}

// OP-06.
func TestCloseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork())
		for i := range 50 {
			e, err := client.Open(t.Context(), c.URLs(), client.WithDialContext(c.DialContext), client.WithRateLimit(1000, 10))
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			var hang *rqlitetest.Fault
			switch i % 5 {
			case 0: // never used
			case 1:
				if err := e.Define(t.Context(), []string{schema}); err != nil {
					t.Error(err)
				}
			case 2: // in the middle of work
				hang = c.Inject(rqlitetest.Match{Kind: rqlitetest.KindDB}, rqlitetest.Hang())
				wg.Go(func() {
					_, err := e.Exec(context.Background(), count("x"))
					wantKinds(t, err, engine.ErrOutcomeUnknown, engine.ErrClosed)
				})
				wg.Go(func() {
					_, err := e.Query(context.Background(), engine.Linearizable, selectOne)
					wantKinds(t, err, engine.ErrNotApplied, engine.ErrClosed)
				})
				<-time.After(100 * time.Millisecond) // past the rate limit
			case 3: // while it looks for a leader
				c.LoseLeader(0)
				wg.Go(func() {
					_, err := e.Exec(context.Background(), count("x"))
					wantKinds(t, err, engine.ErrNotApplied, engine.ErrClosed)
				})
				wg.Go(func() {
					err := e.Define(context.Background(), []string{schema})
					wantKinds(t, err, engine.ErrNotApplied, engine.ErrClosed)
				})
				<-time.After(time.Second)
			case 4: // while a node hangs
				for _, n := range c.Nodes() {
					n.Pause()
				}
				wg.Go(func() {
					_, err := e.Exec(context.Background(), count("x"))
					wantKinds(t, err, engine.ErrOutcomeUnknown, engine.ErrClosed)
				})
				<-time.After(time.Second)
			}
			closing := time.Now()
			e.Close()
			if d := time.Since(closing); d > 0 {
				t.Errorf("case %d: Close took %v", i%5, d)
			}
			wg.Wait()
			e.Close()
			_, err = e.Exec(t.Context(), count("x"))
			wantKinds(t, err, engine.ErrNotApplied, engine.ErrClosed)
			_, err = e.Query(t.Context(), engine.Weak, selectOne)
			wantKinds(t, err, engine.ErrNotApplied, engine.ErrClosed)
			wantKinds(t, e.Define(t.Context(), []string{schema}), engine.ErrNotApplied, engine.ErrClosed)
			if hang != nil {
				hang.Remove()
			}
			for _, n := range c.Nodes() {
				n.Resume()
			}
			c.Elect(0)
			synctest.Wait()
			for _, n := range c.Nodes() {
				if k := n.OpenConns(); k != 0 {
					t.Errorf("case %d: %d connections to %s are open after Close", i%5, k, n)
				}
			}
		}
	})
}
