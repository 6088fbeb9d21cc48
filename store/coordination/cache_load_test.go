package coordination

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// slowly is a load that waits until it is let go.
type slowly struct {
	begun, done chan struct{}
	value       string
	err         error
}

func newSlowly(value string, err error) *slowly {
	return &slowly{make(chan struct{}), make(chan struct{}), value, err}
}

func (s *slowly) load(context.Context) ([]byte, error) {
	close(s.begun)
	<-s.done
	return []byte(s.value), s.err
}

func value(v string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(v), nil }
}

var errLoad = errors.New("the source does not answer")

func failing(context.Context) ([]byte, error) { return nil, errLoad }

// gets fails unless GetOrSet returns this value.
func (f *fixture) gets(c *Cache, key, want string, load func(context.Context) ([]byte, error), tags ...string) {
	f.Helper()
	if got, err := c.GetOrSet(f.ctx, key, time.Minute, load, tags...); err != nil || string(got) != want {
		f.Errorf("%s: got %q, %v, want %q", key, got, err, want)
	}
}

func TestCO10_SlowLoadNeverOverwritesANewerFact(t *testing.T) {
	newer := map[string]struct {
		fact func(f *fixture, c *Cache) error
		want string // in the cache, when all is over
	}{
		"set":          {func(f *fixture, c *Cache) error { return c.Set(f.ctx, "k", []byte("new"), time.Hour) }, "new"},
		"delete":       {func(f *fixture, c *Cache) error { return c.Delete(f.ctx, "k") }, ""},
		"delete tag":   {func(f *fixture, c *Cache) error { return c.DeleteTags(f.ctx, "u", "t") }, ""},
		"clear":        {func(f *fixture, c *Cache) error { return c.Clear(f.ctx) }, ""},
		"nothing":      {func(f *fixture, c *Cache) error { return nil }, "old"},
		"other key":    {func(f *fixture, c *Cache) error { return c.Delete(f.ctx, "K", "kk") }, "old"},
		"other tag":    {func(f *fixture, c *Cache) error { return c.DeleteTags(f.ctx, "T", "u") }, "old"},
		"other prefix": {func(f *fixture, c *Cache) error { return f.cache(c.p, "other", CacheOptions{}).Clear(f.ctx) }, "old"},
		"set and delete": {func(f *fixture, c *Cache) error {
			return errors.Join(c.Set(f.ctx, "k", []byte("new"), time.Hour), c.Delete(f.ctx, "k"))
		}, ""},
		"set that has ended": {func(f *fixture, c *Cache) error {
			defer after(2 * time.Second)
			return c.Set(f.ctx, "k", []byte("new"), time.Second)
		}, ""},
		"set, ended and swept": {func(f *fixture, c *Cache) error {
			err := c.Set(f.ctx, "k", []byte("new"), time.Second)
			after(2 * time.Second)
			return errors.Join(err, c.p.sweepOnce(f.ctx), c.p.sweepOnce(f.ctx))
		}, ""},
		"delete and sweep": {func(f *fixture, c *Cache) error {
			err := c.Delete(f.ctx, "k")
			after(20 * time.Minute)
			return errors.Join(err, c.p.sweepOnce(f.ctx))
		}, ""},
	}
	for name, c := range newer {
		for _, before := range []string{"absent", "ended", "deleted"} {
			for _, process := range []string{"same", "other"} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, before, process), func(t *testing.T) {
					bubble(t, func(f *fixture) {
						p := f.p
						if process == "other" {
							p = f.provider()
						}
						mine, theirs := f.cache(f.p, "facts", CacheOptions{}), f.cache(p, "facts", CacheOptions{})
						switch before {
						case "ended":
							f.set(mine, "k", "first", time.Second, "t")
							after(time.Second)
						case "deleted":
							f.set(mine, "k", "first", time.Second, "t")
							f.ok(mine.Delete(f.ctx, "k"))
						}
						slow := newSlowly("old", nil)
						got := make(chan string)
						go func() {
							v, err := mine.GetOrSet(f.ctx, "k", 2*time.Hour, slow.load, "t")
							if err != nil {
								f.Error(err)
							}
							got <- string(v)
						}()
						<-slow.begun
						f.ok(c.fact(f, theirs))
						close(slow.done)
						if v := <-got; v != "old" {
							f.Errorf("the load's own caller got %q", v)
						}
						f.has(mine, map[string]string{"k": c.want})
					})
				})
			}
		}
	}
}

func TestCO10_NobodyJoinsALoadThatBeganBeforeAnInvalidation(t *testing.T) {
	bubble(t, func(f *fixture) {
		c, elsewhere := f.cache(f.p, "facts", CacheOptions{}), f.cache(f.provider(), "facts", CacheOptions{})
		slow := newSlowly("old", nil)
		got := make(chan string)
		go func() {
			v, _ := c.GetOrSet(f.ctx, "k", time.Minute, slow.load, "t")
			got <- string(v)
		}()
		<-slow.begun
		f.ok(elsewhere.DeleteTags(f.ctx, "t"))
		f.gets(c, "k", "new", value("new"), "t")
		close(slow.done)
		if v := <-got; v != "old" {
			f.Errorf("the slow load's caller got %q", v)
		}
		f.has(c, map[string]string{"k": "new"})
	})
}

func TestCO10_LoadThatBeganFirstAndEndsLastLoses(t *testing.T) {
	bubble(t, func(f *fixture) {
		a, b := f.cache(f.p, "facts", CacheOptions{}), f.cache(f.provider(), "facts", CacheOptions{})
		slow := newSlowly("old", nil)
		got := make(chan string)
		go func() {
			v, _ := a.GetOrSet(f.ctx, "k", time.Minute, slow.load)
			got <- string(v)
		}()
		<-slow.begun
		f.gets(b, "k", "new", value("new"))
		close(slow.done)
		<-got
		f.has(a, map[string]string{"k": "new"})
	})
}

func TestCO10_RefreshThatFailsDoesNotBringBackWhatWasInvalidated(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "facts", CacheOptions{StaleFor: time.Hour})
		f.set(c, "k", "old", time.Second, "t")
		after(time.Second)
		f.gets(c, "k", "old", failing, "t") // it may serve, as nothing newer is known
		slow := newSlowly("", errLoad)
		got := make(chan error)
		go func() {
			_, err := c.GetOrSet(f.ctx, "k", time.Minute, slow.load, "t")
			got <- err
		}()
		<-slow.begun
		f.ok(c.DeleteTags(f.ctx, "t"))
		close(slow.done)
		f.is(<-got, errLoad)
		_, err := c.GetOrSet(f.ctx, "k", time.Minute, failing, "t")
		f.is(err, errLoad)
		f.has(c, map[string]string{"k": ""})
	})
}

func TestCO10_NotFoundGivesWayToWhatIsCreated(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "facts", CacheOptions{})
		var source atomic.Value
		source.Store("none")
		load := func(context.Context) ([]byte, error) { return []byte(source.Load().(string)), nil }
		f.gets(c, "user:1", "none", load)
		slow := newSlowly("none", nil)
		f.ok(c.Delete(f.ctx, "user:1"))
		got := make(chan struct{})
		go func() {
			defer close(got)
			_, _ = c.GetOrSet(f.ctx, "user:1", time.Minute, slow.load)
		}()
		<-slow.begun
		source.Store("created")
		f.ok(c.Delete(f.ctx, "user:1"))
		close(slow.done)
		<-got
		f.gets(c, "user:1", "created", load)
	})
}

func TestStaleValueServesUntilExactlyItsTime(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "stale", CacheOptions{StaleFor: time.Minute})
		f.set(c, "k", "old", time.Second)
		after(time.Second)
		f.has(c, map[string]string{"k": ""})
		after(time.Minute - time.Microsecond)
		f.gets(c, "k", "old", failing)
		after(time.Microsecond)
		_, err := c.GetOrSet(f.ctx, "k", time.Minute, failing)
		f.is(err, errLoad)
		f.gets(c, "k", "new", value("new"))
		f.has(c, map[string]string{"k": "new"})
	})
}

func TestOneLoadPerKeyInTheProcess(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "once", CacheOptions{})
		var loads atomic.Int32
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				f.gets(c, "k", "v", func(context.Context) ([]byte, error) {
					loads.Add(1)
					after(time.Second)
					return []byte("v"), nil
				})
			})
		}
		all.Wait()
		if loads.Load() != 1 || len(c.flights) != 0 {
			f.Errorf("%d loads, %d left", loads.Load(), len(c.flights))
		}
	})
}

func TestOneLoadPerKeyInTheCluster(t *testing.T) {
	bubble(t, func(f *fixture) {
		var loads atomic.Int32
		var all sync.WaitGroup
		for range 5 {
			c := f.cache(f.provider(), "once", CacheOptions{Cluster: true})
			for range 10 {
				all.Go(func() {
					f.gets(c, "k", "v", func(context.Context) ([]byte, error) {
						loads.Add(1)
						after(time.Minute) // far longer than the lease
						return []byte("v"), nil
					})
				})
			}
		}
		all.Wait()
		if loads.Load() != 1 {
			f.Errorf("%d loads", loads.Load())
		}
	})
}

func TestErrorOfALoadGoesToAllWhoWait(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "errors", CacheOptions{})
		slow := newSlowly("", errLoad)
		var all sync.WaitGroup
		all.Go(func() {
			_, err := c.GetOrSet(f.ctx, "k", time.Minute, slow.load)
			f.is(err, errLoad)
		})
		<-slow.begun
		for range 3 {
			all.Go(func() {
				_, err := c.GetOrSet(f.ctx, "k", time.Minute, value("not called"))
				f.is(err, errLoad)
			})
		}
		synctest.Wait()
		close(slow.done)
		all.Wait()
		f.gets(c, "k", "works again", value("works again"))
	})
}

func TestWaitersTakeOverFromACallerWhoLeaves(t *testing.T) {
	for name, leave := range map[string]func(ctx context.Context) ([]byte, error){
		"cancelled": func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() },
		"panic":     func(ctx context.Context) ([]byte, error) { <-ctx.Done(); panic("mine") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				c := f.cache(f.p, "leave", CacheOptions{Cluster: true})
				ctx, cancel := context.WithCancel(f.ctx)
				var all sync.WaitGroup
				all.Go(func() {
					defer func() {
						if v := recover(); (v != nil) != (name == "panic") {
							f.Errorf("recovered %v", v)
						}
					}()
					_, err := c.GetOrSet(ctx, "k", time.Minute, leave)
					f.is(err, context.Canceled)
				})
				synctest.Wait()
				for range 3 {
					all.Go(func() { f.gets(c, "k", "v", value("v")) })
				}
				impatient, stop := context.WithTimeout(f.ctx, time.Second)
				defer stop()
				_, err := c.GetOrSet(impatient, "k", time.Minute, value("not called"))
				f.is(err, context.DeadlineExceeded)
				cancel()
				all.Wait()
			})
		})
	}
}

func TestCallersDoNotShareBytes(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "bytes", CacheOptions{})
		slow := newSlowly("value", nil)
		results := make(chan []byte, 3)
		get := func(load func(context.Context) ([]byte, error)) {
			v, err := c.GetOrSet(f.ctx, "k", time.Minute, load)
			if err != nil {
				f.Error(err)
			}
			results <- v
		}
		go get(slow.load)
		<-slow.begun
		go get(sourceAway)
		go get(sourceAway)
		synctest.Wait()
		close(slow.done)
		for range 3 {
			v := <-results
			if string(v) != "value" {
				f.Errorf("got %q", v)
			}
			clear(v)
		}
		f.has(c, map[string]string{"k": "value"})
	})
}

func sourceAway(context.Context) ([]byte, error) { return nil, errLoad }

func TestCacheThatIsAwayDoesNotKeepFromComputing(t *testing.T) {
	bubble(t, func(f *fixture) {
		net := &network{Engine: f.tap.Engine}
		p, err := Open(f.ctx, net)
		if err != nil {
			f.Fatal(err)
		}
		defer p.Close(f.ctx)
		c := f.cache(p, "away", CacheOptions{Cluster: true})
		net.set(nil, nil, &engine.Error{Op: "query", Reason: engine.ErrUnavailable, Outcome: engine.NotApplied})
		f.gets(c, "k", "v", value("v"))
		net.set(nil, nil, nil)
		f.has(c, map[string]string{"k": ""})
		_, err = c.GetOrSet(f.ctx, "k", time.Minute, func(context.Context) ([]byte, error) {
			net.set(nil, nil, &engine.Error{Op: "exec", Reason: engine.ErrUnavailable, Outcome: engine.NotApplied})
			return []byte("w"), nil
		})
		f.ok(err) // it goes to its caller, though it could not be kept
	})
}

func TestValueThatTookTooLongOrIsTooLargeIsNotKept(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "limits", CacheOptions{MaxValue: 5})
		f.gets(c, "large", "123456", value("123456"))
		f.gets(c, "slow", "v", func(context.Context) ([]byte, error) {
			after(tombstone/2 + time.Microsecond)
			return []byte("v"), nil
		})
		f.has(c, map[string]string{"large": "", "slow": ""})
	})
}

func TestEarlyRefreshIsOnesOwn(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "early", CacheOptions{EarlyRefresh: 1})
		load := func(v string) func(context.Context) ([]byte, error) {
			return func(context.Context) ([]byte, error) {
				after(10 * time.Second)
				return []byte(v), nil
			}
		}
		f.gets(c, "k", "first", load("first"))
		loads := 0
		begin := time.Now()
		for time.Since(begin) < 59*time.Second && loads == 0 {
			_, err := c.GetOrSet(f.ctx, "k", time.Minute, func(ctx context.Context) ([]byte, error) {
				loads++
				return load("second")(ctx)
			})
			f.ok(err)
			after(time.Second)
		}
		// Each try refreshes with the chance exp(-remaining/10 s), so it is as good as
		// certain that one of them did.
		if loads != 1 {
			f.Errorf("%d refreshes", loads)
		}
		f.has(c, map[string]string{"k": "second"})
		// A refresh that fails leaves the value that lives.
		f.set(c, "quick", "v", time.Minute)
		f.gets(c, "quick", "v", failing)
		after(35 * time.Second)
		for range 100 {
			f.gets(c, "k", "second", failing)
		}
	})
}

func TestEarlyRefreshDoesNotHoldUpTheOthers(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "early", CacheOptions{EarlyRefresh: 1000})
		c.opts.EarlyRefresh = 1e12 // leaves nothing to chance
		f.gets(c, "k", "first", func(context.Context) ([]byte, error) { after(time.Second); return []byte("first"), nil })
		slow := newSlowly("second", nil)
		got := make(chan string)
		go func() {
			v, err := c.GetOrSet(f.ctx, "k", time.Minute, slow.load)
			if err != nil {
				f.Error(err)
			}
			got <- string(v)
		}()
		<-slow.begun
		for range 20 {
			f.gets(c, "k", "first", failing)
		}
		close(slow.done)
		if v := <-got; v != "second" {
			f.Errorf("the refreshing caller got %q", v)
		}
		res, err := c.GetMany(f.ctx, "k")
		if err != nil || string(res["k"]) != "second" {
			f.Errorf("kept %q, %v", res["k"], err)
		}
	})
}
