package storetest

import (
	"bytes"
	"context"
	"time"

	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/engine"
)

func (c *coord) cache(p *coordination.Provider, prefix string) *coordination.Cache {
	c.Helper()
	k, err := p.Cache(prefix, coordination.CacheOptions{StaleFor: time.Minute})
	c.must(err)
	return k
}

// holds fails unless the cache has the value; an empty one is none.
func (c *coord) holds(k *coordination.Cache, key, want string) {
	c.Helper()
	got, ok, err := k.Get(c.ctx, key)
	if err != nil || ok != (want != "") || string(got) != want {
		c.Errorf("%q has %q, %v, %v, want %q", key, got, ok, err, want)
	}
}

var cacheCases = []coordinationCase{
	{promise: "keys, tags and values of any form are kept", run: func(c *coord) {
		k, other := c.cache(c.p, "forms"), c.cache(c.another(), "forms")
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		values := map[string][]byte{"x'4142'": all, "%": {}, "ä 🚀": []byte("x'00'"), "a'b\"c\\": []byte("\x00"), " ": []byte("null"), "?1": []byte("123")}
		c.must(k.SetMany(c.ctx, values, time.Hour, "x'41'", "?", "'"))
		keys := []string{"absent"}
		for key := range values {
			keys = append(keys, key)
		}
		got, err := other.GetMany(c.ctx, keys...)
		c.must(err)
		if len(got) != len(values) {
			c.Errorf("%d values, want %d", len(got), len(values))
		}
		for key, v := range values {
			if !bytes.Equal(got[key], v) {
				c.Errorf("%q has %q, want %q", key, got[key], v)
			}
		}
		c.must(other.DeleteTags(c.ctx, "x'41'"))
		if got, err = k.GetMany(c.ctx, keys...); err != nil || len(got) != 0 {
			c.Errorf("%d values are left, %v", len(got), err)
		}
	}},
	{promise: "tags and prefixes are exact, and of one cache alone", run: func(c *coord) {
		a, upper, longer := c.cache(c.p, "app"), c.cache(c.p, "APP"), c.cache(c.p, "app:x")
		for _, k := range []*coordination.Cache{a, upper, longer} {
			c.must(k.Set(c.ctx, "k", []byte("v"), time.Hour, "t", "u"))
			c.must(k.Set(c.ctx, "K", []byte("w"), time.Hour, "T"))
		}
		c.must(a.Set(c.ctx, "k", []byte("v2"), time.Hour, "t")) // drops the tag u
		c.must(a.DeleteTags(c.ctx, "u"))
		c.holds(a, "k", "v2")
		c.must(a.DeleteTags(c.ctx, "t"))
		c.holds(a, "k", "")
		c.holds(a, "K", "w")
		c.must(a.Clear(c.ctx))
		c.holds(a, "K", "")
		for _, k := range []*coordination.Cache{upper, longer} {
			c.holds(k, "k", "v")
			c.holds(k, "K", "w")
		}
		c.must(upper.Delete(c.ctx, "k", "absent"))
		c.holds(upper, "k", "")
		c.holds(longer, "k", "v")
	}},
	{promise: "a value is there until just before its end, and serves for a failed load until just before the end of its reserve", run: func(c *coord) {
		p, _, move := c.stopped()
		k := c.cache(p, "ends")
		c.must(k.Set(c.ctx, "k", []byte("v"), time.Second))
		move(time.Second - time.Microsecond)
		c.holds(k, "k", "v")
		move(time.Microsecond)
		c.holds(k, "k", "")
		failing := func(context.Context) ([]byte, error) { return nil, errPlayed }
		move(time.Minute - time.Microsecond)
		if v, err := k.GetOrSet(c.ctx, "k", time.Hour, failing); err != nil || string(v) != "v" {
			c.Errorf("served %q, %v", v, err)
		}
		move(time.Microsecond)
		_, err := k.GetOrSet(c.ctx, "k", time.Hour, failing)
		c.is(err, errPlayed)
	}},
	{promise: "a load that began before a newer fact of another process does not overwrite it", run: func(c *coord) {
		k, other := c.cache(c.p, "facts"), c.cache(c.another(), "facts")
		for _, fact := range []struct {
			do   func() error
			want string
		}{
			{func() error { return other.Set(c.ctx, "k", []byte("new"), time.Hour) }, "new"},
			{func() error { return other.Delete(c.ctx, "k") }, ""},
			{func() error { return other.DeleteTags(c.ctx, "t") }, ""},
			{func() error { return other.Clear(c.ctx) }, ""},
			{func() error { return other.DeleteTags(c.ctx, "u") }, "old"},
		} {
			c.must(k.Clear(c.ctx))
			v, err := k.GetOrSet(c.ctx, "k", time.Hour, func(context.Context) ([]byte, error) {
				c.must(fact.do())
				return []byte("old"), nil
			}, "t")
			if err != nil || string(v) != "old" {
				c.Errorf("the load's caller got %q, %v", v, err)
			}
			c.holds(k, "k", fact.want)
		}
	}},
	{promise: "an invalidation whose answer is lost is made sure of, a value is not sent twice", run: func(c *coord) {
		k := c.cache(c.p, "lost")
		for _, invalidate := range []func() error{
			func() error { return k.Delete(c.ctx, "k") },
			func() error { return k.DeleteTags(c.ctx, "t") },
			func() error { return k.Clear(c.ctx) },
		} {
			for _, f := range []fault{requestLost, answerLost, twiceSecond} {
				c.must(k.Set(c.ctx, "k", []byte("v"), time.Hour, "t"))
				c.tap.play(f)
				c.must(invalidate())
				c.holds(k, "k", "")
			}
		}
		before := c.tap.traffic().execs
		c.tap.play(answerLost)
		c.is(k.Set(c.ctx, "k", []byte("v"), time.Hour), engine.ErrOutcomeUnknown)
		if n := c.tap.traffic().execs - before; n != 1 {
			c.Errorf("a value was sent %d times", n)
		}
	}},
	{promise: "writers of one cache take turns, whatever they write", run: func(c *coord) {
		c.crowd(4, func(p *coordination.Provider) {
			k := c.cache(p, "crowd")
			for i := range 6 {
				key := string(rune('a' + i%3))
				_, err := k.GetOrSet(c.ctx, key, time.Hour, func(context.Context) ([]byte, error) { return nil, nil }, "t", "u")
				c.each(err,
					k.SetMany(c.ctx, map[string][]byte{"c": nil, "a": nil, "b": nil}, time.Millisecond, "u", "t"),
					k.Delete(c.ctx, "b", "a", "c"),
					k.DeleteTags(c.ctx, "u", "t"),
					k.Set(c.ctx, key, nil, time.Hour, "t"),
					k.Clear(c.ctx))
			}
		})
	}},
}

// each fails for each error.
func (c *coord) each(errs ...error) {
	c.Helper()
	for _, err := range errs {
		if err != nil {
			c.Error(err)
		}
	}
}
