package main

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/store"
)

func TestDocumentIsTheStoresOwn(t *testing.T) {
	for _, size := range []int{400, 512, 100 << 10} {
		d, err := newDataset(3, size, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range d.newIDs() {
			doc := d.document(id)
			text := doc.at(12, 34)
			var e store.Execution
			if err := e.UnmarshalJSON([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if e.ID != id || e.ProcessedEvents != 12 || e.Version != 34 || e.Status != status {
				t.Errorf("%+v", e)
			}
			if got := len(doc.at(0, 0)); got != size {
				t.Errorf("%d bytes, want %d", got, size)
			}
		}
	}
}

func TestIDsAreUnique(t *testing.T) {
	d, err := newDataset(1000, 512, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	add := func(id string) {
		if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" || seen[id] {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
	}
	for range 3 {
		for _, id := range d.newIDs() {
			add(id)
		}
		events := d.newEventIDs()
		for range 1000 {
			add(events.id())
		}
	}
}

func TestShares(t *testing.T) {
	for _, n := range []int{1, 7, 4096} {
		for _, callers := range []int{1, 3, 7} {
			next := 0
			for i := range callers {
				lo, hi := share(n, i, callers)
				if lo != next || hi < lo {
					t.Fatalf("share %d of %d: %d to %d", i, callers, lo, hi)
				}
				if next = hi; n >= callers && hi == lo {
					t.Fatalf("share %d of %d is empty", i, callers)
				}
			}
			if next != n {
				t.Fatalf("%d of %d shared", next, n)
			}
		}
	}
}
