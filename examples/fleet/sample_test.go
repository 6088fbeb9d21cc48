package main

import (
	"bytes"
	"testing"
)

// TestSampleIsGenerated: the committed sample is what the generator makes, and
// it has all that the fleet is there for.
func TestSampleIsGenerated(t *testing.T) {
	if got := sampleOf(t, 1, 1200); got != string(sample) {
		t.Error("testdata/orders.jsonl is not what -generate 1200 -seed 1 prints; generate it anew")
	}
	events := eventsOf(t, string(sample))
	model := newOracle()
	last := make(map[string]int64)
	early := 0
	for _, ev := range events {
		if err := model.add(ev); err != nil {
			t.Fatal(err)
		}
		if ev.Seq < last[ev.Order] {
			early++
		}
		last[ev.Order] = max(last[ev.Order], ev.Seq)
	}
	states := make(map[string]int)
	late := int64(0)
	for _, l := range model.orders {
		x := l.expect()
		states[x.state]++
		late += x.late
		if x.deferred > 0 {
			t.Error("an order of the sample waits for ever")
		}
	}
	for what, n := range map[string]int{
		"orders": len(model.orders) / 10, "duplicates": len(events) - int(model.distinct), "out of order": early, "late": int(late),
		"shipped": states[orderShipped], "expired": states[orderExpired], "cancelled": states[orderCancelled],
	} {
		if n < 100 {
			t.Errorf("%s: %d", what, n)
		}
	}
	if bytes.Count(sample, []byte("\n")) != len(events) {
		t.Error("not one event in each line")
	}
}
