package actor

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

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// Futures that nobody reads are carried out all the same, and leave no goroutine.
func TestFuturesNobodyReads(t *testing.T) {
	n := 10_000
	if raceEnabled {
		n = 2_000
	}
	synctest.Test(t, func(t *testing.T) { // ends only when all its goroutines have
		f := newFake()
		s := newStore(t, f)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, id := range ids("e", n) {
			s.Save(ctx, execution(id))
		}
		mustClose(t, s)
		if len(f.versions()) != n {
			t.Errorf("%d of %d written", len(f.versions()), n)
		}
	})
}

func TestCloseGivesUp(t *testing.T) {
	for _, closers := range []int{1, 3} {
		t.Run(fmt.Sprint("closers=", closers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { closeGivesUp(t, closers) })
		})
	}
}

func closeGivesUp(t *testing.T, closers int) {
	f, _ := held()
	s := newStore(t, f, WithMaxPending(30, 1<<20))
	flying := s.Save(t.Context(), execution("flying"))
	plain := s.AckSpawn(t.Context(), 1)
	load := s.Load(t.Context(), "flying")
	scan := s.PendingOutbox(t.Context(), 1)
	synctest.Wait()
	var queued []*CommitFuture
	for _, id := range ids("e", 20) {
		queued = append(queued, s.Save(t.Context(), execution(id)))
	}
	l1, l2 := s.Load(t.Context(), "queued"), s.Load(t.Context(), "queued") // one operation
	scan2 := s.PendingOutbox(t.Context(), 2)

	cause := errors.New("out of patience")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, cause)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var sum Leftover
	for range closers {
		wg.Go(func() {
			left, err := s.Close(ctx)
			mu.Lock()
			defer mu.Unlock()
			sum.Unsent += left.Unsent
			sum.InFlight += left.InFlight
			if left != (Leftover{}) {
				if !errors.Is(err, cause) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprint(left.Unsent)) {
					t.Errorf("Close: %+v, %v", left, err)
				}
			}
			for _, c := range append(queued, flying) {
				if pending(&c.Future) {
					t.Error("a commit is pending after Close")
				}
			}
			if pending(plain) || pending(load) || pending(l1) || pending(l2) || pending(scan) || pending(scan2) {
				t.Error("an operation is pending after Close")
			}
		})
	}
	<-s.Done()
	synctest.Wait()
	wantErr(t, s.Save(t.Context(), execution("late")), store.ErrClosed, engine.ErrNotApplied)
	wg.Wait()
	if d := time.Since(start); d != 2*time.Second {
		t.Errorf("Close took %v", d)
	}
	// Behind the first commit wait the others and the acknowledgement. Who
	// closes at the same time may find the same requests in flight.
	if sum.Unsent != 20+1+1+1 || sum.InFlight < 3 || closers == 1 && sum.InFlight > 3 {
		t.Errorf("left %+v", sum)
	}
	wantErr(t, flying, store.ErrOutcomeUnknown)
	for _, c := range queued {
		wantErr(t, c, store.ErrClosed, engine.ErrNotApplied)
	}
	wantErr(t, plain, store.ErrClosed, engine.ErrNotApplied)
	for _, l := range []*Future[*store.Execution]{load, l1, l2} {
		wantErr(t, l, store.ErrClosed, engine.ErrNotApplied)
	}
	wantErr(t, scan, store.ErrClosed)
	wantErr(t, scan2, store.ErrClosed)
	if v := f.versions(); len(v) != 0 {
		t.Errorf("written: %v", v)
	}
	mustClose(t, s)
}

// A write that was surely not applied when Close gave up says that it is closed.
func TestCloseGivesUpWhileRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		f.setScript(func(ctx context.Context, r *request) error {
			<-ctx.Done()
			return &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: ctx.Err()}
		})
		c := s.Save(t.Context(), execution("a"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if left, err := s.Close(ctx); left != (Leftover{InFlight: 1}) || !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %+v, %v", left, err)
		}
		wantErr(t, c, store.ErrClosed, engine.ErrNotApplied)
	})
}

func TestUseAfterClose(t *testing.T) {
	s := newStore(t, newFake())
	create(t, s, "a")
	select {
	case <-s.Done():
		t.Error("done before Close")
	default:
	}
	mustClose(t, s)
	mustClose(t, s)
	<-s.Done()
	ctx := t.Context()
	for _, face := range []*Store{s, s.Try()} {
		wantErr(t, face.Save(ctx, execution("b")), store.ErrClosed, engine.ErrNotApplied)
		wantErr(t, face.AckOutbox(ctx, 1), store.ErrClosed, engine.ErrNotApplied)
		wantErr(t, face.AckSpawn(ctx, 1), store.ErrClosed)
		wantErr(t, face.DeleteTimer(ctx, store.Timer{ExecutionID: "a", Path: "p"}), store.ErrClosed)
		wantErr(t, face.AppendTrace(ctx, "a", store.Object{}), store.ErrClosed)
		wantErr(t, face.Load(ctx, "a"), store.ErrClosed, engine.ErrNotApplied)
		wantErr(t, face.LoadForEvent(ctx, "a", "e"), store.ErrClosed)
		wantErr(t, face.IsProcessed(ctx, "a", "e"), store.ErrClosed)
		wantErr(t, face.List(ctx, store.ListQuery{}), store.ErrClosed)
		wantErr(t, face.PendingOutbox(ctx, 1), store.ErrClosed)
		wantErr(t, face.PendingSpawns(ctx, 1), store.ErrClosed)
		wantErr(t, face.DueTimers(ctx, 1, 1), store.ErrClosed)
		wantErr(t, face.ReadTrace(ctx, "a"), store.ErrClosed)
		if _, err := face.Update(ctx, "a", func(*store.Commit) error { return nil }); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Update: %v", err)
		}
	}
	req, future, err := s.PrepareCommit(ctx, commitOf(execution("b")))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case s.Mailbox() <- req:
		t.Error("a closed store took a request")
	case <-s.Done():
	}
	if !pending(&future.Future) {
		t.Error("a request that was not sent resolved")
	}
	// The store below is still open.
	if _, err := s.Sync().Load(ctx, "a"); err != nil {
		t.Error(err)
	}
}

// Every future resolves, and what it says is true, while Close comes in between.
func TestCloseRacesWithCallers(t *testing.T) {
	for range 30 {
		f := newFake()
		f.traits.Writers, f.traits.Readers = 2, 2
		s := newStore(t, f, WithMaxPending(8, 1<<20))
		start := make(chan struct{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := make(map[string]bool)
		var lost []string
		note := func(id string, err error) (more bool) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won[id] = true
			case errors.Is(err, store.ErrClosed) || errors.Is(err, context.Canceled) && errors.Is(err, engine.ErrNotApplied):
				lost = append(lost, id)
			case !errors.Is(err, store.ErrOutcomeUnknown):
				t.Errorf("commit: %v", err)
			}
			return !errors.Is(err, store.ErrClosed)
		}
		for w := range 4 {
			wg.Go(func() {
				<-start
				for i := 0; ; i++ {
					ctx, cancel := context.WithCancel(context.Background())
					id := fmt.Sprintf("e-%d-%d", w, i)
					c := s.Save(ctx, execution(id))
					l := s.Load(context.Background(), id)
					if i%3 == 0 {
						cancel()
					}
					<-l.Done()
					_, err := c.Await(context.Background())
					cancel()
					if !note(id, err) {
						return
					}
				}
			})
			wg.Go(func() {
				<-start
				for i := 0; ; i++ {
					id := fmt.Sprintf("m-%d-%d", w, i)
					req, c, err := s.PrepareCommit(context.Background(), commitOf(execution(id)))
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case s.Mailbox() <- req:
					case <-s.Done():
						return
					}
					_, err = c.Await(context.Background())
					if !note(id, err) {
						return
					}
				}
			})
		}
		close(start)
		create(t, s, ids("own", 10)...)
		for range 2 {
			wg.Go(func() { mustClose(t, s) })
		}
		wg.Wait()
		stored := f.versions()
		for id := range won {
			if stored[id] != 1 {
				t.Errorf("%s was won and is not stored", id)
			}
		}
		for _, id := range lost {
			if stored[id] != 0 {
				t.Errorf("%s was not applied and is stored", id)
			}
		}
	}
}

// The work is told to stop while a hundred handlers are about to commit. Those
// that do within the drain window are stored; those that hang are reported and
// run again after a restart.
func TestShutdownOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.traits.Writers = 8
		s := newStore(t, f)
		f.setScript(func(ctx context.Context, r *request) error {
			if slices.ContainsFunc(r.ids, func(id string) bool { return strings.HasPrefix(id, "hung") }) {
				<-ctx.Done()
				return interrupted(ctx, r)
			}
			pass(10 * time.Millisecond)
			return nil
		})
		work, stop := context.WithCancel(t.Context())
		var handlers sync.WaitGroup
		var futures []*CommitFuture
		for _, id := range ids("hung", 5) {
			futures = append(futures, s.Save(context.WithoutCancel(work), execution(id)))
		}
		for i, id := range ids("e", 95) {
			handlers.Go(func() {
				<-work.Done() // told to stop, it finishes its step
				pass(time.Duration(i) * time.Millisecond)
				await(t, s.Save(context.WithoutCancel(work), execution(id)))
			})
		}
		pass(time.Second)
		stop()
		window, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		handlers.Wait()
		left, err := s.Close(window)
		if left != (Leftover{InFlight: 5}) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("Close: %+v, %v after %v", left, err, time.Since(start))
		}
		for _, c := range futures {
			wantErr(t, c, store.ErrOutcomeUnknown)
		}

		f.setScript(nil)
		again := newStore(t, f)
		for _, id := range ids("hung", 5) {
			wantErr(t, again.Load(t.Context(), id), store.ErrNotFound)
			await(t, again.Save(t.Context(), execution(id)))
		}
		mustClose(t, again)
		if n := len(f.versions()); n != 100 {
			t.Errorf("%d stored", n)
		}
	})
}

// Stores come and go, used or not, in the middle of work or not.
func TestManyStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 50 {
			f := newFake()
			s := newStore(t, f)
			if i%3 > 0 {
				f.setScript(slow(time.Minute))
				s.Save(t.Context(), execution("a"))
				s.Load(t.Context(), "a")
			}
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 1 {
				cancel()
			}
			s.Close(ctx)
			s.Close(ctx)
			cancel()
		}
	})
}
