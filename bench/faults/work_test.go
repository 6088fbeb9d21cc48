package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
)

// AC-06: recovery works from a list that was read earlier. What somebody else has
// claimed since is not run, and an outage in the middle strands nothing.
func TestRecoveryOverAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		all := ids("a", 40)
		w.create(t, all...)
		var snapshot []*store.Execution
		q := store.ListQuery{Status: []store.Status{store.StatusRunning}, Limit: 7}
		for {
			page := await(t, w.s.List(t.Context(), q))
			for _, s := range page.Items {
				snapshot = append(snapshot, w.load(t, s.ID))
			}
			if q.Cursor = page.Next; page.Next == "" {
				break
			}
		}
		if len(snapshot) != len(all) {
			t.Fatalf("%d executions to recover", len(snapshot))
		}
		other := openOn(t, w.c, nil)
		claim := func(by *world, e *store.Execution, who string) *actor.CommitFuture {
			e.Status = store.StatusDone
			return by.s.Commit(t.Context(), &store.Commit{Execution: e, Emits: []store.Emit{{Target: who, Event: event(e.ID, e.ID)}}})
		}
		await(t, claim(other, other.load(t, all[7]), "other"))

		began := time.Now()
		var futures []*actor.CommitFuture
		for i, e := range snapshot {
			if i == 20 {
				w.c.LoseLeader(2 * time.Second)
			}
			futures = append(futures, claim(w, e, "recovery"))
		}
		for i, f := range futures {
			if i == 7 {
				_, err := f.Await(t.Context())
				wantErr(t, err, store.ErrConflict)
				continue
			}
			await(t, f)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("recovered after %v", d)
		}
		if n := w.number(t, "SELECT count(DISTINCT json_extract(event,'$.id')) FROM outbox"); n != 40 || w.number(t, "SELECT count(*) FROM outbox") != 40 {
			t.Errorf("%d of 40 executions ran, in %d runs", n, w.number(t, "SELECT count(*) FROM outbox"))
		}
		if n := w.number(t, "SELECT count(*) FROM outbox WHERE target_id='other'"); n != 1 {
			t.Errorf("%d runs by the other one", n)
		}
	})
}

// AC-07: work that takes longer than others are willing to wait is taken over, and
// the late commit is refused: one effective commit.
func TestLateWorkerIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, "a")
		late := w.load(t, "a")
		pass(time.Second) // another worker's patience
		await(t, w.s.Commit(t.Context(), full(w.load(t, "a"))))
		before := w.dump(t)
		pass(2 * time.Second)
		_, err := w.s.Commit(t.Context(), full(late)).Await(t.Context())
		wantErr(t, err, store.ErrConflict)
		if w.dump(t) != before {
			t.Error("the late commit left something")
		}
	})
}

// AC-08: a parent whose commit is delivered twice spawns once, and a child that is
// there already, alive or finished, is one typed conflict for the spawner: it
// acknowledges, and neither parent nor child is harmed.
func TestSpawnOfWhatExists(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		deliver := func(parent, ev string, c *store.Commit) {
			t.Helper()
			l := await(t, w.s.LoadForEvent(ctx, parent, ev))
			if l.Processed {
				return
			}
			if c.Execution = l.Execution; l.Execution == nil {
				c.Execution = execution(parent)
			}
			c.ProcessedEvent = ev
			await(t, w.s.Commit(ctx, c))
		}
		w.create(t, "somebody's")
		finished := execution("finished")
		finished.Status, finished.Outcome = store.StatusDone, "well"
		await(t, w.s.Save(ctx, finished))
		for range 2 {
			for _, child := range []string{"c1", "somebody's", "finished"} {
				deliver("parent", "ev of "+child, &store.Commit{
					Spawns: []store.Spawn{{ChildID: child, RootPath: "/"}},
					Emits:  []store.Emit{{Event: event("emitted beside "+child, "parent")}},
				})
			}
		}
		spawns := await(t, w.s.PendingSpawns(ctx, 10))
		if len(spawns) != 3 {
			t.Fatalf("%d spawns, want 3", len(spawns))
		}
		outcomes := map[string]error{}
		for range 2 { // the first time the acknowledgement gets lost
			for _, s := range spawns {
				child := execution(s.ChildID)
				child.ParentID, child.RootPath = s.ParentID, s.RootPath
				_, err := w.s.Save(ctx, child).Await(ctx)
				if _, again := outcomes[s.ChildID]; !again {
					outcomes[s.ChildID] = err
				} else {
					wantErr(t, err, store.ErrConflict)
				}
			}
		}
		for child, err := range outcomes {
			var conflict *store.ConflictError
			if child == "c1" && err != nil || child != "c1" && (!errors.As(err, &conflict) || conflict.Found != 1 || conflict.Expected != 0) {
				t.Errorf("child %s: %v", child, err)
			}
		}
		for _, s := range spawns {
			await(t, w.s.AckSpawn(ctx, s.Seq))
		}
		if left := await(t, w.s.PendingSpawns(ctx, 10)); len(left) != 0 {
			t.Errorf("spawns left over: %+v", left)
		}
		if e := w.load(t, "finished"); e.Status != store.StatusDone || e.Outcome != "well" || e.Version != 1 {
			t.Errorf("the finished child is now %+v", e)
		}
		if n := w.number(t, "SELECT count(*) FROM outbox"); n != 3 || w.load(t, "parent").Version != 3 {
			t.Errorf("%d events beside the spawns, parent at version %d", n, w.load(t, "parent").Version)
		}
	})
}

// AC-09: messages meet an execution that keeps finishing and starting again under
// the same id. Each takes effect once, and none resets a run that has finished.
func TestMessagesMeetTheEndOfARun(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, "a")
		const messages = 200
		var wg sync.WaitGroup
		stop, stopped := context.WithCancel(t.Context())
		runs := 0
		wg.Go(func() {
			for stop.Err() == nil {
				if _, err := w.s.Update(t.Context(), "a", func(c *store.Commit) error {
					if c.Execution.Status = store.StatusDone; runs%2 == 1 {
						c.Execution.Status = store.StatusRunning
					}
					return nil
				}); err == nil {
					runs++
				} else if !errors.Is(err, store.ErrConflict) {
					t.Error(err)
				}
				pass(time.Millisecond)
			}
		})
		var workers sync.WaitGroup
		for k := range 4 {
			workers.Go(func() {
				for i := k; i < messages; i += 4 {
					ev := fmt.Sprint("message ", i)
					for handled := false; !handled; {
						l := await(t, w.s.LoadForEvent(t.Context(), "a", ev))
						l.Execution.ProcessedEvents++
						_, err := w.s.Commit(t.Context(), &store.Commit{Execution: l.Execution, ProcessedEvent: ev}).Await(t.Context())
						if handled = err == nil; !handled && !errors.Is(err, store.ErrConflict) {
							t.Error(err)
							return
						}
						pass(time.Millisecond)
					}
				}
			})
		}
		workers.Wait()
		stopped()
		wg.Wait()
		_, err := w.s.Save(t.Context(), execution("a")).Await(t.Context())
		wantErr(t, err, store.ErrConflict)
		e := w.load(t, "a")
		if e.ProcessedEvents != messages || e.Version != int64(1+runs+messages) || w.number(t, "SELECT count(*) FROM processed_events") != messages {
			t.Errorf("%d messages took effect, at version %d with %d changes of state", e.ProcessedEvents, e.Version, runs)
		}
	})
}

// AC-10: the first commit of an execution lands although its answer is lost; the
// handle finds it by its token and goes on. Removing what never was is no error.
func TestFirstAnswerIsLost(t *testing.T) {
	for name, action := range map[string]rqlitetest.Action{
		"reset": rqlitetest.ResetApplied(), "closed": rqlitetest.CloseApplied(), "cut": rqlitetest.CutAnswer(-1),
		"leadership lost": rqlitetest.ErrorApplied(rqlitetest.TextLeadershipLost), "twice": rqlitetest.ApplyTwice(),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				lost := w.c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, action)
				f := w.s.Commit(t.Context(), full(execution("a")))
				next := w.s.Commit(t.Context(), full(f.Next())) // built on it before it is known
				if done := await(t, f); done.Version != 1 {
					t.Errorf("version %d", done.Version)
				}
				done := await(t, next)
				for range 2 {
					done = await(t, w.s.Commit(t.Context(), full(done.Execution())))
				}
				if done.Version != 4 || w.consistent(t) != 4 || lost.Hits() != 1 {
					t.Errorf("version %d after %d lost answers", done.Version, lost.Hits())
				}
				if c := w.s.Stats().Outcomes; c.Conflicts != 0 {
					t.Errorf("%+v", c)
				}
				before := w.dump(t)
				await(t, w.s.DeleteTimer(t.Context(), store.Timer{ExecutionID: "nobody", Path: "/", FireAt: 1}))
				await(t, w.s.AckOutbox(t.Context(), 99))
				await(t, w.s.AckSpawn(t.Context(), 99))
				if w.dump(t) != before {
					t.Error("removing nothing removed something")
				}
			})
		})
	}
}
