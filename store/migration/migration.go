// Package migration brings the tables of Quorate's parts to their newest form,
// on every engine, beside a user's own tables.
package migration

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/store/engine"
)

// Step is one version of a component's schema. Steps are never changed once
// released; a change is a new step.
type Step struct {
	// Version counts from 1 without gaps.
	Version int
	// DDL are idempotent statements in SQL that SQLite and PostgreSQL both take
	// (types TEXT and BIGINT; CREATE … IF NOT EXISTS).
	DDL []string
}

// Run applies the steps of a component that the database does not have yet.
// Many processes may run it at once.
func Run(ctx context.Context, eng engine.Engine, component string, steps []Step) error {
	for _, s := range steps {
		if err := eng.Define(ctx, s.DDL); err != nil {
			return fmt.Errorf("migrate %s to version %d: %w", component, s.Version, err)
		}
	}
	return nil
}
