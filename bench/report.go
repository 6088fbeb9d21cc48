package main

import (
	"fmt"
	"io"
	"strings"
)

// table writes results for people, group by group, as they come.
type table struct {
	w    io.Writer
	last op
	logs bool // the engine has a replicated log
}

// column is one column of the table.
type column struct {
	head  string
	width int // negative: left-aligned
	cell  func(r *result) string
}

func (t *table) columns() []column {
	cols := []column{
		{"mode", -10, func(r *result) string { return r.mode.name }},
		{"callers", 7, func(r *result) string { return fmt.Sprint(r.callers) }},
		{"ops/s", 11, func(r *result) string { return perSecond(r.perSecond) }},
		{"ratio", 8, func(r *result) string { return ratioText(r) }},
		{"p50 ms", 9, func(r *result) string { return milliseconds(ms(r.p50)) }},
		{"p99 ms", 9, func(r *result) string { return milliseconds(ms(r.p99)) }},
		{"p99.9 ms", 9, func(r *result) string { return milliseconds(ms(r.p999)) }},
		{"ops/request", 11, func(r *result) string { return opsPerRequest(r) }},
	}
	if t.logs {
		cols = append(cols, column{"log/op", 8, func(r *result) string { return fmt.Sprintf("%.4f", max(r.entries, 0)) }})
	}
	return append(cols,
		column{"cpu us/op", 9, func(r *result) string { return cpuText(r) }},
		column{"allocs/op", 9, func(r *result) string { return fmt.Sprintf("%.1f", r.allocs) }},
		column{"spread", 6, func(r *result) string { return fmt.Sprintf("%.0f%%", 100*r.spread()) }},
	)
}

// settings writes what stands above the table.
func (t *table) settings(lines [][2]string) {
	for _, l := range lines {
		fmt.Fprintf(t.w, "%-11s %s\n", l[0], l[1])
	}
}

// group writes the results of one contest.
func (t *table) group(results []*result) {
	o := results[0].op
	if o != t.last {
		fmt.Fprintf(t.w, "\n%s: %s\n", o, o.about())
		var head []string
		for _, c := range t.columns() {
			head = append(head, fmt.Sprintf("%*s", c.width, c.head))
		}
		line := strings.Join(head, "  ")
		fmt.Fprintf(t.w, "%s\n%s\n", line, strings.Repeat("-", len(line)))
		t.last = o
	} else {
		fmt.Fprintln(t.w)
	}
	for _, r := range results {
		var cells []string
		for _, c := range t.columns() {
			cells = append(cells, fmt.Sprintf("%*s", c.width, c.cell(r)))
		}
		fmt.Fprintln(t.w, strings.Join(cells, "  "))
	}
}

// legend writes what the modes and columns mean.
func (t *table) legend(used []*mode, notes []string) {
	fmt.Fprintln(t.w)
	for _, m := range used {
		fmt.Fprintf(t.w, "%-11s %s\n", m.name, m.about)
	}
	for _, l := range columnNotes(t.logs) {
		fmt.Fprintf(t.w, "%-11s %s\n", l[0], l[1])
	}
	fmt.Fprintf(t.w, "%-11s %s\n", "fairness", fairness)
	for _, n := range notes {
		fmt.Fprintf(t.w, "%-11s %s\n", "note", n)
	}
}

const fairness = "every caller waits for its answer before it goes on; sync and sync-pool have N requests under way, so the database's own grouping helps them already"

func columnNotes(logs bool) [][2]string {
	out := [][2]string{
		{"ratio", "ops/s in relation to the synchronous store with as many callers (sync-pool, else sync, else sync-one)"},
		{"cpu, allocs", "of this process: the client, and the database where it runs in this process"},
		{"spread", "fastest minus slowest round, in relation to the average: differences below it mean nothing"},
	}
	if logs {
		out = append(out, [2]string{"log/op", "entries in the Raft log per operation, from the leader's own count"})
	}
	return out
}

func perSecond(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func ratioText(r *result) string {
	switch {
	case r.base == nil:
		return "-"
	case r.base == r:
		return "1"
	case r.ratio >= 100:
		return fmt.Sprintf("%.0fx", r.ratio)
	case r.ratio >= 10:
		return fmt.Sprintf("%.1fx", r.ratio)
	}
	return fmt.Sprintf("%.2fx", r.ratio)
}

// milliseconds formats with three significant digits.
func milliseconds(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

func opsPerRequest(r *result) string {
	if r.requests <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 1/r.requests)
}

func cpuText(r *result) string {
	if r.cpu < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(r.cpu)/1e3)
}
