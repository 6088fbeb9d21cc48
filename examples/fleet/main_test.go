package main

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sampleOf returns a generated input as text.
func sampleOf(t testing.TB, seed uint64, orders int) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeSample(&b, seed, orders); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// eventsOf decodes an input whose lines are all good.
func eventsOf(t testing.TB, input string) []event {
	t.Helper()
	var events []event
	from, failed := readLines(bytes.NewReader([]byte(input)), nil)
	for l := range from {
		if l.err != nil {
			t.Fatalf("line %d: %v", l.number, l.err)
		}
		events = append(events, l.event)
	}
	if *failed != nil {
		t.Fatal(*failed)
	}
	return events
}
