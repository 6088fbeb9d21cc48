// Package migration brings the tables of Quorate's parts to their newest form,
// on every engine, beside a user's own tables.
//
// What a database has is on record in the table quorate_migrations: a row for
// each step of each component. The six tables of the execution store are older
// than it and shared with services in other languages, which make them too: the
// store adopts and completes those by itself, and its version is in
// quorate_schema.
package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// Errors of [Run], for errors.Is.
var (
	// ErrNewer: the database was migrated by a newer release. The error is a
	// [*NewerError].
	ErrNewer = errors.New("schema of a newer release")
	// ErrSteps: the steps are not numbered from 1 without gaps, or the component
	// has no name.
	ErrSteps = errors.New("invalid migration")
)

// NewerError says that a component's tables are of a version that this release
// does not know. Nothing was changed. It matches [ErrNewer].
type NewerError struct {
	// Component is whose tables these are.
	Component string
	// Found is the version on record, Known the newest that Run was given.
	Found, Known int
}

// Error names the component and both versions.
func (e *NewerError) Error() string {
	return fmt.Sprintf("tables of %s: version %d was made by a newer release, this one knows up to %d", e.Component, e.Found, e.Known)
}

// Is reports whether target is ErrNewer.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// Step is one version of a component's schema. Steps are never changed once
// released; a change is a new step.
type Step struct {
	// Version counts from 1 without gaps.
	Version int
	// DDL are idempotent statements in SQL that SQLite and PostgreSQL both take
	// (types TEXT and BIGINT; CREATE … IF NOT EXISTS). Statements that change
	// rows are allowed too; a column that is there already counts as added.
	DDL []string
}

const (
	ddlMigrations = `CREATE TABLE IF NOT EXISTS quorate_migrations(component TEXT NOT NULL,version BIGINT NOT NULL,PRIMARY KEY(component,version))`
	sqlVersion    = `SELECT max(quorate_migrations.version) AS version FROM quorate_migrations WHERE quorate_migrations.component=?`
	// The key lets one of those who start at once do the step: the others are
	// refused, on PostgreSQL after they have waited for its end.
	sqlClaim = `INSERT INTO quorate_migrations(component,version) VALUES(?,?)`
)

// Run applies the steps of a component that the database does not have yet, each
// in one transaction with its record, so that a step is done once and in whole.
// Many processes may run it at once; it reads first, and writes nothing when all
// is there. It blocks until the tables are there or ctx ends.
//
// Errors: [ErrSteps], [*NewerError], the engine's.
func Run(ctx context.Context, eng engine.Engine, component string, steps []Step) error {
	if component == "" {
		return fmt.Errorf("%w: the component has no name", ErrSteps)
	}
	for i, s := range steps {
		if s.Version != i+1 {
			return fmt.Errorf("%w of %s: step %d has the version %d", ErrSteps, component, i+1, s.Version)
		}
	}
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(0))
	refusals, last := 0, 0
	for {
		at, err := version(ctx, eng, component)
		if err != nil {
			return fmt.Errorf("read the schema version of %s: %w", component, err)
		}
		switch {
		case at > len(steps):
			return &NewerError{Component: component, Found: at, Known: len(steps)}
		case at == len(steps):
			return nil
		}
		if at > last { // whoever did that step, the refusals were not of this one
			refusals, last = 0, at
		}
		if err = apply(ctx, eng, component, steps[at]); err == nil {
			continue
		}
		// Others may have done the step, or a request without an answer has: the
		// record tells. What is refused again and again is an error.
		if isRefusal(err) {
			refusals++
		} else if engine.OutcomeOf(err) == engine.NotApplied {
			refusals = maxRefusals
		}
		if refusals >= maxRefusals || !retry.Sleep(ctx, pause.NextBackOff()) {
			return fmt.Errorf("migrate %s to version %d: %w", component, steps[at].Version, err)
		}
	}
}

// maxRefusals bounds how often a step is tried that the database refuses.
const maxRefusals = 4

// version returns the newest step on record, 0 if there is none.
func version(ctx context.Context, eng engine.Engine, component string) (int, error) {
	ask := []engine.Statement{{SQL: sqlVersion, Args: []engine.Value{engine.Text(component)}}}
	results, err := eng.Query(ctx, engine.Linearizable, ask)
	if isRefusal(err) { // there is no such table
		if err := eng.Define(ctx, []string{ddlMigrations}); err != nil {
			return 0, err
		}
		results, err = eng.Query(ctx, engine.Linearizable, ask)
	}
	if err != nil {
		return 0, err
	}
	if len(results) != 1 || results[0].Len() != 1 {
		return 0, &engine.Error{Op: "query", Outcome: engine.NotApplied, Reason: engine.ErrProtocol, Err: errors.New("no single row of an aggregate")}
	}
	at, _ := results[0].Row(0)[0].Int()
	return int(at), nil
}

// apply does one step together with its record.
func apply(ctx context.Context, eng engine.Engine, component string, s Step) error {
	stmts := make([]engine.Statement, 0, len(s.DDL)+1)
	stmts = append(stmts, engine.Statement{SQL: sqlClaim, Args: []engine.Value{engine.Text(component), engine.Int(int64(s.Version))}})
	for _, ddl := range s.DDL {
		stmts = append(stmts, engine.Statement{SQL: ddl})
	}
	_, err := eng.Exec(ctx, stmts)
	var refused *engine.StatementError
	if !errors.As(err, &refused) || refused.Index == 0 {
		return err
	}
	// Tables may be there from before their steps were on record, with a column
	// that the step adds: Define takes that for done.
	if define := eng.Define(ctx, s.DDL); define != nil {
		return define
	}
	_, err = eng.Exec(ctx, stmts[:1])
	return err
}

func isRefusal(err error) bool {
	var refused *engine.StatementError
	return errors.As(err, &refused)
}
