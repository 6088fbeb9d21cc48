package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

// CL-02.
func TestOnlyWhatWasSurelyNotAppliedIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		write := rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}
		for i, f := range []struct {
			name   string
			action rqlitetest.Action
			resent bool
			times  int64 // it was applied in the end
		}{
			{"no leader", rqlitetest.NoLeader(), true, 1},
			{"not leader", rqlitetest.ErrorUnapplied(rqlitetest.TextNotLeader), true, 1},
			{"transfer", rqlitetest.ErrorUnapplied(rqlitetest.TextTransfer), true, 1},
			{"not open", rqlitetest.ErrorUnapplied(rqlitetest.TextStoreNotOpen), true, 1},
			{"not ready", rqlitetest.ErrorUnapplied(rqlitetest.TextStoreNotReady), true, 1},
			{"enqueue timeout", rqlitetest.ErrorUnapplied(rqlitetest.TextEnqueueTimeout), true, 1},
			{"reset after applying", rqlitetest.ResetApplied(), false, 1},
			{"closed after applying", rqlitetest.CloseApplied(), false, 1},
			{"reset before applying", rqlitetest.Reset(), false, 0},
			{"answer cut", rqlitetest.CutAnswer(-1), false, 1},
			{"leadership lost, applied", rqlitetest.ErrorApplied(rqlitetest.TextLeadershipLost), false, 1},
			{"leadership lost, not applied", rqlitetest.ErrorUnapplied(rqlitetest.TextLeadershipLost), false, 0},
			{"connection refused at a follower", rqlitetest.ErrorApplied(rqlitetest.TextConnectionRefused), false, 1},
			{"applied, then status 500", rqlitetest.Edit(func(r *rqlitetest.Response) { r.Status, r.Body = 500, []byte("boom\n") }), false, 1},
			{"proxy's 502", rqlitetest.Respond(http.StatusBadGateway, "text/html", "<html>"), false, 0},
			{"HTML with status 200", rqlitetest.HTML(), false, 0},
			{"too few results", rqlitetest.FewerResults(1), false, 1},
			{"too many results", rqlitetest.MoreResults(1), false, 1},
		} {
			id := fmt.Sprint("w", i)
			c.ResetLog()
			fault := c.Inject(write, f.action)
			_, err := e.Exec(within(t, 10*time.Second), count(id))
			fault.Remove()
			sent := requests(c, rqlitetest.KindExecute)
			switch {
			case f.resent && (err != nil || sent != 2):
				t.Errorf("%s: %v after %d requests, want success after 2", f.name, err, sent)
			case !f.resent && sent != 1:
				t.Errorf("%s: %d requests, want 1", f.name, sent)
			case !f.resent:
				t.Log(f.name, "->", err)
				wantKinds(t, err, engine.ErrOutcomeUnknown)
			}
			if n := applied(t, c, id); n != f.times {
				t.Errorf("%s: applied %d times, want %d", f.name, n, f.times)
			}
		}
	})
}

// CL-02: a node that refuses connections.
func TestRefusedConnectionIsTriedElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		c.Leader().Stop()
		if _, err := e.Exec(within(t, 10*time.Second), count("a")); err != nil {
			t.Fatal(err)
		}
		if n := applied(t, c, "a"); n != 1 {
			t.Errorf("applied %d times", n)
		}
	})
}

// Reads change nothing, so they go on after any failure that may pass.
func TestReadsAreSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		read := rqlitetest.Match{Kind: rqlitetest.KindQuery, Times: 1, If: func(r *rqlitetest.Request) bool { return r.Has("level") && !isProbe(r) }}
		for _, a := range []rqlitetest.Action{
			rqlitetest.NoLeader(), rqlitetest.Reset(), rqlitetest.ResetApplied(), rqlitetest.CloseApplied(), rqlitetest.CutAnswer(-1),
			rqlitetest.ErrorUnapplied(rqlitetest.TextLeadershipLost), rqlitetest.ErrorUnapplied("index 5: timeout waiting for fsm"),
			rqlitetest.Respond(502, "text/html", "<html>"), rqlitetest.Respond(500, "text/plain", "boom"),
		} {
			for _, level := range []engine.Consistency{engine.Linearizable, engine.Weak, engine.Stale} {
				fault := c.Inject(read, a)
				res, err := e.Query(within(t, 10*time.Second), level, selectOne)
				if fault.Hits() != 1 {
					t.Errorf("%v at %v: the fault did not happen", a, level)
				}
				fault.Remove()
				if err != nil || res[0].Row(0)[0] != engine.Int(1) {
					t.Errorf("%v at %v: %v", a, level, err)
				}
			}
		}
	})
}

func isProbe(r *rqlitetest.Request) bool { return string(r.Body) == `["SELECT 1"]` }

// OP-03, BA-14.
func TestPermanentErrorsTakeOneAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		for _, f := range []struct {
			action rqlitetest.Action
			reason error
		}{
			{rqlitetest.Respond(400, "text/plain", "invalid request\n"), engine.ErrProtocol},
			{rqlitetest.Respond(404, "", ""), engine.ErrProtocol},
			{rqlitetest.Respond(405, "", ""), engine.ErrProtocol},
			{rqlitetest.Respond(413, "text/html", "<html>"), engine.ErrTooLarge},
			{rqlitetest.Unauthorized(), engine.ErrUnauthorized},
			{rqlitetest.ErrorUnapplied(`unable to store logs within log store, err: "write raft.db: no space left on device"`), engine.ErrFull},
		} {
			c.ResetLog()
			fault := c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, f.action)
			_, err := e.Exec(t.Context(), count("x"))
			fault.Remove()
			wantKinds(t, err, engine.ErrNotApplied, f.reason)
			if n := requests(c, rqlitetest.KindExecute); n != 1 {
				t.Errorf("%v: %d requests", f.action, n)
			}
		}
		// The engine works on.
		if _, err := e.Exec(within(t, time.Second), count("x")); err != nil {
			t.Error(err)
		}
	})
}

// OP-03.
func TestCancellationKeepsTheLastCause(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, rqlitetest.ErrorUnapplied(rqlitetest.TextStoreNotReady))
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(30*time.Second, cancel)
		_, err := e.Exec(ctx, count("x"))
		wantKinds(t, err, engine.ErrNotApplied, engine.ErrUnavailable, context.Canceled)
		var cause *client.ServerError
		if !errors.As(err, &cause) || cause.Message != rqlitetest.TextStoreNotReady {
			t.Errorf("the last cause is lost: %v", err)
		}
		if d := time.Since(began); d != 30*time.Second {
			t.Errorf("returned after %v", d)
		}
		if n := requests(c, rqlitetest.KindAny); n > 15*30 {
			t.Errorf("%d requests in 30 s", n)
		}
	})
}

// OP-01: there is no window of retries that a long healthy time uses up.
func TestLateFirstFailureIsRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		for i := range 3 {
			<-time.After(time.Hour)
			c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, rqlitetest.NoLeader())
			if _, err := e.Exec(within(t, 3*time.Second), count(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		}
	})
}

// OP-02: many calls that fail together neither race nor slow each other down, and
// do not multiply the questions to the cluster.
func TestManyCallsFailAndRecoverTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		c.LoseLeader(2 * time.Second)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 256 {
			wg.Go(func() {
				if _, err := e.Exec(within(t, 10*time.Second), count(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d > 2300*time.Millisecond {
			t.Errorf("recovered %v after the leader was lost, want within 300 ms of the election", d)
		}
		// As many as there are connections go out before the first has an answer.
		if n := requests(c, rqlitetest.KindAny); n > 256+client.DefaultMaxConns+30 {
			t.Errorf("%d requests for 256 calls", n)
		}
		for i := range 256 {
			if n := applied(t, c, fmt.Sprint(i)); n != 1 {
				t.Errorf("call %d was applied %d times", i, n)
			}
		}
	})
}

// A node that thinks that it leads, but refuses each write, gets them one by one
// and at a measured pace, not from all callers at once.
func TestLeaderThatRefusesIsNotHammered(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		refuse := c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, rqlitetest.ErrorUnapplied(rqlitetest.TextTransfer))
		time.AfterFunc(4*time.Second, refuse.Remove)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 256 {
			wg.Go(func() {
				if _, err := e.Exec(within(t, 10*time.Second), count(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d > 4400*time.Millisecond {
			t.Errorf("recovered after %v, want at most 400 ms after the refusals ended", d)
		}
		// The first go out together; from then on one at a time is tried.
		if n := refuse.Hits(); n > client.DefaultMaxConns+15*4 {
			t.Errorf("%d writes were refused in 4 s", n)
		}
		if n := requests(c, rqlitetest.KindAny); n > 256+client.DefaultMaxConns+2*15*4 {
			t.Errorf("%d requests for 256 calls", n)
		}
	})
}

// A statement that fails undoes the list and is named.
func TestStatementErrorNamesTheStatement(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		stmts := append(insert("a"), append(insert("b"), append(insert("a"), insert("c")...)...)...)
		_, err := e.Exec(t.Context(), stmts)
		wantKinds(t, err, engine.ErrNotApplied)
		var se *engine.StatementError
		if !errors.As(err, &se) || se.Index != 2 {
			t.Errorf("%v", err)
		}
		if n := applied(t, c, "a") + applied(t, c, "b") + applied(t, c, "c"); n != 0 {
			t.Error("something was applied")
		}
		_, err = e.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: "SELECT 1"}, {SQL: "SELECT * FROM nope"}})
		wantKinds(t, err, engine.ErrNotApplied)
		if !errors.As(err, &se) || se.Index != 1 {
			t.Errorf("%v", err)
		}
	})
}

func TestLostReturningRowsMeanApplied(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, rqlitetest.Edit(func(r *rqlitetest.Response) {
			r.Body = []byte(`{"results":[{"last_insert_id":1,"rows_affected":1}]}`)
		}))
		_, err := e.Exec(t.Context(), []engine.Statement{{SQL: `INSERT INTO t (id) VALUES ('a') RETURNING id`, Returning: true}})
		wantKinds(t, err, engine.ErrApplied, engine.ErrProtocol)
	})
}

// Servers before 9.4.2 do not always undo a list with RETURNING in it.
func TestFailedReturningListOnOldServerIsUnknown(t *testing.T) {
	for v, kind := range map[string]error{"v9.4.1": engine.ErrOutcomeUnknown, "v9.4.2": engine.ErrNotApplied} {
		inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
			_, err := e.Exec(t.Context(), append(
				[]engine.Statement{{SQL: `INSERT INTO t (id) VALUES ('a') RETURNING id`, Returning: true}}, insert("a")...))
			wantKinds(t, err, kind)
		}, rqlitetest.Version(v))
	}
}

// CL-06.
func TestNumberOutOfRangeIsATypedError(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		answer := rqlitetest.Edit(func(r *rqlitetest.Response) {
			r.Body = []byte(`{"results":[{"columns":["id","version"],"types":["text","integer"],"values":[["a",9223372036854775808]]}]}`)
		})
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindQuery, Times: 1}, answer)
		_, err := e.Query(t.Context(), engine.Linearizable, selectOne)
		wantKinds(t, err, engine.ErrNotApplied, engine.ErrProtocol)
		var de *client.DecodeError
		if !errors.As(err, &de) || de.Column != "version" {
			t.Errorf("%v", err)
		}
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, answer)
		_, err = e.Exec(t.Context(), insert("a"))
		wantKinds(t, err, engine.ErrApplied, engine.ErrProtocol)
	})
}

func TestLargeAnswersAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, _ *client.Engine) {
		e := open(t, c, client.WithMaxResponse(1<<20))
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindDB}, rqlitetest.HugeBody(8<<20))
		_, err := e.Query(t.Context(), engine.Linearizable, selectOne)
		wantKinds(t, err, engine.ErrNotApplied, engine.ErrTooLarge)
		_, err = e.Exec(t.Context(), insert("a"))
		wantKinds(t, err, engine.ErrOutcomeUnknown, engine.ErrTooLarge)
	})
}
