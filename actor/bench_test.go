package actor

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/quorate/quorate/store"
)

// BenchmarkCommit measures what the way to the engine and back costs, on an
// engine that answers at once: callers commit and wait.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := newStore(b, newNull())
			ctx := context.Background()
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for c := range callers {
				n := b.N / callers
				if c < b.N%callers {
					n++
				}
				wg.Go(func() {
					e := execution(fmt.Sprintf("execution-%d", c))
					for range n {
						if _, err := s.Save(ctx, e).Await(ctx); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			if n := s.Stats().Writes; n.Batches > 0 {
				b.ReportMetric(float64(n.Items)/float64(n.Batches), "commits/request")
			}
			mustClose(b, s)
		})
	}
}

// BenchmarkCommitPipelined does not wait for each commit.
func BenchmarkCommitPipelined(b *testing.B) {
	s := newStore(b, newNull())
	ctx := context.Background()
	executions := make([]*store.Execution, 1024)
	for i := range executions {
		executions[i] = execution(fmt.Sprintf("execution-%d", i))
	}
	var last *CommitFuture
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		last = s.Save(ctx, executions[i%len(executions)])
	}
	if _, err := last.Await(ctx); err != nil {
		b.Fatal(err)
	}
	mustClose(b, s)
}

// BenchmarkLoad has callers load executions of their own, and one that all share.
func BenchmarkLoad(b *testing.B) {
	for _, shared := range []bool{false, true} {
		b.Run(fmt.Sprintf("shared=%v", shared), func(b *testing.B) {
			const callers = 256
			s := newStore(b, newFake())
			ctx := context.Background()
			names := ids("execution", callers)
			create(b, s, names...)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for c := range callers {
				n := b.N / callers
				if c < b.N%callers {
					n++
				}
				id := names[c]
				if shared {
					id = names[0]
				}
				wg.Go(func() {
					for range n {
						if _, err := s.Load(ctx, id).Await(ctx); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			mustClose(b, s)
		})
	}
}
