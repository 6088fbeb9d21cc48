package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// chart is a plot of lines over two logarithmic axes, written as SVG. Colours come
// from the page's style sheet, by the class of each line.
type chart struct {
	title, xLabel, yLabel string
	xTicks                []float64 // nil: powers of ten and their parts
	lines                 []chartLine
}

// chartLine is the line of one mode, through its points in order.
type chartLine struct {
	class  string
	points []point
}

type point struct {
	x, y float64
	tip  string
}

// The plot area, in units of the view box.
const (
	chartWidth, chartHeight  = 470, 350
	plotLeft, plotTop        = 58, 14
	plotRight, plotBottom    = 378, 296
	labelGap, characterWidth = 14, 7
)

// axis maps a range to a line, logarithmically.
type axis struct{ lo, hi, from, to float64 }

func newAxis(values []float64, from, to float64) axis {
	// Some range even if there is but one value, and a little room at both ends.
	lo, hi := slices.Min(values), slices.Max(values)
	if hi/lo < 4 {
		mid := math.Sqrt(lo * hi)
		lo, hi = mid/2, mid*2
	}
	a := axis{math.Log10(lo), math.Log10(hi), from, to}
	room := 0.05 * (a.hi - a.lo)
	a.lo, a.hi = a.lo-room, a.hi+room
	return a
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.lo)/(a.hi-a.lo)*(a.to-a.from)
}

// ticks returns round values within the range: not too many and not too few.
func (a axis) ticks() []float64 {
	steps := []float64{1}
	switch decades := a.hi - a.lo; {
	case decades < 1.5:
		steps = []float64{1, 2, 3, 5, 7}
	case decades < 3:
		steps = []float64{1, 2, 5}
	}
	var out []float64
	for e := math.Floor(a.lo); e <= a.hi; e++ {
		for _, s := range steps {
			v := s * math.Pow(10, e)
			if l := math.Log10(v); l >= a.lo && l <= a.hi {
				out = append(out, v)
			}
		}
	}
	return out
}

func (c *chart) svg() string {
	var xs, ys []float64
	for _, l := range c.lines {
		for _, p := range l.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	x, y := newAxis(xs, plotLeft, plotRight), newAxis(ys, plotBottom, plotTop)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", chartWidth, chartHeight, html.EscapeString(c.title))
	c.drawAxes(&b, x, y)
	for _, l := range c.lines {
		drawLine(&b, l, x, y)
	}
	c.drawLabels(&b, x, y)
	b.WriteString("</svg>\n")
	return b.String()
}

func (c *chart) drawAxes(b *strings.Builder, x, y axis) {
	for _, v := range y.ticks() {
		at := y.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text class="tick" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			plotLeft, at, plotRight, at, plotLeft-8, at+4, short(v))
	}
	ticks := c.xTicks
	if ticks == nil {
		ticks = x.ticks()
	}
	last := math.Inf(-1)
	for _, v := range ticks {
		at := x.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, at, plotTop, at, plotBottom)
		text := short(v)
		if c.xTicks != nil {
			text = strconv.Itoa(int(v))
		}
		if at-last > float64(len(text)+1)*characterWidth {
			fmt.Fprintf(b, `<text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>`, at, plotBottom+18, text)
			last = at
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, `<line class="axis" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", plotLeft, plotBottom, plotRight, plotBottom)
	fmt.Fprintf(b, `<text class="label" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (plotLeft+plotRight)/2, plotBottom+40, html.EscapeString(c.xLabel))
	fmt.Fprintf(b, `<text class="label" transform="translate(14 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (plotTop+plotBottom)/2, html.EscapeString(c.yLabel))
}

func drawLine(b *strings.Builder, l chartLine, x, y axis) {
	fmt.Fprintf(b, `<g class="%s">`, l.class)
	if len(l.points) > 1 {
		var path []string
		for _, p := range l.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.x), y.at(p.y)))
		}
		fmt.Fprintf(b, `<polyline class="line" points="%s"/>`, strings.Join(path, " "))
	}
	for _, p := range l.points {
		fmt.Fprintf(b, `<g class="mark" transform="translate(%.1f %.1f)">%s<title>%s</title></g>`,
			x.at(p.x), y.at(p.y), marker(l.class), html.EscapeString(p.tip))
	}
	b.WriteString("</g>\n")
}

// marker returns the shape that tells lines apart without colour.
func marker(class string) string {
	switch class {
	case "actor":
		return `<circle r="5"/>`
	case "raw-batch":
		return `<path d="M-5 -5H5V5H-5Z"/>`
	case "sync-pool":
		return `<path d="M0 -6L6 5H-6Z"/>`
	case "sync":
		return `<path d="M0 6L6 -5H-6Z"/>`
	case "sync-one":
		return `<path d="M0 -6L6 0L0 6L-6 0Z"/>`
	case "gorqlite":
		return `<path d="M-2 -6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z"/>`
	default:
		return `<path d="M0 -6L2 -2L6 0L2 2L0 6L-2 2L-6 0L-2 -2Z"/>`
	}
}

// drawLabels writes the name of each line beside its last point, apart from each
// other.
func (c *chart) drawLabels(b *strings.Builder, x, y axis) {
	type label struct {
		line chartLine
		x, y float64
		want float64
	}
	var labels []label
	for _, l := range c.lines {
		end := l.points[len(l.points)-1]
		at := y.at(end.y)
		labels = append(labels, label{l, x.at(end.x), at, at})
	}
	slices.SortFunc(labels, func(a, b label) int { return int(a.want*100) - int(b.want*100) })
	for i := range labels {
		if i > 0 {
			labels[i].y = max(labels[i].y, labels[i-1].y+labelGap)
		}
	}
	if n := len(labels); n > 0 {
		limit := float64(plotBottom)
		for i := n - 1; i >= 0; i-- {
			labels[i].y = min(labels[i].y, limit)
			limit = labels[i].y - labelGap
		}
	}
	const at = plotRight + 14
	for _, l := range labels {
		fmt.Fprintf(b, `<g class="%s"><path class="leader" d="M%.1f %.1fL%d %.1f"/><text class="name" x="%d" y="%.1f">%s</text></g>`+"\n",
			l.line.class, l.x+7, l.want, at-3, l.y, at, l.y+4, html.EscapeString(l.line.class))
	}
}

// short formats a number for a tick: 20k, 1.5M, 0.05.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return trim(v/1e6) + "M"
	case v >= 1e3:
		return trim(v/1e3) + "k"
	}
	return trim(v)
}

func trim(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.3g", v), ".0") }
