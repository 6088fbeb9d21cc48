package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// rowsPerStatement is how many rows a statement of the store carries at most: see
// the package's documentation.
const rowsPerStatement = 64

// Exec runs stmts in one transaction, in order, and returns one Result for each.
// Its isolation is READ COMMITTED unless the database's default is another. All of
// them go in one message, with the end of the transaction.
//
// It waits while the server is not there, under ctx and [WithRetryLimit], and
// begins again by itself where a deadlock or another transaction undid it. When
// ctx ends the server is asked to cancel, and its answer usually says what became
// of the statements. If the connection breaks once they were sent, the error is
// [engine.ErrOutcomeUnknown]; every other one is [engine.ErrNotApplied].
//
// A refused statement gives a [*engine.StatementError]; a full disk
// [engine.ErrFull]; a standby, or a database that is only to be read,
// [engine.ErrReadOnly]; others as for [Open].
//
// LastInsertID is not told: PostgreSQL knows no such number. Use RETURNING.
func (e *Engine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if len(stmts) == 0 {
		return nil, e.usable(ctx, "exec")
	}
	if f := e.forbid(stmts); f != nil {
		return nil, f.toError("exec")
	}
	var results []engine.Result
	err := e.do(ctx, "exec", patient, func(c *conn) (f *failure) {
		j, f := e.newJob(stmts, engine.Unknown)
		if f == nil {
			results, f = c.run(j)
		}
		return f
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// forbid refuses statements that begin or end transactions: each call is one.
func (e *Engine) forbid(stmts []engine.Statement) *failure {
	for i := range stmts {
		if e.texts.get(stmts[i].SQL).bounds {
			return unfit(i, errors.New("a statement may not begin or end a transaction"))
		}
	}
	return nil
}

// usable is the answer to an empty list.
func (e *Engine) usable(ctx context.Context, op string) error {
	if !e.pool.enter() {
		return closedFailure().toError(op)
	}
	defer e.pool.users.Done()
	if ctx.Err() != nil {
		return ended(ctx).toError(op)
	}
	return nil
}

// begin and end surround queries, so that they see one snapshot and change
// nothing.
var (
	begin = engine.Statement{SQL: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}
	end   = engine.Statement{SQL: "COMMIT"}
)

// Query runs read-only stmts on one snapshot and returns one Result for each. It
// always asks the primary, so whatever the level, it sees every commit that was
// acknowledged before. It waits as [Engine.Exec] does, and all its errors are
// [engine.ErrNotApplied].
func (e *Engine) Query(ctx context.Context, _ engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	if len(stmts) == 0 {
		return nil, e.usable(ctx, "query")
	}
	if f := e.forbid(stmts); f != nil {
		return nil, f.toError("query")
	}
	// A lone SELECT is its own snapshot; a function that writes is its author's
	// affair. Everything else is told to change nothing.
	single := len(stmts) == 1 && e.texts.get(stmts[0].SQL).reads
	list := stmts
	if !single {
		list = make([]engine.Statement, 0, len(stmts)+2)
		list = append(append(append(list, begin), stmts...), end)
	}
	var results []engine.Result
	err := e.do(ctx, "query", patient, func(c *conn) *failure {
		j, f := e.newJob(list, engine.NotApplied)
		if f == nil {
			results, f = c.run(j)
		}
		if !single {
			c.leave()
			f = shifted(f, len(stmts))
		}
		return f
	})
	if err != nil {
		return nil, err
	}
	if !single {
		results = results[1 : len(results)-1]
	}
	return results, nil
}

// leave ends a transaction that a failure has left open.
func (c *conn) leave() {
	if c.pg.IsClosed() || c.pg.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.pg.Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
		c.retired = true
	}
}

// shifted counts without the statement in front.
func shifted(f *failure, count int) *failure {
	if f == nil {
		return nil
	}
	var st *engine.StatementError
	if errors.As(f.err, &st) {
		st.Index = min(max(st.Index-1, 0), count-1)
	} else if isCode(f.err, "25006") {
		f.reason, f.err = nil, &engine.StatementError{Message: "a query cannot write"}
	}
	return f
}

// lockSchema lets one of those who define a schema at once go first: CREATE TABLE
// IF NOT EXISTS alone may fail when two of them find nothing there. The number is
// any that others will not use.
const lockSchema = "SELECT pg_advisory_xact_lock(5791837264019283746)"

// Define runs schema statements, in order and in one transaction. Each must be
// idempotent. Tables may be defined in SQLite's words: TEXT gets the collation C,
// INTEGER is a bigint, REAL a double precision, INTEGER PRIMARY KEY AUTOINCREMENT
// an identity column, WITHOUT ROWID nothing. A column that is there already counts
// as added. The same holds for such statements in [Engine.Exec].
//
// It waits as Exec does. Since repeating is safe, it goes on after an unknown
// outcome, until ctx ends.
func (e *Engine) Define(ctx context.Context, ddl []string) error {
	if len(ddl) == 0 {
		return e.usable(ctx, "define")
	}
	stmts := make([]engine.Statement, 0, len(ddl)+1)
	stmts = append(stmts, engine.Statement{SQL: lockSchema})
	for i, sql := range ddl {
		if strings.TrimSpace(sql) == "" {
			return unfit(i, errors.New("an empty statement")).toError("define")
		}
		stmts = append(stmts, engine.Statement{SQL: sql})
	}
	for tries := 0; ; tries++ {
		err := e.do(ctx, "define", patient, func(c *conn) *failure {
			j, f := e.newJob(stmts, engine.Unknown)
			if f != nil {
				return f
			}
			j.unprepared = true
			if _, f = c.run(j); f != nil {
				var st *engine.StatementError
				if errors.As(f.err, &st) {
					// Others, who know nothing of our lock, made it just now.
					if tries < maxStale && (strings.Contains(st.Message, "42P07") || strings.Contains(st.Message, "pg_type_typname_nsp_index") || strings.Contains(st.Message, "pg_class_relname_nsp_index")) {
						f.again = contended
					}
					st.Index = max(st.Index-1, 0)
				}
			}
			return f
		})
		if !errors.Is(err, engine.ErrOutcomeUnknown) || errors.Is(err, engine.ErrClosed) || !e.sleep(ctx, patience/100) {
			return err
		}
	}
}
