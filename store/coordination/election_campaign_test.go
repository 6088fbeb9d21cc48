package coordination

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// network is an engine behind a network: requests and answers take time, or get
// lost.
type network struct {
	engine.Engine
	mu      sync.Mutex
	there   func() time.Duration // nil is no time
	back    func() time.Duration
	failure error // of everything
}

func (n *network) set(there, back func() time.Duration, failure error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.there, n.back, n.failure = there, back, failure
}

func (n *network) travel(ctx context.Context, write bool, f func() ([]engine.Result, error)) ([]engine.Result, error) {
	n.mu.Lock()
	there, back, failure := n.there, n.back, n.failure
	n.mu.Unlock()
	outcome := engine.NotApplied
	for i, d := range []func() time.Duration{there, back} {
		if i == 1 {
			if failure != nil {
				return nil, failure
			}
			res, err := f()
			if err != nil || back == nil {
				return res, err
			}
			if write {
				outcome = engine.Unknown
			}
			if !retry.Sleep(ctx, d()) {
				return nil, &engine.Error{Op: "exec", Outcome: outcome, Err: ctx.Err()}
			}
			return res, nil
		}
		if d != nil && !retry.Sleep(ctx, d()) {
			if write {
				outcome = engine.Unknown
				go f() // it arrives all the same
			}
			return nil, &engine.Error{Op: "exec", Outcome: outcome, Err: ctx.Err()}
		}
	}
	panic("unreachable")
}

func (n *network) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	return n.travel(ctx, true, func() ([]engine.Result, error) { return n.Engine.Exec(context.WithoutCancel(ctx), stmts) })
}

func (n *network) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	return n.travel(ctx, false, func() ([]engine.Result, error) { return n.Engine.Query(ctx, level, stmts) })
}

func constant(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

var (
	errAway    = &engine.Error{Op: "exec", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable}
	errForGood = &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: &engine.StatementError{Message: "no such table: quorate_elections"}}
)

// voter is a candidate in a process of its own, behind a network of its own.
type voter struct {
	*Election
	net    *network
	cancel context.CancelFunc
	ended  chan error
}

func (f *fixture) voter(id string, o ElectionOptions, opts ...Option) *voter {
	f.Helper()
	v := &voter{net: &network{Engine: f.tap.Engine}, ended: make(chan error, 1)}
	p, err := Open(f.ctx, v.net, opts...)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = p.Close(context.WithoutCancel(f.ctx)) })
	o.ID = id
	v.Election = f.election(p, o)
	return v
}

// campaign lets the voter campaign until the test ends, or v.cancel is called.
func (f *fixture) campaign(v *voter) *voter {
	ctx, cancel := context.WithCancel(f.ctx)
	v.cancel = cancel
	go func() { v.ended <- v.Campaign(ctx) }()
	f.Cleanup(cancel)
	return v
}

// watch fails if two of the voters believe in themselves at any moment of d.
func (f *fixture) watch(d time.Duration, voters ...*voter) (leaders []string) {
	f.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); after(5 * time.Millisecond) {
		leading := ""
		for _, v := range voters {
			if !v.IsLeader() {
				continue
			}
			if leading != "" {
				f.Fatalf("%s and %s lead at once", leading, v.opts.ID)
			}
			leading = v.opts.ID
		}
		if leading != "" && (len(leaders) == 0 || leaders[len(leaders)-1] != leading) {
			leaders = append(leaders, leading)
		}
	}
	return leaders
}

var second = ElectionOptions{Lease: time.Second}

func TestOneOfManyLeads(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var voters []*voter
		for i := range 10 {
			voters = append(voters, f.campaign(f.voter(fmt.Sprint("v", i), second, f.same()...)))
		}
		if leaders := f.watch(10*time.Second, voters...); len(leaders) != 1 {
			f.Errorf("led: %v", leaders)
		}
	})
}

// same are the options of the fixture's own provider.
func (f *fixture) same() []Option {
	if f.p.noSharedClock {
		return []Option{WithoutSharedClock()}
	}
	return nil
}

func TestReleaseHandsOverWithinARetry(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.campaign(f.voter("a", ElectionOptions{}, f.same()...))
		after(10 * time.Millisecond)
		b := f.campaign(f.voter("b", ElectionOptions{}, f.same()...))
		after(5 * time.Second)
		term, ok := a.Term()
		if !ok || b.IsLeader() {
			f.Fatal("a does not lead")
		}
		a.cancel()
		f.is(<-a.ended, context.Canceled)
		if a.IsLeader() {
			f.Error("a leads after its campaign")
		}
		after(2500 * time.Millisecond)
		next, ok := b.Term()
		if !ok || next.Number != term.Number+1 || next.Transitions != 1 {
			f.Errorf("b leads: %v, %+v after %+v", ok, next, term)
		}
	})
}

func TestDeadLeaderIsSucceededOnTime(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.campaign(f.voter("a", second, f.same()...))
		after(10 * time.Millisecond)
		b := f.campaign(f.voter("b", second, f.same()...))
		after(3 * time.Second)
		a.net.set(nil, nil, errAway)
		limit := 1200 * time.Millisecond
		if f.p.noSharedClock {
			limit = 2200 * time.Millisecond // it is known only that the row did not change
		}
		start := time.Now()
		if leaders := f.watch(limit, a, b); len(leaders) != 2 || !b.IsLeader() {
			f.Errorf("led in %v: %v", time.Since(start), leaders)
		}
	})
}

func TestCO03_NoChangeOfLeaderOverASlowNetwork(t *testing.T) {
	inBubble(t, func(f *fixture) {
		latency := func() time.Duration { return time.Duration(rand.Int64N(int64(100 * time.Millisecond))) }
		a, b := f.voter("a", second, f.same()...), f.voter("b", second, f.same()...)
		for _, v := range []*voter{a, b} {
			v.net.set(latency, latency, nil)
		}
		f.campaign(a)
		after(time.Second)
		f.campaign(b)
		if leaders := f.watch(time.Minute, a, b); len(leaders) != 1 || leaders[0] != "a" {
			f.Errorf("led: %v", leaders)
		}
	})
}

func TestCO03_TimeCountsFromTheRequestNotFromTheAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.campaign(f.voter("a", second, f.same()...))
		after(10 * time.Millisecond)
		b := f.campaign(f.voter("b", second, f.same()...))
		after(3 * time.Second)
		// Renewals are applied, but their answers come after a second and a half.
		a.net.set(nil, constant(1500*time.Millisecond), nil)
		from := time.Now()
		for a.IsLeader() {
			after(time.Millisecond)
		}
		// The last renewal that was answered may have been sent just before.
		if d := time.Since(from); d > a.opts.RenewDeadline+time.Millisecond {
			f.Errorf("a believed in itself for %v after its last answer", d)
		}
		f.watch(10*time.Second, a, b)
	})
}

func TestCO03_LeaderCutOffStopsBeforeItsRivalBegins(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.campaign(f.voter("a", second, f.same()...))
		after(10 * time.Millisecond)
		b := f.campaign(f.voter("b", second, f.same()...))
		after(3 * time.Second)
		hour := constant(time.Hour)
		a.net.set(hour, nil, nil)
		if leaders := f.watch(5*time.Second, a, b); len(leaders) != 2 {
			f.Errorf("led while a was cut off: %v", leaders)
		}
		a.net.set(nil, nil, nil)
		if leaders := f.watch(5*time.Second, a, b); len(leaders) != 1 || leaders[0] != "b" {
			f.Errorf("led after a came back: %v", leaders)
		}
	})
}

func TestCO04_LeadersOfDifferentClocks(t *testing.T) {
	bubble(t, func(f *fixture) {
		a, b := f.voter("a", second, WithoutSharedClock()), f.voter("b", second, WithoutSharedClock())
		skew := new(atomic.Int64)
		skew.Store(10 * time.Minute.Microseconds())
		a.p.clock = func() int64 { return time.Now().UnixMicro() - skew.Load() }
		b.p.clock = func() int64 { return time.Now().UnixMicro() + skew.Load() }
		f.campaign(a)
		after(time.Second)
		f.campaign(b)
		if leaders := f.watch(30*time.Second, a, b); len(leaders) != 1 || leaders[0] != "a" {
			f.Errorf("led: %v", leaders)
		}
		skew.Add(time.Hour.Microseconds()) // they are set, in opposite directions
		if leaders := f.watch(30*time.Second, a, b); len(leaders) != 1 || leaders[0] != "a" {
			f.Errorf("led after the clocks were set: %v", leaders)
		}
		a.net.set(nil, nil, errAway)
		if leaders := f.watch(2*time.Second, a, b); len(leaders) != 2 {
			f.Errorf("led in the two leases after a was cut off: %v", leaders)
		}
	})
}

func TestErrorsAreSurvivedUntilTheRenewDeadline(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.campaign(f.voter("a", ElectionOptions{Jitter: -1}, f.same()...))
		after(time.Second) // the next renewal is at 2 s
		term, ok := a.Term()
		a.net.set(nil, nil, errAway)
		after(9*time.Second - time.Microsecond)
		if now, still := a.Term(); !ok || !still || now != term {
			f.Error("a gave up before its deadline")
		}
		after(time.Microsecond)
		if a.IsLeader() {
			f.Error("a leads at exactly its deadline")
		}
		a.net.set(nil, nil, nil)
		after(3 * time.Second)
		if now, ok := a.Term(); !ok || now.Number != term.Number+1 {
			f.Errorf("a leads %+v after the outage: %v", now, ok)
		}
	})
}

func TestCO07_LossIsSignalledAndTheCampaignGoesOn(t *testing.T) {
	removed := func(f *fixture, a *voter) {
		if _, err := f.tap.Engine.Exec(f.ctx, []engine.Statement{{SQL: `DELETE FROM quorate_elections`}}); err != nil {
			f.Fatal(err)
		}
	}
	cut := func(f *fixture, a *voter) {
		a.net.set(nil, nil, errAway)
		time.AfterFunc(10*time.Second, func() { a.net.set(nil, nil, nil) })
	}
	permanent := func(f *fixture, a *voter) {
		a.net.set(nil, nil, errForGood)
		time.AfterFunc(1100*time.Millisecond, func() { a.net.set(nil, nil, nil) })
	}
	for name, harm := range map[string]func(*fixture, *voter){"row removed": removed, "database away": cut, "permanent error": permanent} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				a := f.voter("a", second, f.same()...)
				type led struct {
					term Term
					ctx  context.Context
				}
				terms := make(chan led)
				ctx, stop := context.WithCancel(f.ctx)
				ended := make(chan error, 1)
				go func() {
					ended <- a.Lead(ctx, func(ctx context.Context, t Term) error {
						terms <- led{t, ctx}
						<-ctx.Done()
						return nil
					})
				}()
				first := <-terms
				for range 3 {
					after(1500 * time.Millisecond)
					if first.ctx.Err() != nil {
						f.Fatal("the term ended without a cause")
					}
					harm(f, a)
					harmed := time.Now()
					<-first.ctx.Done()
					if d := time.Since(harmed); d > time.Second || !errors.Is(context.Cause(first.ctx), ErrLost) {
						f.Errorf("the context ended after %v: %v", d, context.Cause(first.ctx))
					}
					next := <-terms
					if next.term.Number <= first.term.Number {
						f.Errorf("term %d after term %d", next.term.Number, first.term.Number)
					}
					first = next
				}
				stop()
				f.is(<-ended, context.Canceled)
			})
		})
	}
}

func TestLeadReturnsWhatItsFunctionReturns(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.voter("a", second, f.same()...)
		errOwn := errors.New("own")
		type key struct{}
		got := a.Lead(context.WithValue(f.ctx, key{}, "kept"), func(ctx context.Context, term Term) error {
			if !a.IsLeader() || term.Number != 1 || ctx.Value(key{}) != "kept" {
				f.Errorf("leads %v, term %+v, value %v", a.IsLeader(), term, ctx.Value(key{}))
			}
			after(5 * time.Second) // the lease is renewed meanwhile
			return errOwn
		})
		if got != errOwn {
			f.Errorf("got %v", got)
		}
		if _, ok, err := a.Leader(f.ctx); ok || err != nil || a.IsLeader() {
			f.Errorf("the lease was not released: %v, %v", ok, err)
		}
	})
}

func TestLeadRenewsUntilItsFunctionHasReturned(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.voter("a", second, f.same()...)
		ctx, stop := context.WithCancel(f.ctx)
		begun, working, ended := make(chan struct{}), atomic.Bool{}, make(chan error, 1)
		go func() {
			ended <- a.Lead(ctx, func(ctx context.Context, _ Term) error {
				working.Store(true)
				close(begun)
				<-ctx.Done()
				after(7 * time.Second) // takes long to come to its end
				working.Store(false)
				return nil
			})
		}()
		<-begun
		b := f.campaign(f.voter("b", second, f.same()...))
		stop()
		for !b.IsLeader() {
			after(10 * time.Millisecond)
		}
		if working.Load() {
			f.Error("b leads while a still works")
		}
		f.is(<-ended, context.Canceled)
	})
}

func TestLeadReleasesWhenItsFunctionPanics(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.voter("a", second, f.same()...)
		func() {
			defer func() {
				if v := recover(); v != "mine" {
					f.Errorf("recovered %v", v)
				}
			}()
			_ = a.Lead(f.ctx, func(context.Context, Term) error { panic("mine") })
		}()
		if _, ok, err := a.Leader(f.ctx); ok || err != nil {
			f.Errorf("the lease was not released: %v, %v", ok, err)
		}
	})
}

func TestFlagIsClearedBeforeTheReleaseIsSent(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var leading []bool
		v := f.voter("a", second, f.same()...)
		spy := &spyEngine{Engine: f.tap.Engine, seen: func(sql string) {
			if sql == vacateSQL {
				leading = append(leading, v.IsLeader())
			}
		}}
		v.p.eng = spy
		f.campaign(v)
		after(time.Second)
		f.ok(v.Resign(f.ctx))
		after(3 * time.Second)
		if !v.IsLeader() {
			f.Error("does not lead again")
		}
		v.cancel()
		<-v.ended
		if len(leading) != 2 || leading[0] || leading[1] {
			f.Errorf("led while the releases were sent: %v", leading)
		}
	})
}

type spyEngine struct {
	engine.Engine
	seen func(sql string)
}

func (e *spyEngine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	for i := range stmts {
		e.seen(stmts[i].SQL)
	}
	return e.Engine.Exec(ctx, stmts)
}

func TestResignLetsOthersGoFirst(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.campaign(f.voter("a", second, f.same()...))
		after(10 * time.Millisecond)
		b := f.campaign(f.voter("b", second, f.same()...))
		f.is(b.Resign(f.ctx), ErrNotHeld)
		after(time.Second)
		f.ok(a.Resign(f.ctx))
		f.is(a.Resign(f.ctx), ErrNotHeld)
		if leaders := f.watch(5*time.Second, a, b); len(leaders) != 1 || leaders[0] != "b" {
			f.Errorf("led: %v", leaders)
		}
	})
}

func TestStopIsBoundedWhenTheDatabaseHangs(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.campaign(f.voter("a", ElectionOptions{}, f.same()...))
		after(time.Second)
		a.net.set(constant(time.Hour), nil, nil)
		a.cancel()
		start := time.Now()
		<-a.ended
		if d := time.Since(start); d != 5*time.Second {
			f.Errorf("the release took %v, want half of the renew deadline", d)
		}
	})
}

func TestLeaseWonWithoutAnAnswerIsReleased(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.voter("a", ElectionOptions{}, f.same()...)
		a.net.set(nil, constant(time.Hour), nil)
		f.campaign(a)
		after(4 * time.Second) // applied, and given up
		a.net.set(nil, nil, nil)
		a.cancel()
		<-a.ended
		if _, ok, err := a.Leader(f.ctx); ok || err != nil {
			f.Errorf("the lease was left behind: %v, %v", ok, err)
		}
	})
}

func TestOneCampaignAtATime(t *testing.T) {
	bubble(t, func(f *fixture) {
		a := f.campaign(f.voter("a", second))
		after(time.Millisecond)
		f.is(a.Campaign(f.ctx), ErrReentrant)
		f.is(a.Lead(f.ctx, func(context.Context, Term) error { return nil }), ErrReentrant)
		a.cancel()
		<-a.ended
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		f.is(a.Campaign(ctx), context.DeadlineExceeded)
		f.ok(a.p.Close(f.ctx))
		f.is(a.Campaign(f.ctx), ErrClosed)
	})
}

func TestChangesAreReported(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var mu sync.Mutex
		var log []string
		report := func(id string) func(Change) {
			return func(c Change) {
				mu.Lock()
				defer mu.Unlock()
				log = append(log, fmt.Sprintf("%s: %v %s %d", id, c.Leading, c.Leader.ID, c.Leader.Term))
			}
		}
		a := f.campaign(f.voter("a", ElectionOptions{Lease: time.Second, OnChange: report("a")}, f.same()...))
		after(10 * time.Millisecond)
		b := f.campaign(f.voter("b", ElectionOptions{Lease: time.Second, OnChange: report("b")}, f.same()...))
		after(time.Second)
		a.cancel()
		<-a.ended
		after(time.Second)
		b.cancel()
		<-b.ended
		want := "[a: true a 1 b: false a 1 a: false  0 b: true b 2 b: false  0]"
		if fmt.Sprint(log) != want {
			f.Errorf("reported %v\nwant     %v", log, want)
		}
	})
}

func TestHundredElectionsShareTheirRequests(t *testing.T) {
	inBubble(t, func(f *fixture) {
		slow := &network{Engine: f.tap, back: constant(time.Millisecond)}
		for range 2 {
			p, err := Open(f.ctx, slow, f.same()...)
			if err != nil {
				f.Fatal(err)
			}
			f.Cleanup(func() { f.ok(p.Close(context.WithoutCancel(f.ctx))) })
			for i := range 100 {
				e, err := p.Election(fmt.Sprint("election-", i), ElectionOptions{})
				if err != nil {
					f.Fatal(err)
				}
				go func() { _ = e.Campaign(f.ctx) }()
			}
			after(100 * time.Millisecond)
		}
		after(2 * time.Second) // all is settled, and all fall together
		f.tap.spoil(nil)
		f.tap.mu.Lock()
		f.tap.reads = 0
		f.tap.mu.Unlock()
		const ticks = 10
		after(ticks * 2 * time.Second)
		f.tap.mu.Lock()
		reads := f.tap.reads
		f.tap.mu.Unlock()
		if n := f.tap.writes(); n > 10*ticks || reads > 12*ticks {
			f.Errorf("%d writes and %d reads in %d ticks of 100 leaders and 100 followers", n, reads, ticks)
		}
	})
}

func TestElectionOptionsAreChecked(t *testing.T) {
	bubble(t, func(f *fixture) {
		for want, o := range map[string]ElectionOptions{
			"ElectionOptions.Lease":         {Lease: time.Second, RenewDeadline: time.Second},
			"ElectionOptions.RenewDeadline": {Lease: time.Second, Retry: time.Second},
			"ElectionOptions.Retry":         {Retry: -1},
			"ElectionOptions.Jitter":        {Jitter: 1},
			"ElectionOptions.Metadata":      {Metadata: map[string]string{"a": "\xff"}},
		} {
			_, err := f.p.Election("x", o)
			var inv *InvalidError
			if !errors.Is(err, ErrInvalid) || !errors.As(err, &inv) || inv.Field != want {
				f.Errorf("%s: got %v", want, err)
			}
		}
		for _, name := range []string{"", "-x", "a b", "x'00'"} {
			_, err := f.p.Election(name, ElectionOptions{})
			f.is(err, ErrInvalidName)
			_, err = f.p.Election("x", ElectionOptions{ID: name})
			if name != "" {
				f.is(err, ErrInvalidName)
			}
		}
		a, b := f.election(f.p, ElectionOptions{ID: "same"}), f.election(f.p, ElectionOptions{ID: "same"})
		if a.Holder() == b.Holder() {
			f.Error("two candidates of one id are the same holder")
		}
		if o := a.opts; o.Lease != 15*time.Second || o.RenewDeadline != 10*time.Second || o.Retry != 2*time.Second || o.Jitter != 0.1 {
			f.Errorf("defaults are %+v", o)
		}
	})
}
