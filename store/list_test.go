package store

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

func TestCursorGoesWithItsFilters(t *testing.T) {
	filters := []uint64{
		filterHash(nil, "", false), filterHash(nil, "", true), filterHash(nil, "a", false), filterHash(nil, "\x00", false),
		filterHash([]Status{StatusDone}, "", false), filterHash([]Status{StatusDone, StatusFailed}, "", false), filterHash([]Status{StatusFailed}, "DONE", false),
	}
	for i, made := range filters {
		cursor := makeCursor("id", made)
		for j, used := range filters {
			last, err := parseCursor(cursor, used)
			if i == j && (err != nil || last != "id") || i != j && !errors.Is(err, ErrInvalid) {
				t.Errorf("made with filters %d, used with %d: %q, %v", i, j, last, err)
			}
		}
	}
}

// FuzzCursor checks that a cursor is either one that was made, to the letter, or
// an error.
func FuzzCursor(f *testing.F) {
	filter := filterHash([]Status{StatusDone}, "d", true)
	for _, s := range []string{"", "?", "AA", makeCursor("x", filter), makeCursor("", filter), makeCursor("x", 1), makeCursor("x", filter) + "\n", makeCursor("\x00\xff", filter), strings.Repeat("A", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		last, err := parseCursor(cursor, filter)
		switch {
		case err != nil:
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: %v", cursor, err)
			}
		case cursor != "" && makeCursor(last, filter) != cursor:
			t.Errorf("%q was taken for the cursor after %q", cursor, last)
		}
	})
}

func TestCursorOfAnotherVersion(t *testing.T) {
	b, err := base64.RawURLEncoding.DecodeString(makeCursor("x", 7))
	if err != nil {
		t.Fatal(err)
	}
	b[0] = cursorVersion + 1
	_, err = parseCursor(base64.RawURLEncoding.EncodeToString(b), 7)
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "version") {
		t.Errorf("%v", err)
	}
}

func TestListStatementBindsEachParameter(t *testing.T) {
	for _, statuses := range [][]Status{nil, {StatusDone}, {StatusDone, StatusFailed, StatusPending}} {
		for _, definition := range []string{"", "d"} {
			for _, after := range []string{"", "id", "x'41'"} {
				q := &ListQuery{DefinitionID: definition, RootsOnly: true}
				if after != "" {
					q.Cursor = "c"
				}
				sql, args := listStatement(engine.SQLite, statuses, q, after, 11)
				if got, want := strings.Count(sql, "?"), len(args)+1; got != want {
					t.Errorf("%d parameters, %d arguments and the limit: %s", got, len(args), sql)
				}
				for _, a := range args {
					if text, ok := a.Text(); ok && isBlobLiteral(text) {
						t.Errorf("binds %q, which rqlite takes for a blob", text)
					}
				}
			}
		}
	}
}

func TestListStopsAtAnAnswerItDoesNotUnderstand(t *testing.T) {
	eng := &fakeEngine{traits: fakeTraits}
	s := fakeStore(eng)
	for name, results := range map[string][]engine.Result{"nothing": nil, "no columns": {{}}, "other columns": rowsOf([]string{"id", "version"})} {
		eng.query = func(int, []engine.Statement) ([]engine.Result, error) { return results, nil }
		if page, err := s.List(t.Context(), ListQuery{}); !errors.Is(err, engine.ErrProtocol) || len(page.Items) != 0 {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
}
