package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

var batchCases = []storeCase{
	{promise: "many executions are committed in one request", run: func(e *env) {
		const n = 100
		ops := make([]op, n)
		for i := range ops {
			id := fmt.Sprintf("%03d", i)
			ops[i] = op{commit: full(execution(id), id)}
		}
		before := e.tap.traffic().execs
		for i, r := range e.together(e.ctx, ops) {
			if e.must(r.err); r.done.ID != ops[i].commit.Execution.ID || r.done.Version != 1 {
				e.Errorf("commit %d: %+v", i, r.done)
			}
		}
		if sent := e.tap.traffic().execs - before; sent != 1 {
			e.Errorf("%d requests, want 1", sent)
		}
		for table, want := range map[string]int64{"executions": n, "outbox": 2 * n, "processed_events": n, "timers": n, "spawns": n, "trace": n} {
			if got := e.count(table); got != want {
				e.Errorf("%d rows in %s, want %d", got, table, want)
			}
		}
	}},
	{promise: "a lost compare-and-swap costs its own commit alone", run: func(e *env) {
		const n = 20
		ops := make([]op, n)
		for i := range ops {
			id := fmt.Sprintf("%02d", i)
			x := e.create(id).Execution()
			if i%3 == 0 {
				e.ok(e.Save(e.ctx, x))
			}
			ops[i] = op{commit: full(x, id)}
		}
		for i, r := range e.together(e.ctx, ops) {
			if i%3 == 0 {
				e.wantConflict(r.err, ops[i].commit.Execution.ID, 1, 2)
			} else {
				e.must(r.err)
			}
		}
		if got := e.count("outbox"); got != 2*13 {
			e.Errorf("%d rows in the outbox, want %d", got, 2*13)
		}
	}},
	{promise: "a batch of losers alone", run: func(e *env) {
		ops := make([]op, 5)
		for i := range ops {
			e.create(fmt.Sprint(i))
			ops[i] = op{commit: full(execution(fmt.Sprint(i)), "a")}
		}
		before := e.dump()
		for i, r := range e.together(e.ctx, ops) {
			e.wantConflict(r.err, fmt.Sprint(i), 0, 1)
		}
		e.unchanged(before)
	}},
	{promise: "a write that is refused fails alone, found in a logarithmic number of requests", run: func(e *env) {
		const n = 32
		for _, poisoned := range []int{0, 17, n - 1} {
			ops := make([]op, n)
			for i := range ops {
				id := fmt.Sprintf("%d-%d", poisoned, i)
				ops[i] = op{commit: full(execution(id), id)}
			}
			ops[poisoned].commit.Emits[0].Event.Data = object(`{"the":"poison"}`)
			e.tap.playAlways(poisonous("poison"))
			before := e.tap.traffic().execs
			results := e.together(e.ctx, ops)
			sent := e.tap.traffic().execs - before
			e.tap.playAlways(nil)
			for i, r := range results {
				if i == poisoned {
					e.wantRefused(r.err)
				} else {
					e.must(r.err)
				}
			}
			if most := 2*bits.Len(n) - 1; sent > most {
				e.Errorf("%d requests to find 1 of %d, want at most %d", sent, n, most)
			}
			if _, err := e.Load(e.ctx, ops[poisoned].commit.Execution.ID); !errors.Is(err, store.ErrNotFound) {
				e.Errorf("the refused commit: %v", err)
			}
		}
		if got, want := e.count("outbox"), int64(3*2*(n-1)); got != want {
			e.Errorf("%d rows in the outbox, want %d", got, want)
		}
	}},
	{promise: "a write that the database itself refuses fails alone", before: func(e *env) {
		e.define(`CREATE TABLE IF NOT EXISTS outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT,target_id TEXT CHECK(target_id<>'illegal'),event TEXT NOT NULL)`)
	}, run: func(e *env) {
		ops := make([]op, 9)
		for i := range ops {
			id := fmt.Sprint(i)
			ops[i] = op{commit: full(execution(id), id)}
		}
		ops[4].commit.Emits[0].Target = "illegal"
		for i, r := range e.together(e.ctx, ops) {
			if i == 4 {
				e.wantRefused(r.err)
			} else {
				e.must(r.err)
			}
		}
		if n := e.count("outbox"); n != 16 {
			e.Errorf("%d rows in the outbox, want 16", n)
		}
		if n := e.count("executions"); n != 8 {
			e.Errorf("%d executions, want 8", n)
		}
	}},
	{promise: "a refusal that is nobody's fault is not looked for", run: func(e *env) {
		e.tap.playAlways(unavailable)
		ops := make([]op, 8)
		for i := range ops {
			ops[i] = op{commit: full(execution(fmt.Sprint(i)), "a")}
		}
		before := e.tap.traffic().execs
		results := e.together(e.ctx, ops)
		sent := e.tap.traffic().execs - before
		e.tap.playAlways(nil)
		for _, r := range results {
			if !errors.Is(r.err, store.ErrUnavailable) || errors.Is(r.err, store.ErrOutcomeUnknown) {
				e.Errorf("got %v, want unavailable", r.err)
			}
		}
		if sent != 1 {
			e.Errorf("%d requests, want 1", sent)
		}
		if n := e.count("executions"); n != 0 {
			e.Errorf("%d executions stored", n)
		}
	}},
	{promise: "poison in a batch whose first answer was lost fails alone, and nothing is doubled", run: func(e *env) {
		ops := make([]op, 8)
		for i := range ops {
			id := fmt.Sprint(i)
			ops[i] = op{commit: full(execution(id), id)}
		}
		ops[5].commit.Emits[0].Event.Data = object(`{"the":"poison"}`)
		e.tap.playAlways(poisonous("poison"))
		e.tap.play(requestLost)
		results := e.together(e.ctx, ops)
		e.tap.playAlways(nil)
		for i, r := range results {
			if i != 5 {
				e.must(r.err)
				continue
			}
			// Its first copy may still arrive, for all that is known.
			e.wantUnknown(r.err, "5", 0)
		}
		if n := e.count("outbox"); n != 14 {
			e.Errorf("%d rows in the outbox, want 14", n)
		}
	}},
	{promise: "one caller's context costs its own write alone", run: func(e *env) {
		if e.kind.name == "sync" {
			e.Skip("a synchronous write travels alone: the asynchronous run of this suite covers it")
		}
		ctx, cancel := context.WithCancel(e.ctx)
		var mine pending
		e.tap.play(func(c context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
			cancel()
			<-mine.Done()
			return eng.Exec(c, stmts)
		})
		hold := e.tap.holdExec()
		first := e.start(e.ctx, full(execution("first"), "first"))
		hold.entered()
		mine = e.start(ctx, full(execution("mine"), "mine"))
		theirs := e.start(e.ctx, full(execution("theirs"), "theirs"))
		hold.pull()
		e.ok(first.wait())
		_, err := mine.wait()
		e.wantUnknown(err, "mine", 0)
		e.ok(theirs.wait())
	}},
}
