package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
)

// Benchmark measures an engine below the store: commits, each with an event for
// the outbox and one for the ledger, and loads, by one caller and by many, of the
// synchronous store and of the asynchronous one. One operation is one commit or
// one load.
func Benchmark(b *testing.B, h Harness) {
	b.Run("commit/sync", func(b *testing.B) {
		benchmark(b, h, false, func(ctx context.Context, st *store.Store, _ *actor.Store, next func() string) {
			x := benchmarkState(next())
			for b.Loop() {
				done, err := st.Commit(ctx, benchmarkCommit(x))
				if err != nil {
					b.Fatal(err)
				}
				x = done.Execution()
			}
		})
	})
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("commit/async/callers=%d", callers), func(b *testing.B) {
			benchmark(b, h, true, func(ctx context.Context, _ *store.Store, as *actor.Store, next func() string) {
				b.SetParallelism(callers)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					x := benchmarkState(next())
					for pb.Next() {
						done, err := as.Commit(ctx, benchmarkCommit(x)).Await(ctx)
						if err != nil {
							b.Error(err)
							return
						}
						x = done.Execution()
					}
				})
			})
		})
	}
	b.Run("load/sync", func(b *testing.B) {
		benchmark(b, h, false, func(ctx context.Context, st *store.Store, _ *actor.Store, next func() string) {
			id := stored(b, ctx, st, next()) // before the loop, so not counted
			for b.Loop() {
				if _, err := st.Load(ctx, id); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("load/async/callers=%d", callers), func(b *testing.B) {
			benchmark(b, h, true, func(ctx context.Context, st *store.Store, as *actor.Store, next func() string) {
				ids := make([]string, callers*runtime.GOMAXPROCS(0))
				for i := range ids {
					ids[i] = stored(b, ctx, st, next())
				}
				var caller atomic.Int64
				b.SetParallelism(callers)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					id := ids[caller.Add(1)-1]
					for pb.Next() {
						if _, err := as.Load(ctx, id).Await(ctx); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		})
	}
}

func benchmark(b *testing.B, h Harness, async bool, run func(ctx context.Context, st *store.Store, as *actor.Store, next func() string)) {
	b.Helper()
	ctx := b.Context()
	st, err := store.Open(ctx, h.Open(b).Engine, silent)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	}()
	var serial atomic.Int64
	next := func() string { return fmt.Sprintf("execution-%06d", serial.Add(1)) }
	if !async {
		b.ReportAllocs()
		run(ctx, st, nil, next)
		return
	}
	as, err := actor.New(st)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	run(ctx, st, as, next)
	if _, err := as.Close(context.WithoutCancel(ctx)); err != nil {
		b.Error(err)
	}
}

// benchmarkState is an execution of about half a kilobyte.
func benchmarkState(id string) *store.Execution {
	x := execution(id)
	x.Status, x.ActivePath = store.StatusRunning, "/paying/waiting"
	x.Context = object(`{"customer":"c-1029384756","total":129.90,"currency":"EUR","lines":[{"sku":"A-100","n":2},{"sku":"B-200","n":1}],"note":"leave at the door"}`)
	return x
}

func benchmarkCommit(x *store.Execution) *store.Commit {
	x.ProcessedEvents++
	mark := fmt.Sprint(x.ID, "-", x.ProcessedEvents)
	return &store.Commit{Execution: x, Emits: []store.Emit{{Target: "billing", Event: event(mark)}}, ProcessedEvent: mark}
}

// stored commits an execution, unless it is there.
func stored(b *testing.B, ctx context.Context, st *store.Store, id string) string {
	if _, err := st.Save(ctx, benchmarkState(id)); err != nil && !errors.Is(err, store.ErrConflict) {
		b.Error(err)
	}
	return id
}
