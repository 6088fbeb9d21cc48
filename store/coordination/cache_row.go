package coordination

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// How the newer fact always wins, over all processes.
//
// A computation must not be stored if its key was set or deleted, one of its tags
// invalidated, or the cache cleared, since it began. So whatever a computation
// begins from, an absent row or one that has ended, it notes two numbers, and its
// result is stored only if they still hold:
//
//   - the version of the key's row: a random number that every write renews, or 0
//     where there is no row. A deletion leaves a row without a value, a tombstone; so
//     does the sweep of a value that has ended.
//   - the greatest mark of its tags. Invalidations of a cache are counted, in a row
//     whose tag and key are empty; an invalidated tag has a row with an empty key and
//     that count as its mark. Clear marks the tag *, which no caller's tag is, since
//     those are stored behind a slash, as are keys.
//
// Tombstones and marks are kept for an hour, so a computation that takes longer than
// half of that is never stored.
const tombstone = time.Hour

// clearedTag is the tag that every key has.
const clearedTag = "*"

var cacheDDL = []string{
	`CREATE TABLE IF NOT EXISTS quorate_cache (
	space TEXT NOT NULL,
	key TEXT NOT NULL,
	value TEXT NOT NULL,
	expires BIGINT NOT NULL,
	until BIGINT NOT NULL,
	took BIGINT NOT NULL,
	version BIGINT NOT NULL,
	PRIMARY KEY (space, key))`,
	`CREATE INDEX IF NOT EXISTS quorate_cache_until ON quorate_cache (until)`,
	`CREATE TABLE IF NOT EXISTS quorate_cache_tags (
	space TEXT NOT NULL,
	tag TEXT NOT NULL,
	key TEXT NOT NULL,
	mark BIGINT NOT NULL,
	until BIGINT NOT NULL,
	PRIMARY KEY (space, tag, key))`,
	`CREATE INDEX IF NOT EXISTS quorate_cache_tags_key ON quorate_cache_tags (space, key)`,
	`CREATE INDEX IF NOT EXISTS quorate_cache_tags_until ON quorate_cache_tags (until)`,
}

const (
	cacheGetSQL = `SELECT value,expires,until,took,version,expires-?3 AS remaining,until-?3 AS reserve FROM quorate_cache WHERE space=?1 AND key=?2`

	cacheSetSQL = `INSERT INTO quorate_cache (space,key,value,expires,until,took,version) VALUES (?1,?2,?3,?4,?5,?6,?7)
ON CONFLICT(space,key) DO UPDATE SET value=excluded.value, expires=excluded.expires, until=excluded.until, took=excluded.took, version=excluded.version`
	cacheUntagSQL = `DELETE FROM quorate_cache_tags WHERE space=?1 AND key=?2`
	cacheTagSQL   = `INSERT INTO quorate_cache_tags (space,tag,key,mark,until) VALUES (?1,?2,?3,0,?4)
ON CONFLICT(space,tag,key) DO UPDATE SET until=excluded.until`

	// The count of invalidations. All that writes begins with it, counted or not, so
	// that on PostgreSQL the writers of a cache take turns and do not deadlock.
	cacheCountSQL = `INSERT INTO quorate_cache_tags (space,tag,key,mark,until) VALUES (?1,'','',?2,?3)
ON CONFLICT(space,tag,key) DO UPDATE SET mark=quorate_cache_tags.mark+excluded.mark`
	cacheMarkSQL = `INSERT INTO quorate_cache_tags (space,tag,key,mark,until)
SELECT space,?2,'',mark,?3 FROM quorate_cache_tags WHERE space=?1 AND tag='' AND key=''
ON CONFLICT(space,tag,key) DO UPDATE SET mark=excluded.mark, until=excluded.until`
	cacheBuryTaggedSQL = `UPDATE quorate_cache SET value='', expires=0, until=?3, took=0, version=?4
WHERE space=?1 AND key IN (SELECT key FROM quorate_cache_tags WHERE space=?1 AND tag=?2 AND key<>'')`
	cacheUntagAllSQL = `DELETE FROM quorate_cache_tags WHERE space=?1 AND tag=?2 AND key<>''`
	cacheClearSQL    = `DELETE FROM quorate_cache WHERE space=?1`
	cacheClearTags   = `DELETE FROM quorate_cache_tags WHERE space=?1 AND key<>''`

	cacheUntagMineSQL = cacheUntagSQL + ` AND EXISTS (SELECT 1 FROM quorate_cache WHERE space=?1 AND key=?2 AND version=?3)`
	cacheTagMineSQL   = `INSERT INTO quorate_cache_tags (space,tag,key,mark,until)
SELECT space,?4,key,0,until FROM quorate_cache WHERE space=?1 AND key=?2 AND version=?3
ON CONFLICT(space,tag,key) DO UPDATE SET until=excluded.until`
)

// entry is a row as one request saw it; the zero entry is no row.
type entry struct {
	value     []byte
	expires   int64
	version   int64
	took      time.Duration
	remaining time.Duration // until the value ends
	reserve   time.Duration // until it cannot even serve for want of another
	mark      int64         // the greatest of its tags
}

func (e *entry) live() bool { return e.expires != 0 && e.remaining > 0 }

// spare reports whether the value may serve where no other can be had.
func (e *entry) spare() bool { return e.expires != 0 && e.reserve > 0 }

func stored(text string) engine.Value { return engine.Text("/" + text) }

func (c *Cache) space() engine.Value { return engine.Text(c.name) }

func statement(sql string, args ...engine.Value) engine.Statement {
	return engine.Statement{SQL: sql, Args: args}
}

// nonce returns the version of one write.
func nonce() engine.Value { return engine.Int(1 + rand.Int64N(math.MaxInt64)) }

func (c *Cache) getStatement(key string) engine.Statement {
	return statement(cacheGetSQL, c.space(), stored(key), c.p.now(0))
}

func (c *Cache) entry(res *engine.Result) (entry, error) {
	if res.Len() == 0 {
		return entry{}, nil
	}
	row := res.Row(0)
	var e entry
	text, ok := row[0].Text()
	var n [7]int64
	for i := 1; i < len(n); i++ {
		var isInt bool
		n[i], isInt = row[i].Int()
		ok = ok && isInt
	}
	if ok && n[1] != 0 {
		e.value, ok = decodeValue(text)
	}
	if !ok {
		return entry{}, &Error{"read cache", c.name, errStored}
	}
	e.expires, e.version, e.took = n[1], n[4], time.Duration(n[3])*time.Microsecond
	e.remaining, e.reserve = time.Duration(n[5])*time.Microsecond, time.Duration(n[6])*time.Microsecond
	return e, nil
}

func (c *Cache) setStatements(key string, value []byte, ttl time.Duration, tags []string) []engine.Statement {
	until := c.p.now(ttl + c.opts.StaleFor)
	stmts := make([]engine.Statement, 0, 2+len(tags))
	stmts = append(stmts,
		statement(cacheSetSQL, c.space(), stored(key), engine.Text(encodeValue(value)), c.p.now(ttl), until, engine.Int(0), nonce()),
		statement(cacheUntagSQL, c.space(), stored(key)))
	for _, tag := range tags {
		stmts = append(stmts, statement(cacheTagSQL, c.space(), stored(tag), stored(key), until))
	}
	return stmts
}

func (c *Cache) deleteStatements(key string) []engine.Statement {
	return []engine.Statement{
		statement(cacheSetSQL, c.space(), stored(key), engine.Text(""), engine.Int(0), c.p.now(tombstone), engine.Int(0), nonce()),
		statement(cacheUntagSQL, c.space(), stored(key)),
	}
}

// begin is the first statement of all that writes; n is 1 for an invalidation.
func (c *Cache) begin(n int64) engine.Statement { return beginCache(c.name, n) }

func beginCache(space string, n int64) engine.Statement {
	return statement(cacheCountSQL, engine.Text(space), engine.Int(n), engine.Int(math.MaxInt64))
}

func (c *Cache) markStatement(tag engine.Value) engine.Statement {
	return statement(cacheMarkSQL, c.space(), tag, c.p.now(tombstone))
}

func (c *Cache) deleteTagStatements(tag string) []engine.Statement {
	return []engine.Statement{
		c.markStatement(stored(tag)),
		statement(cacheBuryTaggedSQL, c.space(), stored(tag), c.p.now(tombstone), nonce()),
		statement(cacheUntagAllSQL, c.space(), stored(tag)),
	}
}

func (c *Cache) clearStatements() []engine.Statement {
	return []engine.Statement{
		c.markStatement(engine.Text(clearedTag)),
		statement(cacheClearSQL, c.space()),
		statement(cacheClearTags, c.space()),
	}
}

// marked is the condition of rows that are marks of a computation's tags, which
// are the parameters from number first on.
func marked(tags, first int) string {
	var b strings.Builder
	b.WriteString("space=?1 AND key='' AND tag IN ('" + clearedTag + "'")
	for i := range tags {
		b.WriteString(",?")
		b.WriteString(strconv.Itoa(first + i))
	}
	b.WriteByte(')')
	return b.String()
}

// marksStatement reads what a computation notes beside its row.
func (c *Cache) marksStatement(tags []string) engine.Statement {
	args := make([]engine.Value, 1, 1+len(tags))
	args[0] = c.space()
	for _, tag := range tags {
		args = append(args, stored(tag))
	}
	return engine.Statement{SQL: "SELECT COALESCE(max(mark),0) AS mark FROM quorate_cache_tags WHERE " + marked(len(tags), 2), Args: args}
}

// keepStatements stores the result of a computation that began from e, unless
// there is a newer fact. The second of them tells whether it did.
func (c *Cache) keepStatements(key string, value []byte, e *entry, took, ttl time.Duration, tags []string) []engine.Statement {
	version := nonce()
	sql := `INSERT INTO quorate_cache (space,key,value,expires,until,took,version)
SELECT ?1,?2,?3,?4,?5,?6,?7 WHERE NOT EXISTS (SELECT 1 FROM quorate_cache_tags WHERE mark>?8 AND ` + marked(len(tags), 10) + `)
ON CONFLICT(space,key) DO UPDATE SET value=excluded.value, expires=excluded.expires, until=excluded.until, took=excluded.took, version=excluded.version
WHERE quorate_cache.version=?9`
	args := make([]engine.Value, 0, 9+len(tags))
	args = append(args, c.space(), stored(key), engine.Text(encodeValue(value)), c.p.now(ttl), c.p.now(ttl+c.opts.StaleFor),
		engine.Int(max(1, micros(took))), version, engine.Int(e.mark), engine.Int(e.version))
	for _, tag := range tags {
		args = append(args, stored(tag))
	}
	stmts := make([]engine.Statement, 0, 3+len(tags))
	stmts = append(stmts, c.begin(0), engine.Statement{SQL: sql, Args: args}, statement(cacheUntagMineSQL, c.space(), stored(key), version))
	for _, tag := range tags {
		stmts = append(stmts, statement(cacheTagMineSQL, c.space(), stored(key), version, stored(tag)))
	}
	return stmts
}
