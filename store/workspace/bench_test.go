package workspace_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store/sqlite"
	"github.com/quorate/quorate/store/workspace"
)

// benchStore opens a store on a file that syncs every commit.
func benchStore(b *testing.B) *workspace.Store {
	b.Helper()
	eng, err := sqlite.Open(tempDB(b))
	must(b, err)
	b.Cleanup(func() { _ = eng.Close() })
	return openStore(b, eng)
}

// BenchmarkAppend appends one event at a time by many callers, to one workspace or
// to a hundred: in a transaction each, alone each, or through the actor.
func BenchmarkAppend(b *testing.B) {
	for _, workspaces := range []int{1, 100} {
		for _, mode := range []string{"transact", "append", "actor"} {
			for _, callers := range []int{1, 64, 256} {
				b.Run(fmt.Sprintf("workspaces=%d/%s/callers=%d", workspaces, mode, callers), func(b *testing.B) {
					benchmarkAppend(b, mode, workspaces, callers)
				})
			}
		}
	}
}

func benchmarkAppend(b *testing.B, mode string, workspaces, callers int) {
	s := benchStore(b)
	l, err := actor.NewLog(s)
	must(b, err)
	ctx := b.Context()
	body := []byte(`{"type":"order:placed","order":"o-12345","customer":"c-777","total":1234.5,"items":["a","b","c"]}`)
	one := func(i int64) error {
		ref := workspace.Ref{Tenant: "t", Workspace: fmt.Sprint("w", i%int64(workspaces))}
		e := workspace.Entry{ID: workspace.NewID(), Actor: workspace.System("bench"), Event: body}
		switch mode {
		case "transact":
			return s.Transact(ctx, ref, func(ctx context.Context, tx *workspace.Tx) error {
				_, err := tx.Append(ctx, e)
				return err
			})
		case "append":
			_, err := s.Append(ctx, ref, e)
			return err
		}
		_, err := l.Append(ctx, ref, e).Await(ctx)
		return err
	}
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := one(i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	_, err = l.Close(context.Background())
	must(b, err)
}

// BenchmarkSubscribeLatency measures the time from the beginning of an append to
// its sight by a subscriber, of the same store and of another one, whose poll
// interval of 50 ms it then shows.
func BenchmarkSubscribeLatency(b *testing.B) {
	for _, remote := range []bool{false, true} {
		b.Run(fmt.Sprintf("remote=%v", remote), func(b *testing.B) {
			eng, err := sqlite.Open(tempDB(b), sqlite.WithDurability(sqlite.Normal))
			must(b, err)
			b.Cleanup(func() { _ = eng.Close() })
			s := openStore(b, eng, workspace.WithPollInterval(50*time.Millisecond))
			writer := s
			if remote {
				writer = openStore(b, eng)
			}
			ctx, cancel := context.WithCancel(b.Context())
			seen := make(chan struct{})
			go func() {
				defer close(seen)
				for _, err := range s.Subscribe(ctx, ref, 0) {
					if err != nil {
						return
					}
					seen <- struct{}{}
				}
			}()
			b.ResetTimer()
			for b.Loop() {
				if _, err := writer.Append(ctx, ref, entry(workspace.NewID())); err != nil {
					b.Fatal(err)
				}
				<-seen
			}
			cancel()
			<-seen
		})
	}
}

// BenchmarkIdleSubscribers has a thousand subscribers of a thousand workspaces wait
// for nothing, and reports what that costs in queries.
func BenchmarkIdleSubscribers(b *testing.B) {
	eng := &counting{Engine: openEngine(b, tempDB(b))}
	s := openStore(b, eng, workspace.WithPollInterval(500*time.Millisecond))
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			for range s.Subscribe(ctx, workspace.Ref{Tenant: "t", Workspace: name("w", i)}, 0) {
			}
		})
	}
	for s.Counters().Polls < 2 {
		<-time.After(10 * time.Millisecond)
	}
	queries, start := eng.queries.Load(), time.Now()
	b.ResetTimer()
	for b.Loop() {
		<-time.After(time.Second)
	}
	b.ReportMetric(float64(eng.queries.Load()-queries)/time.Since(start).Seconds(), "queries/s")
	cancel()
	wg.Wait()
}

// BenchmarkRead reads a page of 500 events.
func BenchmarkRead(b *testing.B) {
	s := openStore(b, openEngine(b, ""))
	var ids []string
	for i := range 1000 {
		ids = append(ids, name("e", i))
	}
	appendTo(b, s, ref, ids...)
	b.ReportAllocs()
	for b.Loop() {
		page, err := s.Read(b.Context(), ref, workspace.After(250), workspace.First(500))
		if err != nil || len(page) != 500 {
			b.Fatal(len(page), err)
		}
	}
}
