package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// statementsOf parses the body of a request as rqlite takes it.
func statementsOf(t *testing.T, body []byte) []engine.Statement {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var list []any
	if err := dec.Decode(&list); err != nil {
		t.Fatalf("body %.200s: %v", body, err)
	}
	stmts := make([]engine.Statement, len(list))
	for i, item := range list {
		parts, ok := item.([]any)
		if !ok {
			parts = []any{item}
		}
		stmts[i].SQL = parts[0].(string)
		stmts[i].Returning = strings.Contains(stmts[i].SQL, " RETURNING ")
		for _, arg := range parts[1:] {
			stmts[i].Args = append(stmts[i].Args, valueOf(t, arg))
		}
	}
	return stmts
}

func valueOf(t *testing.T, arg any) engine.Value {
	switch v := arg.(type) {
	case nil:
		return engine.Null()
	case string:
		return engine.Text(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return engine.Int(n)
		}
		f, err := v.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return engine.Float(f)
	}
	t.Fatalf("a parameter of type %T", arg)
	return engine.Value{}
}

// perNode is what may have another value on each node that runs it. What changes()
// counts is the same: it stands in one transaction with, and directly behind, the
// statement that it is about.
var perNode = regexp.MustCompile(`(?i)\b(random|randomblob|date|time|datetime|julianday|strftime|unixepoch|timediff|last_insert_rowid|total_changes)\s*\(|\bcurrent_(date|time|timestamp)\b|'now'`)

// CL-20: writes leave the same on each node: there is nothing in their text that
// depends on where or when they run, and a log of requests that is replayed an
// hour later makes the same database.
func TestReplayedLogMakesTheSameDatabase(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.c.ResetLog()
		again := openFreshOn(t, w.c) // the log begins with the schema
		ctx := t.Context()
		for _, id := range ids("x", 5) {
			e := await(t, again.s.Commit(ctx, full(execution(id)))).Execution()
			e = await(t, again.s.Commit(ctx, full(e))).Execution()
			c := full(e)
			c.Timers = append(c.Timers, store.CancelTimer("/"+id+"@1"), store.Schedule("later", time.Now()))
			await(t, again.s.Commit(ctx, c))
			await(t, again.s.AppendTrace(ctx, id, object(`{"more":1}`)))
		}
		var futures []interface{ Done() <-chan struct{} }
		for _, id := range ids("batch", 20) {
			futures = append(futures, again.s.Commit(ctx, full(execution(id))), again.s.Commit(ctx, full(execution("x-000"))))
		}
		for _, f := range futures {
			<-f.Done()
		}
		outbox := await(t, again.s.PendingOutbox(ctx, 3))
		await(t, again.s.AckOutbox(ctx, outbox[0].Seq, outbox[2].Seq))
		await(t, again.s.AckSpawn(ctx, 1, 2))
		await(t, again.s.DeleteTimer(ctx, store.Timer{ExecutionID: "x-001", Path: "/x-001@2", FireAt: 1000}))
		if _, err := again.s.Update(ctx, "x-002", func(c *store.Commit) error { return c.Execution.Context.Set("n", 1) }); err != nil {
			t.Error(err)
		}

		writes := w.c.LogOf(rqlitetest.KindExecute)
		if len(writes) < 25 {
			t.Fatalf("only %d writes were seen", len(writes))
		}
		want := again.dump(t)
		for range 2 {
			eng, err := sqlite.Open(":memory:")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range writes {
				if r.Kind&rqlitetest.KindExecute == 0 || r.Status != 200 {
					t.Fatalf("%+v", r)
				}
				stmts := statementsOf(t, r.Body)
				for _, s := range stmts {
					if m := perNode.FindString(s.SQL); m != "" {
						t.Errorf("%q in %q", m, s.SQL)
					}
				}
				// A batch that was undone is undone again.
				var refused *engine.StatementError
				if _, err := eng.Exec(ctx, stmts); err != nil && (!errors.As(err, &refused) || !strings.Contains(stmts[refused.Index].SQL, "changes()")) {
					t.Fatalf("replay of %v: %v", stmts, err)
				}
			}
			replayed := &world{eng: eng}
			if got := replayed.dump(t); got != want {
				t.Errorf("the replayed database differs in\n%s", difference(got, want))
			}
			if err := eng.Close(); err != nil {
				t.Error(err)
			}
			pass(time.Hour)
		}
	})
}

// openFreshOn empties the cluster and opens a store on it that sends one request
// after the other, so that they are logged in the order in which they take effect.
func openFreshOn(t *testing.T, c *rqlitetest.Cluster) *world {
	t.Helper()
	for _, table := range []string{"quorate_schema", "quorate_lost", "executions", "outbox", "processed_events", "timers", "spawns", "trace"} {
		if _, err := c.Exec(t.Context(), "DROP TABLE IF EXISTS "+table); err != nil {
			t.Fatal(err)
		}
	}
	return openOn(t, c, nil, actor.WithInFlight(1, 1))
}

// difference is the first line in which two dumps differ.
func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return as[i] + "\nand\n" + bs[i]
		}
	}
	return "their length"
}
