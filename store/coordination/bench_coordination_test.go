package coordination

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// onEngines measures on a SQLite file and on a cluster in the process.
func onEngines(b *testing.B, measure func(b *testing.B, p *Provider)) {
	for name, open := range map[string]func(b *testing.B) (engine.Engine, error){
		"sqlite": func(b *testing.B) (engine.Engine, error) {
			return sqlite.Open(filepath.Join(b.TempDir(), "bench.db"), sqlite.WithDurability(sqlite.Normal))
		},
		"rqlitetest": func(b *testing.B) (engine.Engine, error) {
			return client.Open(b.Context(), rqlitetest.Start(b, rqlitetest.LogLimit(0)).URLs())
		},
	} {
		b.Run(name, func(b *testing.B) {
			eng, err := open(b)
			if err != nil {
				b.Fatal(err)
			}
			defer eng.Close()
			p, err := Open(b.Context(), eng)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close(context.Background())
			b.ReportAllocs()
			measure(b, p)
		})
	}
}

// BenchmarkCampaign100 is a tick of a process that leads 100 elections.
func BenchmarkCampaign100(b *testing.B) {
	onEngines(b, func(b *testing.B, p *Provider) {
		candidates := make([]*candidate, 100)
		for i := range candidates {
			e, err := p.Election(fmt.Sprint("election-", i), ElectionOptions{})
			if err != nil {
				b.Fatal(err)
			}
			candidates[i] = &candidate{Election: e, values: b.Context(), watched: never}
			defer candidates[i].stop()
		}
		for b.Loop() {
			ended := make(chan error)
			for _, c := range candidates {
				go func() { _, err := c.attempt(b.Context()); ended <- err }()
			}
			for range candidates {
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkClaim(b *testing.B) {
	onEngines(b, func(b *testing.B, p *Provider) {
		s, err := p.Schedule("bench")
		if err != nil {
			b.Fatal(err)
		}
		due := noon
		for b.Loop() {
			due = due.Add(time.Second)
			if won, err := s.Claim(b.Context(), due); err != nil || !won {
				b.Fatal(won, err)
			}
		}
	})
}

func BenchmarkCache(b *testing.B) {
	onEngines(b, func(b *testing.B, p *Provider) {
		c, err := p.Cache("bench", CacheOptions{})
		if err != nil {
			b.Fatal(err)
		}
		value := make([]byte, 200)
		key := func(i int) string { return fmt.Sprint("key-", i%1000) }
		set := func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if err := c.Set(b.Context(), key(i), value, time.Hour); err != nil {
					b.Fatal(err)
				}
			}
		}
		get := func(b *testing.B, i int) {
			if _, _, err := c.Get(b.Context(), key(i)); err != nil {
				b.Fatal(err)
			}
		}
		b.Run("set", set)
		b.Run("get", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				get(b, i)
			}
		})
		b.Run("get by 64", func(b *testing.B) {
			var n atomic.Int64
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					get(b, int(n.Add(1)))
				}
			})
		})
		b.Run("get or set", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := c.GetOrSet(b.Context(), key(i), time.Hour, func(context.Context) ([]byte, error) { return value, nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func BenchmarkLimiter(b *testing.B) {
	onEngines(b, func(b *testing.B, p *Provider) {
		l, err := p.Limiter("bench", Rate{Limit: 1_000_000_000, Window: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		for i := 0; b.Loop(); i++ {
			if d, err := l.Allow(b.Context(), "k", 1); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
}
