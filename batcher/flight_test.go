package batcher

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleSendsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		flushed := make(chan struct{})
		b := mustNew(t, Config[int]{Flush: func(context.Context, batch) { flushed <- struct{}{} }})
		for range 3 {
			mustSubmit(t, b, &ticket{})
			<-flushed
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("idle batcher lingered for %v", d)
		}
		mustClose(t, b)
	})
}

func TestBatchBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, l := newGate(), newLog()
		b := mustNew(t, Config[int]{MaxItems: 3, MaxBytes: 100, Flush: func(ctx context.Context, got batch) { l.flushed(got); g.wait(ctx) }})
		mustSubmit(t, b, &ticket{Item: 0})
		for i, size := range []int{10, 10, 10, 10, 60, 40, 500, 1, 99, 1} {
			mustSubmit(t, b, &ticket{Item: i + 1, Size: size})
		}
		g.open()
		mustClose(t, b)
		want := "[[0] [1 2 3] [4 5] [6] [7] [8 9] [10]]"
		if got := fmt.Sprint(l.seen()); got != want {
			t.Errorf("batches %s, want %s", got, want)
		}
		if s := b.Stats(); s.Batches != 7 || s.Items != 11 || s.Bytes != 741 || s.Largest != 3 {
			t.Errorf("%+v", s)
		}
	})
}

func TestFreeSlotTakesFullBatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, l := newGate(), newLog()
		b := mustNew(t, Config[int]{MaxItems: 100, MaxBytes: 100, InFlight: 5, Flush: func(ctx context.Context, got batch) { l.flushed(got); g.wait(ctx) }})
		send := func(items ...int) {
			for _, i := range items {
				size := 1
				if i == 6 {
					size = 500
				}
				mustSubmit(t, b, &ticket{Item: i, Size: size})
				synctest.Wait()
			}
		}
		send(0, 1, 2, 3, 4) // one alone, one beside it, two beside these; then the gate shuts
		if got, want := fmt.Sprint(l.seen()), "[[0] [1] [2 3]]"; got != want {
			t.Errorf("batches in flight %s, want %s", got, want)
		}
		send(6) // makes two full batches of what is queued
		got := l.seen()
		slices.SortFunc(got, slices.Compare)
		if got, want := fmt.Sprint(got), "[[0] [1] [2 3] [4] [6]]"; got != want {
			t.Errorf("batches in flight %s, want %s", got, want)
		}
		g.open()
		mustClose(t, b)
	})
}

func TestKeysKeepOrderAndShareNoBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, l := newGate(), newLog()
		b := mustNew(t, Config[int]{InFlight: 2, Flush: func(ctx context.Context, got batch) { l.flushed(got); g.wait(ctx) }})
		mustSubmit(t, b, &ticket{Item: 0, Key: "a"})
		for i := 1; i <= 9; i++ {
			mustSubmit(t, b, &ticket{Item: i, Key: string(rune('a' + i%3))})
		}
		g.open()
		mustClose(t, b)
		at := make(map[int]int)
		for n, items := range l.seen() {
			for _, item := range items {
				at[item] = n
			}
		}
		for i := 3; i <= 9; i++ {
			if at[i] <= at[i-3] {
				t.Errorf("item %d in batch %d, item %d of the same key in batch %d", i-3, at[i-3], i, at[i])
			}
		}
		if len(at) != 10 {
			t.Errorf("%d items flushed", len(at))
		}
	})
}

// The items of a slow key hold up nobody else.
func TestSlowKeyHoldsUpNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var slow []int
		done := make(map[int]chan struct{})
		for i := range 503 {
			done[i] = make(chan struct{})
		}
		b := mustNew(t, Config[int]{InFlight: 4, Flush: func(ctx context.Context, got batch) {
			d := 5 * time.Millisecond
			for _, tk := range got {
				if tk.Key == "slow" {
					d = 3 * time.Second
					mu.Lock()
					slow = append(slow, tk.Item)
					mu.Unlock()
				}
			}
			pass(d)
			for _, tk := range got {
				close(done[tk.Item])
			}
		}})
		mustSubmit(t, b, &ticket{Item: 0, Key: "slow"}, &ticket{Item: 1, Key: "slow"}, &ticket{Item: 2, Key: "slow"})
		var wg sync.WaitGroup
		for w := range 20 {
			wg.Go(func() {
				for i := 3 + w; i < 503; i += 20 {
					start := time.Now()
					mustSubmit(t, b, &ticket{Item: i, Key: fmt.Sprint(i)})
					<-done[i]
					if d := time.Since(start); d > 500*time.Millisecond {
						t.Errorf("item %d took %v", i, d)
					}
				}
			})
		}
		wg.Wait()
		mustClose(t, b)
		if fmt.Sprint(slow) != "[0 1 2]" {
			t.Errorf("slow key flushed in the order %v", slow)
		}
	})
}

// A flight that never ends stops counting for the gate, even if it carries more
// items than all others could ever queue.
func TestStuckFlightHoldsUpNobody(t *testing.T) {
	for usual, want := range map[time.Duration]time.Duration{
		time.Millisecond:       lateMin,
		10 * time.Millisecond:  40 * time.Millisecond,
		100 * time.Millisecond: lateMax,
	} {
		t.Run(fmt.Sprint("usual=", usual), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				stuck := newGate()
				result := make(chan time.Time, 1)
				b := mustNew(t, Config[int]{InFlight: 2, Flush: func(ctx context.Context, got batch) {
					switch {
					case got[0].Item > 0:
						result <- time.Now()
					case len(got) > 1:
						stuck.wait(ctx)
					default:
						pass(usual)
					}
				}})
				for range 102 {
					mustSubmit(t, b, &ticket{}) // two go alone, a hundred gather
				}
				pass(usual)
				synctest.Wait()
				if s := b.Stats(); s.InFlight != 100 || s.Flights != 1 {
					t.Fatalf("%+v", s)
				}
				start := time.Now()
				for i := 1; i <= 10; i++ {
					mustSubmit(t, b, &ticket{Item: i})
					if d := (<-result).Sub(start); d != want {
						t.Errorf("item %d was sent after %v, want %v", i, d, want)
					}
				}
				stuck.open()
				mustClose(t, b)
			})
		})
	}
}

// With slots to spare a steady load does not fall apart into small batches.
func TestSteadyLoadMakesLargeBatches(t *testing.T) {
	for _, inFlight := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprint("InFlight=", inFlight), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const callers, each = 256, 50
				done := make([]chan struct{}, callers)
				b := mustNew(t, Config[int]{InFlight: inFlight, Flush: func(_ context.Context, got batch) {
					pass(3*time.Millisecond + time.Duration(len(got))*10*time.Microsecond)
					for _, tk := range got {
						done[tk.Item] <- struct{}{}
					}
				}})
				var wg sync.WaitGroup
				for c := range callers {
					done[c] = make(chan struct{}, 1)
					wg.Go(func() {
						for range each {
							mustSubmit(t, b, &ticket{Item: c})
							<-done[c]
						}
					})
				}
				wg.Wait()
				mustClose(t, b)
				s := b.Stats()
				average := float64(s.Items) / float64(s.Batches)
				t.Logf("%.0f items a batch, largest %d", average, s.Largest)
				if average < callers/4 {
					t.Errorf("%.0f items a batch with %d callers", average, callers)
				}
			})
		})
	}
}

// While a worker is between two batches, what comes in joins its next one, and
// takes no slot for itself unless it fills a batch.
func TestWorkerBetweenBatchesTakesWhatComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLog()
		b := mustNew(t, Config[int]{InFlight: 2, MaxItems: 3, Flush: func(_ context.Context, got batch) { l.flushed(got) }})
		b.mu.Lock()
		b.between++
		b.mu.Unlock()
		for i := range 5 {
			mustSubmit(t, b, &ticket{Item: i})
			synctest.Wait()
		}
		if got := fmt.Sprint(l.seen()); got != "[[0 1 2]]" {
			t.Errorf("flushed %s", got)
		}
		f := &flight[int]{resume: make(chan struct{}, 1)}
		b.mu.Lock()
		b.between--
		ok := b.take(f)
		b.mu.Unlock()
		if !ok || len(f.batch) != 2 {
			t.Fatalf("took %d", len(f.batch))
		}
		go b.work(f)
		mustClose(t, b)
	})
}

func TestPanicAndGoexitInFlush(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type told struct {
			items int
			value any
		}
		var got []told
		n := 0
		b := mustNew(t, Config[int]{
			Flush: func(context.Context, batch) {
				n++
				pass(time.Millisecond)
				switch n {
				case 1:
					panic("boom")
				case 2:
					runtime.Goexit()
				}
			},
			Panicked: func(b batch, v any) { got = append(got, told{len(b), v}) },
		})
		for i := range 7 {
			mustSubmit(t, b, &ticket{Key: fmt.Sprint(i % 3)})
		}
		mustClose(t, b)
		want := []told{{1, "boom"}, {3, nil}}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("told %v, want %v", got, want)
		}
		if s := b.Stats(); s.Items != 7 {
			t.Errorf("%+v", s)
		}
	})
}

func TestGoexitWithoutPanicked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		b := mustNew(t, Config[int]{Flush: func(context.Context, batch) {
			if n++; n == 1 {
				pass(time.Millisecond)
				runtime.Goexit()
			}
		}})
		mustSubmit(t, b, &ticket{}, &ticket{}, &ticket{})
		mustClose(t, b)
		if n != 2 {
			t.Errorf("%d flushes, want 2", n)
		}
	})
}
