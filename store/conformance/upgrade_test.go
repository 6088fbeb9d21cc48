package conformance

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/postgres/postgrestest"
)

// olderTables are the store's tables as they were before it kept tokens and
// statuses beside the JSON.
var olderTables = []string{
	`CREATE TABLE executions(id TEXT NOT NULL PRIMARY KEY,definition_id TEXT NOT NULL,data TEXT NOT NULL,version INTEGER NOT NULL)`,
	`CREATE TABLE outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT,target_id TEXT,event TEXT NOT NULL)`,
	`CREATE TABLE processed_events(execution_id TEXT NOT NULL,event_id TEXT NOT NULL,PRIMARY KEY(execution_id,event_id)) WITHOUT ROWID`,
	`CREATE TABLE timers(execution_id TEXT NOT NULL,path TEXT NOT NULL,fire_at REAL NOT NULL,PRIMARY KEY(execution_id,path)) WITHOUT ROWID`,
	`CREATE TABLE spawns(seq INTEGER PRIMARY KEY AUTOINCREMENT,parent_id TEXT NOT NULL,child_id TEXT NOT NULL,root_path TEXT NOT NULL,context TEXT NOT NULL)`,
	`CREATE TABLE trace(execution_id TEXT NOT NULL,idx INTEGER NOT NULL,entry TEXT NOT NULL,PRIMARY KEY(execution_id,idx)) WITHOUT ROWID`,
}

const (
	sqliteObjects = `SELECT m.type||' '||m.name||' '||coalesce(p.name||' '||p.type||' '||p."notnull"||' '||coalesce(p.dflt_value,'')||' '||p.pk,'') AS o` +
		` FROM sqlite_master m LEFT JOIN pragma_table_xinfo(m.name) p ON m.type='table' WHERE m.name NOT LIKE 'sqlite%' ORDER BY o`
	postgresObjects = `SELECT c.relkind::text||' '||c.relname||' '||a.attname||' '||format_type(a.atttypid,a.atttypmod)||' '||a.attnotnull::text||' '||a.attcollation::regcollation::text||' '||a.attidentity::text||' '||coalesce(pg_get_expr(d.adbin,d.adrelid),'') AS o` +
		` FROM pg_class c JOIN pg_attribute a ON a.attrelid=c.oid AND a.attnum>0 LEFT JOIN pg_attrdef d ON d.adrelid=c.oid AND d.adnum=a.attnum` +
		` WHERE c.relkind IN ('r','i') AND c.relnamespace=(SELECT oid FROM pg_namespace WHERE nspname=current_schema())` +
		` UNION ALL SELECT 'trigger '||tgname FROM pg_trigger WHERE tgrelid=to_regclass('executions') ORDER BY o`
)

// A database of an older version gets what a new one has, and keeps its rows.
func TestAnOlderDatabaseIsUpgradedToWhatANewOneHas(t *testing.T) {
	for name, c := range map[string]struct {
		objects string
		open    func(t *testing.T) engine.Engine
	}{
		"sqlite": {sqliteObjects, func(t *testing.T) engine.Engine { return openSQLite(t, filepath.Join(t.TempDir(), "test.db")) }},
		"rqlitetest": {sqliteObjects, func(t *testing.T) engine.Engine {
			return openClient(t, rqlitetest.Start(t, rqlitetest.LogLimit(0)).URLs())
		}},
		"postgres": {postgresObjects, func(t *testing.T) engine.Engine { return openPostgres(t, postgrestest.Schema(t)) }},
	} {
		t.Run(name, func(t *testing.T) {
			objects := func(eng engine.Engine) string {
				res, err := eng.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: c.objects}})
				if err != nil {
					t.Fatal(err)
				}
				var b strings.Builder
				for i := range res[0].Len() {
					fmt.Fprintln(&b, res[0].Row(i))
				}
				return b.String()
			}
			open := func(eng engine.Engine) *store.Store {
				st, err := store.Open(t.Context(), eng, store.WithLogger(slog.New(slog.DiscardHandler)))
				if err != nil {
					t.Fatal(err)
				}
				return st
			}
			fresh, older := c.open(t), c.open(t)
			defer open(fresh).Close()
			if err := older.Define(t.Context(), olderTables); err != nil {
				t.Fatal(err)
			}
			data := `{"id":"x","definition_id":"d","status":"RUNNING","outcome":"\ud800","context":{"a":"\u0000"}}`
			var stmts []engine.Statement
			for _, sql := range []string{
				"INSERT INTO executions(id,definition_id,data,version) VALUES('x','d','" + data + "',3)", "INSERT INTO executions(id,definition_id,data,version) VALUES('bad','d','{',1)",
				`INSERT INTO outbox(target_id,event) VALUES('t','{"id":"e","kind":"k"}')`, "INSERT INTO processed_events(execution_id,event_id) VALUES('x','p')",
				"INSERT INTO timers(execution_id,path,fire_at) VALUES('x','/t',1.5)", "INSERT INTO trace(execution_id,idx,entry) VALUES('x',7,'{}')",
			} {
				stmts = append(stmts, engine.Statement{SQL: sql})
			}
			if _, err := older.Exec(t.Context(), stmts); err != nil {
				t.Fatal(err)
			}
			st := open(older)
			defer st.Close()
			if got, want := objects(older), objects(fresh); got != want || !strings.Contains(want, "quorate_listed") {
				t.Errorf("upgraded:\n%s\nfresh:\n%s", got, want)
			}
			page, err := st.List(t.Context(), store.ListQuery{Status: []store.Status{store.StatusRunning}})
			if err != nil || len(page.Items) != 1 || page.Items[0].ID != "x" {
				t.Errorf("the list of what runs: %+v, %v", page, err)
			}
			loaded, err := st.LoadForEvent(t.Context(), "x", "p")
			if err != nil || !loaded.Processed || loaded.Execution.Version != 3 {
				t.Fatalf("loaded %+v, %v", loaded, err)
			}
			done, err := st.Commit(t.Context(), &store.Commit{Execution: loaded.Execution, Trace: &store.Object{}, Emits: []store.Emit{{Event: store.Event{ID: "f"}}}})
			if err != nil || done.Version != 4 {
				t.Fatalf("committed %+v, %v", done, err)
			}
			if steps, err := st.ReadTrace(t.Context(), "x"); err != nil || len(steps) != 2 || steps[1].Index != 8 {
				t.Errorf("trace %+v, %v", steps, err)
			}
			if box, err := st.PendingOutbox(t.Context(), 10); err != nil || len(box) != 2 || box[1].Seq <= box[0].Seq {
				t.Errorf("outbox %+v, %v", box, err)
			}
		})
	}
}
