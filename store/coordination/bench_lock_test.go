package coordination

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlited"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// onEveryEngine runs a benchmark on each engine that is at hand.
func onEveryEngine(b *testing.B, run func(b *testing.B, p *Provider)) {
	with := func(open func(b *testing.B) (engine.Engine, error)) func(b *testing.B) {
		return func(b *testing.B) {
			eng, err := open(b)
			if err != nil {
				b.Fatal(err)
			}
			defer eng.Close()
			p, err := Open(b.Context(), eng)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close(context.WithoutCancel(b.Context()))
			b.ReportAllocs()
			b.ResetTimer()
			run(b, p)
		}
	}
	b.Run("sqlite=memory", with(func(b *testing.B) (engine.Engine, error) { return sqlite.Open(":memory:") }))
	b.Run("sqlite=file", with(func(b *testing.B) (engine.Engine, error) {
		return sqlite.Open(filepath.Join(b.TempDir(), "bench.db"))
	}))
	b.Run("rqlitetest", with(func(b *testing.B) (engine.Engine, error) {
		return client.Open(b.Context(), rqlitetest.Start(b, rqlitetest.LogLimit(0)).URLs())
	}))
	b.Run("rqlited", with(func(b *testing.B) (engine.Engine, error) {
		cluster, err := rqlited.Start(b.Context(), rqlited.Options{Binary: rqlited.Require(b), Nodes: 3})
		if err != nil {
			return nil, err
		}
		b.Cleanup(func() { _ = cluster.Close() })
		return client.Open(b.Context(), cluster.URLs())
	}))
}

// One operation is an acquisition and a release of a lock that nobody else wants.
func BenchmarkLockUncontended(b *testing.B) {
	onEveryEngine(b, func(b *testing.B, p *Provider) {
		l, err := p.Lock("lock", LockOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			h, err := l.Acquire(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := h.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// One operation is an acquisition and a release, by one of 50 goroutines that all
// want the same lock.
func BenchmarkLockContended(b *testing.B) {
	onEveryEngine(b, func(b *testing.B, p *Provider) {
		var left atomic.Int64
		left.Store(int64(b.N))
		var wg sync.WaitGroup
		for range 50 {
			l, err := p.Lock("lock", LockOptions{Retry: 5 * time.Millisecond})
			if err != nil {
				b.Fatal(err)
			}
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					h, err := l.Acquire(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					if err := h.Release(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// One operation is the renewal of 1,000 leases.
func BenchmarkRenewal(b *testing.B) {
	onEveryEngine(b, func(b *testing.B, p *Provider) {
		held := make([]*hold, 1000)
		var wg sync.WaitGroup
		for i := range held {
			wg.Go(func() {
				l, err := p.Lock(fmt.Sprint("lock-", i), LockOptions{Lease: time.Hour})
				if err != nil {
					b.Error(err)
					return
				}
				h, err := l.Acquire(b.Context())
				if err != nil {
					b.Error(err)
					return
				}
				held[i] = &h.hold
			})
		}
		wg.Wait()
		for b.Loop() {
			p.renewAll(b.Context(), held)
		}
		for _, h := range held {
			if h.failing || !h.Valid() {
				b.Fatal("a renewal failed", h.failing, h.state())
			}
		}
	})
}
