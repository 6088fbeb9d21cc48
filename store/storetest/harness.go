package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

// Harness tells the suite how to get at databases of the engine under test.
type Harness struct {
	// Open returns a new, empty database, or one that was emptied with [Reset].
	// It is called once for each test, and the database before it is done with
	// by then. What has to be cleaned up is registered with t.Cleanup. Required.
	Open func(t testing.TB) Database
}

// Database is one database, as [Harness.Open] returns it.
type Database struct {
	// Engine is an engine on the database. The suite closes it. Required.
	Engine engine.Engine

	// Again opens another engine on the same database, as another process would.
	// The suite closes it. If it is nil, because a database in memory is one
	// engine's alone, tests of several stores share Engine.
	Again func(t testing.TB) engine.Engine

	// Oracle runs a query past the engine and returns its rows, so that what is
	// in the database is seen by other eyes than those under test. If it is nil,
	// Engine.Query is asked.
	Oracle func(t testing.TB, sql string, args ...engine.Value) [][]engine.Value

	// Typed says that a column holds values of its type only, unlike SQLite's.
	// Cases about rows that cannot exist then are left out, and say so. The
	// suite's own SQL is SQLite's; Engine and Oracle answer json_extract, typeof
	// and sqlite_master as it does, where need be by functions and views that
	// Open makes.
	Typed bool
}

// Run runs the whole suite: what [RunEngine] and [RunStore] do. A test fails on
// each broken promise; nothing is skipped without saying why.
func Run(t *testing.T, h Harness) {
	t.Helper()
	t.Run("engine", func(t *testing.T) { RunEngine(t, h) })
	RunStore(t, h)
}

// RunEngine checks what package engine demands of an engine, without the store.
// Use it first when you write one.
func RunEngine(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range engineCases {
		t.Run(c.promise, func(t *testing.T) { c.run(newSeam(t, h, &c)) })
	}
	t.Run("transactions", func(t *testing.T) {
		for _, c := range txCases {
			t.Run(c.promise, func(t *testing.T) {
				s := newSeam(t, h, &c)
				if _, ok := s.eng.(engine.Transactor); !ok {
					t.Skip("the engine has no interactive transactions: store/conformance runs this on SQLite and PostgreSQL")
				}
				c.run(s)
			})
		}
	})
}

// RunStore checks what the store promises, on the engine: each promise twice,
// through the synchronous store and through the asynchronous one.
func RunStore(t *testing.T, h Harness) {
	t.Helper()
	for _, f := range faces {
		t.Run(f.name, func(t *testing.T) {
			for _, g := range groups {
				t.Run(g.name, func(t *testing.T) {
					for _, c := range g.cases {
						t.Run(c.promise, func(t *testing.T) { c.run(newEnv(t, h, f, &c)) })
					}
				})
			}
		})
	}
}

// group is the promises of one subject.
type group struct {
	name  string
	cases []storeCase
}

var groups = []group{
	{"commit", commitCases},
	{"documents", documentCases},
	{"compare and swap", casCases},
	{"order", orderCases},
	{"timers", timerCases},
	{"trace", traceCases},
	{"large", largeCases},
	{"sent twice", twiceCases},
	{"unknown outcome", unknownCases},
	{"resolve", resolveCases},
	{"batch", batchCases},
	{"list", listCases},
	{"read", readCases},
	{"linearizable", linearizableCases},
	{"input", inputCases},
	{"stored data", storedCases},
	{"schema", schemaCases},
	{"update", updateCases},
	{"context", contextCases},
	{"contention", contentionCases},
}

// Reset drops everything that the store and this suite create, for harnesses
// whose tests share a database, such as a cluster that takes long to start.
func Reset(ctx context.Context, eng engine.Engine) error {
	var ddl []string
	for _, table := range []string{
		"quorate_schema", "quorate_lost", "executions", "outbox", "processed_events", "timers", "spawns", "trace",
		"quorate_migrations",
		"quorate_ws_workspaces", "quorate_ws_commits", "quorate_ws_events", "quorate_ws_runs", "quorate_ws_progress", "quorate_ws_states",
		"quorate_ws_dead_letters", "quorate_ws_schedules", "quorate_ws_rules", "quorate_ws_leases", "quorate_ws_cursors",
		"quorate_locks", "quorate_rwlocks", "quorate_rwlock_holders", "quorate_elections", "quorate_schedules", "quorate_cache",
		"quorate_cache_tags", "quorate_limits",
		"storetest", "storetest_other",
	} {
		ddl = append(ddl, "DROP TABLE IF EXISTS "+table)
	}
	err := eng.Define(ctx, ddl)
	for errors.Is(err, engine.ErrOutcomeUnknown) && ctx.Err() == nil {
		err = eng.Define(ctx, ddl)
	}
	return err
}
