package faults

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
)

// CL-15: a load that begins after a commit was acknowledged sees it, although
// every other node answers from old data; a weaker level has to be asked for by
// name, and only lists take it.
func TestLoadsNeverGoBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for i := range w.c.Len() {
			if w.c.Leader() != w.c.Node(i) {
				w.c.Freeze(i)
			}
		}
		var wg sync.WaitGroup
		for _, id := range ids("a", 8) {
			wg.Go(func() {
				e := execution(id)
				for range 25 {
					done := await(t, w.s.Save(t.Context(), e))
					if e = w.load(t, id); e.Version < done.Version {
						t.Errorf("loaded version %d after %d was acknowledged", e.Version, done.Version)
					}
				}
				for range 25 {
					if _, err := w.s.Update(t.Context(), "shared", func(c *store.Commit) error {
						c.Execution.ProcessedEvents++
						return nil
					}); errors.Is(err, store.ErrNotFound) {
						_, _ = w.s.Save(t.Context(), execution("shared")).Await(t.Context())
					} else if err != nil && !errors.Is(err, store.ErrConflict) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if e := w.load(t, "shared"); int64(e.ProcessedEvents) != e.Version-1 {
			t.Errorf("%d updates were counted at version %d", e.ProcessedEvents, e.Version)
		}
		for _, r := range w.c.LogOf(rqlitetest.KindQuery) {
			if strings.Contains(r.Query, "level=none") || strings.Contains(r.Query, "level=weak") {
				t.Fatalf("a read with %s", r.Query)
			}
		}
		w.c.ResetLog()
		await(t, w.s.List(t.Context(), store.ListQuery{Consistency: store.Stale}))
		if log := w.c.LogOf(rqlitetest.KindQuery); len(log) != 1 || !strings.Contains(log[0].Query, "level=none") {
			t.Errorf("a list that asked for stale rows: %+v", log)
		}
	})
}

// CL-16: no default uses the level strong.
func TestNoReadIsStrong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.create(t, "a")
		for range 200 {
			w.load(t, "a")
			await(t, w.s.List(t.Context(), store.ListQuery{}))
		}
		reads := w.c.LogOf(rqlitetest.KindQuery)
		if len(reads) < 400 {
			t.Errorf("%d reads", len(reads))
		}
		for _, r := range reads {
			if strings.Contains(r.Query, "strong") {
				t.Fatalf("a read with %s", r.Query)
			}
		}
	})
}

// CL-17: a server that drops what it was to queue loses nothing, since no write
// is ever queued there.
func TestNoWriteIsQueuedOnTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, If: func(r *rqlitetest.Request) bool { return r.Has("queue") }},
			rqlitetest.Respond(200, "application/json", `{"results":[],"sequence_number":1}`))
		ctx := t.Context()
		e := await(t, w.s.Commit(ctx, full(execution("a")))).Execution()
		await(t, w.s.Save(ctx, e))
		await(t, w.s.AppendTrace(ctx, "a", object(`{}`)))
		await(t, w.s.AckOutbox(ctx, 1))
		await(t, w.s.AckSpawn(ctx, 1))
		await(t, w.s.DeleteTimer(ctx, store.Timer{ExecutionID: "a", Path: "/a@1", FireAt: 1000}))
		var futures []*actor.CommitFuture
		for _, id := range ids("b", 50) {
			futures = append(futures, w.s.Commit(ctx, full(execution(id))))
		}
		for _, f := range futures {
			await(t, f)
		}
		writes := w.c.LogOf(rqlitetest.KindExecute)
		if len(writes) < 7 {
			t.Errorf("%d writes", len(writes))
		}
		for _, r := range writes {
			if strings.Contains(r.Query, "queue") || !strings.Contains(r.Query, "transaction") {
				t.Errorf("a write with %s", r.Query)
			}
		}
		got := fmt.Sprint(w.number(t, "SELECT count(*) FROM executions"), w.number(t, "SELECT count(*) FROM outbox"), w.number(t, "SELECT count(*) FROM timers"))
		if got != "51 101 50" {
			t.Errorf("stored %s", got)
		}
	})
}

// CL-14: futures of callers who leave resolve at once and say the truth, although
// the cluster goes on with what it has got.
func TestCallersLeaveASlowCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.create(t, "warm")
		slow := w.c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, rqlitetest.Slow(5*time.Second, 0))
		began := time.Now()
		errs := make(map[string]error)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, id := range ids("a", 200) {
			wg.Go(func() {
				_, err := w.s.Commit(within(t, 50*time.Millisecond), full(execution(id))).Await(t.Context())
				mu.Lock()
				defer mu.Unlock()
				errs[id] = err
			})
		}
		wg.Wait()
		if d := time.Since(began); d > 200*time.Millisecond {
			t.Errorf("the callers left after %v", d)
		}
		pass(20 * time.Second) // what was sent is applied
		slow.Remove()
		there := make(map[string]bool)
		for _, row := range w.rows(t, "SELECT id FROM executions") {
			there[row[0].(string)] = true
		}
		unknown := 0
		for id, err := range errs {
			switch {
			case errors.Is(err, store.ErrOutcomeUnknown):
				unknown++
				var u *store.UnknownError
				if !errors.As(err, &u) {
					t.Errorf("%s: %v has no reference", id, err)
				} else if r, err := w.st.Resolve(t.Context(), u.Ref); err != nil || (r == store.ResolutionCommitted) != there[id] {
					t.Errorf("%s: resolved as %v, %v; it is there: %t", id, r, err, there[id])
				}
			case there[id]:
				t.Errorf("%s was applied, its caller was told %v", id, err)
			}
			wantErr(t, err)
		}
		if unknown == 0 {
			t.Error("nothing had been sent")
		}
		w.create(t, "after") // life goes on
		w.consistentAfter(t, "warm", "after")
	})
}

// consistentAfter is consistent for all executions but those that were only
// saved.
func (w *world) consistentAfter(t *testing.T, saved ...string) {
	t.Helper()
	for _, id := range saved {
		w.run(t, "DELETE FROM executions WHERE id='"+id+"'")
	}
	w.consistent(t)
}
