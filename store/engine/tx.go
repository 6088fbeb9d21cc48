package engine

import "context"

// Transactor is an Engine with interactive transactions: the caller may decide,
// from what it has read inside the transaction, what to write. rqlite has none.
type Transactor interface {
	Engine

	// Begin starts a transaction that may write. Where the database has one
	// writer at a time (SQLite), it waits for its turn here and holds it to the
	// end; elsewhere (PostgreSQL, READ COMMITTED) the rows that the statements
	// write or lock decide who waits for whom. It blocks under ctx, which bounds
	// the waiting only: see the methods of Tx for the rest. Errors are
	// [ErrNotApplied].
	Begin(ctx context.Context) (Tx, error)
}

// Tx is an interactive transaction. It is for one goroutine. It must be ended by
// Commit or Rollback; both leave nothing behind, neither a lock nor a broken
// connection, whatever became of the contexts.
type Tx interface {
	// Exec runs stmts in order and returns one Result for each. SELECT is
	// allowed. After an error the transaction is over: it is rolled back, and all
	// that is left is to call Rollback.
	Exec(ctx context.Context, stmts []Statement) ([]Result, error)

	// Commit ends the transaction. Its error is one of the three kinds. It does
	// not stop halfway because ctx ended: a ctx that has ended before rolls the
	// transaction back and gives [ErrNotApplied].
	Commit(ctx context.Context) error

	// Rollback undoes the transaction. After Commit it does nothing.
	Rollback()
}
