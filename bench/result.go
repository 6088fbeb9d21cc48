package main

import (
	"time"
)

// result is what a mode reached in a contest, over all its rounds.
type result struct {
	mode      *mode
	op        op
	callers   int
	ops       uint64
	window    time.Duration
	perSecond float64
	perRound  []float64 // operations per second
	latency   *histogram
	p50, p99  time.Duration
	p999      time.Duration

	requests, writes, bytes float64       // per operation
	entries                 float64       // of the replicated log, per operation; negative if there is none
	cpu                     time.Duration // per operation; negative if unknown
	allocs, allocBytes      float64       // per operation

	ratio float64 // of perSecond to the baseline's; 0 without one
	base  *result
}

// results sums up the contest.
func (c *contest) results() []*result {
	out := make([]*result, len(c.entries))
	for i, e := range c.entries {
		out[i] = e.result(c.op)
	}
	if base := baseline(out); base != nil {
		for _, r := range out {
			r.ratio, r.base = r.perSecond/base.perSecond, base
		}
	}
	return out
}

// baseline returns what the others are compared with: the synchronous store with
// a well-filled pool, else as it comes, else with one caller.
func baseline(results []*result) *result {
	for _, name := range []string{"sync-pool", "sync", "sync-one"} {
		for _, r := range results {
			if r.mode.name == name {
				return r
			}
		}
	}
	return nil
}

func (e *entry) result(o op) *result {
	r := &result{mode: e.mode, op: o, callers: e.callers, latency: &histogram{}, entries: -1}
	var allOps, allocs, allocBytes, entries uint64
	var sent traffic
	var cpu time.Duration
	logged, knowsCPU := false, true
	for _, x := range e.rounds {
		r.ops += x.ops
		r.window += x.window
		r.perRound = append(r.perRound, float64(x.ops)/x.window.Seconds())
		r.latency.merge(&x.latency)
		allOps += x.allOps
		allocs += x.allocs
		allocBytes += x.bytes
		entries += x.entries
		logged = x.logged
		sent.writes += x.sent.writes
		sent.reads += x.sent.reads
		sent.bytes += x.sent.bytes
		cpu += x.cpu
		knowsCPU = knowsCPU && x.cpu >= 0
	}
	r.perSecond = float64(r.ops) / r.window.Seconds()
	r.p50, r.p99, r.p999 = r.latency.quantile(0.5), r.latency.quantile(0.99), r.latency.quantile(0.999)
	r.requests = float64(sent.writes+sent.reads) / float64(allOps)
	r.writes = float64(sent.writes) / float64(allOps)
	r.bytes = float64(sent.bytes) / float64(allOps)
	if logged {
		r.entries = float64(entries) / float64(allOps)
	}
	if r.cpu = -1; knowsCPU {
		r.cpu = cpu / time.Duration(r.ops)
	}
	r.allocs, r.allocBytes = float64(allocs)/float64(r.ops), float64(allocBytes)/float64(r.ops)
	return r
}

// spread is the distance of the slowest from the fastest round, as a share of
// the average: how noisy the run was.
func (r *result) spread() float64 {
	lo, hi := r.perRound[0], r.perRound[0]
	for _, v := range r.perRound {
		lo, hi = min(lo, v), max(hi, v)
	}
	return (hi - lo) / r.perSecond
}
