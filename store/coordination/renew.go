package coordination

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// renewer prolongs the leases that are kept alive, all of a provider on one
// goroutine: whatever is due about now goes in one request, so leases that were
// taken one by one soon fall together. Its requests do not queue behind others.
type renewer struct {
	holds   map[*hold]struct{}
	wake    chan struct{} // tells a running goroutine to look again; nil if none runs
	stopped bool
}

// A lease is renewed when a third of it has passed. What is due within a twelfth
// of its lease goes along; after a failure that is the time to the next attempt.
const (
	renewShare  = 3
	renewWindow = 12
)

// maxRenewals bounds the leases in one request.
const maxRenewals = 4096

// keep puts a hold whose lease was asked for at the moment sent under the care of
// the renewer.
func (p *Provider) keep(h *hold, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	h.due = sent.Add(h.lease / renewShare)
	if p.renew.holds == nil {
		p.renew.holds = make(map[*hold]struct{})
	}
	p.renew.holds[h] = struct{}{}
	if p.renew.wake == nil {
		p.renew.wake = make(chan struct{}, 1)
		p.spawnLocked(p.renewals)
		return
	}
	p.renew.nudge()
}

func (r *renewer) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop ends the renewals; with Provider.mu held.
func (r *renewer) stop() {
	r.stopped = true
	if r.wake != nil {
		r.nudge()
	}
}

func (p *Provider) keepNoMore(h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.renew.holds, h)
}

// renewals is the goroutine. It ends when there is nothing to renew.
func (p *Provider) renewals(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, wait, wake := p.dueRenewals()
		switch {
		case wake == nil:
			return
		case len(due) > 0:
			p.renewAll(ctx, due)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// dueRenewals returns what is due, or how long to wait. A nil channel means that
// the goroutine has to end.
func (p *Provider) dueRenewals() (due []*hold, wait time.Duration, wake chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.renew.stopped || len(p.renew.holds) == 0 {
		p.renew.wake = nil
		return nil, 0, nil
	}
	now := time.Now()
	first := true
	for h := range p.renew.holds {
		if left := h.due.Sub(now); first || left < wait {
			wait, first = left, false
		}
	}
	if wait > 0 {
		return nil, wait, p.renew.wake
	}
	for h := range p.renew.holds {
		if h.due.Sub(now) <= h.lease/renewWindow {
			due = append(due, h)
		}
	}
	// Always in the same order, so that two lists never wait for each other in a
	// circle where rows are locked one by one.
	slices.SortFunc(due, func(a, b *hold) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name), cmp.Compare(a.token, b.token))
	})
	return due[:min(len(due), maxRenewals)], 0, p.renew.wake
}

// renewAll renews leases in one request and hands out the verdicts.
func (p *Provider) renewAll(ctx context.Context, due []*hold) {
	limit := p.limit
	for _, h := range due {
		limit = min(limit, h.lease/renewShare)
	}
	stmts, parts := p.renewalList(due)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := time.Now()
	results, err := p.eng.Exec(ctx, stmts)
	if err != nil {
		if !due[0].failing {
			p.log.Warn("renewing leases failed; trying on until they end", "leases", len(due), "error", err)
		}
		now := time.Now()
		for _, h := range due {
			h.failing = true
			p.nextRenewal(h, now.Add(h.lease/renewWindow))
		}
		return
	}
	for i, part := range parts {
		res := &results[i]
		if len(part) == 1 {
			p.renewed(part[0], sent, res.RowsAffected)
			continue
		}
		tokens := make(map[string]struct{}, res.Len())
		for j := range res.Len() {
			token, _ := res.Row(j)[0].Text()
			tokens[token] = struct{}{}
		}
		for _, h := range part {
			rows := int64(0)
			if _, ok := tokens[h.token]; ok {
				rows = 1
			}
			p.renewed(h, sent, rows)
		}
	}
}

// renewed hands out the verdict on one lease.
func (p *Provider) renewed(h *hold, sent time.Time, rows int64) {
	h.failing = false
	err := h.renewed(sent, rows)
	if err == nil {
		p.nextRenewal(h, sent.Add(h.lease/renewShare))
		return
	}
	p.keepNoMore(h) // it may have ended just before it came here
	if err == ErrLost {
		p.log.Warn("a lease is lost", "kind", h.kind, "name", h.name)
	}
}

func (p *Provider) nextRenewal(h *hold, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.due = at
}

// renewalList returns the statements that renew leases, and which each renews. Where
// each statement costs much, one renews many locks.
func (p *Provider) renewalList(due []*hold) (stmts []engine.Statement, parts [][]*hold) {
	rows := max(1, min(p.traits.RowsPerStatement, (p.traits.MaxParams-2)/2))
	for len(due) > 0 {
		n := 1
		for n < min(rows, len(due)) && due[0].kind == kindLock && due[n].kind == kindLock {
			n++
		}
		if n == 1 {
			stmts = append(stmts, due[0].renewal())
		} else {
			stmts = append(stmts, p.lockRenewMany(due[:n]))
		}
		parts = append(parts, due[:n])
		due = due[n:]
	}
	return stmts, parts
}
