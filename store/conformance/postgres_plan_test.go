package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/postgres/postgrestest"
)

// remembering remembers the last query.
type remembering struct {
	engine.Engine
	last engine.Statement
}

func (e *remembering) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	e.last = stmts[len(stmts)-1]
	return e.Engine.Query(ctx, level, stmts)
}

// A page of a list, and what is due, are found by an index, and the table is
// neither read as a whole nor sorted: also a table of others, in another
// collation, which the store was given.
func TestPostgresPagesAreFoundByAnIndex(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		eng := &remembering{Engine: openPostgres(t, postgrestest.Schema(t))}
		if adopted {
			if err := eng.Define(t.Context(), []string{`CREATE TABLE executions(id VARCHAR PRIMARY KEY,definition_id VARCHAR NOT NULL,data TEXT COLLATE "default" NOT NULL,version INTEGER NOT NULL)`}); err != nil {
				t.Fatal(err)
			}
		}
		st, err := store.Open(t.Context(), eng, store.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"b", "B", "a", "ä", "_"} {
			x := store.NewExecution("d")
			x.ID, x.Status = id, store.StatusRunning
			if _, err := st.Save(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range []store.ListQuery{
			{}, {Status: []store.Status{store.StatusRunning}}, {Status: []store.Status{store.StatusRunning, store.StatusDone}}, {DefinitionID: "d"}, {RootsOnly: true},
		} {
			q.Limit = 2
			var got []string
			for {
				page, err := st.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if plan := explain(t, eng); strings.Contains(plan, "Seq Scan") || len(q.Status) < 2 && strings.Contains(plan, "Sort") || !strings.Contains(plan, "Index") {
					t.Errorf("adopted %t, %+v:\n%s", adopted, q, plan)
				}
				for _, it := range page.Items {
					got = append(got, it.ID)
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			if fmt.Sprint(got) != "[B _ a b ä]" {
				t.Errorf("adopted %t, %+v: listed %v", adopted, q, got)
			}
		}
		if _, err := st.DueTimers(t.Context(), 1, 10); err != nil {
			t.Fatal(err)
		}
		if plan := explain(t, eng); !strings.Contains(plan, "quorate_timers_due") || strings.Contains(plan, "Sort") {
			t.Errorf("due timers:\n%s", plan)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

func explain(t *testing.T, eng *remembering) string {
	t.Helper()
	res, err := eng.Engine.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: "EXPLAIN " + eng.last.SQL, Args: eng.last.Args}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range res[0].Len() {
		line, _ := res[0].Row(i)[0].Text()
		b.WriteString(line + "\n")
	}
	return b.String()
}
