package postgres

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens an engine, which the end of the test closes.
func open(t testing.TB, url string, opts ...Option) *Engine {
	t.Helper()
	e, err := Open(t.Context(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// schema is a URL of a schema of the test's own, with an empty table in it:
// t(k TEXT, v BIGINT).
func schema(t testing.TB) string {
	t.Helper()
	url := postgrestest.Schema(t)
	e := open(t, url)
	if err := e.Define(t.Context(), []string{"CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY,v BIGINT)"}); err != nil {
		t.Fatal(err)
	}
	return url
}

func st(sql string, args ...any) engine.Statement {
	s := engine.Statement{SQL: sql}
	for _, a := range args {
		switch a := a.(type) {
		case nil:
			s.Args = append(s.Args, engine.Null())
		case int:
			s.Args = append(s.Args, engine.Int(int64(a)))
		case float64:
			s.Args = append(s.Args, engine.Float(a))
		case string:
			s.Args = append(s.Args, engine.Text(a))
		case engine.Value:
			s.Args = append(s.Args, a)
		}
	}
	return s
}

func put(k string, v int) engine.Statement { return st("INSERT INTO t(k,v) VALUES(?,?)", k, v) }

func exec(t testing.TB, e engine.Engine, stmts ...engine.Statement) []engine.Result {
	t.Helper()
	res, err := e.Exec(t.Context(), stmts)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// number is the integer that a query yields.
func number(t testing.TB, e engine.Engine, sql string, args ...any) int64 {
	t.Helper()
	res, err := e.Query(t.Context(), engine.Linearizable, []engine.Statement{st(sql, args...)})
	if err != nil {
		t.Fatal(err)
	}
	n, ok := res[0].Row(0)[0].Int()
	if !ok {
		t.Fatalf("%s: %v", sql, res[0].Row(0))
	}
	return n
}
