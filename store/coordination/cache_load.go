package coordination

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// flightKey names what a computation begins from. Callers share one only if they
// saw the same: who comes after an invalidation must not get what was computed
// before it.
type flightKey struct {
	key           string
	version, mark int64
}

// loading is a computation that others wait for. It runs on the goroutine of the
// caller that began it, so its panics end there. If that caller leaves, one of the
// others takes over. (singleflight would let all of them fail with the first.)
type loading struct {
	done  chan struct{}
	left  bool // its caller left before there was a result
	value []byte
	err   error
}

// GetOrSet returns the value of a key. If there is none, it calls load and keeps
// what that returns for the time ttl with these tags. Of concurrent callers in the
// process, or with [CacheOptions.Cluster] in all processes, one calls load and the
// others wait for it, until their ctx ends.
//
// The newer fact wins: if meanwhile the key is set or deleted, one of the tags
// deleted, or the cache cleared, by any process, then what load returns goes to
// those who wait for it, and is not kept. The same holds for a load that takes
// more than half an hour, and for one whose result is too large to keep.
//
// An error of load is returned to all who wait, unless the value that ended less
// than [CacheOptions.StaleFor] ago may serve once more. If the database is away,
// the value is computed and not kept. So errors are those of load, the context's,
// and [ErrInvalid].
func (c *Cache) GetOrSet(ctx context.Context, key string, ttl time.Duration, load func(ctx context.Context) ([]byte, error), tags ...string) ([]byte, error) {
	if err := c.checkSet(ttl, tags); err != nil {
		return nil, err
	}
	if err := checkText("key", key); err != nil {
		return nil, err
	}
	if load == nil {
		return nil, invalid("load", "is nil")
	}
	for {
		e, err := c.peek(ctx, key, tags)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			c.warn("cache: computed without it", err)
			return load(ctx)
		}
		early := e.live()
		if early && !c.early(&e) {
			return e.value, nil
		}
		id := flightKey{key, e.version, e.mark}
		l, mine := c.join(id)
		switch {
		case mine:
			return c.run(ctx, id, l, &e, ttl, load, tags)
		case early:
			return e.value, nil // another refreshes it
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !l.left {
			return slices.Clone(l.value), l.err
		}
	}
}

// early reports whether to refresh a value that lives.
func (c *Cache) early(e *entry) bool {
	beta := c.opts.EarlyRefresh
	return beta > 0 && e.took > 0 && float64(e.remaining) <= -float64(e.took)*beta*math.Log(1-rand.Float64())
}

// peek reads the key and the marks of the tags.
func (c *Cache) peek(ctx context.Context, key string, tags []string) (entry, error) {
	res, err := c.p.read(ctx, "read cache", c.name, c.getStatement(key), c.marksStatement(tags))
	if err != nil {
		return entry{}, err
	}
	e, err := c.entry(&res[0])
	if err != nil {
		return entry{}, err
	}
	mark, ok := res[1].Values[0].Int()
	if !ok {
		return entry{}, &Error{"read cache", c.name, errStored}
	}
	e.mark = mark
	return e, nil
}

func (c *Cache) join(id flightKey) (l *loading, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l = c.flights[id]; l != nil {
		return l, false
	}
	l = &loading{done: make(chan struct{}), left: true}
	c.flights[id] = l
	return l, true
}

// run computes for all who wait, and tells them.
func (c *Cache) run(ctx context.Context, id flightKey, l *loading, seen *entry, ttl time.Duration, load func(context.Context) ([]byte, error), tags []string) ([]byte, error) {
	defer func() {
		c.mu.Lock()
		delete(c.flights, id)
		c.mu.Unlock()
		close(l.done)
	}()
	value, err := c.compute(ctx, id.key, seen, ttl, load, tags)
	if err == nil || ctx.Err() == nil {
		l.value, l.err, l.left = value, err, false
		value = slices.Clone(value)
	}
	return value, err
}

// compute computes a key in place of seen, a value that has ended or is about to.
func (c *Cache) compute(ctx context.Context, key string, seen *entry, ttl time.Duration, load func(context.Context) ([]byte, error), tags []string) ([]byte, error) {
	if c.opts.Cluster {
		held, err := c.lockKey(ctx, key)
		switch {
		case err == nil:
			defer func() {
				if err := held.Release(context.WithoutCancel(ctx)); err != nil {
					c.warn("cache: the lock of a key was not released", err)
				}
			}()
		case ctx.Err() != nil:
			return nil, err
		default:
			c.warn("cache: computed without the lock", err)
		}
	}
	// Others may have computed it since it was read.
	e, err := c.peek(ctx, key, tags)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		e = *seen
	case e.live() && e.version != seen.version:
		return e.value, nil
	}
	began := time.Now()
	value, err := load(ctx)
	if err != nil {
		if e.spare() && c.still(ctx, key, &e, tags) {
			c.warn("cache: an older value serves in place of one that could not be computed", err)
			return e.value, nil
		}
		return nil, err
	}
	took := time.Since(began)
	if took > tombstone/2 || len(value) > c.opts.MaxValue {
		c.warn("cache: a value is not kept", fmt.Errorf("it has %d bytes and took %v", len(value), took))
		return value, nil
	}
	if _, err := c.p.do(ctx, "keep in cache", c.name, c.keepStatements(key, value, &e, took, ttl, tags)...); err != nil && ctx.Err() == nil {
		c.warn("cache: a value was not kept", err)
	}
	return value, nil
}

// warn logs what no caller is told, at most once in logEvery.
func (c *Cache) warn(what string, err error) {
	now := time.Now().UnixNano()
	if last := c.warned.Load(); now-last >= int64(logEvery) && c.warned.CompareAndSwap(last, now) {
		c.p.log.Warn(what, "cache", c.name, "error", err)
	}
}

// still reports whether e is still the newest that is known of the key.
func (c *Cache) still(ctx context.Context, key string, e *entry, tags []string) bool {
	now, err := c.peek(ctx, key, tags)
	return err == nil && now.version == e.version && now.mark == e.mark && now.spare()
}

// lockKey takes the lock of a key.
func (c *Cache) lockKey(ctx context.Context, key string) (*Held, error) {
	sum := sha256.Sum256([]byte(c.name + "\x00" + key))
	l, err := c.p.Lock("cache/"+hex.EncodeToString(sum[:16]), LockOptions{Lease: c.opts.ClusterLease, KeepAlive: true})
	if err != nil {
		return nil, err
	}
	return l.Acquire(ctx)
}
