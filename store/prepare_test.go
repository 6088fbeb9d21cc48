package store

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// The database has to understand every statement, for one row and for several, in
// every form that a batch may have.
func TestTemplatesAreUnderstood(t *testing.T) {
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), eng, WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	understood := func(name string, sql string, params int) {
		t.Helper()
		st := engine.Statement{SQL: "EXPLAIN " + sql, Args: make([]engine.Value, params)}
		if _, err := eng.Exec(t.Context(), []engine.Statement{st}); err != nil {
			t.Errorf("%s: %v: %s", name, err, sql)
		}
	}
	for name, tmpl := range allTemplates {
		for form, tmpl := range map[string]*template{"": tmpl, "sifted ": tmpl.sifted, "unanimous ": tmpl.unanimous} {
			if tmpl == nil {
				continue
			}
			for _, n := range []int{1, 2, 3} {
				understood(form+name, tmpl.text(n, engine.SQLite), n*tmpl.cols)
			}
		}
	}
	understood("tally", sqlTally, 1)
	understood("forget lost", sqlForgetLost, 0)
}

// A row that nobody asked for, as in a table that compares ids in its own way, is
// not the answer to a load, and does not take those of others away.
func TestLoadOfARowWithAnotherID(t *testing.T) {
	eng := &fakeEngine{traits: fakeTraits}
	s := fakeStore(eng)
	eng.query = func(_ int, stmts []engine.Statement) ([]engine.Result, error) {
		row := func(id string) []engine.Value {
			return []engine.Value{engine.Text(id), engine.Int(1), engine.Text(""), engine.Text(`{"id":"` + id + `","definition_id":"d","status":"pending"}`), engine.Text("d"), engine.Text("pending")}
		}
		return rowsOf([]string{"id", "version", "token", "data", "definition", "status"}, append(row("ABC"), row("other")...)...), nil
	}
	var reads []*Read
	for _, id := range []string{"abc", "other"} {
		r, err := s.PrepareLoad(id)
		if err != nil {
			t.Fatal(err)
		}
		reads = append(reads, r)
	}
	var errs [2]error
	s.Fetch(t.Context(), reads, func(i int, err error) { errs[i] = err })
	if errs[0] == nil || !strings.Contains(errs[0].Error(), "another text") {
		t.Errorf("abc: %v", errs[0])
	}
	if errs[1] != nil && strings.Contains(errs[1].Error(), "another text") || reads[1].exec == nil && errs[1] == nil {
		t.Errorf("other: %v", errs[1])
	}
}
