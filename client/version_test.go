package client

import "testing"

func TestVersions(t *testing.T) {
	for s, want := range map[string]version{
		"v8.32.4": {8, 32, 4}, "8.32.3": {8, 32, 3}, "10": {10, 0, 0}, "v9.1": {9, 1, 0},
		"v8.31.1-2-gabc": {8, 31, 1}, " v10.2.7 ": {10, 2, 7}, "1.2.3.4": {1, 2, 3},
		"": {}, "unknown": {}, "v8.x": {}, "-1": {},
	} {
		if got := parseVersion(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
	for s, old := range map[string]bool{
		"v8.32.3": true, "v8.31.9": true, "v7.99.99": true,
		"v8.32.4": false, "v8.33.0": false, "v10": false, "": false,
	} {
		if got := parseVersion(s).before(linearizableSince); got != old {
			t.Errorf("%q too old: %v", s, got)
		}
	}
}
