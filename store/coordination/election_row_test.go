package coordination

import (
	"maps"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
)

func (f *fixture) election(p *Provider, o ElectionOptions) *Election {
	f.Helper()
	e, err := p.Election("nightly", o)
	if err != nil {
		f.Fatal(err)
	}
	return e
}

// stands sends a candidacy and returns the row, or nil if it was refused.
func (f *fixture) stands(e *Election, held int64) *electionRow {
	f.Helper()
	r, err := e.stand(f.ctx, e.Holder(), held, 0, never)
	if err != nil {
		f.Fatal(err)
	}
	return r
}

func (f *fixture) looks(e *Election) *electionRow {
	f.Helper()
	r, err := e.look(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return r
}

func TestFirstTermHasNoTransition(t *testing.T) {
	inBubble(t, func(f *fixture) {
		e := f.election(f.p, ElectionOptions{ID: "a", Lease: time.Second, Metadata: map[string]string{"host": "ä", "port": "1"}})
		if _, ok, err := e.Leader(f.ctx); ok || err != nil {
			f.Errorf("somebody leads what nobody has stood in: %v, %v", ok, err)
		}
		now := time.Now()
		r := f.stands(e, 0)
		if r == nil || r.Term != 1 || r.Transitions != 0 || !r.Acquired.Equal(now) || !r.Renewed.Equal(now) || !r.Expires.Equal(now.Add(time.Second)) {
			f.Errorf("got %+v", r)
		}
		l, ok, err := e.Leader(f.ctx)
		if err != nil || !ok || l.ID != "a" || l.Holder != e.Holder() || l.Lease != time.Second || !maps.Equal(l.Metadata, map[string]string{"host": "ä", "port": "1"}) {
			f.Errorf("leader %+v, %v, %v", l, ok, err)
		}
	})
}

func TestRenewalKeepsTheTermAndReplacesTheRest(t *testing.T) {
	inBubble(t, func(f *fixture) {
		e := f.election(f.p, ElectionOptions{Lease: time.Second, Metadata: map[string]string{"a": "1"}})
		first := f.stands(e, 0)
		after(300 * time.Millisecond)
		e.opts.Lease, e.metadata = 2*time.Second, "{}"
		r := f.stands(e, first.Term)
		if r == nil || r.Term != 1 || r.Transitions != 0 || !r.Acquired.Equal(first.Acquired) {
			f.Errorf("a renewal changed the term: %+v", r)
		}
		if r.Renewed.Sub(first.Renewed) != 300*time.Millisecond || r.Lease != 2*time.Second || len(r.Metadata) != 0 {
			f.Errorf("a renewal left the rest: %+v", r)
		}
	})
}

func TestCO02_RenewalByAnotherThanTheLeaderIsRefused(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a, b := f.election(f.p, ElectionOptions{ID: "a"}), f.election(f.provider(), ElectionOptions{ID: "b"})
		if f.p.noSharedClock {
			b = f.election(f.provider(WithoutSharedClock()), ElectionOptions{ID: "b"})
		}
		term := f.stands(a, 0).Term
		before := f.looks(a)
		after(time.Second)
		for _, held := range []int64{0, term, term + 1} {
			if r := f.stands(b, held); r != nil {
				f.Errorf("b renewed what a holds, claiming term %d: %+v", held, r)
			}
		}
		if ok, err := b.vacate(f.ctx, b.Holder(), term); ok || err != nil {
			f.Errorf("b released what a holds: %v, %v", ok, err)
		}
		now := f.looks(a)
		if now.expires != before.expires || now.version != before.version || now.Holder != a.Holder() {
			f.Errorf("the row changed from %+v to %+v", before, now)
		}
	})
}

func TestLeaseEndsExactlyAtItsDeadline(t *testing.T) {
	bubble(t, func(f *fixture) {
		a, b := f.election(f.p, ElectionOptions{ID: "a", Lease: time.Second}), f.election(f.p, ElectionOptions{ID: "b", Lease: time.Second})
		f.stands(a, 0)
		after(time.Second - time.Microsecond)
		if r := f.stands(b, 0); r != nil {
			f.Errorf("taken over before the deadline: %+v", r)
		}
		if _, ok, _ := b.Leader(f.ctx); !ok {
			f.Error("nobody leads before the deadline")
		}
		after(time.Microsecond)
		if l, ok, err := b.Leader(f.ctx); ok || err != nil {
			f.Errorf("at the deadline %v leads, %v", l, err)
		}
		if r := f.stands(a, 1); r != nil {
			f.Errorf("renewed at the deadline: %+v", r)
		}
		if r := f.stands(b, 0); r == nil || r.Term != 2 || r.Transitions != 1 || r.Holder != b.Holder() || !r.Acquired.Equal(r.Renewed) {
			f.Errorf("takeover at the deadline: %+v", r)
		}
	})
}

func TestOwnExpiredLeaseBeginsATermWithoutATransition(t *testing.T) {
	bubble(t, func(f *fixture) {
		a := f.election(f.p, ElectionOptions{Lease: time.Second})
		f.stands(a, 0)
		after(time.Second)
		if r := f.stands(a, 0); r == nil || r.Term != 2 || r.Transitions != 0 || !r.Acquired.Equal(r.Renewed) {
			f.Errorf("got %+v", r)
		}
	})
}

func TestStandingAnewWhileTheLeaseLivesBeginsATerm(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.election(f.p, ElectionOptions{Lease: time.Second})
		f.stands(a, 0)
		after(time.Millisecond)
		if r := f.stands(a, 0); r == nil || r.Term != 2 || r.Transitions != 0 || !r.Acquired.Equal(r.Renewed) {
			f.Errorf("got %+v", r)
		}
	})
}

func TestTermsGrowOverRelease(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a, b := f.election(f.p, ElectionOptions{ID: "a"}), f.election(f.p, ElectionOptions{ID: "b"})
		f.stands(a, 0)
		f.ok(a.release(f.ctx, a.Holder(), 1))
		f.is(a.release(f.ctx, a.Holder(), 1), ErrLost)
		if _, ok, err := b.Leader(f.ctx); ok || err != nil {
			f.Errorf("somebody leads after the release: %v", err)
		}
		if r := f.stands(b, 0); r == nil || r.Term != 2 || r.Transitions != 1 {
			f.Errorf("got %+v", r)
		}
		f.is(a.release(f.ctx, a.Holder(), 1), ErrLost)
		if r := f.looks(b); r.Holder != b.Holder() || r.expires == 0 {
			f.Errorf("a released what b holds: %+v", r)
		}
	})
}

func TestLateRequestsOfALeaderDoNoHarm(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a := f.election(f.p, ElectionOptions{Lease: time.Second})
		sent := time.Now().UnixMicro()
		f.stands(a, 0)
		after(500 * time.Millisecond)
		r := f.stands(a, 1)
		// A renewal from before, sent through the network for half a second.
		late := statement(standSQL, engine.Text(a.name), engine.Text(a.Holder()), engine.Int(1_000_000), engine.Int(sent), engine.Int(sent+1_000_000),
			engine.Int(0), engine.Text("{}"), f.p.judge(), engine.Int(1), engine.Int(never))
		late.Returning = true
		if _, err := f.tap.Exec(f.ctx, []engine.Statement{late}); err != nil {
			f.Fatal(err)
		}
		if now := f.looks(a); now.expires != r.expires || !now.Renewed.Equal(r.Renewed) {
			f.Errorf("a late renewal shortened the lease from %+v to %+v", r, now)
		}
		f.ok(a.release(f.ctx, a.Holder(), 1))
		for _, held := range []int64{0, 1} {
			if r := f.stands(a, held); r != nil {
				f.Errorf("a candidacy that came after its release took the lease: %+v", r)
			}
		}
	})
}

func TestReleaseTellsTheTruthAfterALostAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a, b := f.election(f.p, ElectionOptions{}), f.election(f.p, ElectionOptions{})
		f.stands(a, 0)
		f.tap.spoil(lostOnce)
		f.ok(a.release(f.ctx, a.Holder(), 1))
		f.tap.spoil(nil)
		f.stands(b, 0)
		f.is(a.release(f.ctx, a.Holder(), 1), ErrLost)
	})
}

func TestRowOfAnotherFormIsAnError(t *testing.T) {
	bubble(t, func(f *fixture) {
		e := f.election(f.p, ElectionOptions{})
		f.stands(e, 0)
		if _, err := f.tap.Exec(f.ctx, []engine.Statement{statement(`UPDATE quorate_elections SET metadata='nonsense'`)}); err != nil {
			f.Fatal(err)
		}
		_, _, err := e.Leader(f.ctx)
		f.is(err, errStored)
	})
}
