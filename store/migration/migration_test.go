package migration_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/migration"
	"github.com/quorate/quorate/store/postgres"
	"github.com/quorate/quorate/store/postgres/postgrestest"
	"github.com/quorate/quorate/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// database opens engines on one database, and shows its tables.
type database struct {
	open   func(t *testing.T) engine.Engine
	schema string // a query that shows the columns and indexes of the tables
}

// engines are the databases that every test runs on.
func engines(t *testing.T, test func(t *testing.T, fresh func(t *testing.T) database)) {
	sqliteSchema := "SELECT m.name AS name,p.name AS col,p.type AS type,p.\"notnull\" AS nn,p.pk AS pk FROM sqlite_master m JOIN pragma_table_info(m.name) p" +
		" WHERE m.type='table' AND m.name LIKE 'part%' UNION ALL SELECT m.name,m.tbl_name,'index',0,0 FROM sqlite_master m WHERE m.type='index' AND m.name LIKE 'part%' ORDER BY 1,2"
	t.Run("sqlite", func(t *testing.T) {
		test(t, func(t *testing.T) database {
			path := filepath.Join(t.TempDir(), "test.db")
			return database{schema: sqliteSchema, open: func(t *testing.T) engine.Engine {
				eng, err := sqlite.Open(path)
				return closing(t, eng, err)
			}}
		})
	})
	t.Run("rqlitetest", func(t *testing.T) {
		test(t, func(t *testing.T) database {
			cluster := rqlitetest.Start(t, rqlitetest.LogLimit(0))
			return database{schema: sqliteSchema, open: func(t *testing.T) engine.Engine {
				eng, err := client.Open(t.Context(), cluster.URLs())
				return closing(t, eng, err)
			}}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		postgrestest.Require(t)
		test(t, func(t *testing.T) database {
			url := postgrestest.Schema(t)
			return database{schema: postgresSchema, open: func(t *testing.T) engine.Engine {
				eng, err := postgres.Open(t.Context(), url)
				return closing(t, eng, err)
			}}
		})
	})
}

const postgresSchema = `SELECT c.relname::text AS name,a.attname::text AS col,format_type(a.atttypid,a.atttypmod) AS type,a.attnotnull AS nn,a.attcollation::regcollation::text AS col FROM pg_class c` +
	` JOIN pg_attribute a ON a.attrelid=c.oid AND a.attnum>0 WHERE pg_table_is_visible(c.oid) AND c.relname LIKE 'part%' AND c.relkind IN ('r','i') ORDER BY 1,2`

func closing(t *testing.T, eng engine.Engine, err error) engine.Engine {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	return eng
}

var parts = []migration.Step{
	{Version: 1, DDL: []string{`CREATE TABLE IF NOT EXISTS part(id TEXT NOT NULL,n BIGINT NOT NULL,PRIMARY KEY(id))`}},
	{Version: 2, DDL: []string{
		`ALTER TABLE part ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'`,
		`CREATE INDEX IF NOT EXISTS part_colour ON part(colour,id)`,
		`UPDATE part SET n=part.n*10`,
	}},
	{Version: 3, DDL: []string{`CREATE TABLE IF NOT EXISTS part_log(id TEXT NOT NULL,seq BIGINT NOT NULL,PRIMARY KEY(id,seq))`}},
}

func run(t *testing.T, eng engine.Engine, steps []migration.Step) {
	t.Helper()
	if err := migration.Run(t.Context(), eng, "parts", steps); err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, eng engine.Engine, sql string, args ...engine.Value) {
	t.Helper()
	if _, err := eng.Exec(t.Context(), []engine.Statement{{SQL: sql, Args: args}}); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, eng engine.Engine, sql string) string {
	t.Helper()
	res, err := eng.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: sql}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range res[0].Len() {
		fmt.Fprintln(&b, res[0].Row(i))
	}
	return b.String()
}

func TestAnUpgradedSchemaEqualsAFreshOneAndKeepsItsRows(t *testing.T) {
	engines(t, func(t *testing.T, fresh func(t *testing.T) database) {
		db := fresh(t)
		new := db.open(t)
		run(t, new, parts)
		want := ask(t, new, db.schema)
		if !strings.Contains(want, "colour") || !strings.Contains(want, "part_log") {
			t.Fatalf("the fresh schema is %s", want)
		}
		for older := 1; older < len(parts); older++ {
			db := fresh(t)
			eng := db.open(t)
			exec(t, eng, "CREATE TABLE users_own(a TEXT)")
			run(t, eng, parts[:older])
			exec(t, eng, "INSERT INTO part(id,n) VALUES(?,?)", engine.Text("a"), engine.Int(7))
			run(t, eng, parts)
			if got := ask(t, eng, db.schema); got != want {
				t.Errorf("upgraded from version %d:\n%swant\n%s", older, got, want)
			}
			wantRows := "[\"a\" 70 \"none\"]\n"
			if older > 1 {
				wantRows = "[\"a\" 7 \"none\"]\n"
			}
			if got := ask(t, eng, "SELECT id AS id,n AS n,colour AS colour FROM part"); got != wantRows {
				t.Errorf("upgraded from version %d: rows %s, want %s", older, got, wantRows)
			}
			if got := ask(t, eng, "SELECT count(*) AS n FROM users_own"); got != "[0]\n" {
				t.Errorf("a table of the user's: %s", got)
			}
		}
	})
}

func TestManyThatStartAtOnceDoEachStepOnce(t *testing.T) {
	engines(t, func(t *testing.T, fresh func(t *testing.T) database) {
		db := fresh(t)
		setup := db.open(t)
		run(t, setup, parts[:1])
		exec(t, setup, "INSERT INTO part(id,n) VALUES('a',1)")
		var open []engine.Engine
		for range 3 {
			open = append(open, db.open(t))
		}
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				<-start
				if err := migration.Run(t.Context(), open[i%len(open)], "parts", parts); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		if got := ask(t, setup, "SELECT n AS n FROM part"); got != "[10]\n" {
			t.Errorf("a step that multiplies by ten left %s", got)
		}
		if got := ask(t, setup, "SELECT version AS v FROM quorate_migrations WHERE component='parts' ORDER BY version"); got != "[1]\n[2]\n[3]\n" {
			t.Errorf("on record are %s", got)
		}
	})
}

func TestASchemaOfANewerReleaseIsRefusedAndLeftAlone(t *testing.T) {
	engines(t, func(t *testing.T, fresh func(t *testing.T) database) {
		db := fresh(t)
		eng := db.open(t)
		run(t, eng, parts)
		err := migration.Run(t.Context(), eng, "parts", parts[:2])
		var newer *migration.NewerError
		if !errors.Is(err, migration.ErrNewer) || !errors.As(err, &newer) || *newer != (migration.NewerError{Component: "parts", Found: 3, Known: 2}) {
			t.Errorf("got %v", err)
		}
		// Another component's versions are its own.
		if err := migration.Run(t.Context(), eng, "others", nil); err != nil {
			t.Error(err)
		}
	})
}

func TestTablesFromBeforeTheRecordAreAdopted(t *testing.T) {
	engines(t, func(t *testing.T, fresh func(t *testing.T) database) {
		db := fresh(t)
		eng := db.open(t)
		for _, s := range parts {
			if err := eng.Define(t.Context(), s.DDL); err != nil {
				t.Fatal(err)
			}
		}
		run(t, eng, parts)
		run(t, eng, parts)
		if got := ask(t, eng, "SELECT count(*) AS n FROM quorate_migrations"); got != "[3]\n" {
			t.Errorf("%s steps on record", got)
		}
	})
}

func TestAStepThatIsRefusedLeavesNothingBehind(t *testing.T) {
	engines(t, func(t *testing.T, fresh func(t *testing.T) database) {
		db := fresh(t)
		eng := db.open(t)
		bad := []migration.Step{parts[0], {Version: 2, DDL: []string{"CREATE TABLE IF NOT EXISTS part_bad(a TEXT)", "UPDATE nowhere SET a=1"}}}
		var refused *engine.StatementError
		if err := migration.Run(t.Context(), eng, "parts", bad); !errors.As(err, &refused) || engine.OutcomeOf(err) != engine.NotApplied {
			t.Errorf("got %v", err)
		}
		if got := ask(t, eng, "SELECT max(version) AS v FROM quorate_migrations"); got != "[1]\n" {
			t.Errorf("on record is %s", got)
		}
		if got := ask(t, eng, db.schema); strings.Contains(got, "part_bad") {
			t.Errorf("half a step is there: %s", got)
		}
		run(t, eng, parts)
	})
}

// lossy loses the answers of writes, after or before they were applied.
type lossy struct {
	engine.Engine
	losses int
	before bool
}

func (e *lossy) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if e.losses == 0 {
		return e.Engine.Exec(ctx, stmts)
	}
	e.losses--
	if !e.before {
		if _, err := e.Engine.Exec(ctx, stmts); err != nil {
			return nil, err
		}
	}
	return nil, &engine.Error{Op: "exec", Outcome: engine.Unknown}
}

func TestALostAnswerDoesNotRepeatAStep(t *testing.T) {
	for _, before := range []bool{true, false} {
		engines(t, func(t *testing.T, fresh func(t *testing.T) database) {
			db := fresh(t)
			eng := db.open(t)
			run(t, eng, parts[:1])
			exec(t, eng, "INSERT INTO part(id,n) VALUES('a',1)")
			if err := migration.Run(t.Context(), &lossy{Engine: eng, losses: 1, before: before}, "parts", parts); err != nil {
				t.Fatal(err)
			}
			if got := ask(t, eng, "SELECT n AS n FROM part"); got != "[10]\n" {
				t.Errorf("a step that multiplies by ten left %s", got)
			}
		})
	}
}

func TestWhatCannotBeMigratedIsSaid(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	eng, err := sqlite.Open(":memory:")
	closing(t, eng, err)
	for what, c := range map[string]struct {
		ctx       context.Context
		component string
		steps     []migration.Step
		want      error
	}{
		"no name":          {t.Context(), "", parts, migration.ErrSteps},
		"a gap":            {t.Context(), "parts", []migration.Step{parts[0], parts[2]}, migration.ErrSteps},
		"from 2":           {t.Context(), "parts", parts[1:], migration.ErrSteps},
		"an ended context": {ctx, "parts", parts, context.Canceled},
	} {
		if err := migration.Run(c.ctx, eng, c.component, c.steps); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
	}
}

// overtaken is an engine whose every write somebody else made just before.
type overtaken struct{ engine.Engine }

func (e overtaken) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if _, err := e.Engine.Exec(ctx, stmts); err != nil {
		return nil, err
	}
	return e.Engine.Exec(ctx, stmts)
}

func TestOneThatIsOvertakenAtEveryStepIsDoneToo(t *testing.T) {
	eng, err := sqlite.Open(":memory:")
	closing(t, eng, err)
	var steps []migration.Step
	for i := range 8 {
		steps = append(steps, migration.Step{Version: i + 1, DDL: []string{fmt.Sprintf("CREATE TABLE part%d(id TEXT)", i)}})
	}
	if err := migration.Run(t.Context(), overtaken{eng}, "parts", steps); err != nil {
		t.Error(err)
	}
}
