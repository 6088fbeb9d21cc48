package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

var commitCases = []storeCase{
	{promise: "a new execution is stored at version 1 and loads as it was committed", run: func(e *env) {
		x := execution("order-1")
		x.Status, x.Priority, x.ParentID = store.StatusRunning, 3, "parent-1"
		x.Context = object(`{"total":12.50}`)
		done := e.ok(e.Commit(e.ctx, &store.Commit{Execution: x}))
		if done.ID != x.ID || done.Version != 1 || len(done.Token) != 32 {
			e.Errorf("got %+v, want execution order-1 at version 1 and a token of 32 digits", done)
		}
		got := e.load(x.ID)
		if got.Version != 1 || got.Status != store.StatusRunning || got.Priority != 3 || got.ParentID != "parent-1" || got.Context.Raw() != `{"total":12.50}` {
			e.Errorf("loaded %+v", got)
		}
	}},
	{promise: "a commit replaces the state and raises the version by one", run: func(e *env) {
		e.create("x")
		for v := int64(1); v <= 3; v++ {
			x := e.load("x")
			if x.Version != v {
				e.Fatalf("loaded version %d, want %d", x.Version, v)
			}
			x.ActivePath = fmt.Sprintf("/step/%d", v)
			if done := e.ok(e.Save(e.ctx, x)); done.Version != v+1 {
				e.Fatalf("committed as version %d, want %d", done.Version, v+1)
			}
		}
		if got := e.load("x"); got.ActivePath != "/step/3" || e.count("executions") != 1 {
			e.Errorf("after three commits: at %q, %d rows", got.ActivePath, e.count("executions"))
		}
	}},
	{promise: "committing does not change the caller's execution", run: func(e *env) {
		x := execution("x")
		before := *x
		e.ok(e.Save(e.ctx, x))
		if *x != before {
			e.Errorf("the execution became %+v", *x)
		}
		_, err := e.Save(e.ctx, x)
		e.wantConflict(err, "x", 0, 1)
		if *x != before {
			e.Errorf("a lost commit made the execution %+v", *x)
		}
	}},
	{promise: "what the caller changes after the call is not committed", run: func(e *env) {
		x := execution("x")
		c := full(x, "a")
		p := e.start(e.ctx, c)
		x.Status, x.ActivePath = store.StatusFailed, "/changed"
		c.Emits[0].Event.ID, c.Emits[0].Target = "changed", "changed"
		c.Timers[0].Path, c.Spawns[0].ChildID = "/changed", "changed"
		e.must(x.Context.Set("changed", true))
		e.must(c.Trace.Set("changed", true))
		e.ok(p.wait())
		if d := e.dump(); strings.Contains(d, "changed") || strings.Contains(d, "FAILED") {
			e.Errorf("a change made after the call was committed:\n%s", d)
		}
	}},
	{promise: "the stored document carries the new version, beside the columns", run: func(e *env) {
		done := e.create("x")
		for range 2 {
			x := done.Execution()
			x.DefinitionID = fmt.Sprintf("definition-%d", x.Version)
			done = e.ok(e.Save(e.ctx, x))
			rows := e.query("SELECT definition_id AS d,version AS v,data AS data,commit_token AS token FROM executions WHERE id=?", "x")
			var stored store.Execution
			data, _ := rows[0][2].Text()
			e.must(stored.UnmarshalJSON([]byte(data)))
			definition, _ := rows[0][0].Text()
			version, _ := rows[0][1].Int()
			token, _ := rows[0][3].Text()
			if version != done.Version || stored.Version != done.Version || definition != stored.DefinitionID || definition != x.DefinitionID || token != done.Token {
				e.Errorf("row has version %d, definition %q, token %q; its document version %d, definition %q; want %d, %q, %q",
					version, definition, token, stored.Version, stored.DefinitionID, done.Version, x.DefinitionID, done.Token)
			}
		}
	}},
	{promise: "everything a commit carries is in its table", run: func(e *env) {
		c := full(execution("x"), "a")
		done := e.ok(e.Commit(e.ctx, c))
		event := func(i int) string {
			b, err := c.Emits[i].Event.MarshalJSON()
			e.must(err)
			return string(b)
		}
		want := fmt.Sprintf("outbox:\n  %v\n  %v\nprocessed_events:\n  %v\ntimers:\n  %v\nspawns:\n  %v\ntrace:\n  %v\n",
			values([]any{done.Outbox.At(0), "target-a", event(0)}), values([]any{done.Outbox.At(1), nil, event(1)}),
			values([]any{"x", "seen-a"}), values([]any{"x", "/timer/a", 1000}),
			values([]any{done.Spawns.At(0), "x", "child-a", "/a", `{"c":1}`}), values([]any{"x", 0, `{"step":"a"}`}))
		_, got, _ := strings.Cut(e.dump(), "outbox:")
		if "outbox:"+got != want {
			e.Errorf("got\noutbox:%s\nwant\n%s", got, want)
		}
	}},
	{promise: "what was committed builds the next commit without a load", run: func(e *env) {
		done := e.create("x")
		for range 3 {
			before := e.tap.traffic().queries
			x := done.Execution()
			x.ProcessedEvents++
			done = e.ok(e.Save(e.ctx, x))
			if e.tap.traffic().queries != before {
				e.Error("a commit that was won needed a read")
			}
		}
		if got := e.load("x"); got.Version != 4 || got.ProcessedEvents != 3 {
			e.Errorf("loaded version %d with %d processed events, want 4 and 3", got.Version, got.ProcessedEvents)
		}
	}},
	{promise: "an event without a target goes to nobody", run: func(e *env) {
		e.ok(e.Commit(e.ctx, &store.Commit{Execution: execution("x"), Emits: []store.Emit{{Event: event("a")}, {Target: "y", Event: event("b")}}}))
		if n := e.number("SELECT count(*) AS n FROM outbox WHERE target_id IS NULL"); n != 1 {
			e.Errorf("%d rows without a target, want 1", n)
		}
		got, err := e.PendingOutbox(e.ctx, 10)
		e.must(err)
		if len(got) != 2 || got[0].Target != "" || got[1].Target != "y" {
			e.Errorf("got %+v", got)
		}
	}},
	{promise: "a processed event that is in the ledger already is kept and is no error", run: func(e *env) {
		done := e.create("x")
		for range 2 {
			done = e.ok(e.Commit(e.ctx, &store.Commit{Execution: done.Execution(), ProcessedEvent: "seen", Emits: []store.Emit{emit("a")}}))
		}
		if n := e.count("processed_events"); n != 1 {
			e.Errorf("%d rows in the ledger, want 1", n)
		}
		if n := e.count("outbox"); n != 2 || done.Version != 3 {
			e.Errorf("%d rows in the outbox at version %d, want 2 at 3", n, done.Version)
		}
	}},
	{promise: "only that clash is ignored, any other refusal fails the whole commit", before: func(e *env) {
		e.define(`CREATE TABLE IF NOT EXISTS processed_events(execution_id TEXT NOT NULL,event_id TEXT NOT NULL CHECK(event_id<>'illegal'),PRIMARY KEY(execution_id,event_id))`)
	}, run: func(e *env) {
		e.create("x")
		before := e.dump()
		c := full(e.load("x"), "a")
		c.ProcessedEvent = "illegal"
		_, err := e.Commit(e.ctx, c)
		e.wantRefused(err)
		e.unchanged(before)
	}},
	{promise: "nothing remains of a commit that the database refuses in the middle", before: func(e *env) {
		// The outbox is the third of what the commit writes, or the first: other
		// parts come before or after it, and none may stay.
		e.define(
			`CREATE TABLE IF NOT EXISTS spawns(seq INTEGER PRIMARY KEY AUTOINCREMENT,parent_id TEXT NOT NULL,child_id TEXT NOT NULL CHECK(child_id<>'illegal'),root_path TEXT NOT NULL,context TEXT NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT,target_id TEXT CHECK(target_id<>'illegal'),event TEXT NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS timers(execution_id TEXT NOT NULL,path TEXT NOT NULL,fire_at REAL NOT NULL CHECK(fire_at<>13),PRIMARY KEY(execution_id,path))`,
			`CREATE TABLE IF NOT EXISTS trace(execution_id TEXT NOT NULL,idx INTEGER NOT NULL,entry TEXT NOT NULL CHECK(entry<>'{"illegal":1}'),PRIMARY KEY(execution_id,idx))`,
			`CREATE TABLE IF NOT EXISTS executions(id TEXT NOT NULL PRIMARY KEY,definition_id TEXT NOT NULL CHECK(definition_id<>'illegal'),data TEXT NOT NULL,version INTEGER NOT NULL)`,
		)
	}, run: func(e *env) {
		e.ok(e.Commit(e.ctx, full(execution("x"), "a")))
		before := e.dump()
		illegal := object(`{"illegal":1}`)
		for what, spoil := range map[string]func(*store.Commit){
			"outbox": func(c *store.Commit) { c.Emits[1].Target = "illegal" },
			"timers": func(c *store.Commit) { c.Timers[0].FireAt = 13 },
			"spawns": func(c *store.Commit) { c.Spawns[0].ChildID = "illegal" },
			"trace":  func(c *store.Commit) { c.Trace = &illegal },
			"upsert": func(c *store.Commit) { c.Execution.DefinitionID = "illegal" },
		} {
			c := full(e.load("x"), "b")
			spoil(c)
			_, err := e.Commit(e.ctx, c)
			e.wantRefused(err)
			if e.dump() != before {
				e.Errorf("refused in %s", what)
				e.unchanged(before)
			}
		}
	}},
}

// wantRefused fails unless err says that the database refused a statement, and
// that nothing was applied.
func (e *env) wantRefused(err error) {
	e.Helper()
	var refused *engine.StatementError
	if !errors.As(err, &refused) || refused.Message == "" || !errors.Is(err, engine.ErrNotApplied) || errors.Is(err, engine.ErrOutcomeUnknown) {
		e.Errorf("got error %v, want a refused statement that was not applied", err)
	}
}

var orderCases = []storeCase{
	{promise: "outbox and spawns of one commit are numbered in the order given", run: func(e *env) {
		const n = 400
		c := &store.Commit{Execution: execution("x")}
		for i := range n {
			id := fmt.Sprintf("%03d", (i*7919)%n)
			c.Emits = append(c.Emits, emit(id))
			c.Spawns = append(c.Spawns, store.Spawn{ChildID: id, RootPath: "/", Context: object(`{}`)})
		}
		done := e.ok(e.Commit(e.ctx, c))
		if done.Outbox.Len != n || done.Spawns.Len != n {
			e.Errorf("got the numbers %+v and %+v, want %d each", done.Outbox, done.Spawns, n)
		}
		outbox, err := e.PendingOutbox(e.ctx, n+1)
		e.must(err)
		spawns, err := e.PendingSpawns(e.ctx, n+1)
		e.must(err)
		if len(outbox) != n || len(spawns) != n {
			e.Fatalf("%d outbox and %d spawn rows, want %d each", len(outbox), len(spawns), n)
		}
		for i := range n {
			if outbox[i].Event.ID != c.Emits[i].Event.ID || spawns[i].ChildID != c.Spawns[i].ChildID {
				e.Fatalf("at %d: event %q and child %q, want %q", i, outbox[i].Event.ID, spawns[i].ChildID, c.Spawns[i].ChildID)
			}
			if outbox[i].Seq != done.Outbox.At(i) || spawns[i].Seq != done.Spawns.At(i) {
				e.Fatalf("at %d: numbers %d and %d, reported as %d and %d", i, outbox[i].Seq, spawns[i].Seq, done.Outbox.At(i), done.Spawns.At(i))
			}
		}
	}},
	{promise: "the numbers reported in a batch are the real ones, also with losers between winners", run: func(e *env) {
		const n = 12
		var ops []op
		for i := range n {
			id := fmt.Sprintf("x%02d", i)
			x := execution(id)
			if i%3 == 1 {
				e.create(id) // so that the commit below loses
			}
			c := &store.Commit{Execution: x}
			for j := range i % 4 {
				c.Emits = append(c.Emits, emit(fmt.Sprintf("%s/%d", id, j)))
			}
			for j := range (i + 1) % 3 {
				c.Spawns = append(c.Spawns, store.Spawn{ChildID: fmt.Sprintf("%s/%d", id, j), RootPath: "/"})
			}
			ops = append(ops, op{commit: c})
		}
		var want []int64
		for i, r := range e.together(e.ctx, ops) {
			if i%3 == 1 {
				e.wantConflict(r.err, ops[i].commit.Execution.ID, 0, 1)
				continue
			}
			e.must(r.err)
			if r.done.Outbox.Len != i%4 || r.done.Spawns.Len != (i+1)%3 {
				e.Errorf("commit %d: numbers %+v and %+v", i, r.done.Outbox, r.done.Spawns)
			}
			for j := range r.done.Outbox.Len {
				seq := r.done.Outbox.At(j)
				want = append(want, seq)
				if id := e.text("SELECT json_extract(event,'$.id') AS id FROM outbox WHERE seq=?", seq); id != ops[i].commit.Emits[j].Event.ID {
					e.Errorf("commit %d: outbox number %d is of %q", i, seq, id)
				}
			}
			for j := range r.done.Spawns.Len {
				if id := e.text("SELECT child_id AS id FROM spawns WHERE seq=?", r.done.Spawns.At(j)); id != ops[i].commit.Spawns[j].ChildID {
					e.Errorf("commit %d: spawn number %d is of %q", i, r.done.Spawns.At(j), id)
				}
			}
		}
		if int64(len(want)) != e.count("outbox") || !slices.IsSorted(want) {
			e.Errorf("reported %v, %d rows in the outbox", want, e.count("outbox"))
		}
	}},
	{promise: "acknowledging removes what is named and nothing else", run: func(e *env) {
		c := &store.Commit{Execution: execution("x")}
		for i := range 5 {
			c.Emits = append(c.Emits, emit(fmt.Sprint(i)))
			c.Spawns = append(c.Spawns, store.Spawn{ChildID: fmt.Sprint(i), RootPath: "/"})
		}
		done := e.ok(e.Commit(e.ctx, c))
		e.must(e.AckOutbox(e.ctx, done.Outbox.At(1), done.Outbox.At(3)))
		e.must(e.AckSpawn(e.ctx, done.Spawns.At(4)))
		e.must(e.AckOutbox(e.ctx, done.Outbox.At(1), neverGiven)) // gone, and never there
		e.must(e.AckOutbox(e.ctx))
		e.must(e.AckSpawn(e.ctx, done.Spawns.At(4)))
		outbox, err := e.PendingOutbox(e.ctx, 10)
		e.must(err)
		spawns, err := e.PendingSpawns(e.ctx, 10)
		e.must(err)
		var got []string
		for _, o := range outbox {
			got = append(got, o.Event.ID)
		}
		for _, s := range spawns {
			got = append(got, s.ChildID)
		}
		if want := []string{"0", "2", "4", "0", "1", "2", "3"}; !slices.Equal(got, want) {
			e.Errorf("left: %v, want %v", got, want)
		}
	}},
	{promise: "a number is never given again, also after all rows are gone and the store was opened anew", run: func(e *env) {
		c := &store.Commit{Execution: execution("x"), Emits: []store.Emit{emit("1"), emit("2"), emit("3")}, Spawns: []store.Spawn{{ChildID: "1"}, {ChildID: "2"}}}
		done := e.ok(e.Commit(e.ctx, c))
		e.must(e.AckOutbox(e.ctx, done.Outbox.At(0), done.Outbox.At(1), done.Outbox.At(2)))
		e.must(e.AckSpawn(e.ctx, done.Spawns.At(0), done.Spawns.At(1)))
		other := e.another()
		next := e.ok(other.Commit(e.ctx, &store.Commit{Execution: done.Execution(), Emits: []store.Emit{emit("4")}, Spawns: []store.Spawn{{ChildID: "3"}}}))
		if next.Outbox.At(0) <= done.Outbox.At(2) || next.Spawns.At(0) <= done.Spawns.At(1) {
			e.Errorf("numbers %d and %d after %d and %d", next.Outbox.At(0), next.Spawns.At(0), done.Outbox.At(2), done.Spawns.At(1))
		}
		// Late acknowledgements of what is long gone.
		e.must(e.AckOutbox(e.ctx, done.Outbox.At(2)))
		e.must(e.AckSpawn(e.ctx, done.Spawns.At(1)))
		if e.count("outbox") != 1 || e.count("spawns") != 1 {
			e.Error("a late acknowledgement removed somebody else's entry")
		}
	}},
}
