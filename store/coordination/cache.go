package coordination

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// CacheOptions sets up a [Cache]. The zero value means the defaults.
type CacheOptions struct {
	// StaleFor is how long beyond its end a value may still be served by
	// [Cache.GetOrSet], when a new one cannot be computed. The default is not at all.
	StaleFor time.Duration

	// EarlyRefresh, if positive, lets GetOrSet compute a value anew before its end,
	// at random: the more likely, the nearer the end and the longer the computation
	// takes. So among many readers one refreshes, and none waits at the end. A
	// refresh comes where
	//
	//	remaining <= EarlyRefresh * (time the computation took) * -ln(random in (0,1])
	//
	// which for 1 is optimal: A. Vattani, F. Chierichetti, K. Lowenstein, "Optimal
	// Probabilistic Cache Stampede Prevention", PVLDB 8(8), 2015.
	EarlyRefresh float64

	// Cluster lets one process at a time compute a key, under a [Lock], not just one
	// goroutine of each process. The others wait. If the lock cannot be had, for the
	// database is away, the value is computed all the same. Each key leaves a row of
	// some 100 bytes for ever: not for keys without end.
	Cluster bool

	// ClusterLease is the lease of that lock, which is kept alive. The default is 10 s.
	ClusterLease time.Duration

	// MaxValue is the size of the largest value, in bytes. The default is 1 MiB.
	MaxValue int
}

// Cache keeps values for a time, under keys and tags that are its own: caches of
// other prefixes have others. It is safe for concurrent use. Keys and tags are valid
// UTF-8 without NUL, 1 to 512 bytes, and compared byte by byte; values are any
// bytes. A value is there iff now < its end.
//
// All reads are linearizable: what was set, deleted or invalidated by anybody before
// a read began is seen by it. Ends are judged by the engine's clock; where processes
// do not share one, a value ends for each by its own. Rows of values that have ended
// are removed in the background: see [WithSweep].
type Cache struct {
	p    *Provider
	name string
	opts CacheOptions

	warned atomic.Int64 // when something was logged last

	mu      sync.Mutex
	flights map[flightKey]*loading
}

// Cache returns the cache of that prefix, which is a name as those of elections. All
// processes should give a prefix the same options. Errors are [ErrInvalidName] and
// [ErrInvalid].
func (p *Provider) Cache(prefix string, o CacheOptions) (*Cache, error) {
	if err := checkName("cache", prefix); err != nil {
		return nil, err
	}
	if o.ClusterLease == 0 {
		o.ClusterLease = 10 * time.Second
	}
	if o.MaxValue == 0 {
		o.MaxValue = 1 << 20
	}
	switch {
	case o.StaleFor < 0 || o.StaleFor > maxLease:
		return nil, invalid("CacheOptions.StaleFor", "is not between 0 and a year")
	case !(o.EarlyRefresh >= 0 && o.EarlyRefresh <= 1000):
		return nil, invalid("CacheOptions.EarlyRefresh", "is not between 0 and 1000")
	case o.ClusterLease < 0 || o.ClusterLease > maxLease:
		return nil, invalid("CacheOptions.ClusterLease", "is not between 0 and a year")
	case o.MaxValue < 0:
		return nil, invalid("CacheOptions.MaxValue", "is negative")
	}
	p.sweep.start(p)
	return &Cache{p: p, name: prefix, opts: o, flights: make(map[flightKey]*loading)}, nil
}

// Get returns the value of a key, and false if there is none. Errors are
// [ErrInvalid], and those of the engine in an [*Error].
func (c *Cache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := checkText("key", key); err != nil {
		return nil, false, err
	}
	res, err := c.p.read(ctx, "read cache", c.name, c.getStatement(key))
	if err != nil {
		return nil, false, err
	}
	e, err := c.entry(&res[0])
	if err != nil || !e.live() {
		return nil, false, err
	}
	return e.value, true, nil
}

// GetMany returns the values that are there, by their keys, from one snapshot.
func (c *Cache) GetMany(ctx context.Context, keys ...string) (map[string][]byte, error) {
	found := make(map[string][]byte, len(keys))
	for some := range slices.Chunk(keys, maxGroup/2) {
		stmts := make([]engine.Statement, len(some))
		for i, key := range some {
			if err := checkText("key", key); err != nil {
				return nil, err
			}
			stmts[i] = c.getStatement(key)
		}
		res, err := c.p.read(ctx, "read cache", c.name, stmts...)
		if err != nil {
			return nil, err
		}
		for i, key := range some {
			switch e, err := c.entry(&res[i]); {
			case err != nil:
				return nil, err
			case e.live():
				found[key] = e.value
			}
		}
	}
	return found, nil
}

// Set puts a value in place of what the key has, with all its tags, for the time
// ttl, which is positive and at most a year. It is not sent again if its answer is
// lost, for then it might come after a newer value. Errors are [ErrInvalid],
// [engine.ErrTooLarge], and those of the engine in an [*Error].
func (c *Cache) Set(ctx context.Context, key string, value []byte, ttl time.Duration, tags ...string) error {
	return c.SetMany(ctx, map[string][]byte{key: value}, ttl, tags...)
}

// SetMany is Set of several keys, all or none of them.
func (c *Cache) SetMany(ctx context.Context, values map[string][]byte, ttl time.Duration, tags ...string) error {
	if err := c.checkSet(ttl, tags); err != nil {
		return err
	}
	if len(values) == 0 {
		return ctx.Err()
	}
	stmts := []engine.Statement{c.begin(0)}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := c.checkValue(key, values[key]); err != nil {
			return err
		}
		stmts = append(stmts, c.setStatements(key, values[key], ttl, tags)...)
	}
	_, err := c.p.do(ctx, "set in cache", c.name, stmts...)
	return err
}

// Delete removes keys; those that are not there are no error. A value that was
// being computed when Delete began will not take the place of what was deleted.
func (c *Cache) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return ctx.Err()
	}
	stmts := []engine.Statement{c.begin(0)}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if err := checkText("key", key); err != nil {
			return err
		}
		stmts = append(stmts, c.deleteStatements(key)...)
	}
	return c.invalidate(ctx, stmts)
}

// DeleteTags removes all keys of this cache that have any of the tags. As for
// Delete, values that are being computed with one of them are not kept.
func (c *Cache) DeleteTags(ctx context.Context, tags ...string) error {
	if len(tags) == 0 {
		return ctx.Err()
	}
	stmts := []engine.Statement{c.begin(1)}
	for _, tag := range slices.Sorted(slices.Values(tags)) {
		if err := checkText("tag", tag); err != nil {
			return err
		}
		stmts = append(stmts, c.deleteTagStatements(tag)...)
	}
	return c.invalidate(ctx, stmts)
}

// Clear removes all keys of this cache, and of no other. As for Delete, values that
// are being computed are not kept.
func (c *Cache) Clear(ctx context.Context) error {
	return c.invalidate(ctx, append([]engine.Statement{c.begin(1)}, c.clearStatements()...))
}

// invalidate sends what may safely be sent twice: at worst it removes too much.
// Where the answer is lost it does so again, until it knows or ctx ends, but not
// beyond twice the provider's time limit.
func (c *Cache) invalidate(ctx context.Context, stmts []engine.Statement) error {
	ctx, cancel := context.WithTimeout(ctx, 2*c.p.limit)
	defer cancel()
	for unclear := false; ; {
		_, err := c.p.do(ctx, "invalidate cache", c.name, stmts...)
		outcome := engine.OutcomeOf(err)
		if outcome == engine.Applied {
			return nil
		}
		unclear = unclear || outcome == engine.Unknown
		if !unclear {
			return err
		}
		if !passing(err) || !retry.Sleep(ctx, jittered(100*time.Millisecond, 0.5)) {
			return doubtful(err)
		}
	}
}

func (c *Cache) checkSet(ttl time.Duration, tags []string) error {
	if ttl <= 0 || ttl > maxLease {
		return invalid("ttl", "is not between 0 and a year")
	}
	for _, tag := range tags {
		if err := checkText("tag", tag); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) checkValue(key string, value []byte) error {
	if err := checkText("key", key); err != nil {
		return err
	}
	if len(value) > c.opts.MaxValue {
		return &Error{"set in cache", c.name, unsentTooLarge}
	}
	return nil
}

var unsentTooLarge = &engine.Error{Op: "exec", Outcome: engine.NotApplied, Reason: engine.ErrTooLarge}

// checkText returns a [*NameError] unless every engine can keep the text.
func checkText(kind, text string) error {
	switch {
	case text == "":
		return &NameError{kind, text, "is empty"}
	case len(text) > 512:
		return &NameError{kind, text, "is longer than 512 bytes"}
	case !utf8.ValidString(text):
		return &NameError{kind, text, "is not valid UTF-8"}
	case strings.IndexByte(text, 0) >= 0:
		return &NameError{kind, text, "has a NUL"}
	}
	return nil
}

// Values are texts in the database: those that are texts as they are, the others
// in base64. The first byte tells which, and keeps rqlite from taking a text like
// x'00' for a blob.
const (
	plainValue  = 't'
	base64Value = 'b'
)

func encodeValue(v []byte) string {
	if utf8.Valid(v) && !slices.Contains(v, 0) {
		return string(plainValue) + string(v)
	}
	text := make([]byte, 1+base64.RawStdEncoding.EncodedLen(len(v)))
	text[0] = base64Value
	base64.RawStdEncoding.Encode(text[1:], v)
	return string(text)
}

func decodeValue(text string) ([]byte, bool) {
	switch {
	case text == "":
	case text[0] == plainValue:
		return []byte(text[1:]), true
	case text[0] == base64Value:
		v, err := base64.RawStdEncoding.DecodeString(text[1:])
		return v, err == nil
	}
	return nil, false
}
