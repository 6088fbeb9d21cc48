package coordination

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// lostThenDown loses the answer to the first write; from then on the database is
// away.
func lostThenDown(n int) (error, bool) {
	if n == 0 {
		return errLost, true
	}
	return errDown, false
}

// After a lost answer nobody may say "not applied", whatever the attempts after it
// met.
func TestLostAnswerStaysUnknownWhenTheNextAttemptFails(t *testing.T) {
	limited := func(f *fixture) context.Context {
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		f.Cleanup(cancel)
		return ctx
	}
	for name, call := range map[string]func(f *fixture) func() error{
		"try lock": func(f *fixture) func() error {
			l := f.lock("job", LockOptions{})
			return func() error { _, err := l.TryAcquire(f.ctx); return err }
		},
		"wait for lock": func(f *fixture) func() error {
			l := f.lock("job", LockOptions{})
			return func() error { _, err := l.Acquire(limited(f)); return err }
		},
		"release lock": func(f *fixture) func() error {
			h := f.acquire(f.lock("job", LockOptions{}))
			return func() error { return h.Release(f.ctx) }
		},
		"release read lock": func(f *fixture) func() error {
			h := f.read(f.rwlock(RWLockOptions{}))
			return func() error { return h.Release(f.ctx) }
		},
		"invalidate": func(f *fixture) func() error {
			c := f.cache(f.p, "doubt", CacheOptions{})
			return func() error { return c.Delete(f.ctx, "k") }
		},
		"resign": func(f *fixture) func() error {
			e := f.election(f.p, ElectionOptions{})
			f.stands(e, 0)
			return func() error { return e.release(limited(f), e.Holder(), 1) }
		},
		"resign without a deadline": func(f *fixture) func() error {
			e := f.election(f.p, ElectionOptions{})
			f.stands(e, 0)
			return func() error { return e.release(f.ctx, e.Holder(), 1) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				do := call(f)
				f.tap.spoil(lostThenDown)
				err := do()
				if f.is(err, engine.ErrOutcomeUnknown); engine.OutcomeOf(err) != engine.Unknown || errors.Is(err, engine.ErrNotApplied) {
					f.Errorf("%v: says that nothing was applied", err)
				}
				f.tap.spoil(nil)
			})
		})
	}
}

func TestResignationWithoutAnAnswerDoesNotSayThatItWasSucceeded(t *testing.T) {
	bubble(t, func(f *fixture) {
		a, b := f.election(f.p, ElectionOptions{}), f.election(f.provider(), ElectionOptions{})
		f.stands(a, 0)
		f.tap.spoil(func(n int) (error, bool) {
			if n == 1 { // between the release that worked and the one sent again
				f.tap.spoil(nil)
				f.stands(b, 0)
			}
			return lostOnce(n)
		})
		err := a.release(f.ctx, a.Holder(), 1)
		f.is(err, engine.ErrOutcomeUnknown)
		if errors.Is(err, ErrLost) {
			f.Errorf("%v: it was released in time", err)
		}
	})
}
