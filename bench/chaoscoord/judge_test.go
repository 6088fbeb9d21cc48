package main

import (
	"slices"
	"strings"
	"testing"
)

func by(worker int, e event) told { return told{worker, e} }

// clean is a history in which nothing is wrong.
func clean() []told {
	return []told{
		by(0, event{Kind: "grant", Name: "l", Token: 1, Sent: 10, At: 20}),
		by(0, event{Kind: "write", Name: "l", Token: 1, Sent: 21, At: 25, ID: "a", OK: true, Valid: true}),
		by(0, event{Kind: "end", Name: "l", Token: 1, At: 30}),
		by(1, event{Kind: "grant", Name: "l", Token: 2, Sent: 15, At: 40}),
		by(0, event{Kind: "write", Name: "l", Token: 1, Sent: 41, At: 45, ID: "b", Stale: true}),
		by(1, event{Kind: "write", Name: "l", Token: 2, Sent: 41, At: 45, ID: "c", OK: true, Valid: true}),
		by(1, event{Kind: "end", Name: "l", Token: 2, At: 50, OK: true}),
		by(1, event{Kind: "claim", Name: "schedule", Due: 100, OK: true}),
		by(0, event{Kind: "claim", Name: "schedule", Due: 200, OK: true}),
	}
}

func journal() []entry {
	return []entry{{name: "l", writer: "a", n: 1, token: 1}, {name: "l", writer: "c", n: 2, token: 2}}
}

func TestCleanHistory(t *testing.T) {
	v := judge(clean(), journal())
	if len(v.violations) > 0 {
		t.Errorf("%q", v.violations)
	}
	if v.grants != 2 || v.takeovers != 1 || v.releases != 0 || v.writes != 3 || v.refused != 1 || v.stale != 1 || v.claims != 2 {
		t.Errorf("%+v", v)
	}
}

// Each way in which coordination may fail is found.
func TestJudgeIsNotBlind(t *testing.T) {
	for want, spoil := range map[string]func(events []told, journal []entry) ([]told, []entry){
		"held token 1 at least until": func(e []told, j []entry) ([]told, []entry) {
			return append(e, by(0, event{Kind: "seen", Name: "l", Token: 1, At: 41})), j
		},
		"was given to worker": func(e []told, j []entry) ([]told, []entry) {
			return append(e, by(2, event{Kind: "grant", Name: "l", Token: 2, Sent: 60, At: 70})), j
		},
		"after worker 3 had token 3": func(e []told, j []entry) ([]told, []entry) {
			return append(e, by(3, event{Kind: "grant", Name: "l", Token: 3, Sent: 1, At: 5})), j
		},
		"was refused although": func(e []told, j []entry) ([]told, []entry) {
			return append(e, by(1, event{Kind: "write", Name: "l", Token: 2, ID: "d", Valid: true})), j
		},
		"was won by": func(e []told, j []entry) ([]told, []entry) {
			return append(e, by(2, event{Kind: "claim", Name: "schedule", Due: 100, OK: true})), j
		},
		"was accepted after": func(e []told, j []entry) ([]told, []entry) {
			return e, append(j, entry{name: "l", writer: "b", n: 3, token: 1})
		},
		"is not there": func(e []told, j []entry) ([]told, []entry) {
			return append(e, by(1, event{Kind: "write", Name: "l", Token: 2, ID: "e", OK: true})), j
		},
		"follows on": func(e []told, j []entry) ([]told, []entry) {
			return e, append(j, entry{name: "l", writer: "f", n: 4, token: 2})
		},
		"begins with": func(e []told, j []entry) ([]told, []entry) {
			return e, append(j, entry{name: "m", writer: "g", n: 2, token: 2})
		},
	} {
		v := judge(spoil(clean(), journal()))
		if !slices.ContainsFunc(v.violations, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q was not found: %q", want, v.violations)
		}
	}
}
