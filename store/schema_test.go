package store

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/store/engine"
)

var quiet = WithLogger(slog.New(slog.DiscardHandler))

// nothingThere answers the questions about the schema with nothing.
func nothingThere(int, []engine.Statement) ([]engine.Result, error) {
	return rowsOf([]string{"name"}), nil
}

// allThere answers that everything is there, but no version on record.
func allThere(_ int, stmts []engine.Statement) ([]engine.Result, error) {
	if stmts[0].SQL == sqlSchemaVersion {
		return rowsOf([]string{"version"}), nil
	}
	var names []engine.Value
	for _, o := range schema {
		names = append(names, engine.Text(o.name))
	}
	return rowsOf([]string{"name"}, names...), nil
}

func TestOpenGivesUpOnASchemaThatDoesNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := &fakeEngine{traits: fakeTraits, query: nothingThere, define: func(int, []string) error { return nil }}
		if _, err := Open(t.Context(), eng, quiet); !errors.Is(err, ErrSchema) {
			t.Errorf("%v", err)
		}
	})
}

func TestOpenDefinesAgainWhatMayNotBeThere(t *testing.T) {
	refused := &engine.Error{Op: "define", Outcome: engine.NotApplied, Err: &engine.StatementError{Message: "no such column"}}
	for name, c := range map[string]struct {
		err   error
		again bool
	}{
		"unknown": {fakeUnknown(), true}, "refused": {refused, true}, "unavailable": {fakeRefusal(engine.ErrUnavailable), false}, "unauthorized": {fakeRefusal(engine.ErrUnauthorized), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			there := nothingThere
			eng := &fakeEngine{traits: fakeTraits}
			eng.query = func(n int, stmts []engine.Statement) ([]engine.Result, error) { return there(n, stmts) }
			eng.define = func(n int, ddl []string) error {
				if n == 1 {
					return c.err
				}
				there = allThere
				return nil
			}
			eng.exec = func(_ int, stmts []engine.Statement) ([]engine.Result, error) {
				return make([]engine.Result, len(stmts)), nil
			}
			_, err := Open(t.Context(), eng, quiet)
			if c.again && (err != nil || eng.defines != 2) || !c.again && (!errors.Is(err, c.err) || eng.defines != 1) {
				t.Errorf("%s: %v after %d definitions", name, err, eng.defines)
			}
		})
	}
}

func TestOpenStopsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		eng := &fakeEngine{traits: fakeTraits, query: allThere}
		eng.exec = func(n int, _ []engine.Statement) ([]engine.Result, error) {
			if n == 3 {
				cancel()
			}
			return nil, fakeUnknown()
		}
		if _, err := Open(ctx, eng, quiet); !errors.Is(err, ErrOutcomeUnknown) || eng.execs != 3 {
			t.Errorf("%v after %d requests", err, eng.execs)
		}
	})
}
