package batcher

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// BenchmarkSubmit measures the cost of an item with a flush that does nothing but
// answer: producers submit and wait for the answer.
func BenchmarkSubmit(b *testing.B) {
	type item struct {
		ticket Ticket[*item]
		done   chan struct{}
	}
	for _, producers := range []int{1, 256} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			bt, err := New(Config[*item]{Flush: func(_ context.Context, batch []*Ticket[*item]) {
				for _, t := range batch {
					t.Item.done <- struct{}{}
				}
			}})
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for p := range producers {
				n := b.N / producers
				if p < b.N%producers {
					n++
				}
				wg.Go(func() {
					done := make(chan struct{}, 1)
					for range n {
						it := &item{done: done}
						it.ticket.Item = it
						it.ticket.Size = 100
						if err := bt.Submit(ctx, &it.ticket); err != nil {
							b.Error(err)
							return
						}
						<-done
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			s := bt.Stats()
			if s.Batches > 0 {
				b.ReportMetric(float64(s.Items)/float64(s.Batches), "items/batch")
			}
			if _, err := bt.Close(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkSubmitKeyed is one producer that does not wait: what an item costs
// when batches are full.
func BenchmarkSubmitKeyed(b *testing.B) {
	keys := make([]string, 1024)
	for i := range keys {
		keys[i] = fmt.Sprintf("execution-%d", i)
	}
	bt, err := New(Config[int]{Flush: func(context.Context, []*Ticket[int]) {}})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := bt.Submit(ctx, &Ticket[int]{Item: i, Key: keys[i%len(keys)], Size: 100}); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := bt.Close(ctx); err != nil {
		b.Fatal(err)
	}
}
