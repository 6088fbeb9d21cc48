package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/quorate/quorate/store"
)

var readCases = []storeCase{
	{promise: "an execution that is not there is not found", run: func(e *env) {
		_, err := e.Load(e.ctx, "x")
		var missing *store.NotFoundError
		if !errors.As(err, &missing) || missing.ID != "x" || !errors.Is(err, store.ErrNotFound) {
			e.Errorf("got %v, want x not found", err)
		}
	}},
	{promise: "many executions are loaded by one request, in the order asked for", run: func(e *env) {
		for _, id := range []string{"x", "y", "broken"} {
			e.ok(e.Commit(e.ctx, &store.Commit{Execution: execution(id)}))
		}
		before := e.tap.traffic().queries
		got, err := e.st.LoadMany(e.ctx, "y", "nobody", "x", "y")
		e.must(err)
		if len(got) != 4 || got[0].ID != "y" || got[1] != nil || got[2].ID != "x" || got[3].ID != "y" || got[0] == got[3] {
			e.Errorf("got %v", got)
		}
		if n := e.tap.traffic().queries - before; n != 1 {
			e.Errorf("it took %d requests, want one", n)
		}
		e.foreign("UPDATE executions SET data='[]' WHERE id=?", "broken")
		got, err = e.st.LoadMany(e.ctx, "x", "broken")
		var invalid *store.InvalidDataError
		if !errors.As(err, &invalid) || invalid.ID != "broken" || len(got) != 2 || got[0] == nil || got[1] != nil {
			e.Errorf("beside a broken row: %v, %v", got, err)
		}
		if got, err := e.st.LoadMany(e.ctx); len(got) != 0 || err != nil {
			e.Errorf("of nothing: %v, %v", got, err)
		}
		var input *store.InvalidError
		if got, err := e.st.LoadMany(e.ctx, "x", ""); got != nil || !errors.As(err, &input) {
			e.Errorf("of an empty id: %v, %v", got, err)
		}
	}},
	{promise: "a load for an event tells state and ledger from one moment", run: func(e *env) {
		got, err := e.LoadForEvent(e.ctx, "x", "seen")
		if e.must(err); got.Execution != nil || got.Processed {
			e.Errorf("of nobody: %+v", got)
		}
		done := e.ok(e.Commit(e.ctx, &store.Commit{Execution: execution("x"), ProcessedEvent: "seen"}))
		for event, want := range map[string]bool{"seen": true, "other": false, "SEEN": false} {
			got, err := e.LoadForEvent(e.ctx, "x", event)
			if e.must(err); got.Execution == nil || got.Execution.Version != 1 || got.Processed != want {
				e.Errorf("%s: %+v, want processed: %t", event, got, want)
			}
		}
		before := e.tap.traffic().queries
		got, err = e.LoadForEvent(e.ctx, "x", "other")
		e.must(err)
		if n := len(e.tap.lastQuery()); n != 1 || e.tap.traffic().queries != before+1 {
			e.Errorf("it took %d requests, the last of %d statements; want one of one", e.tap.traffic().queries-before, n)
		}
		e.ok(e.Commit(e.ctx, &store.Commit{Execution: got.Execution, ProcessedEvent: "other"}))
		_, err = e.Commit(e.ctx, &store.Commit{Execution: done.Execution(), ProcessedEvent: "third"})
		e.wantConflict(err, "x", 1, 2)
	}},
	{promise: "a load for an event of a purged execution tells nothing", run: func(e *env) {
		e.ok(e.Commit(e.ctx, &store.Commit{Execution: execution("x"), ProcessedEvent: "seen"}))
		e.foreign("DELETE FROM executions WHERE id=?", "x")
		got, err := e.LoadForEvent(e.ctx, "x", "seen")
		if e.must(err); got.Execution != nil || got.Processed {
			e.Errorf("got %+v", got)
		}
	}},
	{promise: "the ledger tells processed events of each execution apart", run: func(e *env) {
		e.ok(e.Commit(e.ctx, &store.Commit{Execution: execution("x"), ProcessedEvent: "a"}))
		e.ok(e.Commit(e.ctx, &store.Commit{Execution: execution("y"), ProcessedEvent: "b"}))
		for _, c := range []struct {
			id, event string
			want      bool
		}{{"x", "a", true}, {"x", "b", false}, {"y", "a", false}, {"y", "b", true}, {"z", "a", false}} {
			got, err := e.IsProcessed(e.ctx, c.id, c.event)
			if e.must(err); got != c.want {
				e.Errorf("%s of %s: %t, want %t", c.event, c.id, got, c.want)
			}
		}
	}},
	{promise: "pending outbox and spawns come oldest first, up to the limit", run: func(e *env) {
		var want []string
		for i := range 3 {
			c := &store.Commit{Execution: execution(fmt.Sprint("x", i))}
			for j := range 3 {
				id := fmt.Sprint(9-i, "-", 9-j)
				want = append(want, id)
				c.Emits = append(c.Emits, store.Emit{Target: "t" + id, Event: event(id)})
				c.Spawns = append(c.Spawns, store.Spawn{ChildID: id, RootPath: "/" + id, Context: object(`{"i":1.0}`)})
			}
			e.ok(e.Commit(e.ctx, c))
		}
		for _, limit := range []int{1, 4, 9, 100} {
			outbox, err := e.PendingOutbox(e.ctx, limit)
			e.must(err)
			spawns, err := e.PendingSpawns(e.ctx, limit)
			e.must(err)
			n := min(limit, 9)
			if len(outbox) != n || len(spawns) != n {
				e.Fatalf("limit %d: %d and %d rows, want %d", limit, len(outbox), len(spawns), n)
			}
			for i := range n {
				if o := outbox[i]; o.Event.ID != want[i] || o.Target != "t"+want[i] || o.Event.Kind != "storetest" || o.Seq < 1 || i > 0 && o.Seq <= outbox[i-1].Seq {
					e.Errorf("outbox row %d: %+v, want event %s", i, o, want[i])
				}
				if s := spawns[i]; s.ChildID != want[i] || s.RootPath != "/"+want[i] || s.ParentID != fmt.Sprint("x", i/3) || s.Context.Raw() != `{"i":1.0}` || s.Seq < 1 || i > 0 && s.Seq <= spawns[i-1].Seq {
					e.Errorf("spawn %d: %+v, want child %s", i, s, want[i])
				}
			}
		}
	}},
	{promise: "the caller owns what it gets", run: func(e *env) {
		e.ok(e.Commit(e.ctx, full(execution("x"), "a")))
		a, b := e.load("x"), e.load("x")
		a.Status = store.StatusFailed
		e.must(a.Context.Set("k", 1))
		if b.Status != store.StatusPending || b.Context.Len() != 0 || e.load("x").Status != store.StatusPending {
			e.Error("a change of one copy is seen in another")
		}
		got, err := e.PendingOutbox(e.ctx, 10)
		e.must(err)
		got[0].Event.ID = "changed"
		e.wantOutbox("a-1", "a-2")
	}},
}

var linearizableCases = []storeCase{
	{promise: "a load that begins after a commit was acknowledged sees it, in any store", ownPace: true, run: func(e *env) {
		const workers, rounds = 6, 12
		others := []face{e.another(), e.another()}
		e.create("shared")
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				x := execution(fmt.Sprint("x", w))
				for r := range rounds {
					done, err := e.Commit(e.ctx, &store.Commit{Execution: x, ProcessedEvent: fmt.Sprint(r)})
					if err != nil {
						e.Errorf("worker %d: commit %d: %v", w, r, err)
						return
					}
					x = done.Execution()
					for _, f := range append(others, e.face) {
						got, err := f.LoadForEvent(e.ctx, x.ID, fmt.Sprint(r))
						if err != nil || got.Execution.Version != done.Version || !got.Processed {
							e.Errorf("worker %d: after version %d was acknowledged: %+v, %v", w, done.Version, got, err)
						}
					}
				}
			})
		}
		wg.Wait()
	}},
	{promise: "loads of one execution by many never go back behind what was acknowledged", ownPace: true, run: func(e *env) {
		const readers, commits = 6, 20
		other := e.another()
		var mu sync.Mutex
		acknowledged := e.create("x")
		latest := func() int64 {
			mu.Lock()
			defer mu.Unlock()
			return acknowledged.Version
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for r := range readers {
			f := e.face
			if r%2 == 1 {
				f = other
			}
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					least := latest()
					x, err := f.Load(e.ctx, "x")
					if err != nil || x.Version < least {
						e.Errorf("a load that began after version %d was acknowledged: %v, %v", least, x, err)
						return
					}
				}
			})
		}
		for range commits {
			done, err := e.Save(e.ctx, acknowledged.Execution())
			if err != nil {
				e.Error(err)
				break
			}
			mu.Lock()
			acknowledged = done
			mu.Unlock()
		}
		close(stop)
		wg.Wait()
	}},
	{promise: "lists and other scans see what was acknowledged too", run: func(e *env) {
		other := e.another()
		x := execution("x")
		for i := range 5 {
			mark := fmt.Sprint(i)
			done := e.ok(e.Commit(e.ctx, full(x, mark)))
			x = done.Execution()
			page, err := other.List(e.ctx, store.ListQuery{})
			e.must(err)
			outbox, err := other.PendingOutbox(e.ctx, 100)
			e.must(err)
			timers, err := other.DueTimers(e.ctx, math.Inf(1), 100)
			e.must(err)
			steps, err := other.ReadTrace(e.ctx, "x")
			e.must(err)
			if len(page.Items) != 1 || page.Items[0].Version != done.Version || len(outbox) != 2*(i+1) || len(timers) != i+1 || len(steps) != i+1 {
				e.Errorf("after version %d: %+v, %d outbox rows, %d timers, %d steps", done.Version, page.Items, len(outbox), len(timers), len(steps))
			}
		}
	}},
}

var storedCases = []storeCase{
	{promise: "stored data that is no execution fails its own load and names the id, and hides no other", run: func(e *env) {
		broken := []string{
			"", "{", "null", "[]", "7", `"x"`, "{}", `{"id":"%s"}`, `{"id":"%s","definition_id":"d","status":"UNHEARD"}`, `{"id":"another","definition_id":"d","status":"DONE"}`,
			`{"id":7,"definition_id":"d","status":"DONE"}`, `{"id":"%s","definition_id":"d","status":"DONE","context":[]}`, `{"id":"%s","definition_id":"d","status":"DONE","priority":9}`,
			`{"id":"%s","definition_id":"d","status":"DONE"} trailing`, `{"id":"%s","definition_id":"d","status":"DONE","context":` + deep(3000) + `}`,
		}
		var ids []string
		for i, data := range broken {
			id := fmt.Sprintf("broken-%02d", i)
			if slices.Contains([]byte(data), '%') {
				data = fmt.Sprintf(data, id)
			}
			e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(?,?,?,?)", id, "d", data, 1)
			e.create(fmt.Sprint("good-", i))
			ids = append(ids, id, fmt.Sprint("good-", i))
		}
		got, errs := e.loads(e.ctx, ids)
		for i := 0; i < len(ids); i += 2 {
			var invalid *store.InvalidDataError
			if !errors.As(errs[i], &invalid) || invalid.ID != ids[i] || !errors.Is(errs[i], store.ErrInvalidData) {
				e.Errorf("load of %s: %v, want invalid data of it", ids[i], errs[i])
			}
			if errs[i+1] != nil || got[i+1].ID != ids[i+1] {
				e.Errorf("load of %s: %v", ids[i+1], errs[i+1])
			}
		}
		_, err := e.LoadForEvent(e.ctx, ids[0], "event")
		if !errors.Is(err, store.ErrInvalidData) {
			e.Errorf("load for an event: %v, want invalid data", err)
		}
	}},
	{promise: "a version that is no number fails its own row alone, of loads and of lost commits", run: func(e *env) {
		if e.db.Typed {
			e.Skip("a version of this database is always a number")
		}
		stale := map[string]*store.Execution{}
		for _, id := range []string{"a", "b", "c"} {
			stale[id] = e.create(id).Execution()
			e.ok(e.Save(e.ctx, stale[id]))
		}
		e.foreign("UPDATE executions SET version='oops' WHERE id='b'")
		got, errs := e.loads(e.ctx, []string{"a", "b", "c"})
		if errs[0] != nil || errs[2] != nil || got[0].ID != "a" || got[2].ID != "c" || !errors.Is(errs[1], store.ErrInvalidData) {
			e.Errorf("got errors %v", errs)
		}
		for i, r := range e.together(e.ctx, []op{{commit: full(stale["a"], "a")}, {commit: full(stale["b"], "b")}, {commit: full(stale["c"], "c")}, {commit: full(execution("d"), "d")}}) {
			switch i {
			case 0, 2:
				e.wantConflict(r.err, string(rune('a'+i)), 1, 2)
			case 1:
				var invalid *store.InvalidDataError
				if !errors.As(r.err, &invalid) || invalid.ID != "b" || errors.Is(r.err, store.ErrOutcomeUnknown) {
					e.Errorf("got %v, want invalid data of b", r.err)
				}
			case 3:
				e.must(r.err)
			}
		}
		e.wantOutbox("d-1", "d-2")
	}},
	{promise: "outbox rows, spawns and trace steps that are invalid are named and hide no others", run: func(e *env) {
		e.ok(e.Commit(e.ctx, full(execution("x"), "a")))
		e.foreign("INSERT INTO outbox(target_id,event) VALUES(?,?)", "t", "not an event")
		e.foreign("INSERT INTO spawns(parent_id,child_id,root_path,context) VALUES(?,?,?,?)", "p", "c", "/", "[]")
		e.foreign("INSERT INTO trace(execution_id,idx,entry) VALUES(?,?,?)", "x", 1, "7")
		e.ok(e.Commit(e.ctx, full(e.load("x"), "b")))
		outbox, err := e.PendingOutbox(e.ctx, 10)
		e.wantInvalidData(err)
		if len(outbox) != 4 || outbox[3].Event.ID != "b-2" {
			e.Errorf("outbox %+v, want all 4 valid rows", outbox)
		}
		spawns, err := e.PendingSpawns(e.ctx, 10)
		e.wantInvalidData(err)
		if len(spawns) != 2 || spawns[1].ChildID != "child-b" {
			e.Errorf("spawns %+v, want both valid rows", spawns)
		}
		steps, err := e.ReadTrace(e.ctx, "x")
		e.wantInvalidData(err)
		if len(steps) != 2 || steps[1].Index != 2 {
			e.Errorf("trace %+v, want both valid steps", steps)
		}
	}},
}

func (e *env) wantInvalidData(err error) {
	e.Helper()
	var invalid *store.InvalidDataError
	if !errors.As(err, &invalid) || invalid.ID == "" || !errors.Is(err, store.ErrInvalidData) {
		e.Errorf("got %v, want invalid data with a name", err)
	}
}

// deep returns a document of nested objects.
func deep(levels int) string {
	doc := make([]byte, 0, 6*levels)
	for range levels {
		doc = append(doc, `{"a":`...)
	}
	doc = append(doc, '1')
	for range levels {
		doc = append(doc, '}')
	}
	return string(doc)
}
