package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// The benchmarks measure what the library itself costs: the engine below answers
// at once. Compare two versions of the code with benchstat:
//
//	go test -run '^$' -bench . -count 10 ./bench > old.txt

const benchIDs = 4096

func benchStore(b *testing.B, eng engine.Engine) *store.Store {
	b.Helper()
	st, err := store.Open(b.Context(), eng, store.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	return st
}

func benchActor(b *testing.B, st *store.Store) *actor.Store {
	b.Helper()
	s, err := actor.New(st)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if _, err := s.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return s
}

// benchExecutions returns a store with executions in it.
func benchExecutions(b *testing.B, size int) (*store.Store, []*store.Execution) {
	b.Helper()
	eng, err := newNullEngine()
	if err != nil {
		b.Fatal(err)
	}
	st := benchStore(b, eng)
	d, err := newDataset(benchIDs, size, 1)
	if err != nil {
		b.Fatal(err)
	}
	execs, err := populate(b.Context(), st, d, d.newIDs())
	if err != nil {
		b.Fatal(err)
	}
	return st, execs
}

// closedLoop runs b.N operations by that many callers, each of which waits for
// its operation before the next one.
func closedLoop(b *testing.B, callers int, do func(caller, i int) error) {
	b.Helper()
	b.ReportAllocs()
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	b.ResetTimer()
	for c := range callers {
		lo, hi := share(b.N, c, callers)
		wg.Go(func() {
			for i := range hi - lo {
				if err := do(c, i); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// mine returns the i-th of a caller's own executions, one after the other.
func mine[T any](all []T, caller, callers, i int) T {
	lo, hi := share(len(all), caller, callers)
	return all[lo+i%(hi-lo)]
}

func BenchmarkActorCommit(b *testing.B) {
	st, execs := benchExecutions(b, 512)
	for _, callers := range []int{1, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, ctx := benchActor(b, st), context.Background()
			closedLoop(b, callers, func(caller, i int) error {
				_, err := s.Commit(ctx, &store.Commit{Execution: mine(execs, caller, callers, i)}).Await(ctx)
				return err
			})
		})
	}
}

func BenchmarkActorLoad(b *testing.B) {
	st, execs := benchExecutions(b, 512)
	for _, callers := range []int{1, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, ctx := benchActor(b, st), context.Background()
			closedLoop(b, callers, func(caller, i int) error {
				_, err := s.Load(ctx, mine(execs, caller, callers, i).ID).Await(ctx)
				return err
			})
		})
	}
}

func BenchmarkStoreCommit(b *testing.B) {
	st, execs := benchExecutions(b, 512)
	ctx := context.Background()
	closedLoop(b, 1, func(_, i int) error {
		_, err := st.Commit(ctx, &store.Commit{Execution: execs[i%len(execs)]})
		return err
	})
}

func BenchmarkStoreLoad(b *testing.B) {
	st, execs := benchExecutions(b, 512)
	ctx := context.Background()
	closedLoop(b, 1, func(_, i int) error {
		_, err := st.Load(ctx, execs[i%len(execs)].ID)
		return err
	})
}

func BenchmarkPrepareCommit(b *testing.B) {
	for _, size := range []int{512, 100 << 10} {
		b.Run(fmt.Sprintf("state=%d", size), func(b *testing.B) {
			eng, err := newNullEngine()
			if err != nil {
				b.Fatal(err)
			}
			st := benchStore(b, eng)
			d, err := newDataset(1, size, 1)
			if err != nil {
				b.Fatal(err)
			}
			execs, err := populate(b.Context(), st, d, d.newIDs())
			if err != nil {
				b.Fatal(err)
			}
			c := &store.Commit{Execution: execs[0]}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				c.Execution.ProcessedEvents++
				if _, err := st.PrepareCommit(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// heldEngine keeps batches back until it is let go.
type heldEngine struct {
	engine.Engine
	held atomic.Bool
	gate chan struct{}
}

func (e *heldEngine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if e.held.Load() {
		<-e.gate
	}
	return e.Engine.Exec(ctx, stmts)
}

// BenchmarkPendingFutures measures the memory of a commit that waits to be sent:
// its future, its place in the queue, and its encoded state of 512 bytes.
func BenchmarkPendingFutures(b *testing.B) {
	null, err := newNullEngine()
	if err != nil {
		b.Fatal(err)
	}
	eng := &heldEngine{Engine: null, gate: make(chan struct{})}
	st := benchStore(b, eng)
	d, err := newDataset(benchIDs, 512, 1)
	if err != nil {
		b.Fatal(err)
	}
	execs, err := populate(b.Context(), st, d, d.newIDs())
	if err != nil {
		b.Fatal(err)
	}
	var perFuture float64
	for b.Loop() {
		eng.held.Store(true)
		s := benchActor(b, st)
		before := heap()
		futures := make([]*actor.CommitFuture, len(execs))
		for i, e := range execs {
			futures[i] = s.Commit(context.Background(), &store.Commit{Execution: e})
		}
		perFuture = float64(heap()-before) / float64(len(futures))
		eng.held.Store(false)
		close(eng.gate)
		for _, f := range futures {
			if _, err := f.Await(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		eng.gate = make(chan struct{})
	}
	b.ReportMetric(perFuture, "bytes/future")
}

// heap returns the bytes that are alive.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
