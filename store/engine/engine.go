// Package engine is the seam between Quorate's store and a SQL database.
//
// An [Engine] does three things: it runs a list of statements atomically and in
// order ([Engine.Exec]), it runs a list of queries on one snapshot
// ([Engine.Query]), and it creates the schema ([Engine.Define]). Everything
// above it (commits, loads, batches, futures) is written once for all engines.
//
// An engine's second duty is to say the truth about failures. Each error that
// leaves an engine is one of three kinds, which never mix:
//
//   - [ErrNotApplied]: the statements had no effect and never will;
//   - [ErrApplied]: the statements took effect, although their results are lost;
//   - [ErrOutcomeUnknown]: nobody can tell, and they may still take effect later.
//
// Test for them with errors.Is. See [Error] for how an engine builds one.
package engine

import "context"

// Engine is a SQL database as the store needs it. All methods are safe for
// concurrent use.
//
// A third-party engine proves itself with the conformance suite in package
// storetest.
type Engine interface {
	// Exec runs stmts in one transaction, in order, and returns one Result for
	// each. It blocks until the outcome is definite or ctx ends. On an error all
	// of stmts share one outcome: see [Error]. If a statement itself is refused
	// by the database, the error wraps a [*StatementError] and nothing of stmts
	// was applied. An empty list does nothing.
	Exec(ctx context.Context, stmts []Statement) ([]Result, error)

	// Query runs read-only stmts on one snapshot of the database and returns one
	// Result for each. It blocks until the rows are there or ctx ends.
	Query(ctx context.Context, level Consistency, stmts []Statement) ([]Result, error)

	// Define runs schema statements, in order. Each must be idempotent. A
	// statement that adds a column which is already there counts as done.
	Define(ctx context.Context, ddl []string) error

	// Ping reports whether Exec would work now: nil, or an error that says why
	// not ([ErrUnavailable], [ErrUnauthorized], [ErrClosed]).
	Ping(ctx context.Context) error

	// Traits describes the engine. The answer never changes.
	Traits() Traits

	// Close releases what the engine holds. Calls that are under way end with
	// an error, later ones with [ErrClosed]. Closing twice is no error.
	Close() error
}

// Traits describes what an engine can do and what suits it.
type Traits struct {
	// Name is the engine's short name for logs and reports, such as "sqlite".
	Name string

	// Dialect is the SQL that the engine takes, where there is a difference.
	Dialect Dialect

	// MaxParams is the largest number of parameters one statement may bind.
	MaxParams int

	// RowsPerStatement is how many rows a multi-row statement should carry at
	// most. Where each statement's text is parsed anew, as over a network, more
	// rows in fewer statements win. An engine that keeps prepared statements
	// wants 1: then there are few texts, and those for one row are the cheapest
	// to run.
	RowsPerStatement int

	// MaxBatchBytes is the size of parameters up to which one Exec works well.
	MaxBatchBytes int

	// Writers is the number of Exec calls worth having under way at once.
	Writers int

	// Readers is the number of Query calls worth having under way at once.
	Readers int
}

// Dialect is a family of SQL databases. What is written for several keeps to what
// they have in common; see package migration.
type Dialect uint8

const (
	// SQLite is the dialect of SQLite and rqlite. One transaction writes at a
	// time.
	SQLite Dialect = iota

	// PostgreSQL is that of PostgreSQL. Its transactions interleave at READ
	// COMMITTED: what a statement tests may have changed when the next one runs,
	// unless the row is locked.
	PostgreSQL
)

// String returns the name of the database.
func (d Dialect) String() string {
	if d == PostgreSQL {
		return "PostgreSQL"
	}
	return "SQLite"
}

// Consistency is how fresh the rows of a query must be.
type Consistency uint8

const (
	// Linearizable queries see every commit that was acknowledged, to anybody,
	// before the query began. It is the zero value and the only level that may
	// feed a compare-and-swap.
	Linearizable Consistency = iota

	// Weak queries are answered by the node that believes itself leader, without
	// asking the others. Across a leader change they may go back in time.
	Weak

	// Stale queries are answered by any node from what it has.
	Stale
)

// String returns the level's name.
func (c Consistency) String() string {
	switch c {
	case Linearizable:
		return "linearizable"
	case Weak:
		return "weak"
	case Stale:
		return "stale"
	}
	return "invalid"
}

// Statement is one SQL statement with its positional parameters. The text never
// contains a value. Its parameters are either all ?, in the order of Args, or all
// numbered, ?1 for the first of Args and so on; numbered ones may occur several
// times and in any order.
type Statement struct {
	SQL  string
	Args []Value

	// Returning tells Exec that the statement has a RETURNING clause, so that
	// its Result must have columns.
	Returning bool
}

// Result is the outcome of one statement.
type Result struct {
	// RowsAffected is the number of rows that an INSERT, UPDATE or DELETE
	// changed. It means nothing for other statements.
	RowsAffected int64

	// LastInsertID is the rowid of the last row inserted, where the engine tells
	// it. It means something only after an INSERT with RowsAffected > 0.
	LastInsertID int64

	// Columns are the names of the result columns; nil if there are none.
	Columns []string

	// Values holds the rows one after the other, each len(Columns) long.
	Values []Value
}

// Len returns the number of rows.
func (r *Result) Len() int {
	if len(r.Columns) == 0 {
		return 0
	}
	return len(r.Values) / len(r.Columns)
}

// Row returns row i, without copying it.
func (r *Result) Row(i int) []Value {
	n := len(r.Columns)
	return r.Values[i*n : (i+1)*n : (i+1)*n]
}

// Column returns the position of the named column, or -1.
func (r *Result) Column(name string) int {
	for i, c := range r.Columns {
		if c == name {
			return i
		}
	}
	return -1
}
