package coordination

import (
	"context"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// Rate is what a [Limiter] allows.
type Rate struct {
	// Limit is how much cost a key may have in each Window; at least 1.
	Limit int64
	// Window is the time for Limit, from 1 ms to a year, and at least a microsecond for
	// each unit of Limit.
	Window time.Duration
	// Burst is how much cost a key may have at once, after a rest. The default is
	// Limit. It takes Burst/Limit of a Window to gather.
	Burst int64
}

// Decision is a [Limiter]'s answer.
type Decision struct {
	// Allowed is whether the cost was allowed, and has been charged.
	Allowed bool
	// Limit is the burst: the greatest cost that can ever be allowed at once.
	Limit int64
	// Remaining is how much cost would be allowed now.
	Remaining int64
	// RetryAfter is how long to wait until the same cost could be allowed, if nobody
	// else is; 0 if it was allowed.
	RetryAfter time.Duration
	// ResetAfter is how long it takes until the key is as if never used.
	ResetAfter time.Duration
}

// Limiter limits a rate for each of many keys, over all processes. It is safe for
// concurrent use.
//
// It is the generic cell rate algorithm (ITU-T I.371, virtual scheduling) in whole
// microseconds: each key has a theoretical arrival time, tat. With e = Window/Limit,
// rounded up so that never too much is allowed, a cost c at time now is allowed iff
//
//	max(tat, now) + c*e - now <= Burst*e
//
// and then tat becomes max(tat, now) + c*e. A clock that is set back does not lock
// anybody out: a tat beyond now + Burst*e counts as, and becomes, that.
type Limiter struct {
	p        *Provider
	name     string
	unit     int64 // e, in microseconds
	capacity int64 // Burst*e
	burst    int64
}

// Rows are removed when tat is past: then a key is as if never used. stamp is the
// instant of the last write, granted the cost it charged: 0 if it only corrected a
// tat that was too far ahead.
var limiterDDL = []string{
	`CREATE TABLE IF NOT EXISTS quorate_limits (
	name TEXT NOT NULL,
	key TEXT NOT NULL,
	tat BIGINT NOT NULL,
	stamp BIGINT NOT NULL,
	granted BIGINT NOT NULL,
	PRIMARY KEY (name, key))`,
	`CREATE INDEX IF NOT EXISTS quorate_limits_tat ON quorate_limits (tat)`,
}

// ?3 is now, ?4 now and the charge, ?5 now and the capacity, ?6 the charge, ?7 the
// cost. The row changes if the charge is allowed, or if tat is too far ahead.
const (
	allowSQL = `INSERT INTO quorate_limits (name,key,tat,stamp,granted) VALUES (?1,?2,?4,?3,?7)
ON CONFLICT(name,key) DO UPDATE SET
 tat=CASE WHEN quorate_limits.tat>?5 THEN ?5 WHEN quorate_limits.tat>?3 THEN quorate_limits.tat+?6 ELSE ?4 END,
 granted=CASE WHEN quorate_limits.tat>?5 THEN 0 ELSE ?7 END, stamp=?3
WHERE quorate_limits.tat+?6<=?5 OR quorate_limits.tat<=?3 OR quorate_limits.tat>?5
RETURNING tat,stamp,granted`
	peekSQL  = `SELECT tat-?3 AS gap FROM quorate_limits WHERE name=?1 AND key=?2`
	resetSQL = `DELETE FROM quorate_limits WHERE name=?1 AND key=?2`
)

// Limiter returns the limiter of that name; names are as those of elections. Limiters
// of one name should have one Rate. Errors are [ErrInvalidName] and [ErrInvalid].
func (p *Provider) Limiter(name string, r Rate) (*Limiter, error) {
	if err := checkName("limiter", name); err != nil {
		return nil, err
	}
	if r.Burst == 0 {
		r.Burst = r.Limit
	}
	switch {
	case r.Limit < 1:
		return nil, invalid("Rate.Limit", "is less than 1")
	case r.Window < time.Millisecond || r.Window > maxLease:
		return nil, invalid("Rate.Window", "is not between 1 ms and a year")
	case r.Window.Microseconds() < r.Limit:
		return nil, invalid("Rate.Window", "is less than a microsecond for each unit of Limit")
	case r.Burst < 1:
		return nil, invalid("Rate.Burst", "is less than 1")
	}
	unit := (micros(r.Window) + r.Limit - 1) / r.Limit
	if r.Burst > 100*maxLease.Microseconds()/unit {
		return nil, invalid("Rate.Burst", "takes longer than a hundred years to gather")
	}
	p.sweep.start(p)
	return &Limiter{p: p, name: name, unit: unit, capacity: unit * r.Burst, burst: r.Burst}, nil
}

// Allow asks whether key may have the cost now, and charges it if so; cost is from 1
// to the burst. Keys are as those of a [Cache].
//
// A charge is sent once: if its answer is lost, the error is
// [engine.ErrOutcomeUnknown] and the key may have been charged; sending it again
// could charge it twice. Whether to let the caller through on an error is the
// caller's decision. Errors are [ErrInvalid], and those of the engine in an [*Error].
func (l *Limiter) Allow(ctx context.Context, key string, cost int64) (Decision, error) {
	if err := checkText("key", key); err != nil {
		return Decision{}, err
	}
	if cost < 1 || cost > l.burst {
		return Decision{}, invalid("cost", "is not between 1 and the burst")
	}
	charge := l.unit * cost
	// The name puts the charges of a request in order, as locking rows demands.
	res, err := l.p.do(ctx, "charge limiter", l.name+"/"+key, engine.Statement{SQL: allowSQL, Returning: true, Args: []engine.Value{
		engine.Text(l.name), stored(key), l.p.now(0), l.p.now(time.Duration(charge) * time.Microsecond),
		l.p.now(time.Duration(l.capacity) * time.Microsecond), engine.Int(charge), engine.Int(cost),
	}})
	if err != nil {
		return Decision{}, err
	}
	if res[0].Len() == 0 {
		gap, err := l.gap(ctx, key)
		if err != nil {
			return Decision{}, err
		}
		return l.decide(gap, charge, false), nil
	}
	row := res[0].Row(0)
	tat, _ := row[0].Int()
	stamp, _ := row[1].Int()
	granted, ok := row[2].Int()
	if !ok {
		return Decision{}, &Error{"charge limiter", l.name, errStored}
	}
	return l.decide(tat-stamp, charge, granted > 0), nil
}

// Peek tells what the key may have now, without a charge: Allowed is whether a cost
// of 1 would be allowed.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	if err := checkText("key", key); err != nil {
		return Decision{}, err
	}
	gap, err := l.gap(ctx, key)
	if err != nil {
		return Decision{}, err
	}
	d := l.decide(gap, l.unit, false)
	d.Allowed = d.RetryAfter == 0
	return d, nil
}

// Reset makes the key as if never used.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if err := checkText("key", key); err != nil {
		return err
	}
	_, err := l.p.do(ctx, "reset limiter", l.name, statement(resetSQL, engine.Text(l.name), stored(key)))
	return err
}

// gap returns how far tat is ahead, in microseconds.
func (l *Limiter) gap(ctx context.Context, key string) (int64, error) {
	res, err := l.p.read(ctx, "read limiter", l.name, statement(peekSQL, engine.Text(l.name), stored(key), l.p.now(0)))
	if err != nil || res[0].Len() == 0 {
		return 0, err
	}
	gap, ok := res[0].Values[0].Int()
	if !ok {
		return 0, &Error{"read limiter", l.name, errStored}
	}
	return gap, nil
}

// decide tells of a key whose tat is gap ahead, after the charge if it was allowed.
func (l *Limiter) decide(gap, charge int64, allowed bool) Decision {
	gap = min(max(gap, 0), l.capacity)
	d := Decision{
		Allowed: allowed, Limit: l.burst, Remaining: (l.capacity - gap) / l.unit,
		ResetAfter: time.Duration(gap) * time.Microsecond,
	}
	if !allowed {
		d.RetryAfter = time.Duration(max(gap+charge-l.capacity, 0)) * time.Microsecond
	}
	return d
}
