package coordination

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// sweeper removes rows of caches and limiters that nothing reads any more. It is one
// goroutine of the provider, begun with the first cache or limiter.
type sweeper struct {
	every   time.Duration
	quit    chan struct{} // nil before the first cache or limiter
	stopped bool
}

// WithSweep sets how often the provider removes what caches and limiters have left
// behind, overriding the default of a minute; a negative interval means never. The
// pauses vary by a fifth at random. Each time at most a few thousand rows go, and
// only rows that have ended, by the condition by which they would be read. Of a cached
// value something remains for an hour, so that nothing older takes its place.
func WithSweep(interval time.Duration) Option {
	return func(p *Provider) error {
		if interval == 0 {
			return invalid("WithSweep", "is zero")
		}
		p.sweep.every = interval
		return nil
	}
}

// start begins the sweeping, unless it has begun.
func (s *sweeper) start(p *Provider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.quit != nil || s.every < 0 || p.closed {
		return
	}
	if s.every == 0 {
		s.every = time.Minute
	}
	quit := make(chan struct{})
	s.quit = quit
	p.spawnLocked(func(ctx context.Context) {
		for {
			t := time.NewTimer(jittered(s.every, 0.2))
			select {
			case <-t.C:
			case <-quit:
				t.Stop()
				return
			}
			if err := p.sweepOnce(ctx); err != nil && !errors.Is(err, ErrClosed) {
				p.log.Warn("sweep: rows that have ended were not removed", "error", err)
			}
		}
	})
}

// stop ends the sweeping; with Provider.mu held. It may be called again.
func (s *sweeper) stop() {
	if s.quit != nil && !s.stopped {
		close(s.quit)
	}
	s.stopped = true
}

// sweepRows and sweepTurns bound what one sweep removes, and what one transaction
// does, so that others get their turn.
const (
	sweepRows  = 500
	sweepTurns = 10
)

// The condition stands twice: a row that is renewed between the choosing and the
// removing, which only PostgreSQL allows, stays.
const (
	sweepSpacesSQL = `SELECT space FROM quorate_cache WHERE until<=?1 UNION SELECT space FROM quorate_cache_tags WHERE until<=?1 LIMIT 100`
	sweepCacheSQL  = `DELETE FROM quorate_cache WHERE until<=?1 AND space=?2 AND expires=0
AND key IN (SELECT key FROM quorate_cache WHERE until<=?1 AND space=?2 AND expires=0 ORDER BY until LIMIT ?3)`
	// A value leaves a tombstone, so that a computation which began before it still
	// loses: see cache_row.go.
	sweepValuesSQL = `UPDATE quorate_cache SET value='', expires=0, until=?4, took=0 WHERE until<=?1 AND space=?2 AND expires>0
AND key IN (SELECT key FROM quorate_cache WHERE until<=?1 AND space=?2 AND expires>0 ORDER BY until LIMIT ?3)`
	sweepTagsSQL = `DELETE FROM quorate_cache_tags WHERE until<=?1 AND space=?2
AND (tag,key) IN (SELECT tag,key FROM quorate_cache_tags WHERE until<=?1 AND space=?2 ORDER BY until LIMIT ?3)`
	sweepLimitsSQL = `DELETE FROM quorate_limits WHERE tat<=?1
AND (name,key) IN (SELECT name,key FROM quorate_limits WHERE tat<=?1 ORDER BY tat LIMIT ?2)`
)

// sweepOnce removes what has ended, up to the bounds.
func (p *Provider) sweepOnce(ctx context.Context) error {
	res, err := p.ask(ctx, "sweep", "", engine.Weak, statement(sweepSpacesSQL, p.now(0)))
	if err != nil {
		return err
	}
	for i := range res[0].Len() {
		space, _ := res[0].Row(i)[0].Text()
		if err := p.sweepRounds(ctx, space, beginCache(space, 0),
			statement(sweepValuesSQL, p.now(0), engine.Text(space), engine.Int(sweepRows), p.now(tombstone)),
			statement(sweepCacheSQL, p.now(0), engine.Text(space), engine.Int(sweepRows)),
			statement(sweepTagsSQL, p.now(0), engine.Text(space), engine.Int(sweepRows))); err != nil {
			return err
		}
	}
	// It comes last in a request, since it locks rows of many names.
	return p.sweepRounds(ctx, "~", statement(sweepLimitsSQL, p.now(0), engine.Int(sweepRows)))
}

// sweepRounds repeats removals until there is nothing more, up to the bounds.
func (p *Provider) sweepRounds(ctx context.Context, name string, stmts ...engine.Statement) error {
	for range sweepTurns {
		res, err := p.do(ctx, "sweep", name, stmts...)
		if err != nil {
			return err
		}
		more := false
		for i := range res {
			more = more || res[i].RowsAffected == sweepRows
		}
		if !more {
			return nil
		}
	}
	return nil
}
