package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/store"
)

// result is what a run showed.
type result struct {
	r        *run
	cluster  string
	took     time.Duration
	facts    *facts
	outcomes outcomes
	stats    []string // of the clients
	late     int      // gaps that took longer than the election and what is allowed
	lateOwn  int      // of these, those that also took longer than the cluster's first write and that
}

// outcomes tells how commits of unknown outcome turned out.
type outcomes struct {
	total    int
	resolved map[string]int // by what Resolve said
	applied  int            // by what the database says
}

// judge makes the cluster whole, asks what became of commits of unknown outcome,
// and lets the three witnesses speak.
func (r *run) judge(ctx context.Context, cl cluster) (*result, error) {
	res := &result{r: r, cluster: cl.name(), took: time.Since(r.began)}
	r.hot.close()
	if err := cl.heal(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("heal the cluster: %w", err), r.closeProcesses())
	}
	for i, p := range r.procs {
		res.stats = append(res.stats, fmt.Sprintf("process %d: %+v, %+v", i+1, p.async.Stats().Outcomes, p.engine.Stats()))
	}
	resolutions := r.resolve(ctx)
	if err := r.closeProcesses(); err != nil {
		r.bad.add(kindHung, "%v", err)
	}
	s, err := settled(ctx, cl)
	if err != nil {
		return nil, err
	}
	res.facts = verify(r.journal, s, r.bad)
	r.checker.stop()

	res.outcomes = outcomes{total: len(r.journal.unknown), resolved: make(map[string]int)}
	for n := range r.journal.unknown {
		applied := res.facts.applied[n]
		if applied {
			res.outcomes.applied++
		}
		said, asked := resolutions[n]
		if !asked {
			res.outcomes.resolved["not answered"]++
			continue
		}
		res.outcomes.resolved[said.String()]++
		if said == store.ResolutionCommitted && !applied || said == store.ResolutionLost && applied {
			r.bad.add(kindResolve, "commit #%d resolved as %s, in the database: %v", n, said, applied)
		}
	}
	return res, nil
}

// resolve asks the store what became of the commits of unknown outcome.
func (r *run) resolve(ctx context.Context) map[int64]store.Resolution {
	answers := make(map[int64]store.Resolution, len(r.journal.unknown))
	for n, ref := range r.journal.unknown {
		said, err := r.procs[int(n)%len(r.procs)].sync.Resolve(ctx, ref)
		if err != nil {
			r.bad.note("resolving commit #%d: %v", n, err)
			continue
		}
		answers[n] = said
	}
	return answers
}
