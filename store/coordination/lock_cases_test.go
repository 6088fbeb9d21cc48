package coordination

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// TestCO02_RenewalFromNonHolderIsRefused: neither another's token nor one of an
// earlier hold renews or releases, and the holder's deadline does not move.
func TestCO02_RenewalFromNonHolderIsRefused(t *testing.T) {
	inBubble(t, func(f *fixture) {
		l := f.lock("job", LockOptions{Lease: time.Second})
		old := f.acquire(l)
		after(time.Second)
		synctest.Wait()
		h := f.acquire(l)
		token, fence, version, deadline := f.row("job")
		after(100 * time.Millisecond)
		for _, stranger := range []string{"stranger", old.token, ""} {
			for _, st := range []engine.Statement{
				f.p.lockRenew("job", stranger, time.Hour), f.p.lockRelease("job", stranger, 0), f.p.lockRelease("job", stranger, time.Hour),
			} {
				res, err := f.p.do(f.ctx, "test", "job", st)
				if err != nil || res[0].RowsAffected != 0 {
					t.Errorf("token %q: %v, %v", stranger, res, err)
				}
			}
		}
		f.is(old.Renew(f.ctx), ErrLost)
		if tok, fen, ver, dead := f.row("job"); tok != token || fen != fence || ver != version || dead != deadline {
			t.Errorf("the row changed: %s %d %d %d, was %s %d %d %d", tok, fen, ver, dead, token, fence, version, deadline)
		}
		f.ok(h.Release(f.ctx))
	})
}

// TestCO04_ClocksThatDiffer: without a shared clock, processes whose clocks are
// twenty minutes apart, one of which is set back an hour while it holds, never hold
// together, keep what they renew, and take over from the dead within two leases.
func TestCO04_ClocksThatDiffer(t *testing.T) {
	bubble(t, func(f *fixture) {
		var skew [2]atomic.Int64
		providers := make([]*Provider, 2)
		for i, minutes := range []time.Duration{-10, 10} {
			skew[i].Store(int64(minutes * time.Minute / time.Microsecond))
			clock := func(p *Provider) error {
				p.clock = func() int64 { return time.Now().UnixMicro() + skew[i].Load() }
				return nil
			}
			providers[i] = f.provider(WithoutSharedClock(), clock)
		}
		const lease = 10 * time.Second
		for holder := range providers {
			rival := providers[1-holder]
			l := f.lockOf(providers[holder], "job", LockOptions{Lease: lease, KeepAlive: true})
			h := f.acquire(l)
			ctx, cancel := context.WithTimeout(f.ctx, 5*lease)
			time.AfterFunc(2*lease, func() { skew[holder].Add(-int64(time.Hour / time.Microsecond)) })
			_, err := f.lockOf(rival, "job", LockOptions{Lease: lease}).Acquire(ctx)
			cancel()
			f.is(err, ErrTimeout)
			if !h.Valid() {
				t.Error("lost because a clock was set")
			}
			// It dies: nobody renews any longer.
			f.p.keepNoMore(&h.hold)
			h.p.keepNoMore(&h.hold)
			died := time.Now()
			got, err := f.lockOf(rival, "job", LockOptions{Lease: lease}).Acquire(f.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(died); took > 2*lease {
				t.Errorf("takeover took %v", took)
			}
			if h.Valid() {
				t.Error("two holders at once")
			}
			f.ok(got.Release(f.ctx))
		}
	})
}

// TestCO06_OneWinnerEachRound: 32 contenders for a lock that expires for all of
// them at the same moment, or that nobody ever had.
func TestCO06_OneWinnerEachRound(t *testing.T) {
	var clock atomic.Int64
	bubble(t, func(f *fixture) {
		providers := []*Provider{f.p, f.provider(func(p *Provider) error { p.clock = clock.Load; return nil })}
		for round := range 100 {
			var won, lost atomic.Int64
			var wg sync.WaitGroup
			for i := range 32 {
				l := f.lockOf(providers[i%2], fmt.Sprint("job-", round/50), LockOptions{Lease: time.Second})
				wg.Go(func() {
					switch _, err := l.TryAcquire(f.ctx); {
					case err == nil:
						won.Add(1)
					default:
						f.is(err, ErrWouldBlock)
						lost.Add(1)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 || lost.Load() != 31 {
				t.Fatalf("round %d: %d winners, %d losers", round, won.Load(), lost.Load())
			}
			clock.Add(1_000_000)
		}
	}, func(p *Provider) error { p.clock = clock.Load; return nil })
}

// TestCO12_ExpiryRemovesNothingThatIsAlive: 100 readers of names that share
// prefixes renew at the last moment while others' requests reap what has expired.
// Nothing alive goes, and what is dead does.
func TestCO12_ExpiryRemovesNothingThatIsAlive(t *testing.T) {
	var clock atomic.Int64
	bubble(t, func(f *fixture) {
		const lease = time.Second
		reader := func(name string) *ReadHeld {
			l, err := f.p.RWLock(name, RWLockOptions{Lease: lease})
			if err != nil {
				t.Fatal(err)
			}
			return f.read(l)
		}
		var kept, dead []*ReadHeld
		for i := range 50 {
			name := fmt.Sprint("a/", i%5)
			kept, dead = append(kept, reader(name)), append(dead, reader(name+"x"))
		}
		for range 5 {
			clock.Add(999_998)
			var wg sync.WaitGroup
			for i, h := range kept {
				wg.Go(func() { f.ok(h.Renew(f.ctx)) })
				wg.Go(func() {
					l, err := f.p.RWLock(fmt.Sprint("a/", i%5), RWLockOptions{Lease: lease})
					f.ok(err)
					_, err = l.TryAcquireWrite(f.ctx)
					f.is(err, ErrWouldBlock)
				})
			}
			wg.Wait()
			clock.Add(1) // the last moment at which those that were just renewed would have been alive
			// The sweep is that of the next who wants the name.
			for i := range 5 {
				l, err := f.p.RWLock(fmt.Sprint("a/", i), RWLockOptions{Lease: lease})
				f.ok(err)
				_, err = l.TryAcquireWrite(f.ctx)
				f.is(err, ErrWouldBlock)
			}
		}
		for _, h := range kept {
			f.ok(h.Release(f.ctx))
		}
		for _, h := range dead {
			f.is(h.Release(f.ctx), ErrLost)
		}
	}, func(p *Provider) error { p.clock = clock.Load; return nil })
}
