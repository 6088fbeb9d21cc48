package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/store/engine"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(childEnv); task != "" {
		os.Exit(child(task))
	}
	goleak.VerifyTestMain(m)
}

// open opens an engine that the test closes.
func open(t *testing.T, path string, opts ...Option) *Engine {
	t.Helper()
	e, err := Open(path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return e
}

// openKV is open with a table kv(k TEXT PRIMARY KEY, v).
func openKV(t *testing.T, path string, opts ...Option) *Engine {
	t.Helper()
	e := open(t, path, opts...)
	define(t, e, "CREATE TABLE IF NOT EXISTS kv (k TEXT PRIMARY KEY, v)")
	return e
}

func tempDB(t *testing.T) string { return filepath.Join(t.TempDir(), "q.db") }

func define(t *testing.T, e *Engine, ddl ...string) {
	t.Helper()
	if err := e.Define(context.Background(), ddl); err != nil {
		t.Fatal(err)
	}
}

func st(sql string, args ...any) engine.Statement {
	s := engine.Statement{SQL: sql}
	for _, a := range args {
		switch a := a.(type) {
		case nil:
			s.Args = append(s.Args, engine.Null())
		case int:
			s.Args = append(s.Args, engine.Int(int64(a)))
		case int64:
			s.Args = append(s.Args, engine.Int(a))
		case float64:
			s.Args = append(s.Args, engine.Float(a))
		case string:
			s.Args = append(s.Args, engine.Text(a))
		default:
			panic(fmt.Sprintf("argument of type %T", a))
		}
	}
	return s
}

func put(k string, v any) engine.Statement {
	return st("INSERT INTO kv (k, v) VALUES (?, ?)", k, v)
}

func exec(t *testing.T, e *Engine, stmts ...engine.Statement) []engine.Result {
	t.Helper()
	res, err := e.Exec(context.Background(), stmts)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func query(t *testing.T, e *Engine, stmts ...engine.Statement) []engine.Result {
	t.Helper()
	res, err := e.Query(context.Background(), engine.Linearizable, stmts)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// number returns the only value of a query, an integer.
func number(t *testing.T, e *Engine, sql string, args ...any) int64 {
	t.Helper()
	res := query(t, e, st(sql, args...))
	n, ok := res[0].Values[0].Int()
	if !ok || len(res[0].Values) != 1 {
		t.Fatalf("%s: want one integer, got %v", sql, res[0].Values)
	}
	return n
}

func wantErr(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v: want it to match %q", err, target)
		}
	}
}

func wantStatement(t *testing.T, err error, index int) {
	t.Helper()
	var s *engine.StatementError
	if !errors.As(err, &s) || s.Index != index || s.Message == "" {
		t.Errorf("error %v (%#v): want a StatementError with index %d", err, err, index)
	}
	wantErr(t, err, engine.ErrNotApplied)
}
