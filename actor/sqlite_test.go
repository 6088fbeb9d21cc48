package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/store"
)

// One step with everything a commit can carry, through a real database.
func TestEverythingOnSQLite(t *testing.T) {
	s := newSQLite(t)
	ctx := t.Context()
	child, err := store.NewObject(map[string]any{"parent": "a"})
	if err != nil {
		t.Fatal(err)
	}
	event, err := store.NewEvent("paid", map[string]int{"amount": 3})
	if err != nil {
		t.Fatal(err)
	}
	step, err := store.NewObject(map[string]string{"state": "waiting"})
	if err != nil {
		t.Fatal(err)
	}
	done := await(t, s.Commit(ctx, &store.Commit{
		Execution:      execution("a"),
		Emits:          []store.Emit{{Target: "b", Event: event}, {Event: event}},
		ProcessedEvent: "e1",
		Timers:         []store.TimerOp{store.Schedule("wait", time.Unix(100, 0)), store.Schedule("later", time.Unix(200, 0))},
		Spawns:         []store.Spawn{{ChildID: "c", RootPath: "root", Context: child}},
		Trace:          &step,
	}))
	if done.Outbox.Len != 2 || done.Spawns.Len != 1 || done.Version != 1 {
		t.Errorf("%+v", done)
	}
	if l := await(t, s.LoadForEvent(ctx, "a", "e1")); !l.Processed || l.Execution.Version != 1 {
		t.Errorf("%+v", l)
	}
	out, spawns := s.PendingOutbox(ctx, 10), s.PendingSpawns(ctx, 10)
	timers, trace := s.DueTimers(ctx, 150, 10), s.ReadTrace(ctx, "a")
	if l := await(t, out); len(l) != 2 || l[0].Seq != done.Outbox.At(0) || l[0].Target != "b" || l[1].Event.Kind != "paid" {
		t.Errorf("outbox %+v", l)
	}
	if l := await(t, spawns); len(l) != 1 || l[0].ParentID != "a" || l[0].Context != child {
		t.Errorf("spawns %+v", l)
	}
	if l := await(t, trace); len(l) != 1 || l[0].Entry != step {
		t.Errorf("trace %+v", l)
	}
	due := await(t, timers)
	if len(due) != 1 || due[0].Path != "wait" {
		t.Fatalf("timers %+v", due)
	}
	for _, f := range []*DoneFuture{
		s.AckOutbox(ctx, done.Outbox.At(0), done.Outbox.At(1)), s.AckSpawn(ctx, done.Spawns.At(0)),
		s.DeleteTimer(ctx, due[0]), s.AppendTrace(ctx, "a", step),
	} {
		await(t, f)
	}
	if n := len(await(t, s.PendingOutbox(ctx, 10))) + len(await(t, s.PendingSpawns(ctx, 10))) + len(await(t, s.DueTimers(ctx, 150, 10))); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if l := await(t, s.ReadTrace(ctx, "a")); len(l) != 2 || l[1].Index != 1 {
		t.Errorf("trace %+v", l)
	}
	if p := await(t, s.List(ctx, store.ListQuery{})); len(p.Items) != 1 || p.Items[0].ID != "a" {
		t.Errorf("list %+v", p)
	}
}

// Contenders for a few executions: each win counts once, and nobody loses to
// himself.
func TestContendersOnSQLite(t *testing.T) {
	s := newSQLite(t)
	names := ids("e", 5)
	create(t, s, names...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	wins := make(map[string]int64)
	for w := range 4 {
		wg.Go(func() {
			for i := range 10 {
				id := names[(w+i)%len(names)]
				e := await(t, s.Load(t.Context(), id))
				first := s.Save(t.Context(), e)
				second := s.Save(t.Context(), first.Next())
				_, err1 := first.Await(t.Context())
				_, err2 := second.Await(t.Context())
				mu.Lock()
				for _, err := range []error{err1, err2} {
					if err == nil {
						wins[id]++
					} else if !errors.Is(err, store.ErrConflict) {
						t.Error(err)
					}
				}
				mu.Unlock()
				if err1 != nil && err2 == nil {
					t.Error("the successor of a loser won")
				}
			}
		})
	}
	wg.Wait()
	for _, id := range names {
		if e := await(t, s.Load(t.Context(), id)); e.Version != 1+wins[id] {
			t.Errorf("%s: version %d after %d wins", id, e.Version, wins[id])
		}
	}
}

// A load that is under way when the store closes, and one that comes after it.
func TestCloseOnSQLite(t *testing.T) {
	s := newSQLite(t)
	var fs []*CommitFuture
	for i := range 100 {
		fs = append(fs, s.Save(t.Context(), execution(fmt.Sprint("e-", i))))
	}
	mustClose(t, s)
	if _, err := AwaitAll(context.Background(), fs...); err != nil {
		t.Error(err)
	}
	if p, err := s.Sync().List(t.Context(), store.ListQuery{Limit: 1000}); err != nil || len(p.Items) != 100 {
		t.Errorf("%d stored, %v", len(p.Items), err)
	}
}
