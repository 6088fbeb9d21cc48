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

// writeFaults prints the faults by kind, with the gaps around them.
func (res *result) writeFaults(w io.Writer) {
	all := res.r.faults.all()
	type group struct {
		count, hits             int
		gaps, elections, writes []time.Duration
		overElection, overWrite []time.Duration
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
		lost := res.r.gaps.within(f.at, until)
		g.gaps = append(g.gaps, lost.length())
		if !f.elected.IsZero() {
			took := f.elected.Sub(f.at)
			g.elections = append(g.elections, took)
			over := lost.length() - took
			g.overElection = append(g.overElection, over)
			written := "none"
			ownOver := over
			if !f.writable.IsZero() {
				wrote := f.writable.Sub(f.at)
				ownOver = lost.length() - wrote
				g.writes = append(g.writes, wrote)
				g.overWrite = append(g.overWrite, ownOver)
				written = round(wrote).String()
			}
			if over > res.r.cfg.gapOver && res.r.cfg.gapOver > 0 {
				if f.kill {
					res.late++
					if ownOver > res.r.cfg.gapOver {
						res.lateOwn++
					}
				}
				res.r.bad.note("%s at second %.1f (fault %d): gap %v, election %v, first write by hand %v",
					f.kind, f.at.Sub(res.r.began).Seconds(), i+1, round(lost.length()), round(took), written)
			}
		}
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
		if len(g.elections) > 0 {
			line += fmt.Sprintf("; election median %v, max %v; gap over election median %v, max %v",
				median(g.elections), longestOf(g.elections), median(g.overElection), longestOf(g.overElection))
		}
		if len(g.writes) > 0 {
			line += fmt.Sprintf("; first write by hand median %v, max %v; gap over it median %v, max %v",
				median(g.writes), longestOf(g.writes), median(g.overWrite), longestOf(g.overWrite))
		}
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
