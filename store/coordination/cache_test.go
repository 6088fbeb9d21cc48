package coordination

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

func (f *fixture) cache(p *Provider, prefix string, o CacheOptions) *Cache {
	f.Helper()
	c, err := p.Cache(prefix, o)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fixture) set(c *Cache, key, value string, ttl time.Duration, tags ...string) {
	f.Helper()
	if err := c.Set(f.ctx, key, []byte(value), ttl, tags...); err != nil {
		f.Fatal(err)
	}
}

// has fails unless the cache has these values of keys; an empty one is none.
func (f *fixture) has(c *Cache, want map[string]string) {
	f.Helper()
	for key, v := range want {
		got, ok, err := c.Get(f.ctx, key)
		if err != nil || ok != (v != "") || string(got) != v {
			f.Errorf("%s/%s: %q, %v, %v, want %q", c.name, key, got, ok, err, v)
		}
	}
}

func (f *fixture) count(table string) int64 {
	f.Helper()
	res, err := f.tap.Engine.Query(f.ctx, engine.Linearizable, []engine.Statement{{SQL: "SELECT count(*) FROM " + table}})
	if err != nil {
		f.Fatal(err)
	}
	n, _ := res[0].Values[0].Int()
	return n
}

func TestCacheKeepsAnyBytes(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "bytes", CacheOptions{})
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		values := map[string][]byte{"all": all, "empty": {}, "text": []byte("ä x'00'"), "hex": []byte("x'4142'"), "nul": []byte("a\x00b"), "b64": []byte("bAAAA")}
		for i := range 256 {
			values[fmt.Sprint("one-", i)] = []byte{byte(i)}
		}
		f.ok(c.SetMany(f.ctx, values, time.Minute))
		keys := []string{"absent"}
		for key := range values {
			keys = append(keys, key)
		}
		got, err := c.GetMany(f.ctx, keys...)
		if err != nil || len(got) != len(values) {
			f.Fatalf("%d values, %v", len(got), err)
		}
		for key, v := range values {
			one, ok, err := c.Get(f.ctx, key)
			if err != nil || !ok || !bytes.Equal(one, v) || !bytes.Equal(got[key], v) {
				f.Errorf("%s: %q and %q, %v, want %q", key, one, got[key], err, v)
			}
		}
		if got, err := c.GetMany(f.ctx); err != nil || len(got) != 0 {
			f.Errorf("no keys give %v, %v", got, err)
		}
		f.ok(c.SetMany(f.ctx, nil, time.Minute))
	})
}

func TestCacheEntryEndsExactlyAtItsTime(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "ends", CacheOptions{StaleFor: time.Hour})
		f.set(c, "k", "v", time.Second)
		after(time.Second - time.Microsecond)
		f.has(c, map[string]string{"k": "v"})
		after(time.Microsecond)
		f.has(c, map[string]string{"k": ""})
		f.set(c, "k", "w", time.Second)
		f.has(c, map[string]string{"k": "w"})
	})
}

func TestCacheKeysAndTagsAreOfTheirPrefix(t *testing.T) {
	bubble(t, func(f *fixture) {
		a, upper, longer := f.cache(f.p, "app", CacheOptions{}), f.cache(f.p, "APP", CacheOptions{}), f.cache(f.p, "app:x", CacheOptions{})
		all := []*Cache{a, upper, longer}
		fill := func() {
			for _, c := range all {
				f.set(c, "k", "v", time.Minute, "t", "u")
				f.set(c, "K", "V", time.Minute, "T")
				f.set(c, "%", "w", time.Minute)
			}
		}
		fill()
		f.ok(a.DeleteTags(f.ctx, "t", "absent"))
		f.has(a, map[string]string{"k": "", "K": "V", "%": "w"})
		f.has(upper, map[string]string{"k": "v", "K": "V", "%": "w"})
		f.has(longer, map[string]string{"k": "v", "K": "V", "%": "w"})
		fill()
		f.ok(a.Delete(f.ctx, "%", "absent"))
		f.has(a, map[string]string{"k": "v", "K": "V", "%": ""})
		fill()
		f.ok(a.Clear(f.ctx))
		f.has(a, map[string]string{"k": "", "K": "", "%": ""})
		f.has(upper, map[string]string{"k": "v", "K": "V", "%": "w"})
		f.has(longer, map[string]string{"k": "v", "K": "V", "%": "w"})
		f.ok(a.Delete(f.ctx))
		f.ok(a.DeleteTags(f.ctx))
	})
}

func TestSetReplacesTheTags(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "tags", CacheOptions{})
		f.set(c, "k", "1", time.Minute, "old", "kept", "kept")
		f.set(c, "k", "2", time.Minute, "kept", "*")
		f.ok(c.DeleteTags(f.ctx, "old"))
		f.has(c, map[string]string{"k": "2"})
		f.ok(c.DeleteTags(f.ctx, "kept"))
		f.has(c, map[string]string{"k": ""})
		f.set(c, "k", "3", time.Minute)
		f.ok(c.DeleteTags(f.ctx, "kept", "*"))
		f.has(c, map[string]string{"k": "3"})
		f.ok(c.Delete(f.ctx, "k"))
		f.set(c, "k", "4", time.Minute)
		f.has(c, map[string]string{"k": "4"})
	})
}

func TestCacheRefusesBadInput(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "input", CacheOptions{MaxValue: 10})
		for _, key := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 513)} {
			_, _, err := c.Get(f.ctx, key)
			f.is(err, ErrInvalid)
			_, err = c.GetMany(f.ctx, "ok", key)
			f.is(err, ErrInvalid)
			f.is(c.Set(f.ctx, key, nil, time.Second), ErrInvalid)
			f.is(c.Set(f.ctx, "k", nil, time.Second, key), ErrInvalid)
			f.is(c.Delete(f.ctx, key), ErrInvalid)
			f.is(c.DeleteTags(f.ctx, key), ErrInvalid)
			_, err = c.GetOrSet(f.ctx, key, time.Second, func(context.Context) ([]byte, error) { return nil, nil })
			f.is(err, ErrInvalid)
		}
		for _, ttl := range []time.Duration{0, -1, math.MaxInt64} {
			f.is(c.Set(f.ctx, "k", nil, ttl), ErrInvalid)
		}
		f.is(c.Set(f.ctx, "k", make([]byte, 11), time.Second), engine.ErrTooLarge)
		f.ok(c.Set(f.ctx, "k", make([]byte, 10), time.Second))
		_, err := c.GetOrSet(f.ctx, "k", time.Second, nil)
		f.is(err, ErrInvalid)
		for _, o := range []CacheOptions{{StaleFor: -1}, {EarlyRefresh: -1}, {EarlyRefresh: math.NaN()}, {ClusterLease: -1}, {MaxValue: -1}} {
			_, err := f.p.Cache("x", o)
			f.is(err, ErrInvalid)
		}
		_, err = f.p.Cache("no spaces", CacheOptions{})
		f.is(err, ErrInvalidName)
	})
}

func TestInvalidationIsSentAgainAfterALostAnswer(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "lost", CacheOptions{})
		f.set(c, "k", "v", time.Minute, "t")
		f.tap.spoil(func(n int) (error, bool) {
			if n == 0 {
				return errLost, false
			}
			return nil, true
		})
		f.ok(c.DeleteTags(f.ctx, "t"))
		f.has(c, map[string]string{"k": ""})
		f.tap.spoil(lostOnce)
		err := c.Set(f.ctx, "k", []byte("w"), time.Minute)
		f.is(err, engine.ErrOutcomeUnknown) // a value is not sent again
		f.tap.spoil(func(int) (error, bool) { return errLost, true })
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		if err := c.Clear(ctx); !errors.Is(err, engine.ErrOutcomeUnknown) {
			f.Errorf("without an answer: %v", err)
		}
	})
}

func TestSweepRemovesWhatHasEndedAndNothingElse(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "sweep", CacheOptions{StaleFor: time.Minute})
		f.set(c, "short", "v", time.Second, "t")
		f.set(c, "long", "v", time.Hour, "t")
		f.ok(c.Delete(f.ctx, "gone"))
		f.ok(c.DeleteTags(f.ctx, "u"))
		l := f.limiter(f.p, Rate{Limit: 10, Window: time.Minute})
		f.allows(l, "k", 1, true)
		after(61*time.Second - time.Microsecond)
		f.ok(f.p.sweepOnce(f.ctx))
		if n := f.count("quorate_cache"); n != 3 {
			f.Errorf("%d rows just before the end of one", n)
		}
		after(time.Microsecond)
		f.ok(f.p.sweepOnce(f.ctx))
		if n, tags, limits := f.count("quorate_cache"), f.count("quorate_cache_tags"), f.count("quorate_limits"); n != 3 || tags != 3 || limits != 0 {
			f.Errorf("%d rows, %d tags and %d limits at the end of one", n, tags, limits)
		}
		if n := f.count("quorate_cache WHERE expires>0"); n != 1 {
			f.Errorf("%d values at the end of one", n)
		}
		after(3 * time.Hour) // what the background does; the last value leaves a tombstone for one of them
		f.has(c, map[string]string{"long": ""})
		if n, tags := f.count("quorate_cache"), f.count("quorate_cache_tags"); n != 0 || tags != 1 {
			f.Errorf("%d rows and %d tags after all have ended", n, tags)
		}
	})
}

func TestSweepIsBounded(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.p.sweep.every = -1
		c := f.cache(f.p, "sweep", CacheOptions{})
		values := make(map[string][]byte)
		for i := range sweepRows*sweepTurns + 10 {
			values[fmt.Sprint(i)] = nil
		}
		f.ok(c.SetMany(f.ctx, values, time.Second))
		after(time.Minute)
		f.ok(f.p.sweepOnce(f.ctx))
		if n := f.count("quorate_cache WHERE expires>0"); n != 10 {
			f.Errorf("%d values left", n)
		}
	})
}

func TestCO12_SweepNeverRemovesWhatIsRenewed(t *testing.T) {
	bubble(t, func(f *fixture) {
		c := f.cache(f.p, "renewed", CacheOptions{})
		other := f.cache(f.p, "renewed:2", CacheOptions{})
		ctx, stop := context.WithCancel(f.ctx)
		swept := make(chan int)
		go func() {
			n := 0
			for retry.Sleep(ctx, time.Millisecond) {
				if err := f.p.sweepOnce(ctx); err != nil && ctx.Err() == nil {
					f.Error(err)
				}
				n++
			}
			swept <- n
		}()
		for i := range 200 {
			f.set(c, "k", "v", 10*time.Millisecond, "t") // ends as it is renewed, at the last moment
			f.set(other, "k", "v", time.Millisecond)
			after(10*time.Millisecond - time.Microsecond)
			f.has(c, map[string]string{"k": "v"})
			if i%10 == 0 {
				f.ok(c.DeleteTags(f.ctx, "t"))
				f.has(c, map[string]string{"k": ""})
			}
		}
		stop()
		if n := <-swept; n < 1000 {
			f.Errorf("swept %d times only", n)
		}
	})
}
