package coordination

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

var scheduleDDL = []string{
	`CREATE TABLE IF NOT EXISTS quorate_schedules (
	name TEXT PRIMARY KEY,
	fired BIGINT NOT NULL,
	claimed_by TEXT NOT NULL)`,
}

// A claim is two statements: the first wins or does not, the second finds the row
// iff this very claim is in it. So a claim that arrives twice is told that it won
// both times.
const (
	claimSQL = `INSERT INTO quorate_schedules (name,fired,claimed_by) VALUES (?1,?2,?3)
ON CONFLICT(name) DO UPDATE SET fired=excluded.fired, claimed_by=excluded.claimed_by WHERE quorate_schedules.fired<excluded.fired`
	claimedSQL  = `UPDATE quorate_schedules SET claimed_by=?3 WHERE name=?1 AND fired=?2 AND claimed_by=?3`
	baselineSQL = `INSERT INTO quorate_schedules (name,fired,claimed_by) VALUES (?1,?2,'') ON CONFLICT(name) DO NOTHING`
	firedSQL    = `SELECT fired FROM quorate_schedules WHERE name=?1`
)

// Schedule gives each moment of a series to one process. It is safe for concurrent
// use. A [Runner] does the rest of a periodic job.
type Schedule struct {
	p    *Provider
	name string
}

// Schedule returns the schedule of that name; names are as those of elections.
// The error is [ErrInvalidName].
func (p *Provider) Schedule(name string) (*Schedule, error) {
	if err := checkName("schedule", name); err != nil {
		return nil, err
	}
	return &Schedule{p, name}, nil
}

// Claim asks for the moment due, to the microsecond. It returns true to one caller,
// of all that ask in all processes, and only if no later moment was claimed
// before. No clock is read: whether it is time is the caller's business.
//
// Claiming comes before the work: whoever has claimed and crashes, has claimed.
// So a moment is worked on at most once.
//
// A claim whose answer is lost is sent again, until ctx ends or twice the
// provider's time limit has passed, and told truly. Only if that does not lead to
// an answer, or a later moment has been claimed since, the error is
// [engine.ErrOutcomeUnknown]. All other errors mean that this call has claimed
// nothing: those of the engine, and [ErrInvalid] for a time before 1970 or after
// the year 9999.
func (s *Schedule) Claim(ctx context.Context, due time.Time) (bool, error) {
	if due.Unix() < 0 || due.Year() > 9999 {
		return false, invalid("due", "is not between 1970 and 9999")
	}
	const op = "claim schedule"
	args := []engine.Value{engine.Text(s.name), engine.Int(due.UnixMicro()), engine.Text(rand.Text())}
	callers := ctx
	ctx, cancel := context.WithTimeout(ctx, 2*s.p.limit)
	defer cancel()
	unclear := false
	for {
		res, err := s.p.do(ctx, op, s.name, engine.Statement{SQL: claimSQL, Args: args}, engine.Statement{SQL: claimedSQL, Args: args})
		switch {
		case err == nil && (res[1].RowsAffected > 0 || !unclear):
			return res[1].RowsAffected > 0, nil
		case err == nil:
			fired, _, err := s.LastFired(ctx)
			if err == nil && fired.Equal(due.Truncate(time.Microsecond)) {
				return false, nil // another's: ours would have been found
			}
			return false, s.unknown(callers, op, errors.Join(err, errOvertaken))
		case engine.OutcomeOf(err) == engine.NotApplied && !unclear:
			return false, err
		}
		unclear = true
		if !passing(err) || !retry.Sleep(ctx, jittered(100*time.Millisecond, 0.5)) {
			return false, s.unknown(callers, op, err)
		}
	}
}

var errOvertaken = errors.New("a later moment was claimed before it was known what became of this claim")

// unknown is the failure of a claim that may have won. What the last attempt met is
// told in words only, since that one may not have been applied.
func (s *Schedule) unknown(ctx context.Context, op string, last error) error {
	err := errors.New(last.Error())
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %v", cause, last)
	}
	return &Error{op, s.name, &engine.Error{Op: "exec", Outcome: engine.Unknown, Err: err}}
}

// LastFired returns the latest moment that was claimed, or where the runner that
// saw the schedule first began, and false if there is neither.
func (s *Schedule) LastFired(ctx context.Context) (time.Time, bool, error) {
	res, err := s.p.read(ctx, "read schedule", s.name, engine.Statement{SQL: firedSQL, Args: []engine.Value{engine.Text(s.name)}})
	if err != nil || res[0].Len() == 0 {
		return time.Time{}, false, err
	}
	us, ok := res[0].Values[0].Int()
	if !ok {
		return time.Time{}, false, &Error{"read schedule", s.name, errStored}
	}
	return time.UnixMicro(us).UTC(), true, nil
}

// baseline marks a schedule that nobody has seen yet as fired at this moment, and
// returns what it was fired at last.
func (s *Schedule) baseline(ctx context.Context, at time.Time) (time.Time, error) {
	fired, ok, err := s.LastFired(ctx)
	if ok || err != nil {
		return fired, err
	}
	// Nothing is lost by sending it twice: it only ever fills a gap.
	if _, err = s.p.do(ctx, "begin schedule", s.name, engine.Statement{SQL: baselineSQL, Args: []engine.Value{
		engine.Text(s.name), engine.Int(at.UnixMicro()),
	}}); err != nil {
		return time.Time{}, err
	}
	fired, _, err = s.LastFired(ctx)
	return fired, err
}
