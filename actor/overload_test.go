package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

func TestTryNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := held()
		s := newStore(t, f, WithMaxPending(2, 1<<20))
		try := s.Try()
		var taken []*CommitFuture
		for _, id := range ids("e", 2) {
			taken = append(taken, try.Save(t.Context(), execution(id)))
		}
		ctx := t.Context()
		refused := try.Save(ctx, execution("x"))
		if _, err, ok := refused.Poll(); !ok {
			t.Error("not refused at once")
		} else {
			checkErr(t, err, store.ErrOverloaded, engine.ErrNotApplied)
		}
		wantErr(t, try.AckOutbox(ctx, 1), store.ErrOverloaded)
		for _, id := range ids("e", 2) {
			try.Load(ctx, id)
			try.ReadTrace(ctx, id)
		}
		wantErr(t, try.Load(ctx, "x"), store.ErrOverloaded, engine.ErrNotApplied)
		wantErr(t, try.ReadTrace(ctx, "x"), store.ErrOverloaded, engine.ErrNotApplied)

		// The other face of the same store waits for room, as long as it is let.
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		start := time.Now()
		wantErr(t, s.Save(ctx, execution("x")), context.DeadlineExceeded, engine.ErrNotApplied)
		if d := time.Since(start); d != time.Second {
			t.Errorf("after %v", d)
		}
		g.open()
		for _, c := range taken {
			await(t, c)
		}
		await(t, try.Save(t.Context(), execution("y")))
		mustClose(t, s)
		if v := f.versions(); len(v) != 3 || v["x"] != 0 {
			t.Errorf("written: %v", v)
		}
	})
}

// Rejected work does not pile up: neither on the heap nor as goroutines.
func TestRejectedWorkDoesNotPileUp(t *testing.T) {
	n := 1_000_000
	if raceEnabled {
		n = 10_000
	}
	f, g := held()
	s := newStore(t, f, WithMaxPending(1000, 64<<20))
	e := execution("e")
	try := s.Try()
	for _, id := range ids("e", 1000) {
		e.ID = id
		try.Save(t.Context(), e)
	}
	before, goroutines := heap(), runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range n {
		if err := try.Save(ctx, e).Err(); !errors.Is(err, store.ErrOverloaded) {
			t.Fatalf("error %v", err)
		}
	}
	grown, started := int64(heap())-int64(before), runtime.NumGoroutine()-goroutines
	t.Logf("%d rejected: heap grew by %d KiB, %d goroutines started", n, grown>>10, started)
	if grown > 64<<20 || started >= 50 {
		t.Errorf("heap grew by %d bytes, %d goroutines started", grown, started)
	}
	if r := s.Stats().Writes.Rejected; r != uint64(n) {
		t.Errorf("%d rejected on the books", r)
	}
	g.open()
	mustClose(t, s)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// While the database is away, work is bounded and the rest refused; when it is
// back, the store works at once.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.traits.Writers, f.traits.Readers = 4, 4
		s := newStore(t, f, WithMaxPending(1000, 1<<20))
		f.setScript(func(ctx context.Context, r *request) error { <-ctx.Done(); return interrupted(ctx, r) })
		overloaded, goroutines := 0, runtime.NumGoroutine()
		for i := range 30 * 500 { // 500 a second for 30 seconds
			if c := s.Try().Save(t.Context(), execution(fmt.Sprint("e-", i))); errors.Is(c.Err(), store.ErrOverloaded) {
				overloaded++
			}
			s.Try().Load(t.Context(), fmt.Sprint("e-", i))
			pass(2 * time.Millisecond)
		}
		n := s.Stats()
		if n.Writes.Queued+n.Writes.InFlight > 1000 || n.Reads.Queued+n.Reads.InFlight > 1000 || overloaded < 10_000 {
			t.Errorf("%d overloaded, %+v", overloaded, n)
		}
		if started := runtime.NumGoroutine() - goroutines; started > 20 {
			t.Errorf("%d goroutines", started)
		}
		f.setScript(nil)
		pass(5 * time.Second)
		for i := range 500 {
			c := s.Try().Save(t.Context(), execution(fmt.Sprint("after-", i)))
			l := s.Try().Load(t.Context(), "x")
			await(t, c)
			wantErr(t, l, store.ErrNotFound)
		}
		mustClose(t, s)
	})
}

// A pending commit costs little beside what it carries.
func TestMemoryOfPendingCommits(t *testing.T) {
	if raceEnabled {
		t.Log("not measured: the race detector's own memory would count; run without -race")
		return
	}
	const n = 100_000
	for name, ctx := range map[string]context.Context{"background": context.Background(), "cancellable": t.Context()} {
		f, _ := held()
		s := newStore(t, f, WithMaxPending(n, 1<<30))
		futures := make([]*CommitFuture, n)
		e := execution("")
		before := heap()
		for i := range futures {
			e.ID = fmt.Sprintf("execution-%d", i)
			futures[i] = s.Save(ctx, e)
		}
		each := int(heap()-before) / n
		text, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		payload := len(text) + len(e.ID)
		t.Logf("%s context: %d bytes a commit beside its %d bytes of text", name, each-payload, payload)
		if each-payload > 1024 {
			t.Errorf("%d bytes a commit", each)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if left, _ := s.Close(ended); left.Unsent+left.InFlight != n {
			t.Errorf("%+v", left)
		}
		runtime.KeepAlive(futures)
	}
}

// nullEngine wins every commit and finds nothing.
type nullEngine struct{ fakeEngine }

func (n *nullEngine) Exec(_ context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	res := make([]engine.Result, len(stmts))
	for i := range res {
		res[i].RowsAffected = 1
	}
	return res, nil
}

func newNull() *nullEngine {
	n := &nullEngine{*newFake()}
	n.traits.RowsPerStatement = 1
	return n
}

// The hot path allocates little: per commit its write, its text, its token and
// its future.
func TestAllocationsOfACommit(t *testing.T) {
	if raceEnabled {
		t.Log("not measured: the race detector allocates; run without -race")
		return
	}
	const batch = 512
	s := newStore(t, newNull())
	defer mustClose(t, s)
	ctx := context.Background()
	e := execution("")
	names := ids("execution", batch)
	futures := make([]*CommitFuture, batch)
	allocs := testing.AllocsPerRun(20, func() {
		for i, id := range names {
			e.ID = id
			futures[i] = s.Save(ctx, e)
		}
		for _, f := range futures {
			if _, err := f.Await(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}) / batch
	prepare := testing.AllocsPerRun(20, func() {
		for _, id := range names {
			e.ID = id
			if _, err := s.Sync().PrepareCommit(commitOf(e)); err != nil {
				t.Fatal(err)
			}
		}
	}) / batch
	t.Logf("%.2f allocations a commit, of which %.2f encode it", allocs, prepare)
	if allocs > 5.5 {
		t.Errorf("%.2f allocations a commit", allocs)
	}
}
