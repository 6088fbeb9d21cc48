package store

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

func TestVerdict(t *testing.T) {
	const mine, base, other = "mine", "base", "other"
	known := engine.Text(base)
	for _, c := range []struct {
		name  string
		base  int64
		token engine.Value
		row   peeked
		want  verdict
	}{
		{"created", 0, engine.Null(), peeked{version: 1, token: mine}, verdictWon},
		{"created and built upon by others who leave the token", 0, engine.Null(), peeked{version: 5, token: mine}, verdictWon},
		{"created by another", 0, engine.Null(), peeked{version: 1, token: other}, verdictLost},
		{"created by others", 0, engine.Null(), peeked{version: 1}, verdictLost},
		{"not created", 0, engine.Null(), peeked{version: NoVersion}, verdictOpen},
		{"created long ago", 0, engine.Null(), peeked{version: 2, token: other}, verdictUnclear},
		{"replaced", 3, known, peeked{version: 4, token: mine}, verdictWon},
		{"replaced by another", 3, known, peeked{version: 4, token: other}, verdictLost},
		{"replaced by others, who leave the base's token", 3, known, peeked{version: 4, token: base}, verdictLost},
		{"as before", 3, known, peeked{version: 3, token: base}, verdictOpen},
		{"as before, the token not known", 3, engine.Null(), peeked{version: 3, token: other}, verdictOpen},
		{"the base is another's", 3, known, peeked{version: 3, token: other}, verdictLost},
		{"the base is of others", 3, known, peeked{version: 3}, verdictLost},
		{"the base had no token, and has one", 3, engine.Text(""), peeked{version: 3, token: other}, verdictLost},
		{"moved on", 3, known, peeked{version: 5, token: other}, verdictUnclear},
		{"gone", 3, known, peeked{version: NoVersion}, verdictUnclear},
		{"older than before", 3, known, peeked{version: 2, token: other}, verdictUnclear},
		{"no number", 3, known, peeked{token: base, invalid: true}, verdictUnclear},
		{"no number, but ours", 3, known, peeked{token: mine, invalid: true}, verdictWon},
		{"no number, from nothing", 0, known, peeked{invalid: true}, verdictUnclear},
	} {
		w := &Write{token: mine, commit: &commitRows{base: c.base, baseToken: c.token}}
		if got := w.verdict(c.row); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestResolveReportsWhatItCannotRead(t *testing.T) {
	eng := &fakeEngine{traits: fakeTraits}
	s := fakeStore(eng)
	ref := fakeWrites(t, s, "a")[0].Ref()
	for name, answer := range map[string]func() ([]engine.Result, error){
		"an error":         func() ([]engine.Result, error) { return nil, fakeRefusal(engine.ErrNoLeader) },
		"no result":        func() ([]engine.Result, error) { return nil, nil },
		"other columns":    func() ([]engine.Result, error) { return rowsOf([]string{"id", "version"}), nil },
		"results too many": func() ([]engine.Result, error) { return append(rowsOf(peekColumns), engine.Result{}), nil },
	} {
		eng.query = func(int, []engine.Statement) ([]engine.Result, error) { return answer() }
		if got, err := s.Resolve(t.Context(), ref); err == nil || got != ResolutionUnclear || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for r, want := range map[Resolution]string{ResolutionUnclear: "unclear", ResolutionCommitted: "committed", ResolutionLost: "lost", ResolutionOpen: "open"} {
		if r.String() != want {
			t.Errorf("%d reads %q, want %q", r, r, want)
		}
	}
}
