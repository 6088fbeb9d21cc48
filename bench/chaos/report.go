package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// reportProgress prints a line every so often until ctx ends.
func (r *run) reportProgress(ctx context.Context) {
	for {
		pause(ctx, r.cfg.every)
		if ctx.Err() != nil {
			return
		}
		t := &r.tally
		fmt.Fprintf(r.cfg.progress, "%6.0fs  commits %d ok %d conflict %d refused %d unknown  loads %d  faults %d  histories checked %d  longest gap %v  violations %d\n",
			time.Since(r.began).Seconds(), t.ok.Load(), t.conflicts.Load(), t.refused.Load(), t.unknown.Load(),
			t.loads.Load(), r.faults.len(), r.checker.histories.Load(), round(r.gaps.max().length()), r.bad.total())
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// write prints the whole report and the verdict. It returns whether all is well.
func (res *result) write(w io.Writer, cfg *config, replay string) bool {
	r, t := res.r, &res.r.tally
	fmt.Fprintf(w, "cluster      %s\n", res.cluster)
	fmt.Fprintf(w, "seed         %d\n", cfg.seed)
	fmt.Fprintf(w, "load         %d callers in %d processes for %v, time limit %v\n", cfg.callers, cfg.processes, round(res.took), cfg.limit)
	ok := t.ok.Load()
	fmt.Fprintf(w, "commits      %d acknowledged (%.0f/s), %d conflicts, %d refused, %d unknown\n", ok, float64(ok)/res.took.Seconds(), t.conflicts.Load(), t.refused.Load(), t.unknown.Load())
	fmt.Fprintf(w, "loads        %d, of which %d failed; %d events acknowledged\n", t.loads.Load(), t.failedLoads.Load(), t.acks.Load())
	why := t.why()
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(w, "             %d x %s\n", why[reason], reason)
	}
	res.writeFaults(w)
	o := &res.outcomes
	fmt.Fprintf(w, "unknown      %d commits; Resolve said:", o.total)
	for _, said := range slices.Sorted(maps.Keys(o.resolved)) {
		fmt.Fprintf(w, " %d %s", o.resolved[said], said)
	}
	fmt.Fprintf(w, "; the database: %d applied, %d not\n", o.applied, o.total-o.applied)
	longest := r.gaps.max()
	fmt.Fprintf(w, "longest gap  %v without an acknowledgement, from second %.1f on\n", round(longest.length()), longest.from.Sub(r.began).Seconds())
	c := r.checker
	fmt.Fprintf(w, "porcupine    %d histories of %d operations (longest %d), slowest check %v, undecided %d\n",
		c.histories.Load(), c.operations.Load(), c.longest.Load(), round(time.Duration(c.slowest.Load())), c.undecided.Load())
	fmt.Fprintf(w, "summary      %d lost, %d doubled, %d hung futures, %d conflicts with oneself, %d refused that left something\n",
		r.bad.count(kindLost), r.bad.count(kindDoubled), r.bad.count(kindHung), r.bad.count(kindOneself), r.bad.count(kindLeft))
	for _, s := range res.stats {
		fmt.Fprintf(w, "             %s\n", s)
	}
	texts, notes := r.bad.list()
	for _, n := range notes {
		fmt.Fprintf(w, "note         %s\n", n)
	}
	total := r.bad.total()
	if total == 0 {
		fmt.Fprintln(w, "VERDICT: ok")
		return true
	}
	fmt.Fprintf(w, "VERDICT: %d violations\n", total)
	for _, text := range texts {
		fmt.Fprintf(w, "  %s\n", text)
	}
	if told := len(texts); told < total {
		fmt.Fprintf(w, "  and %d more\n", total-told)
	}
	if cfg.out != "" {
		fmt.Fprintf(w, "histories that failed are in %s\n", cfg.out)
	}
	fmt.Fprintf(w, "replay with: %s\n", replay)
	return false
}

// lags is how long the cluster itself took for something after each of a kind of
// faults, and how much longer the gap was.
type lags struct{ took, over []time.Duration }

// add returns how much longer the gap was than from at to done; zero if it was
// never done.
func (l *lags) add(at, done time.Time, gap time.Duration) time.Duration {
	if done.IsZero() {
		return 0
	}
	took := done.Sub(at)
	l.took = append(l.took, took)
	l.over = append(l.over, gap-took)
	return gap - took
}

func (l *lags) describe(what string) string {
	if len(l.took) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s median %v, max %v; gap over it median %v, max %v",
		what, median(l.took), longestOf(l.took), median(l.over), longestOf(l.over))
}

// writeFaults prints the faults by kind, with the gaps around them.
func (res *result) writeFaults(w io.Writer) {
	all := res.r.faults.all()
	type group struct {
		count, hits       int
		gaps              []time.Duration
		elections, writes lags
	}
	groups := make(map[string]*group)
	for i, f := range all {
		g := groups[f.kind]
		if g == nil {
			g = &group{}
			groups[f.kind] = g
		}
		g.count++
		g.hits += f.hits
		if f.err != nil {
			res.r.bad.note("fault %q: %v", f.kind, f.err)
		}
		until := f.over
		if !f.elected.IsZero() {
			until = f.elected
		}
		lost := res.r.gaps.within(f.at, until).length()
		g.gaps = append(g.gaps, lost)
		over := g.elections.add(f.at, f.elected, lost)
		overWrite := g.writes.add(f.at, f.writable, lost)
		if over <= res.r.cfg.gapOver || res.r.cfg.gapOver == 0 {
			continue
		}
		wrote := ", no write by hand"
		if !f.writable.IsZero() {
			wrote = fmt.Sprintf(", first write by hand %v", round(f.writable.Sub(f.at)))
		}
		if f.kill {
			res.late++
			if f.writable.IsZero() || overWrite > res.r.cfg.gapOver {
				res.lateOwn++
			}
		}
		res.r.bad.note("%s at second %.1f (fault %d): gap %v, election %v%s",
			f.kind, f.at.Sub(res.r.began).Seconds(), i+1, round(lost), round(f.elected.Sub(f.at)), wrote)
	}
	if res.r.cfg.verbose {
		for _, f := range all {
			fmt.Fprintf(w, "             %7.3fs to %7.3fs %s (%d requests)\n", f.at.Sub(res.r.began).Seconds(), f.over.Sub(res.r.began).Seconds(), f.kind, f.hits)
		}
		for _, g := range res.r.gaps.over(200 * time.Millisecond) {
			fmt.Fprintf(w, "             %7.3fs to %7.3fs no acknowledgement\n", g.from.Sub(res.r.began).Seconds(), g.to.Sub(res.r.began).Seconds())
		}
	}
	fmt.Fprintf(w, "faults       %d\n", len(all))
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		g := groups[kind]
		line := fmt.Sprintf("             %4d x %-28s", g.count, kind)
		if g.hits > 0 {
			line += fmt.Sprintf(" met by %d requests,", g.hits)
		}
		line += fmt.Sprintf(" gap median %v, max %v", median(g.gaps), longestOf(g.gaps))
		line += g.elections.describe("election") + g.writes.describe("first write by hand")
		fmt.Fprintln(w, strings.TrimRight(line, ","))
	}
	if res.r.cfg.gapOver > 0 {
		fmt.Fprintf(w, "             %d gaps after a kill were longer than the election and %v; %d of them also longer than the first write by hand and that\n",
			res.late, res.r.cfg.gapOver, res.lateOwn)
	}
}

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return round(sorted[len(sorted)/2])
}

func longestOf(list []time.Duration) time.Duration { return round(slices.Max(list)) }
