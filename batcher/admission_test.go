package batcher

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestReleaseAdmitsAllWhoFit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate()
		b := mustNew(t, Config[int]{MaxPendingBytes: 100, Flush: func(ctx context.Context, _ batch) { g.wait(ctx) }})
		mustSubmit(t, b, &ticket{Item: 1, Size: 100})
		var admitted atomic.Int32
		for i := range 2 {
			go func() {
				mustSubmit(t, b, &ticket{Item: 2 + i, Size: 50})
				admitted.Add(1)
			}()
		}
		synctest.Wait()
		if n := admitted.Load(); n != 0 || b.Stats().Waiting != 2 {
			t.Fatalf("%d admitted to a full queue, %+v", n, b.Stats())
		}
		g.one() // one release, room for both
		synctest.Wait()
		if n := admitted.Load(); n != 2 {
			t.Errorf("%d admitted after one release, want 2", n)
		}
		g.open()
		mustClose(t, b)
	})
}

func TestRandomSizes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var flushed atomic.Int32
		b := mustNew(t, Config[int]{MaxPendingBytes: 100, MaxBytes: 60, Flush: func(_ context.Context, got batch) {
			pass(time.Duration(len(got)) * time.Millisecond)
			flushed.Add(int32(len(got)))
		}})
		var wg sync.WaitGroup
		for w := range uint64(100) {
			rnd := rand.New(rand.NewPCG(seed, w))
			wg.Go(func() {
				for range 100 {
					mustSubmit(t, b, &ticket{Size: 1 + rnd.IntN(100)})
					pass(time.Duration(rnd.IntN(5)) * time.Millisecond)
					if s := b.Stats(); s.Waiting > 0 && s.PendingBytes == 0 {
						t.Error("somebody waits while nothing is pending")
					}
				}
			})
		}
		wg.Wait()
		mustClose(t, b)
		if flushed.Load() != 10_000 {
			t.Errorf("%d flushed, want 10000", flushed.Load())
		}
	})
}

func TestDeadlineWhileWaitingForRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, l := newGate(), newLog()
		b := mustNew(t, Config[int]{MaxPending: 1, Flush: func(ctx context.Context, got batch) { l.flushed(got); g.wait(ctx) }})
		mustSubmit(t, b, &ticket{Item: 1})
		start := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				err := b.Submit(ctx, &ticket{Item: 2})
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 20*time.Millisecond {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
			})
		}
		wg.Wait()
		if err := b.TrySubmit(&ticket{Item: 3}); err != ErrFull {
			t.Errorf("TrySubmit on a full batcher: %v", err)
		}
		if s := b.Stats(); s.Waiting != 0 || s.Rejected != 101 {
			t.Errorf("%+v", s)
		}
		g.open()
		synctest.Wait()
		mustSubmit(t, b, &ticket{Item: 4})
		mustClose(t, b)
		if got := l.seen(); len(got) != 2 || got[0][0] != 1 || got[1][0] != 4 {
			t.Errorf("flushed %v, want 1 and 4", got)
		}
	})
}

func TestWaiterInFrontLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate()
		b := mustNew(t, Config[int]{MaxPendingBytes: 100, Flush: func(ctx context.Context, _ batch) { g.wait(ctx) }})
		mustSubmit(t, b, &ticket{Size: 50})
		ctx, leave := context.WithCancelCause(t.Context())
		big, small := make(chan error, 1), make(chan error, 1)
		go func() { big <- b.Submit(ctx, &ticket{Size: 90}) }()
		synctest.Wait()
		go func() { small <- b.Submit(t.Context(), &ticket{Size: 50}) }()
		synctest.Wait()
		if b.Stats().Waiting != 2 {
			t.Fatalf("%+v", b.Stats())
		}
		if err := b.TrySubmit(&ticket{Size: 1}); err != ErrFull {
			t.Errorf("TrySubmit went past those who wait: %v", err)
		}
		cause := errors.New("changed my mind")
		leave(cause)
		if err := <-big; !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("error %v", err)
		}
		if err := <-small; err != nil { // fits where the big one did not
			t.Error(err)
		}
		g.open()
		mustClose(t, b)
	})
}

func TestWaiterInTheMiddleLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, l := newGate(), newLog()
		b := mustNew(t, Config[int]{MaxPending: 1, Flush: func(ctx context.Context, got batch) { l.flushed(got); g.wait(ctx) }})
		mustSubmit(t, b, &ticket{Item: 0})
		ctx, leave := context.WithCancel(t.Context())
		for i := 1; i <= 3; i++ {
			ctx := ctx
			if i != 2 {
				ctx = t.Context()
			}
			go func() { b.Submit(ctx, &ticket{Item: i}) }()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		g.open()
		synctest.Wait()
		mustClose(t, b)
		if got := l.seen(); len(got) != 3 || got[1][0] != 1 || got[2][0] != 3 {
			t.Errorf("flushed %v, want 0, 1, 3", got)
		}
	})
}

func TestPendingNeverAboveLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var outstanding, most atomic.Int32
		down := make(chan struct{})
		b := mustNew(t, Config[int]{MaxPending: 5, MaxItems: 2, InFlight: 3, Flush: func(ctx context.Context, got batch) {
			<-down // the first batches hang until the connection is cut
			outstanding.Add(-int32(len(got)))
		}})
		start := time.Now()
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				mustSubmit(t, b, &ticket{})
				most.Store(max(most.Load(), outstanding.Add(1)))
			})
		}
		synctest.Wait()
		if s := b.Stats(); s.Queued+s.InFlight != 5 || s.Waiting != 59 {
			t.Errorf("%+v", s)
		}
		close(down)
		wg.Wait()
		mustClose(t, b)
		if most.Load() > 5 {
			t.Errorf("%d outstanding at once", most.Load())
		}
		if d := time.Since(start); d > lateMax {
			t.Errorf("took %v although nothing held it up", d)
		}
	})
}

func TestManyCallersOneFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := mustNew(t, Config[int]{InFlight: 1, MaxPending: 8, MaxItems: 3, Flush: func(context.Context, batch) { pass(time.Millisecond) }})
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() { mustSubmit(t, b, &ticket{}) })
		}
		wg.Wait()
		mustClose(t, b)
		if s := b.Stats(); s.Items != 1000 {
			t.Errorf("%+v", s)
		}
	})
}

func TestOversizedIsAdmittedAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, l := newGate(), newLog()
		b := mustNew(t, Config[int]{MaxPendingBytes: 100, Flush: func(ctx context.Context, got batch) { l.flushed(got); g.wait(ctx) }})
		for _, size := range []int{math.MaxInt, 500} {
			mustSubmit(t, b, &ticket{Item: size, Size: size})
			for _, next := range []int{0, 1, math.MaxInt} {
				if next == 0 {
					continue
				}
				if err := b.TrySubmit(&ticket{Size: next}); err != ErrFull {
					t.Errorf("item of %d bytes beside one of %d: %v", next, size, err)
				}
			}
			g.one()
			synctest.Wait()
		}
		// It has to wait until nothing is left.
		mustSubmit(t, b, &ticket{Item: 1, Size: 1})
		if err := b.TrySubmit(&ticket{Size: 101}); err != ErrFull {
			t.Errorf("oversized item beside a small one: %v", err)
		}
		g.open()
		mustClose(t, b)
		if len(l.seen()) != 3 {
			t.Errorf("flushed %v", l.seen())
		}
	})
}

func TestSubmitWithEndedContext(t *testing.T) {
	b := mustNew(t, Config[int]{Flush: func(context.Context, batch) { t.Error("flushed") }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Submit(ctx, &ticket{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Submit: %v", err)
	}
	mustClose(t, b)
}

func TestTicketMisuse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate()
		b := mustNew(t, Config[int]{Flush: func(ctx context.Context, _ batch) { g.wait(ctx) }})
		panics := func(what string, f func()) {
			t.Helper()
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
				verify(t, b)
			}()
			f()
		}
		flying, queued, done := &ticket{}, &ticket{Key: "k"}, &ticket{}
		mustSubmit(t, b, flying, queued)
		panics("twice, in flight", func() { b.TrySubmit(flying) })
		panics("twice, queued", func() { b.Submit(t.Context(), queued) })
		panics("negative size", func() { b.TrySubmit(&ticket{Size: -1}) })
		g.open()
		mustSubmit(t, b, done)
		synctest.Wait()
		panics("twice, done", func() { b.TrySubmit(done) })
		mustClose(t, b)
	})
}

func TestConfigErrors(t *testing.T) {
	flush := func(context.Context, batch) {}
	for name, cfg := range map[string]Config[int]{
		"no Flush":        {},
		"MaxItems":        {Flush: flush, MaxItems: -1},
		"MaxBytes":        {Flush: flush, MaxBytes: -1},
		"MaxPending":      {Flush: flush, MaxPending: -1},
		"MaxPendingBytes": {Flush: flush, MaxPendingBytes: -1},
		"InFlight":        {Flush: flush, InFlight: -1},
		"Limit":           {Flush: flush, Limit: -1},
	} {
		if b, err := New(cfg); err == nil || b != nil {
			t.Errorf("%s: no error", name)
		}
	}
	b := mustNew(t, Config[int]{Flush: flush})
	want := Config[int]{MaxItems: 512, MaxBytes: 1 << 20, MaxPending: 16384, MaxPendingBytes: 256 << 20, InFlight: 1}
	got := b.cfg
	got.Flush = nil
	if got.MaxItems != want.MaxItems || got.MaxBytes != want.MaxBytes || got.MaxPending != want.MaxPending ||
		got.MaxPendingBytes != want.MaxPendingBytes || got.InFlight != want.InFlight || got.Limit != 0 {
		t.Errorf("defaults %+v", got)
	}
	mustClose(t, b)
}
