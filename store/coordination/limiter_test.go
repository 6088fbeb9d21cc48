package coordination

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
)

func (f *fixture) limiter(p *Provider, r Rate) *Limiter {
	f.Helper()
	l, err := p.Limiter("api", r)
	if err != nil {
		f.Fatal(err)
	}
	return l
}

func (f *fixture) allows(l *Limiter, key string, cost int64, want bool) Decision {
	f.Helper()
	d, err := l.Allow(f.ctx, key, cost)
	if err != nil || d.Allowed != want {
		f.Errorf("%d for %q: %+v, %v, want %v", cost, key, d, err, want)
	}
	return d
}

func TestLimiterTellsExactly(t *testing.T) {
	bubble(t, func(f *fixture) {
		l := f.limiter(f.p, Rate{Limit: 10, Window: time.Second})
		for _, step := range []struct {
			wait time.Duration
			cost int64
			want Decision
		}{
			{0, 1, Decision{true, 10, 9, 0, 100 * time.Millisecond}},
			{0, 8, Decision{true, 10, 1, 0, 900 * time.Millisecond}},
			{0, 2, Decision{false, 10, 1, 100 * time.Millisecond, 900 * time.Millisecond}},
			{0, 10, Decision{false, 10, 1, 900 * time.Millisecond, 900 * time.Millisecond}},
			{100*time.Millisecond - time.Microsecond, 2, Decision{false, 10, 1, time.Microsecond, 800*time.Millisecond + time.Microsecond}},
			{time.Microsecond, 2, Decision{true, 10, 0, 0, time.Second}},
			{0, 1, Decision{false, 10, 0, 100 * time.Millisecond, time.Second}},
			{10 * time.Second, 10, Decision{true, 10, 0, 0, time.Second}},
		} {
			after(step.wait)
			if d, err := l.Allow(f.ctx, "k", step.cost); err != nil || d != step.want {
				f.Errorf("cost %d: %+v, %v, want %+v", step.cost, d, err, step.want)
			}
		}
	})
}

func TestLimiterKeysArePeekedAndResetAlone(t *testing.T) {
	bubble(t, func(f *fixture) {
		l := f.limiter(f.p, Rate{Limit: 2, Window: time.Second})
		peek := func(key string, want Decision) {
			f.Helper()
			if d, err := l.Peek(f.ctx, key); err != nil || d != want {
				f.Errorf("peek %q: %+v, %v, want %+v", key, d, err, want)
			}
		}
		fresh := Decision{true, 2, 2, 0, 0}
		peek("a", fresh)
		peek("a", fresh)
		f.allows(l, "a", 2, true)
		peek("a", Decision{false, 2, 0, 500 * time.Millisecond, time.Second})
		f.allows(l, "b", 1, true)
		f.allows(l, "A", 2, true)
		f.ok(l.Reset(f.ctx, "a"))
		f.ok(l.Reset(f.ctx, "absent"))
		peek("a", fresh)
		peek("b", Decision{true, 2, 1, 0, 500 * time.Millisecond})
		after(500 * time.Millisecond)
		peek("A", Decision{true, 2, 1, 0, 500 * time.Millisecond})
	})
}

func TestLimiterNeverAllowsTooMuch(t *testing.T) {
	// 7 does not divide the window, so a unit is rounded, to the safe side.
	bubble(t, func(f *fixture) {
		l := f.limiter(f.p, Rate{Limit: 7, Window: time.Second, Burst: 3})
		allowed := 0
		for begin := time.Now(); time.Since(begin) < 10*time.Second; after(10 * time.Millisecond) {
			if d, err := l.Allow(f.ctx, "k", 1); err != nil {
				f.Fatal(err)
			} else if d.Allowed {
				allowed++
			}
		}
		if allowed > 73 || allowed < 72 {
			f.Errorf("%d in 10 s, want 3 at once and 7 in each second", allowed)
		}
	})
}

func TestLimiterIsOneForAllProcesses(t *testing.T) {
	bubble(t, func(f *fixture) {
		var allowed atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			l := f.limiter(f.provider(), Rate{Limit: 50, Window: time.Hour})
			for range 25 {
				all.Go(func() {
					d, err := l.Allow(f.ctx, "k", 1)
					if err != nil {
						f.Error(err)
					}
					if d.Allowed {
						allowed.Add(1)
					}
				})
			}
		}
		all.Wait()
		if n := allowed.Load(); n != 50 {
			f.Errorf("%d of 100 were allowed, want 50", n)
		}
	})
}

func TestLimiterSurvivesAClockThatIsSetBack(t *testing.T) {
	bubble(t, func(f *fixture) {
		var now atomic.Int64
		now.Store(time.Now().UnixMicro())
		f.p.clock = now.Load
		l := f.limiter(f.p, Rate{Limit: 10, Window: time.Second})
		f.allows(l, "k", 5, true)
		now.Add(-time.Hour.Microseconds())
		if d, err := l.Peek(f.ctx, "k"); err != nil || d.Allowed || d.ResetAfter != time.Second {
			f.Errorf("peek after the step: %+v, %v", d, err)
		}
		f.allows(l, "k", 1, false) // nobody knows how much time has passed
		now.Add(100_000)
		f.allows(l, "k", 1, true)
		now.Add(time.Second.Microseconds())
		f.allows(l, "k", 10, true)
	})
}

func TestLimiterChargeIsSentOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		l := f.limiter(f.p, Rate{Limit: 10, Window: time.Minute})
		f.tap.spoil(lostOnce)
		_, err := l.Allow(f.ctx, "k", 4)
		f.is(err, engine.ErrOutcomeUnknown)
		if n := f.tap.writes(); n != 1 {
			f.Errorf("sent %d times", n)
		}
		if d := f.allows(l, "k", 1, true); d.Remaining != 5 {
			f.Errorf("charged more than once: %+v", d)
		}
	})
}

func TestLimiterRefusesBadInput(t *testing.T) {
	bubble(t, func(f *fixture) {
		for want, r := range map[string]Rate{
			"Rate.Limit":  {Window: time.Second},
			"Rate.Window": {Limit: 1001, Window: time.Millisecond},
			"Rate.Burst":  {Limit: 1, Window: maxLease, Burst: 101},
		} {
			_, err := f.p.Limiter("x", r)
			var inv *InvalidError
			if !errors.As(err, &inv) || inv.Field != want || !errors.Is(err, ErrInvalid) {
				f.Errorf("%s: %v", want, err)
			}
		}
		for _, r := range []Rate{{Limit: 1}, {Limit: 1, Window: -1}, {Limit: 1, Window: math.MaxInt64}, {Limit: 1, Window: time.Second, Burst: -1}} {
			_, err := f.p.Limiter("x", r)
			f.is(err, ErrInvalid)
		}
		_, err := f.p.Limiter("", Rate{Limit: 1, Window: time.Second})
		f.is(err, ErrInvalidName)
		l := f.limiter(f.p, Rate{Limit: 10, Window: time.Second})
		f.tap.spoil(nil)
		for _, cost := range []int64{0, -1, 11, math.MaxInt64} {
			_, err := l.Allow(f.ctx, "k", cost)
			f.is(err, ErrInvalid)
		}
		for _, key := range []string{"", "\xff", "a\x00"} {
			_, err := l.Allow(f.ctx, key, 1)
			f.is(err, ErrInvalid)
			_, err = l.Peek(f.ctx, key)
			f.is(err, ErrInvalid)
			f.is(l.Reset(f.ctx, key), ErrInvalid)
		}
		if n := f.tap.writes(); n != 0 {
			f.Errorf("%d requests were sent", n)
		}
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		_, err = l.Allow(ctx, "k", 1)
		f.is(err, engine.ErrNotApplied)
		f.is(err, context.Canceled)
	})
}

// TestLimiterAgreesWithItsFormula compares decisions with the algorithm as it is
// written down.
func TestLimiterAgreesWithItsFormula(t *testing.T) {
	bubble(t, func(f *fixture) {
		for i, r := range []Rate{{Limit: 3, Window: time.Second}, {Limit: 1000, Window: time.Millisecond}, {Limit: 5, Window: time.Minute, Burst: 2}, {Limit: 2, Window: time.Second, Burst: 9}} {
			l := f.limiter(f.p, r)
			key, tat := fmt.Sprint(i), int64(math.MinInt64)
			for step := range 200 {
				cost := 1 + int64(step*7%int(min(l.burst, 5)))
				now := time.Now().UnixMicro()
				next := max(tat, now) + cost*l.unit
				want := next-now <= l.burst*l.unit
				if want {
					tat = next
				}
				d := f.allows(l, key, cost, want)
				if want && d.ResetAfter != time.Duration(tat-now)*time.Microsecond || !want && d.RetryAfter != time.Duration(next-now-l.burst*l.unit)*time.Microsecond {
					f.Fatalf("%+v, step %d: %+v", r, step, d)
				}
				after(time.Duration(step*step%17) * time.Duration(l.unit) / 8 * time.Microsecond)
			}
		}
	})
}
