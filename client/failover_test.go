package client_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

// CL-09.
func TestNoLeaderForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		began := time.Now()
		c.LoseLeader(2 * time.Second)
		if _, err := e.Exec(within(t, 10*time.Second), count("a")); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < 2*time.Second || d > 2250*time.Millisecond {
			t.Errorf("succeeded after %v, want 2 s and at most 250 ms", d)
		}
		if n := applied(t, c, "a"); n != 1 {
			t.Errorf("applied %d times", n)
		}
		if n := requests(c, rqlitetest.KindAny); n > 30 {
			t.Errorf("%d requests, want at most 30%s", n, describe(c.Log()))
		}

		c.ResetLog()
		c.LoseLeader(0)
		began = time.Now()
		_, err := e.Exec(within(t, 3*time.Second), count("a"))
		wantKinds(t, err, engine.ErrNotApplied, engine.ErrUnavailable, engine.ErrNoLeader)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("failed after %v, want 3 s", d)
		}
		if n := requests(c, rqlitetest.KindAny); n > 45 {
			t.Errorf("%d requests in 3 s, want at most 45", n)
		}
	})
}

// CL-09: the search ends when nobody waits for it.
func TestSearchEndsWithItsCallers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		c.LoseLeader(0)
		_, err := e.Exec(within(t, time.Second), count("a"))
		wantKinds(t, err, engine.ErrNoLeader)
		<-time.After(time.Second)
		c.ResetLog()
		<-time.After(time.Minute)
		if n := requests(c, rqlitetest.KindAny); n != 0 {
			t.Errorf("%d requests without a caller", n)
		}
	})
}

// CL-10.
func TestDeadLeaderIsLeftAndUsedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		for round := range 3 {
			dead := c.Leader()
			dead.Stop()
			if _, err := e.Exec(within(t, 10*time.Second), count("a")); err != nil {
				t.Fatal(err)
			}
			for i := range 200 {
				began := time.Now()
				if _, err := e.Exec(within(t, 10*time.Second), count("a")); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(began); d > 300*time.Millisecond {
					t.Errorf("round %d, operation %d took %v", round, i, d)
				}
			}
			dead.Restart()
		}
		if n := applied(t, c, "a"); n != 3*201 {
			t.Errorf("applied %d times, want %d", n, 3*201)
		}
		// A node that was dead leads again.
		first := c.Node(0)
		c.Elect(0)
		for range 3 {
			if _, err := e.Exec(within(t, 10*time.Second), count("a")); err != nil {
				t.Fatal(err)
			}
		}
		last := c.LogOf(rqlitetest.KindExecute)
		if got := last[len(last)-1].Node; got != first.ID() {
			t.Errorf("the last write went to %s", got)
		}
	})
}

// A planned change of leader costs a redirect, no failure and no search.
func TestLeaderChangeIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		for i := range 9 {
			c.Elect(i % 3)
			if _, err := e.Exec(within(t, time.Second), count("a")); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Query(within(t, time.Second), engine.Linearizable, selectOne); err != nil {
				t.Fatal(err)
			}
		}
		if n := applied(t, c, "a"); n != 9 {
			t.Errorf("applied %d times", n)
		}
		if n := requests(c, rqlitetest.KindDB); n > 9*3 {
			t.Errorf("%d requests, want at most 27%s", n, describe(c.Log()))
		}
		if s := e.Stats(); s.Redirects < 8 || s.LeaderChanges < 8 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A leader that hangs is given up as soon as another one leads.
func TestHungLeaderIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		old := c.Leader()
		old.Pause()
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				_, err := e.Exec(within(t, time.Minute), count(fmt.Sprint("w", i)))
				wantKinds(t, err, engine.ErrOutcomeUnknown)
				if d := time.Since(began); d > 2500*time.Millisecond {
					t.Errorf("a write was given up after %v", d)
				}
			})
			wg.Go(func() {
				if _, err := e.Query(within(t, time.Minute), engine.Linearizable, selectOne); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d > 2500*time.Millisecond {
					t.Errorf("a read came after %v", d)
				}
			})
		}
		wg.Wait()
		for range 20 {
			began := time.Now()
			if _, err := e.Exec(within(t, time.Minute), count("a")); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > 300*time.Millisecond {
				t.Errorf("an operation after the change took %v", d)
			}
		}
		old.Resume()
		if _, err := e.Exec(within(t, time.Minute), count("a")); err != nil {
			t.Error(err)
		}
	})
}

// A write that is merely slow is waited for, although the others are asked.
func TestSlowWriteIsNotGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, rqlitetest.Slow(5*time.Second, 0))
		if _, err := e.Exec(within(t, time.Minute), count("a")); err != nil {
			t.Fatal(err)
		}
		if n := requests(c, rqlitetest.KindNodes); n == 0 || n > 20 {
			t.Errorf("the others were asked %d times in 5 s", n)
		}
	})
}

// A silent single node: the attempt's own time limit ends the wait.
func TestAttemptTimeoutEndsAHungWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, _ *client.Engine) {
		e := open(t, c, client.WithAttemptTimeout(3*time.Second))
		hang := c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, rqlitetest.HangApplied())
		began := time.Now()
		_, err := e.Exec(t.Context(), count("a"))
		wantKinds(t, err, engine.ErrOutcomeUnknown, engine.ErrUnavailable)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("ended after %v", d)
		}
		hang.Remove()
		if _, err := e.Exec(within(t, 2*time.Second), count("a")); err != nil {
			t.Error(err)
		}
	}, rqlitetest.Nodes(1))
}

// OP-12.
func TestPingSaysWhyNot(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		ping := func() error {
			t.Helper()
			began := time.Now()
			err := e.Ping(t.Context())
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("Ping took %v", d)
			}
			return err
		}
		if err := ping(); err != nil {
			t.Error(err)
		}
		c.LoseLeader(0)
		wantKinds(t, ping(), engine.ErrNotApplied, engine.ErrUnavailable, engine.ErrNoLeader)
		c.Elect(1)
		if err := ping(); err != nil {
			t.Error(err)
		}
		for _, n := range c.Nodes() {
			n.Stop()
		}
		err := ping()
		wantKinds(t, err, engine.ErrNotApplied, engine.ErrUnavailable)
		t.Log(err)
		for _, n := range c.Nodes() {
			n.Restart()
		}
		c.Elect(2)
		if err := ping(); err != nil {
			t.Error(err)
		}
		e.Close()
		wantKinds(t, ping(), engine.ErrNotApplied, engine.ErrClosed)
	})
}

// Nodes that join later are found, so that all first ones may go.
func TestNodesAreListedAgainAfterALeaderChange(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, _ *client.Engine) {
		only := rqlitetest.Match{Kind: rqlitetest.KindNodes, Times: 1}
		c.Inject(only, rqlitetest.Respond(401, "", ""))
		e, err := client.Open(t.Context(), []string{c.URL(0), c.URL(1)}, client.WithDialContext(c.DialContext))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if strings.Contains(e.String(), c.Node(2).Addr()) {
			t.Fatalf("%v was listed", e)
		}
		c.Elect(1)
		if _, err := e.Exec(within(t, time.Second), count("a")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !strings.Contains(e.String(), c.Node(2).Addr()) {
			t.Errorf("%v lacks the third node", e)
		}
	})
}

// A node that fails at once, while the answers of the others are outstanding, is
// not asked again and again.
func TestSearchKeepsItsPaceBesideADeadNode(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		c.Node(0).Stop()
		c.Node(1).BlackHole()
		c.Node(2).BlackHole()
		before := e.Stats().Probes
		_, err := e.Exec(within(t, 3*time.Second), count("a"))
		wantKinds(t, err, engine.ErrUnavailable)
		if n := e.Stats().Probes - before; n > 45 {
			t.Errorf("%d questions in 3 s, want at most 45", n)
		}
	})
}
