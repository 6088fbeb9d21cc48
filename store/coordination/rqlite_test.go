package coordination

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// onCluster runs a test in fake time on a cluster of rqlite. Each call of open
// gives a provider with a client of its own.
func onCluster(t *testing.T, test func(t *testing.T, c *rqlitetest.Cluster, open func() *Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.LogLimit(0))
		test(t, c, func() *Provider {
			t.Helper()
			eng, err := client.Open(t.Context(), c.URLs(), client.WithDialContext(c.DialContext))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Open(t.Context(), eng)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := errors.Join(p.Close(context.Background()), eng.Close()); err != nil {
					t.Error(err)
				}
			})
			return p
		})
	})
}

// trouble makes every kind of write go wrong now and then, and the leader go away
// every ten seconds, until ctx ends.
func trouble(ctx context.Context, c *rqlitetest.Cluster) {
	for _, a := range []rqlitetest.Action{
		rqlitetest.ResetApplied(), rqlitetest.Reset(), rqlitetest.ErrorApplied(rqlitetest.TextLeadershipLost), rqlitetest.ApplyTwice(), rqlitetest.NoLeader(),
	} {
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Probability: 0.05}, a)
	}
	for retry.Sleep(ctx, 10*time.Second) {
		c.LoseLeader(time.Second)
	}
}

func TestElectionOverATroubledCluster(t *testing.T) {
	onCluster(t, func(t *testing.T, c *rqlitetest.Cluster, open func() *Provider) {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		var candidates []*Election
		var mu sync.Mutex
		last, terms := int64(0), 0
		for range 3 {
			e, err := open().Election("nightly", ElectionOptions{Lease: 3 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			candidates = append(candidates, e)
			all.Go(func() {
				for ctx.Err() == nil {
					_ = e.Lead(ctx, func(ctx context.Context, term Term) error {
						mu.Lock()
						if term.Number <= last {
							t.Errorf("term %d after term %d", term.Number, last)
						}
						last, terms = term.Number, terms+1
						mu.Unlock()
						select {
						case <-ctx.Done():
						case <-time.After(20 * time.Second): // another's turn
						}
						return nil
					})
				}
			})
		}
		all.Go(func() { trouble(ctx, c) })
		led := 0
		for range 3 * 60 * 100 {
			leaders := 0
			for _, e := range candidates {
				if e.IsLeader() {
					leaders++
				}
			}
			if leaders > 1 {
				t.Fatal("two lead at once")
			}
			led += leaders
			<-time.After(10 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		if share := float64(led) / (3 * 60 * 100); share < 0.8 || terms < 8 {
			t.Errorf("somebody led %.0f%% of the time, %d terms", 100*share, terms)
		}
	})
}

func TestClaimsOverATroubledCluster(t *testing.T) {
	onCluster(t, func(t *testing.T, c *rqlitetest.Cluster, open func() *Provider) {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		var l logbook
		for range 3 {
			r, err := open().Runner(l.options())
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if err := r.Every(fmt.Sprint("job-", i), time.Second, l.job, CatchUp(100)); err != nil {
					t.Fatal(err)
				}
			}
			all.Go(func() { _ = r.Run(ctx) })
		}
		all.Go(func() { trouble(ctx, c) })
		<-time.After(2 * time.Minute)
		cancel()
		all.Wait()
		unclear := 0
		for _, m := range l.missed {
			if m.Reason == MissedUnclear {
				unclear++
			}
		}
		for i := range 3 {
			ticks := l.of(fmt.Sprint("job-", i))
			seen := make(map[time.Time]bool)
			for _, due := range ticks {
				if seen[due] {
					t.Errorf("%v ran twice", due)
				}
				seen[due] = true
			}
			// At most one tick is lost for each claim whose answer was lost for good.
			if n := len(ticks); n < 115-unclear {
				t.Errorf("%d runs in two minutes, with %d unclear and %v missed", n, unclear, l.missed)
			}
		}
	})
}

func TestLimiterAndCacheOverATroubledCluster(t *testing.T) {
	onCluster(t, func(t *testing.T, c *rqlitetest.Cluster, open func() *Provider) {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		all.Go(func() { trouble(ctx, c) })
		p := open()
		l, err := p.Limiter("api", Rate{Limit: 60, Window: time.Minute, Burst: 1})
		if err != nil {
			t.Fatal(err)
		}
		cache, err := p.Cache("c", CacheOptions{})
		if err != nil {
			t.Fatal(err)
		}
		allowed, deleted := 0, false
		for begin := time.Now(); time.Since(begin) < time.Minute; <-time.After(100 * time.Millisecond) {
			if d, err := l.Allow(ctx, "k", 1); err == nil && d.Allowed {
				allowed++
			}
			key := fmt.Sprint("k", allowed%3)
			if err := cache.Delete(ctx, key); err == nil {
				_, ok, err := cache.Get(ctx, key)
				deleted = true
				if ok || err != nil && engine.OutcomeOf(err) != engine.NotApplied {
					t.Errorf("after an acknowledged Delete: %v, %v", ok, err)
				}
			}
			if err := cache.Set(ctx, key, []byte(key), time.Hour); err == nil {
				if v, ok, err := cache.Get(ctx, key); err == nil && (!ok || string(v) != key) {
					t.Errorf("after an acknowledged Set: %q, %v", v, ok)
				}
			}
		}
		if allowed > 61 || allowed < 20 || !deleted {
			t.Errorf("%d were allowed in a minute, of one each second", allowed)
		}
	})
}
