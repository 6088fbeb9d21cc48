package faults

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// BA-07: no more is outstanding than the limit says, callers who wait for room are
// not counted, and a connection that drops gives its room back at once.
func TestPendingLimitOverADroppedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork())
		w := openOn(t, c, nil, actor.WithMaxPending(5, 64<<20))
		hang := c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, rqlitetest.Hang())
		var most atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for _, id := range ids("a", 64) {
			wg.Go(func() {
				f := w.s.Commit(t.Context(), full(execution(id)))
				n := w.s.Stats().Writes
				most.Store(max(most.Load(), int64(n.Queued+n.InFlight)))
				await(t, f)
			})
		}
		synctest.Wait()
		if n := w.s.Stats().Writes; n.Queued+n.InFlight != 5 || n.Waiting != 59 {
			t.Errorf("%+v", n)
		}
		c.Leader().ResetConns()
		hang.Remove()
		wg.Wait()
		if most.Load() > 5 {
			t.Errorf("%d outstanding", most.Load())
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("took %v although the connection was back at once", d)
		}
		if n := w.consistent(t); n != 64 {
			t.Errorf("%d commits", n)
		}
	})
}

// BA-08: a thousand callers on one slot all get through.
func TestMoreCallersThanSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.Latency(time.Millisecond, time.Millisecond))
		w := openOn(t, c, nil, actor.WithInFlight(1, 1), actor.WithMaxBatch(50))
		var wg sync.WaitGroup
		for _, id := range ids("a", 1000) {
			wg.Go(func() {
				await(t, w.s.Save(t.Context(), execution(id)))
				w.load(t, id)
			})
		}
		wg.Wait()
	})
}

// BA-08: an address that never answers ends at the caller's deadline, with the
// cause named, at the opening and later.
func TestClusterThatNeverAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, n := range w.c.Nodes() {
			n.BlackHole()
		}
		began := time.Now()
		_, err := client.Open(within(t, 3*time.Second), w.c.URLs(), client.WithDialContext(w.c.DialContext))
		wantErr(t, err, engine.ErrUnavailable, context.DeadlineExceeded, engine.ErrNotApplied)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("client.Open ended after %v", d)
		}
		began = time.Now()
		if _, err = store.Open(within(t, 3*time.Second), w.eng); err == nil {
			t.Error("opened")
		}
		wantErr(t, err, context.DeadlineExceeded)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("store.Open ended after %v", d)
		}
		began = time.Now()
		_, err = w.s.Save(within(t, 3*time.Second), execution("a")).Await(t.Context())
		wantErr(t, err, context.DeadlineExceeded)
		_, err = w.s.Load(within(t, 3*time.Second), "a").Await(t.Context())
		wantErr(t, err, context.DeadlineExceeded, engine.ErrNotApplied)
		if d := time.Since(began); d != 6*time.Second {
			t.Errorf("two calls of 3 s ended after %v", d)
		}
		// Without a deadline the store's own limit ends them.
		began = time.Now()
		_, err = w.s.Load(t.Context(), "a").Await(t.Context())
		wantErr(t, err, store.ErrUnavailable)
		if d := time.Since(began); d > w.st.TimeLimit()+time.Second {
			t.Errorf("a call without a deadline ended after %v", d)
		}
	})
}

// OP-08: while nothing answers for 30 s, at 500 operations per second, goroutines
// and sockets stay bounded and the excess is refused; after it the store is at
// full speed within 5 s.
func TestLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.LogLimit(0))
		w := openOn(t, c, nil, actor.WithMaxPending(500, 16<<20))
		w.create(t, "warm")
		for _, n := range c.Nodes() {
			n.BlackHole()
		}
		overloaded, goroutines, sockets := 0, 0, int64(0)
		idle := runtime.NumGoroutine()
		e := execution("")
		for i := range 30 * 500 {
			e.ID = fmt.Sprint("e-", i)
			if errors.Is(w.s.Try().Save(t.Context(), e).Err(), store.ErrOverloaded) {
				overloaded++
			}
			if i%100 == 0 {
				goroutines = max(goroutines, runtime.NumGoroutine()-idle)
				sockets = max(sockets, w.eng.(*client.Engine).Stats().OpenConnections)
			}
			pass(2 * time.Millisecond)
		}
		n := w.s.Stats().Writes
		t.Logf("%d of 15000 refused, %d goroutines, %d sockets, %+v", overloaded, goroutines, sockets, n)
		if overloaded < 13_000 || n.Queued+n.InFlight > 500 {
			t.Errorf("%d refused, %+v", overloaded, n)
		}
		if goroutines > 400 || sockets > 100 {
			t.Errorf("%d goroutines and %d sockets", goroutines, sockets)
		}
		for _, n := range c.Nodes() {
			n.Heal()
		}
		pass(5 * time.Second)
		began := time.Now()
		for i := range 500 {
			await(t, w.s.Try().Save(t.Context(), execution(fmt.Sprint("after-", i))))
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("500 commits took %v five seconds after the outage", d)
		}
	})
}

// BA-14, OP-03: what the database refuses for good is tried once for each item,
// apart from the halving of batches, and then the store is quiet.
func TestPermanentErrorsAreNotRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.create(t, "warm")
		before := w.log.String()
		refuse := w.c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, rqlitetest.Respond(400, "text/plain", "invalid request\n"))
		const n = 50
		var futures []*actor.CommitFuture
		for _, id := range ids("a", n) {
			futures = append(futures, w.s.Commit(t.Context(), full(execution(id))))
		}
		for _, f := range futures {
			_, err := f.Await(t.Context())
			wantErr(t, err, engine.ErrNotApplied, engine.ErrProtocol)
			var refused *client.ServerError
			if !errors.As(err, &refused) || refused.Status != 400 {
				t.Errorf("the refusal is lost: %v", err)
			}
		}
		if k := refuse.Hits(); k > 2*n {
			t.Errorf("%d requests for %d items", k, n)
		}
		hits := refuse.Hits()
		pass(time.Minute)
		if k := refuse.Hits(); k != hits {
			t.Errorf("%d requests although nobody waits", k-hits)
		}
		if k := strings.Count(strings.TrimPrefix(w.log.String(), before), "\n"); k > 5 {
			t.Errorf("%d lines were logged", k)
		}
		refuse.Remove()

		// A conflict takes one request and the look at the winner, and what is too
		// large none.
		w.c.ResetLog()
		_, err := w.s.Save(t.Context(), execution("warm")).Await(t.Context())
		wantErr(t, err, store.ErrConflict)
		if k := len(w.c.LogOf(rqlitetest.KindExecute)); k != 1 {
			t.Errorf("a conflict took %d writes", k)
		}
		w.c.ResetLog()
		large := execution("large")
		if err := large.Context.Set("text", strings.Repeat("x", 17<<20)); err != nil {
			t.Fatal(err)
		}
		_, err = w.s.Save(t.Context(), large).Await(t.Context())
		wantErr(t, err, store.ErrTooLarge)
		if err := w.s.Sync().Close(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids("closed", n) {
			_, err := w.s.Save(t.Context(), execution(id)).Await(t.Context())
			wantErr(t, err, store.ErrClosed, engine.ErrNotApplied)
		}
		if k := len(w.c.LogOf(rqlitetest.KindAny)); k != 0 {
			t.Errorf("%d requests for what cannot be sent", k)
		}
	})
}

// BA-09: a panic in code of the caller's own ends in that caller's goroutine and
// costs nobody else anything, and the execution goes on.
func TestPanicInCallersCode(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		all := ids("a", 50)
		w.create(t, all...)
		var panics atomic.Int32
		var wg sync.WaitGroup
		update := func(i int, id string) (recovered any) {
			defer func() { recovered = recover() }()
			if _, err := w.s.Update(t.Context(), id, func(c *store.Commit) error {
				switch i {
				case 7:
					panic("in the update")
				case 8:
					return c.Execution.Context.Set("value", marshaler{})
				}
				return c.Execution.Context.Set("value", i)
			}); err != nil {
				t.Error(err)
			}
			return nil
		}
		for i, id := range all {
			wg.Go(func() {
				if v := update(i, id); v != nil {
					panics.Add(1)
					if i != 7 && i != 8 {
						t.Errorf("%s: %v", id, v)
					}
				}
			})
		}
		wg.Wait()
		if panics.Load() != 2 {
			t.Errorf("%d panics reached their callers, want 2", panics.Load())
		}
		for i, id := range all {
			want := int64(2)
			if i == 7 || i == 8 {
				want = 1
				if v := update(0, id); v != nil {
					t.Errorf("the panic of %s lasts: %v", id, v)
				}
				want++
			}
			if e := w.load(t, id); e.Version != want {
				t.Errorf("%s is at version %d, want %d", id, e.Version, want)
			}
		}
	})
}

// marshaler panics when it is encoded.
type marshaler struct{}

func (marshaler) MarshalJSON() ([]byte, error) { panic("in the encoder") }
