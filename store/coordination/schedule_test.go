package coordination

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
)

func (f *fixture) schedule(p *Provider, name string) *Schedule {
	f.Helper()
	s, err := p.Schedule(name)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// claims fails unless the claim ends as wanted.
func (f *fixture) claims(s *Schedule, due time.Time, want bool) {
	f.Helper()
	if won, err := s.Claim(f.ctx, due); err != nil || won != want {
		f.Errorf("claim of %v: %v, %v, want %v", due, won, err, want)
	}
}

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func TestClaimGoesToLaterMomentsOnly(t *testing.T) {
	bubble(t, func(f *fixture) {
		s, other := f.schedule(f.p, "report"), f.schedule(f.p, "Report")
		if _, ok, err := s.LastFired(f.ctx); ok || err != nil {
			f.Errorf("fired before the first claim: %v", err)
		}
		f.claims(s, noon, true)
		f.claims(s, noon, false)
		f.claims(s, noon.Add(-time.Microsecond), false)
		f.claims(s, noon.Add(time.Microsecond), true)
		f.claims(s, noon.Add(time.Microsecond+time.Nanosecond), false) // the same microsecond
		f.claims(other, noon, true)
		if at, ok, err := s.LastFired(f.ctx); err != nil || !ok || !at.Equal(noon.Add(time.Microsecond)) {
			f.Errorf("last fired %v, %v, %v", at, ok, err)
		}
	})
}

func TestClaimRefusesBadInput(t *testing.T) {
	bubble(t, func(f *fixture) {
		s := f.schedule(f.p, "report")
		for _, due := range []time.Time{{}, time.Unix(-1, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			_, err := s.Claim(f.ctx, due)
			f.is(err, ErrInvalid)
		}
		_, err := f.p.Schedule("no spaces")
		f.is(err, ErrInvalidName)
	})
}

func TestClaimHasOneWinner(t *testing.T) {
	bubble(t, func(f *fixture) {
		var wins atomic.Int32
		var all sync.WaitGroup
		for i := range 20 {
			p := f.p
			if i%2 == 1 {
				p = f.provider()
			}
			all.Go(func() {
				won, err := f.schedule(p, "report").Claim(f.ctx, noon)
				if err != nil {
					f.Error(err)
				}
				if won {
					wins.Add(1)
				}
			})
		}
		all.Wait()
		if wins.Load() != 1 {
			f.Errorf("%d winners", wins.Load())
		}
	})
}

func TestClaimDoesNotLieAfterALostAnswer(t *testing.T) {
	bubble(t, func(f *fixture) {
		s := f.schedule(f.p, "report")
		f.tap.spoil(lostOnce)
		f.claims(s, noon, true) // had won
		f.tap.spoil(func(n int) (error, bool) { return errLost, n > 0 })
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		if won, err := s.Claim(ctx, noon.Add(time.Second)); won || engine.OutcomeOf(err) != engine.Unknown {
			f.Errorf("without an answer: %v, %v", won, err)
		}
		f.tap.spoil(lostOnce)
		f.claims(s, noon.Add(time.Second), false) // that was applied after all, so this has lost
		// Lost before it arrived; meanwhile nobody claims.
		f.tap.spoil(func(n int) (error, bool) {
			if n == 0 {
				return errLost, false
			}
			return nil, true
		})
		f.claims(s, noon.Add(2*time.Second), true)
		// The answer is lost, and another claims the moment after.
		f.tap.spoil(func(n int) (error, bool) {
			if n == 0 {
				return errLost, true
			}
			return nil, true
		})
		time.AfterFunc(time.Microsecond, func() {
			if _, err := f.tap.Engine.Exec(f.ctx, []engine.Statement{statement(`UPDATE quorate_schedules SET fired=fired+1000000, claimed_by='other'`)}); err != nil {
				f.Error(err)
			}
		})
		won, err := s.Claim(f.ctx, noon.Add(3*time.Second))
		if won || engine.OutcomeOf(err) != engine.Unknown {
			f.Errorf("overtaken: %v, %v", won, err)
		}
		// Down means not applied, and that is said.
		f.tap.spoil(down)
		_, err = s.Claim(f.ctx, noon.Add(time.Hour))
		f.is(err, engine.ErrNotApplied)
		f.is(err, engine.ErrUnavailable)
	})
}

func TestClaimThatArrivesTwiceHasWon(t *testing.T) {
	bubble(t, func(f *fixture) {
		p, err := Open(f.ctx, &twice{f.tap.Engine})
		if err != nil {
			f.Fatal(err)
		}
		defer p.Close(f.ctx)
		s := f.schedule(p, "report")
		f.claims(s, noon, true)
		f.claims(s, noon, false)
	})
}

// twice applies every write twice and tells the second answer, as a node may that
// passes it on.
type twice struct{ engine.Engine }

func (e *twice) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if _, err := e.Engine.Exec(ctx, stmts); err != nil {
		return nil, err
	}
	return e.Engine.Exec(ctx, stmts)
}

func TestBaselineIsSetOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		s := f.schedule(f.p, "report")
		for _, at := range []time.Time{noon, noon.Add(time.Hour), noon.Add(-time.Hour)} {
			if fired, err := s.baseline(f.ctx, at); err != nil || !fired.Equal(noon) {
				f.Errorf("baseline %v, %v", fired, err)
			}
		}
	})
}
