package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// ST-02: a part of a commit that the database refuses by a trigger undoes all of
// it, with one typed error, on all engines.
func TestRefusedPartUndoesTheCommit(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		e := await(t, w.s.Commit(t.Context(), full(execution("a")))).Execution()
		before := w.dump(t)
		for _, table := range []string{"outbox", "processed_events", "timers", "spawns", "trace", "executions"} {
			for _, event := range []string{"INSERT", "UPDATE"} {
				w.run(t, "CREATE TRIGGER no_"+event+" BEFORE "+event+" ON "+table+" BEGIN SELECT RAISE(ABORT,'this table is read-only'); END")
			}
			_, err := w.s.Commit(t.Context(), full(e)).Await(t.Context())
			wantErr(t, err, engine.ErrNotApplied)
			var refused *engine.StatementError
			if !errors.As(err, &refused) || !strings.Contains(refused.Message, "this table is read-only") {
				t.Errorf("%s: %v", table, err)
			}
			if w.dump(t) != before {
				t.Errorf("%s: the refused commit left something", table)
			}
			w.run(t, "DROP TRIGGER no_INSERT")
			w.run(t, "DROP TRIGGER no_UPDATE")
		}
		await(t, w.s.Commit(t.Context(), full(e)))
		if w.consistent(t) != 2 {
			t.Error("the commit does not work when the trigger is gone")
		}
	})
}

// ST-02: servers before 9.4.2 go on after a failing statement with RETURNING and
// commit the rest. They are sent none.
func TestServerThatGoesOnAfterAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		// Requests of one commit each keep the write lane busy, so that the next
		// two travel in one request.
		hold := w.c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: w.eng.Traits().Writers}, rqlitetest.Block())
		var all []*actor.CommitFuture
		for _, id := range ids("busy", w.eng.Traits().Writers) {
			all = append(all, w.s.Commit(t.Context(), full(execution(id))))
			if err := hold.WaitHits(t.Context(), len(all)); err != nil {
				t.Fatal(err)
			}
		}
		w.c.ResetLog()
		for _, id := range []string{"a", "b"} {
			all = append(all, w.s.Commit(t.Context(), full(execution(id))))
		}
		hold.Remove()
		for _, f := range all {
			await(t, f)
		}
		together := false
		for _, e := range w.c.LogOf(rqlitetest.KindExecute) {
			body := string(e.Body)
			together = together || strings.Contains(body, `"a"`) && strings.Contains(body, `"b"`)
			if strings.Contains(strings.ToUpper(body), "RETURNING") {
				t.Errorf("sent %s", body)
			}
		}
		if !together {
			t.Error("the two commits did not travel together")
		}
		if w.consistent(t) != int64(len(all)) {
			t.Error("not all executions are there")
		}
	}, rqlitetest.Version("v9.4.1"))
}

// ST-06: a reader of the outbox that gives up on one entry in the middle of a page
// gets it again, and passes over none that was committed meanwhile.
func TestOutboxReaderSkipsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		var futures []*actor.CommitFuture
		for _, id := range ids("a", 30) {
			futures = append(futures, w.s.Commit(ctx, full(execution(id))))
		}
		for _, f := range futures {
			await(t, f)
		}
		delivered := make(map[string]int)
		failed := false
		for page := 0; ; page++ {
			entries := await(t, w.s.PendingOutbox(ctx, 7))
			if len(entries) == 0 && page > 5 {
				break
			}
			if !slices.IsSortedFunc(entries, func(a, b store.OutboxEntry) int { return int(a.Seq - b.Seq) }) {
				t.Errorf("entries out of order: %+v", entries)
			}
			for i, e := range entries {
				if i == 3 && !failed {
					failed = true // the rest of the page is tried again too
					break
				}
				delivered[e.Event.ID]++
				await(t, w.s.AckOutbox(ctx, e.Seq))
			}
			if page < 5 { // more is committed between the pages
				futures = append(futures, w.s.Commit(ctx, full(execution(fmt.Sprint("late-", page)))))
			}
		}
		for _, f := range futures {
			await(t, f)
		}
		for _, e := range await(t, w.s.PendingOutbox(ctx, 100)) {
			delivered[e.Event.ID]++
		}
		if len(delivered) != 2*len(futures) || !failed {
			t.Errorf("%d of %d entries delivered", len(delivered), 2*len(futures))
		}
		for id, n := range delivered {
			if n != 1 {
				t.Errorf("%s was delivered %d times", id, n)
			}
		}
	})
}

// ST-09: a commit that loses leaves no timer. A firing that was on its way when
// its timer was replaced is found out: its worker's commit conflicts, and clearing
// it removes nothing.
func TestFiringOfAReplacedTimer(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		timer := func(e *store.Execution, ops ...store.TimerOp) *actor.CommitFuture {
			return w.s.Commit(ctx, &store.Commit{Execution: e, Timers: ops})
		}
		done := await(t, timer(execution("x"), store.TimerOp{Path: "A", FireAt: 10}))
		due := await(t, w.s.DueTimers(ctx, 10, 10))
		firing := w.load(t, "x")
		await(t, timer(done.Execution(), store.CancelTimer("A"), store.TimerOp{Path: "B", FireAt: 20}, store.TimerOp{Path: "B", FireAt: 30}))

		_, err := timer(firing, store.CancelTimer("A"), store.TimerOp{Path: "C", FireAt: 1}).Await(ctx)
		wantErr(t, err, store.ErrConflict)
		await(t, w.s.DeleteTimer(ctx, due[0]))
		if got := fmt.Sprint(await(t, w.s.DueTimers(ctx, 1e9, 10))); got != "[{x B 30}]" {
			t.Errorf("timers %s", got)
		}
		// Setting the same timer twice leaves one.
		e := w.load(t, "x")
		e = await(t, timer(e, store.TimerOp{Path: "B", FireAt: 40})).Execution()
		await(t, timer(e, store.TimerOp{Path: "B", FireAt: 40}))
		if got := fmt.Sprint(await(t, w.s.DueTimers(ctx, 1e9, 10))); got != "[{x B 40}]" {
			t.Errorf("timers %s", got)
		}
	})
}

// ST-12: what a list filters by is compared byte by byte: nothing in it is a
// wildcard, and case counts.
func TestFiltersHaveNoWildcards(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		names := []string{"a_b", "aXb", "a%b", "A_b", `a\b`, "ä_b", "a_", "a%", "%", "_", "a*b", "a?b", "[a]_b"}
		for _, name := range names {
			e := execution("id " + name)
			e.DefinitionID = name
			await(t, w.s.Save(t.Context(), e))
		}
		for _, name := range names {
			page := await(t, w.s.List(t.Context(), store.ListQuery{DefinitionID: name}))
			if len(page.Items) != 1 || page.Items[0].DefinitionID != name || page.Items[0].ID != "id "+name {
				t.Errorf("%q lists %+v", name, page.Items)
			}
			if e := w.load(t, "id "+name); e.DefinitionID != name {
				t.Errorf("%q loads %q", name, e.DefinitionID)
			}
		}
	})
}

// ST-17: shrinking a large ring costs one statement, whatever its size, and is
// nobody else's business.
func TestLargeRingShrinks(t *testing.T) {
	const steps = 20_000
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, "x", "y")
		for id, n := range map[string]int{"x": steps, "y": 500} {
			w.run(t, fmt.Sprintf("WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM c WHERE i<%d) INSERT INTO trace(execution_id,idx,entry) SELECT '%s',i,'{}' FROM c", n-1, id))
		}
		small, err := store.Open(t.Context(), w.eng, store.WithTraceMax(10), store.WithLogger(w.logger()))
		if err != nil {
			t.Fatal(err)
		}
		trace := object(`{"new":1}`)
		if _, err := small.Commit(t.Context(), &store.Commit{Execution: w.load(t, "x"), Trace: &trace}); err != nil {
			t.Error(err)
		}
		rows := w.rows(t, "SELECT execution_id,count(*),min(idx),max(idx) FROM trace GROUP BY 1 ORDER BY 1")
		if got, want := fmt.Sprint(rows), fmt.Sprintf("[[x 10 %d %d] [y 500 0 499]]", steps-9, steps); got != want {
			t.Errorf("rings %s, want %s", got, want)
		}
		// Three executions in turn, through many more steps than a ring holds.
		for i := range 90 {
			if err := small.AppendTrace(t.Context(), fmt.Sprint("ring-", i%3), object(fmt.Sprintf(`{"i":%d}`, i))); err != nil {
				t.Fatal(err)
			}
		}
		for k := range 3 {
			got, err := small.ReadTrace(t.Context(), fmt.Sprint("ring-", k))
			if err != nil || len(got) != 10 {
				t.Fatalf("%d steps, %v", len(got), err)
			}
			for i, s := range got {
				if want := fmt.Sprintf(`{"i":%d}`, 3*(20+i)+k); s.Entry.Raw() != want || s.Index != int64(20+i) {
					t.Errorf("ring %d: step %d is %d %s, want %s", k, i, s.Index, s.Entry.Raw(), want)
				}
			}
		}

		// Trimming is a part of the commit: where the database refuses it, nothing
		// remains, and the error says why.
		w.run(t, "CREATE TRIGGER keep BEFORE DELETE ON trace BEGIN SELECT RAISE(ABORT,'history is kept'); END")
		before := w.dump(t)
		_, err = small.Commit(t.Context(), &store.Commit{Execution: w.load(t, "x"), Trace: &trace, Emits: []store.Emit{{Event: event("a", "x")}}})
		var refused *engine.StatementError
		if wantErr(t, err, engine.ErrNotApplied); !errors.As(err, &refused) || !strings.Contains(refused.Message, "history is kept") {
			t.Errorf("%v", err)
		}
		if w.dump(t) != before {
			t.Error("a refused commit left something")
		}
	})
}

// ST-20: texts that other databases cannot hold are stored and loaded byte by
// byte, on all engines.
func TestHardTextSurvives(t *testing.T) {
	const hard = `{"nul":"\u0000","lone":"\ud800","twice":1,"twice":2,"long":123456789012345678901234567890123456789012345678901234567890,"z":1,"a":1.50}`
	onEach(t, func(t *testing.T, w *world) {
		e := execution("a")
		e.Context = object(hard)
		trace := object(hard)
		await(t, w.s.Commit(t.Context(), &store.Commit{
			Execution: e, Trace: &trace, Emits: []store.Emit{{Event: store.Event{ID: "e", Kind: "k", Data: object(hard)}}},
			Spawns: []store.Spawn{{ChildID: "c", Context: object(hard)}},
		}))
		if got := w.load(t, "a").Context.Raw(); got != hard {
			t.Errorf("loaded %s", got)
		}
		if got := await(t, w.s.PendingOutbox(t.Context(), 1))[0].Event.Data.Raw(); got != hard {
			t.Errorf("event %s", got)
		}
		if got := await(t, w.s.PendingSpawns(t.Context(), 1))[0].Context.Raw(); got != hard {
			t.Errorf("spawn %s", got)
		}
		if got := await(t, w.s.ReadTrace(t.Context(), "a"))[0].Entry.Raw(); got != hard {
			t.Errorf("trace %s", got)
		}
		if !json.Valid([]byte(hard)) {
			t.Error("the text is not JSON")
		}
	})
}
