package workspace

import "testing"

// TestHeadsAreAskedForWithFewTexts keeps the engines' caches of statements small,
// however the number of those who wait changes.
func TestHeadsAreAskedForWithFewTexts(t *testing.T) {
	texts := make(map[string]bool)
	refs := make([]Ref, 3*chunk)
	for n := 1; n <= len(refs); n++ {
		args := 0
		for _, st := range headStatements(refs[:n]) {
			texts[st.SQL] = true
			args += len(st.Args)
		}
		if args < 2*n {
			t.Fatalf("%d arguments for %d logs", args, n)
		}
	}
	if len(texts) > 10 {
		t.Errorf("%d texts", len(texts))
	}
}
