package main

import (
	"fmt"
	"html/template"
	"io"
	"slices"
)

// page is what the HTML report shows.
type page struct {
	Title    string
	Settings [][2]string
	Answers  []answer
	Modes    []legendEntry
	Sections []section
	Notes    []string
}

type legendEntry struct{ Name, About string }

// answer is one ratio that the reader came for.
type answer struct{ Ratio, What, Detail string }

// section is one operation.
type section struct {
	Op, About string
	Charts    []figure
	Columns   []string
	Groups    [][]htmlRow
}

type figure struct {
	Title, Note string
	SVG         template.HTML
}

type htmlRow struct {
	Class string
	Cells []string
	Bar   float64 // of the fastest mode with as many callers, in percent
}

// html writes a page that stands alone: no scripts, nothing from the network.
func (r *reporter) html(w io.Writer) error {
	p := &page{
		Title:    "Quorate on " + r.settings.engine + ": the asynchronous store against the others",
		Settings: r.settings.lines(r.cfg.rounds),
	}
	for _, m := range r.cfg.modes {
		p.Modes = append(p.Modes, legendEntry{m.name, m.about})
	}
	for _, l := range columnNotes(r.table.logs) {
		p.Notes = append(p.Notes, l[0]+": "+l[1])
	}
	p.Notes = append(p.Notes, r.notes...)
	for _, o := range r.cfg.ops {
		var groups [][]*result
		for _, g := range r.groups {
			if g[0].op == o {
				groups = append(groups, g)
			}
		}
		if len(groups) == 0 {
			continue
		}
		p.Sections = append(p.Sections, r.section(o, groups))
		p.Answers = append(p.Answers, answers(groups)...)
	}
	return pageTemplate.Execute(w, p)
}

// answers picks the actor's ratio where there are most callers.
func answers(groups [][]*result) []answer {
	last := slices.MaxFunc(groups, func(a, b []*result) int { return a[len(a)-1].callers - b[len(b)-1].callers })
	for _, x := range last {
		if x.mode.name == "actor" && x.base != nil {
			return []answer{{
				Ratio: ratioText(x), What: string(x.op),
				Detail: fmt.Sprintf("actor against %s, %d callers: %s/s against %s/s", x.base.mode.name, x.callers, perSecond(x.perSecond), perSecond(x.base.perSecond)),
			}}
		}
	}
	return nil
}

func (r *reporter) section(o op, groups [][]*result) section {
	s := section{Op: string(o), About: o.about()}
	for _, c := range r.table.columns() {
		s.Columns = append(s.Columns, c.head)
	}
	for _, g := range groups {
		best := slices.MaxFunc(g, func(a, b *result) int { return int(a.perSecond - b.perSecond) }).perSecond
		var rows []htmlRow
		for _, x := range g {
			row := htmlRow{Class: x.mode.name, Bar: 100 * x.perSecond / best}
			for _, c := range r.table.columns() {
				row.Cells = append(row.Cells, c.cell(x))
			}
			rows = append(rows, row)
		}
		s.Groups = append(s.Groups, rows)
	}
	s.Charts = r.charts(groups)
	return s
}

// charts draws the results of one operation.
func (r *reporter) charts(groups [][]*result) []figure {
	throughput := &chart{title: "Throughput by callers", xLabel: "concurrent callers", yLabel: "operations per second"}
	median := &chart{title: "Median latency by throughput", xLabel: "operations per second", yLabel: "p50 in milliseconds"}
	tail := &chart{title: "Tail latency by throughput", xLabel: "operations per second", yLabel: "p99 in milliseconds"}
	for _, n := range r.cfg.callers {
		throughput.xTicks = append(throughput.xTicks, float64(n))
	}
	slices.Sort(throughput.xTicks)
	for _, m := range r.cfg.modes {
		var mine []*result
		for _, g := range groups {
			for _, x := range g {
				if x.mode == m {
					mine = append(mine, x)
				}
			}
		}
		if len(mine) == 0 {
			continue
		}
		slices.SortFunc(mine, func(a, b *result) int { return a.callers - b.callers })
		draw := func(c *chart, of func(x *result) (float64, float64)) {
			l := chartLine{class: m.name}
			for _, x := range mine {
				px, py := of(x)
				l.points = append(l.points, point{px, py, tip(x)})
			}
			c.lines = append(c.lines, l)
		}
		draw(throughput, func(x *result) (float64, float64) { return float64(x.callers), x.perSecond })
		draw(median, func(x *result) (float64, float64) { return x.perSecond, max(ms(x.p50), leastLatency) })
		draw(tail, func(x *result) (float64, float64) { return x.perSecond, max(ms(x.p99), leastLatency) })
	}
	const read = " Right and low is better: much done, little waiting. Each line goes from few callers to many."
	return []figure{
		{throughput.title, "How much is done by so many callers. Higher is better.", template.HTML(throughput.svg())},
		{median.title, "Half of the operations took at most that long." + read, template.HTML(median.svg())},
		{tail.title, "99 of 100 operations took at most that long." + read, template.HTML(tail.svg())},
	}
}

// leastLatency is what logarithmic axes show for none, in milliseconds.
const leastLatency = 1e-5

func tip(x *result) string {
	return fmt.Sprintf("%s, %d callers: %s ops/s (%s), p50 %s ms, p99 %s ms", x.mode.name, x.callers,
		perSecond(x.perSecond), ratioText(x), milliseconds(ms(x.p50)), milliseconds(ms(x.p99)))
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"marker": func(class string) template.HTML { return template.HTML(marker(class)) },
}).Parse(pageText))
