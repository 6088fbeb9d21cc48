package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// maxGenerate bounds the orders of a generated input.
const maxGenerate = 10_000_000

// delivery is a line of the sample and when it arrives.
type delivery struct {
	ev      event
	arrives time.Time
}

// sampleStart is when the first order of a sample is placed.
var sampleStart = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// writeSample writes events of some orders as JSON lines, in the order in which
// they arrive: mostly right, but some twice, some too late and some ahead of
// others. The same seed gives the same bytes.
func writeSample(w io.Writer, seed uint64, orders int) error {
	// The seed of a PCG is all of its state.
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0x0dde75)), merchants: max(8, orders/6)}
	var all []delivery
	placed := sampleStart
	for i := range orders {
		placed = placed.Add(time.Duration(1+g.rng.IntN(20)) * time.Millisecond)
		all = g.order(all, fmt.Sprintf("o%06d", i+1), placed)
	}
	slices.SortStableFunc(all, func(a, b delivery) int { return a.arrives.Compare(b.arrives) })
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	for _, d := range all {
		if err := enc.Encode(d.ev); err != nil {
			return err
		}
	}
	return out.Flush()
}

type generator struct {
	rng       *rand.Rand
	merchants int
	events    int
}

// chance is true in percent of all cases.
func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

// order appends the deliveries of one order.
func (g *generator) order(all []delivery, id string, at time.Time) []delivery {
	var seq int64
	add := func(after time.Duration, ev event) {
		at = at.Add(after)
		seq++
		g.events++
		ev.ID, ev.Order, ev.Seq, ev.At = fmt.Sprintf("e%07d", g.events), id, seq, at
		all = g.deliver(all, ev)
	}
	ms := func(from, to int) time.Duration { return time.Duration(from+g.rng.IntN(to-from)) * time.Millisecond }
	item := func() event {
		return event{
			Kind: kindItemAdded, SKU: fmt.Sprintf("sku-%03d", g.rng.IntN(500)),
			Qty: int64(1 + g.rng.IntN(9)), PriceCents: int64(99 + g.rng.IntN(20_000)),
		}
	}
	payWithin := 100 + g.rng.IntN(400)
	add(0, event{Kind: kindPlaced, Merchant: fmt.Sprintf("m%04d", g.rng.IntN(g.merchants)), PayWithinMS: int64(payWithin)})
	deadline := at.Add(time.Duration(payWithin) * time.Millisecond)
	for range 1 + g.rng.IntN(4) {
		add(ms(1, 10), item())
	}
	until := max(1, int(deadline.Sub(at).Milliseconds()))
	switch n := g.rng.IntN(100); {
	case n < 70: // paid in time
		add(ms(0, until), event{Kind: kindPaid})
		if g.chance(10) { // and only then thought better of
			add(ms(1, 50), event{Kind: kindCancelled, Reason: "changed my mind"})
		}
	case n < 80: // cancelled in time
		add(ms(0, until), event{Kind: kindCancelled, Reason: "found it cheaper"})
	case n < 88: // paid too late
		add(ms(until+1, until+300), event{Kind: kindPaid})
	}
	if g.chance(8) { // an item for an order that is decided, or soon will be
		add(ms(1, 400), item())
	}
	return all
}

// deliver decides when an event arrives, and whether it arrives again.
func (g *generator) deliver(all []delivery, ev event) []delivery {
	delay := func() time.Duration {
		d := g.rng.ExpFloat64() * float64(4*time.Millisecond)
		if g.chance(3) { // stuck somewhere
			d += g.rng.ExpFloat64() * float64(300*time.Millisecond)
		}
		return time.Duration(d)
	}
	all = append(all, delivery{ev, ev.At.Add(delay())})
	for g.chance(7) {
		all = append(all, delivery{ev, ev.At.Add(delay() + delay()*8)})
	}
	return all
}
