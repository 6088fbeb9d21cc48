package storetest

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/store"
)

// hard is what documents must bring through unchanged: numbers that no float64
// holds, escapes that no string holds, keys twice and out of order, text that
// HTML or SQL might want to escape.
const hard = `{"z":1,"a":2,"big":9007199254740993,"bigger":-9223372036854775808,"long":123456789012345678901234567890123456789012345678901234567890,` +
	`"float":1.50,"exp":1E+2,"tiny":4.9e-324,"zero":-0.0,"nul":"\u0000","lone":"\ud800","pair":"\ud83d\ude00","raw":"😀 ünï ` + "\u2028" + `",` +
	`"html":"<a href='x'>&amp;</a>","quote":"'\"\\ \/","a":3,"blob":"x'4142'","nested":{"deep":[[],{},[null,true,false]]},"":"empty key"}`

var documentCases = []storeCase{
	{promise: "what the caller does not touch keeps its literal text", run: func(e *env) {
		data := `{"x-first": [1, 2.0, "\u00e9"], "id": "x", "history": ` + hard + `, "definition_id": "d", "status": "RUNNING", "context": ` + hard +
			`, "processed_events": 7, "x-middle": ` + hard + `, "version": 1, "deferred": [` + hard + `], "x-last": {"b": 1.10, "a": 1e3}}`
		e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(?,?,?,?)", "x", "d", data, 1)
		x := e.load("x")
		x.Status = store.StatusDone
		e.ok(e.Save(e.ctx, x))
		want := compact(data)
		want = strings.Replace(want, `"status":"RUNNING"`, `"status":"DONE"`, 1)
		want = strings.Replace(want, `"version":1`, `"version":2`, 1)
		if got := e.stored("x"); got != want {
			e.Errorf("stored\n%s\nwant\n%s", got, want)
		}
		if got := e.load("x"); got.Context.Raw() != hard {
			e.Errorf("loaded the context\n%s\nwant\n%s", got.Context.Raw(), hard)
		}
	}},
	{promise: "events, spawns and trace steps keep their literal text", run: func(e *env) {
		var ev store.Event
		text := `{"x-first":1.0,"id":"ev","kind":"k","created_time":"2024-05-06T07:08:09.120Z","received_time":null,"data":` + hard + `,"x-last":[1e2]}`
		e.must(ev.UnmarshalJSON([]byte(text)))
		trace := object(hard)
		e.ok(e.Commit(e.ctx, &store.Commit{
			Execution: execution("x"), Emits: []store.Emit{{Event: ev}},
			Spawns: []store.Spawn{{ChildID: "c", Context: object(hard)}}, Trace: &trace,
		}))
		e.must(e.AppendTrace(e.ctx, "x", object(hard)))
		for _, c := range []struct{ sql, want string }{
			{"SELECT event AS v FROM outbox", text},
			{"SELECT context AS v FROM spawns", hard},
			{"SELECT entry AS v FROM trace WHERE idx=0", hard},
			{"SELECT entry AS v FROM trace WHERE idx=1", hard},
		} {
			if got := e.text(c.sql); got != c.want {
				e.Errorf("%s:\n%s\nwant\n%s", c.sql, got, c.want)
			}
		}
		outbox, err := e.PendingOutbox(e.ctx, 1)
		e.must(err)
		b, err := outbox[0].Event.MarshalJSON()
		e.must(err)
		if string(b) != text {
			e.Errorf("read back the event\n%s\nwant\n%s", b, text)
		}
	}},
	{promise: "absent optional fields stay absent until they are set, and read as their defaults", run: func(e *env) {
		const bare = `{"id":"x","definition_id":"d","status":"PENDING"}`
		e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(?,?,?,?)", "x", "d", bare, 1)
		x := e.load("x")
		if x.Priority != 0 || x.ProcessedEvents != 0 || x.RootPath != "" || x.ParentID != "" || x.Context.Raw() != "{}" || x.Deferred.Raw() != "[]" {
			e.Errorf("defaults: %+v", x)
		}
		done := e.ok(e.Save(e.ctx, x))
		if got, want := e.stored("x"), `{"id":"x","definition_id":"d","status":"PENDING","version":2}`; got != want {
			e.Errorf("stored %s, want %s", got, want)
		}
		x = done.Execution()
		x.Priority = 4
		e.ok(e.Save(e.ctx, x))
		if got, want := e.stored("x"), `{"id":"x","definition_id":"d","status":"PENDING","version":3,"priority":4}`; got != want {
			e.Errorf("stored %s, want %s", got, want)
		}
	}},
	{promise: "the version column wins over the document's", run: func(e *env) {
		e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(?,?,?,?)", "x", "d", `{"id":"x","definition_id":"d","status":"PENDING","version":99}`, 5)
		x := e.load("x")
		if x.Version != 5 {
			e.Errorf("loaded version %d, want 5", x.Version)
		}
		if done := e.ok(e.Save(e.ctx, x)); done.Version != 6 {
			e.Errorf("committed as version %d, want 6", done.Version)
		}
	}},
	{promise: "names survive, whatever they look like", run: func(e *env) {
		names := []string{
			"null", "NULL", "0", "007", "1e3", "-1", "true", "'", `"`, "''", "it's", `a"b`, `back\slash`, "%", "_", "a b", " lead", "trail ", "\t", "\n",
			"😀", "ä", "\u00a0", "\u2028", "x", "x'", "x'41", `x"4142"`, "y'4142'", "x'4142'z", "ax'4142'", "{}", "[1]", "?", ":a", "--", "/*", ";", "e\u0301", "\ufffd", "\U0010ffff", strings.Repeat("n", 1024),
		}
		var ops []op
		for _, n := range names {
			trace := object(`{}`)
			ops = append(ops, op{commit: &store.Commit{
				Execution: execution(n), ProcessedEvent: n, Emits: []store.Emit{{Target: n, Event: event(n)}},
				Timers: []store.TimerOp{{Path: n, FireAt: 1}}, Spawns: []store.Spawn{{ChildID: n, RootPath: n}}, Trace: &trace,
			}})
		}
		for i, r := range e.together(e.ctx, ops) {
			if r.err != nil {
				e.Fatalf("commit of %q: %v", names[i], r.err)
			}
		}
		got, errs := e.loads(e.ctx, names)
		outbox, err := e.PendingOutbox(e.ctx, 1000)
		e.must(err)
		spawns, err := e.PendingSpawns(e.ctx, 1000)
		e.must(err)
		if len(outbox) != len(names) || len(spawns) != len(names) {
			e.Fatalf("%d outbox and %d spawn rows, want %d", len(outbox), len(spawns), len(names))
		}
		for i, n := range names {
			e.must(errs[i])
			processed, err := e.IsProcessed(e.ctx, n, n)
			e.must(err)
			if got[i].ID != n || !processed {
				e.Errorf("loaded %q for %q, processed: %t", got[i].ID, n, processed)
			}
			if outbox[i].Target != n || outbox[i].Event.ID != n || spawns[i].ParentID != n || spawns[i].ChildID != n || spawns[i].RootPath != n {
				e.Errorf("name %q came back as %+v and %+v", n, outbox[i], spawns[i])
			}
			e.must(e.DeleteTimer(e.ctx, store.Timer{ExecutionID: n, Path: n, FireAt: 1}))
		}
		if n := e.count("timers"); n != 0 {
			e.Errorf("%d timers were not found by their names", n)
		}
	}},
	{promise: "texts within a document survive", run: func(e *env) {
		x := execution("x")
		x.Outcome, x.Error, x.ActivePath, x.RootPath = "null", "it's \"bad\" \\ <b>&", "x'4142'", "😀\x00\n"
		x.ParentID, x.ChildID, x.DefinitionFQN = "007", "\u2028", "\ufffd"
		e.ok(e.Save(e.ctx, x))
		got := e.load("x")
		for _, f := range []struct{ name, got, want string }{
			{"Outcome", got.Outcome, x.Outcome}, {"Error", got.Error, x.Error}, {"ActivePath", got.ActivePath, x.ActivePath}, {"RootPath", got.RootPath, x.RootPath},
			{"ParentID", got.ParentID, x.ParentID}, {"ChildID", got.ChildID, x.ChildID}, {"DefinitionFQN", got.DefinitionFQN, x.DefinitionFQN},
		} {
			if f.got != f.want {
				e.Errorf("%s: got %q, want %q", f.name, f.got, f.want)
			}
		}
	}},
	{promise: "every status is stored and read back", run: func(e *env) {
		for i, st := range statuses {
			x := execution(fmt.Sprint(i))
			x.Status = st
			e.ok(e.Save(e.ctx, x))
			if got := e.load(x.ID); got.Status != st {
				e.Errorf("stored %s, loaded %s", st, got.Status)
			}
		}
	}},
}

var statuses = []store.Status{
	store.StatusPending, store.StatusRunning, store.StatusDone, store.StatusCancelled,
	store.StatusSuspended, store.StatusCancelling, store.StatusFailed,
}

// compact removes the blanks between the tokens of the documents above, which
// have no blank after a colon or comma within a string.
func compact(doc string) string {
	return strings.NewReplacer(`": `, `":`, `, "`, `,"`, `, 2`, `,2`).Replace(doc)
}
