package storetest

import (
	"cmp"
	"context"
	"errors"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

// engineCase is one promise of an engine and its test.
type engineCase struct {
	promise string
	run     func(s *seam)

	// column is the type of storetest.v where columns have one: BIGINT if it is
	// empty.
	column string
	// mixed says that v holds values of several kinds.
	mixed bool
}

// seam is an engine with a table of the suite's in its database.
type seam struct {
	*testing.T
	ctx context.Context
	db  Database
	eng engine.Engine

	column string // the definition of storetest.v
}

func newSeam(t *testing.T, h Harness, c *engineCase) *seam {
	t.Helper()
	s := &seam{T: t, db: h.Open(t)}
	ctx, cancel := context.WithTimeout(t.Context(), caseLimit)
	t.Cleanup(cancel)
	s.ctx, s.eng = ctx, s.db.Engine
	t.Cleanup(func() {
		if err := s.eng.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	if s.db.Typed && c.mixed {
		t.Skip("a column of this database holds values of one kind only: store/conformance runs this on SQLite")
	}
	s.column = "v"
	if s.db.Typed {
		s.column += " " + cmp.Or(c.column, "BIGINT")
	}
	s.must(s.eng.Define(ctx, []string{
		"CREATE TABLE IF NOT EXISTS storetest(k TEXT NOT NULL PRIMARY KEY," + s.column + ")",
		"CREATE TABLE IF NOT EXISTS storetest_other(seq INTEGER PRIMARY KEY AUTOINCREMENT,k TEXT NOT NULL,n INTEGER,r REAL)",
	}))
	return s
}

func (s *seam) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%T: %v", err, err)
	}
}

// exec is Exec that must succeed, with a result for each statement.
func (s *seam) exec(stmts ...engine.Statement) []engine.Result {
	s.Helper()
	res, err := s.eng.Exec(s.ctx, stmts)
	s.must(err)
	if len(res) != len(stmts) {
		s.Fatalf("%d results for %d statements", len(res), len(stmts))
	}
	return res
}

// ask is Query that must succeed, with a result for each statement.
func (s *seam) ask(stmts ...engine.Statement) []engine.Result {
	s.Helper()
	res, err := s.eng.Query(s.ctx, engine.Linearizable, stmts)
	s.must(err)
	if len(res) != len(stmts) {
		s.Fatalf("%d results for %d statements", len(res), len(stmts))
	}
	return res
}

// oracle returns the integer that a query yields, past the engine if possible.
func (s *seam) oracle(sql string, args ...any) int64 {
	s.Helper()
	rows := askOracle(s.ctx, s.T, &s.db, sql, values(args))
	if len(rows) != 1 || len(rows[0]) != 1 {
		s.Fatalf("%s: got %v, want one value", sql, rows)
	}
	n, ok := rows[0][0].Int()
	if !ok {
		s.Fatalf("%s: got %v, want an integer", sql, rows[0][0])
	}
	return n
}

func (s *seam) count() int64 { s.Helper(); return s.oracle("SELECT count(*) AS n FROM storetest") }

// oneKind fails unless err is of exactly one of the three kinds, which it
// returns.
func (s *seam) oneKind(err error) engine.Outcome {
	s.Helper()
	kinds := 0
	for _, k := range []error{engine.ErrNotApplied, engine.ErrApplied, engine.ErrOutcomeUnknown} {
		if errors.Is(err, k) {
			kinds++
		}
	}
	if kinds != 1 {
		s.Errorf("%v is of %d kinds, want exactly one", err, kinds)
	}
	return engine.OutcomeOf(err)
}

// refused fails unless err says that statement index was refused and nothing
// applied.
func (s *seam) refused(err error, index int) {
	s.Helper()
	var st *engine.StatementError
	if !errors.As(err, &st) || st.Index != index || st.Message == "" {
		s.Errorf("got %v (%T), want statement %d refused with a message", err, err, index)
	}
	if err != nil && s.oneKind(err) != engine.NotApplied {
		s.Errorf("got %v, want not applied", err)
	}
}

func put(k string, v any) engine.Statement {
	return statement("INSERT INTO storetest(k,v) VALUES(?,?)", k, v)
}
