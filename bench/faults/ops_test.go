package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// OP-06: whole stacks come and go: never used, used, closed in the middle of work,
// closed twice, closed from the bottom up. Nothing of them is left.
func TestStacksComeAndGo(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, c *rqlitetest.Cluster) (engine.Engine, error){
		"rqlite": func(t *testing.T, c *rqlitetest.Cluster) (engine.Engine, error) {
			return client.Open(t.Context(), c.URLs(), client.WithDialContext(c.DialContext))
		},
		"sqlite": func(*testing.T, *rqlitetest.Cluster) (engine.Engine, error) { return sqlite.Open(":memory:") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // ends only when all its goroutines have
				c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork())
				for i := range 25 {
					eng, err := open(t, c)
					if err != nil {
						t.Fatal(err)
					}
					w := &world{log: new(syncBuffer)}
					st, err := store.Open(t.Context(), eng, store.WithLogger(w.logger()))
					if err != nil {
						t.Fatal(err)
					}
					s, err := actor.New(st)
					if err != nil {
						t.Fatal(err)
					}
					id := fmt.Sprint(name, i)
					var hang *rqlitetest.Fault
					var pending []*actor.CommitFuture
					ctx, cancel := context.WithCancel(t.Context())
					switch i % 5 {
					case 0: // never used
					case 1:
						await(t, s.Commit(ctx, full(execution(id))))
					case 2: // in the middle of work
						hang = c.Inject(rqlitetest.Match{Kind: rqlitetest.KindDB}, rqlitetest.Hang())
						for k := range 20 {
							pending = append(pending, s.Commit(ctx, full(execution(fmt.Sprint(id, k)))))
						}
						s.Load(ctx, id)
						pass(time.Second)
						cancel()
					case 3: // the engine first
						pending = append(pending, s.Commit(ctx, full(execution(id))))
						if err := eng.Close(); err != nil {
							t.Error(err)
						}
					case 4: // the sync store first
						if err := st.Close(); err != nil {
							t.Error(err)
						}
						pending = append(pending, s.Commit(ctx, full(execution(id))))
					}
					for range 2 {
						_, _ = s.Close(ctx)
						if err := st.Close(); err != nil {
							t.Error(err)
						}
					}
					cancel()
					for _, f := range pending {
						if _, _, done := f.Poll(); !done {
							t.Errorf("case %d: a future is pending after Close", i%5)
						}
					}
					if hang != nil {
						hang.Remove()
					}
					synctest.Wait()
					for _, n := range c.Nodes() {
						if k := n.OpenConns(); k != 0 {
							t.Errorf("case %d: %d connections to %s are open after Close", i%5, k, n)
						}
					}
				}
			})
		})
	}
}

// OP-07: the work is told to stop while a hundred handlers are about to commit.
// What commits within the window is stored, what hangs is reported and runs again
// after a restart.
func TestDrainOverACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.Latency(2*time.Millisecond, time.Millisecond))
		w := openOn(t, c, nil, actor.WithInFlight(8, 4)) // more than there are requests that hang
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, If: func(r *rqlitetest.Request) bool { return strings.Contains(string(r.Body), "hung-") }}, rqlitetest.Hang())
		work, stop := context.WithCancel(t.Context())
		var hung []*actor.CommitFuture
		for _, id := range ids("hung", 5) {
			hung = append(hung, w.s.Commit(context.WithoutCancel(work), full(execution(id))))
		}
		var handlers sync.WaitGroup
		for i, id := range ids("a", 95) {
			handlers.Go(func() {
				<-work.Done() // told to stop, it finishes its step
				pass(time.Duration(i) * time.Millisecond)
				await(t, w.s.Commit(context.WithoutCancel(work), full(execution(id))))
			})
		}
		pass(time.Second)
		stop()
		window, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		handlers.Wait()
		left, err := w.s.Close(window)
		wantErr(t, err, context.DeadlineExceeded)
		if left.InFlight+left.Unsent != 5 || time.Since(began) != 2*time.Second {
			t.Errorf("left %+v after %v", left, time.Since(began))
		}
		for _, f := range hung {
			if _, err, done := f.Poll(); !done || !errors.Is(err, store.ErrOutcomeUnknown) && !errors.Is(err, store.ErrClosed) {
				t.Errorf("a hung commit: %v, %v", done, err)
			}
		}
		if n := w.consistent(t); n != 95 {
			t.Errorf("%d commits landed, want 95", n)
		}
		c.ClearFaults()
		again := openOn(t, c, nil)
		for _, id := range ids("hung", 5) {
			if _, err := again.s.Load(t.Context(), id).Await(t.Context()); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
			await(t, again.s.Commit(t.Context(), full(execution(id))))
		}
		if n := again.consistent(t); n != 100 {
			t.Errorf("%d commits in all", n)
		}
	})
}

// OP-11: what is normal under contention is counted, not logged.
func TestNormalEventsAreNotLogged(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, "a")
		before := w.log.String()
		stale := w.load(t, "a")
		e := await(t, w.s.Save(t.Context(), w.load(t, "a"))).Execution()
		const n = 500
		for i := range n {
			// A duplicate of an event, which its worker drops or commits again.
			if i%2 == 0 {
				e = await(t, w.s.Commit(t.Context(), &store.Commit{Execution: e, ProcessedEvent: "the same"})).Execution()
			} else if processed := await(t, w.s.IsProcessed(t.Context(), "a", "the same")); !processed {
				t.Fatal("the event is not in the ledger")
			}
			_, err := w.s.Commit(t.Context(), full(stale)).Await(t.Context())
			wantErr(t, err, store.ErrConflict)
		}
		if c := w.s.Stats().Outcomes; c.Conflicts != n {
			t.Errorf("%d conflicts were counted, want %d", c.Conflicts, n)
		}
		log := strings.TrimPrefix(w.log.String(), before)
		if lines(log, "level=ERROR")+lines(log, "level=WARN") != 0 || strings.Count(log, "\n") > 3 {
			t.Errorf("logged:\n%s", log)
		}
	})
}

// OP-12: Ping says "not ready" with the reason while commits would not work, and
// "ready" again by itself; what is stuck in the lanes shows in Stats.
func TestReadiness(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ping := func(want ...error) {
			t.Helper()
			began := time.Now()
			err := w.st.Ping(t.Context())
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("Ping took %v", d)
			}
			if len(want) == 0 && err != nil {
				t.Errorf("not ready: %v", err)
			}
			if len(want) > 0 {
				wantErr(t, err, want...)
			}
		}
		ping()
		for _, n := range w.c.Nodes() {
			n.Stop()
		}
		ping(store.ErrUnavailable)
		for _, n := range w.c.Nodes() {
			n.Restart()
		}
		w.c.Elect(0)
		ping()
		w.c.LoseLeader(0)
		ping(store.ErrUnavailable, engine.ErrNoLeader)
		w.c.Elect(1)
		ping()
		for _, n := range w.c.Nodes() {
			n.BlackHole()
		}
		ping(store.ErrUnavailable)
		for _, n := range w.c.Nodes() {
			n.Heal()
		}
		w.run(t, "ALTER TABLE spawns RENAME TO elsewhere")
		ping(store.ErrSchema)
		w.run(t, "ALTER TABLE elsewhere RENAME TO spawns")
		ping()

		// Reads work and writes hang: the lane shows it.
		hang := w.c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, rqlitetest.Hang())
		var futures []*actor.CommitFuture
		for _, id := range ids("a", 10) {
			futures = append(futures, w.s.Commit(t.Context(), full(execution(id))))
		}
		pass(2 * time.Second)
		before := w.s.Stats().Writes
		if before.InFlight == 0 || before.Queued+before.InFlight != 10 {
			t.Errorf("stuck writes show as %+v", before)
		}
		hang.Remove()
		for _, f := range futures {
			await(t, f)
		}
		synctest.Wait() // the books are closed just after the futures are resolved
		if n := w.s.Stats().Writes; n.Queued+n.InFlight != 0 {
			t.Errorf("after the hang: %+v", n)
		}
		if err := w.st.Close(); err != nil {
			t.Fatal(err)
		}
		ping(store.ErrClosed)
	})
}

// OP-01, OP-02: a first failure after a long healthy time is ridden out like any
// other, and many that fail together do not slow each other down.
func TestLateFailureOfMany(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.create(t, "warm")
		for range 3 {
			pass(time.Hour)
			w.c.LoseLeader(2 * time.Second)
			began := time.Now()
			var took []time.Duration
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					_, err := w.s.Update(t.Context(), fmt.Sprint("a-", i), func(c *store.Commit) error { return nil })
					if errors.Is(err, store.ErrNotFound) {
						_, err = w.s.Save(t.Context(), execution(fmt.Sprint("a-", i))).Await(t.Context())
					}
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					took = append(took, time.Since(began))
				})
			}
			wg.Wait()
			if d := slices.Max(took); d > 3*time.Second {
				t.Errorf("the last of them took %v", d)
			}
		}
	})
}
