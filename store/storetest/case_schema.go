package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// foreignTables are the six tables as services in other languages make them.
var foreignTables = []string{
	`CREATE TABLE IF NOT EXISTS executions(id TEXT PRIMARY KEY,definition_id TEXT NOT NULL,data TEXT NOT NULL,version INTEGER NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT,target_id TEXT,event TEXT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS processed_events(execution_id TEXT NOT NULL,event_id TEXT NOT NULL,PRIMARY KEY(execution_id,event_id))`,
	`CREATE TABLE IF NOT EXISTS timers(execution_id TEXT NOT NULL,path TEXT NOT NULL,fire_at REAL NOT NULL,PRIMARY KEY(execution_id,path))`,
	`CREATE TABLE IF NOT EXISTS spawns(seq INTEGER PRIMARY KEY AUTOINCREMENT,parent_id TEXT NOT NULL,child_id TEXT NOT NULL,root_path TEXT NOT NULL,context TEXT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS trace(execution_id TEXT NOT NULL,idx INTEGER NOT NULL,entry TEXT NOT NULL,PRIMARY KEY(execution_id,idx))`,
}

var schemaCases = []storeCase{
	{promise: "tables that others made are adopted with what is in them", before: func(e *env) {
		e.define(foreignTables...)
		e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(?,?,?,?)", "x", "d", `{"id":"x","definition_id":"d","status":"RUNNING"}`, 7)
		e.foreign("INSERT INTO outbox(target_id,event) VALUES(?,?)", "t", `{"id":"a","kind":"k"}`)
		e.foreign("INSERT INTO timers(execution_id,path,fire_at) VALUES(?,?,?)", "x", "/a", 1.5)
		e.foreign("INSERT INTO trace(execution_id,idx,entry) VALUES(?,?,?)", "x", 4, `{"s":"old"}`)
	}, run: func(e *env) {
		e.wantPages(store.ListQuery{Status: []store.Status{store.StatusRunning}}, []string{"x"})
		x := e.load("x")
		if x.Version != 7 {
			e.Errorf("loaded version %d, want 7", x.Version)
		}
		trace := object(`{"s":"new"}`)
		x.Status = store.StatusDone
		e.ok(e.Commit(e.ctx, &store.Commit{Execution: x, Trace: &trace, Emits: []store.Emit{emit("b")}, ProcessedEvent: "seen"}))
		e.must(e.AppendTrace(e.ctx, "x", object(`{"s":"newer"}`)))
		e.wantTrace("x", "4 old", "5 new", "6 newer")
		e.wantOutbox("a", "b")
		e.wantTimers("x /a 1.5")
		e.wantPages(store.ListQuery{Status: []store.Status{store.StatusDone}}, []string{"x"})
		// The others go on as before.
		e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(?,?,?,?)", "y", "d", `{"id":"y","definition_id":"d","status":"RUNNING"}`, 1)
		e.wantPages(store.ListQuery{Status: []store.Status{store.StatusRunning}}, []string{"y"})
	}},
	{promise: "tables that appear while the schema is made are adopted too", run: func(e *env) {
		e.must(Reset(e.ctx, e.db.Engine))
		eng := &interposed{Engine: shared{e.db.Engine}, before: func(ctx context.Context, eng engine.Engine) error { return eng.Define(ctx, foreignTables) }}
		st := e.openStore(eng)
		f := e.openFace(st, &tap{Engine: eng, tb: e.T}, false)
		e.ok(f.Commit(e.ctx, full(execution("x"), "a")))
		e.must(f.AppendTrace(e.ctx, "x", object(`{}`)))
		e.must(st.Ping(e.ctx))
	}},
	{promise: "opening a database again writes nothing", run: func(e *env) {
		eng := &tap{Engine: shared{e.db.Engine}, tb: e.T}
		e.openStore(eng)
		if got := eng.traffic(); got.execs != 0 || got.defines != 0 {
			e.Errorf("requests: %+v, want reads only", got)
		}
	}},
	{promise: "many stores may open a new database at once", run: func(e *env) {
		for range 3 {
			e.must(Reset(e.ctx, e.db.Engine))
			const n = 8
			engines := make([]engine.Engine, n)
			for i := range engines {
				engines[i] = shared{e.db.Engine}
				if i < 3 && e.db.Again != nil {
					engines[i] = e.again()
				}
			}
			start := make(chan struct{})
			var wg sync.WaitGroup
			for i, eng := range engines {
				wg.Go(func() {
					<-start
					st, err := store.Open(e.ctx, eng, silent)
					if err != nil {
						e.Errorf("store %d: %v", i, err)
						return
					}
					if _, err := st.Commit(e.ctx, full(execution(fmt.Sprint(i)), fmt.Sprint(i))); err != nil {
						e.Errorf("store %d: %v", i, err)
					}
				})
			}
			close(start)
			wg.Wait()
			if got := e.count("executions"); got != n {
				e.Errorf("%d executions, want %d", got, n)
			}
			if rows := e.query("SELECT version AS v FROM quorate_schema"); len(rows) != 1 {
				e.Errorf("schema versions %v, want one", rows)
			}
		}
	}},
	{promise: "a schema of a newer release is refused and left untouched", run: func(e *env) {
		e.create("x")
		e.foreign("DROP INDEX quorate_timers_due")
		e.foreign("UPDATE quorate_schema SET version=version+1")
		schema := func() string {
			return fmt.Sprint(e.query("SELECT type AS t,name AS n,sql AS s FROM sqlite_master ORDER BY name,type"), e.query("SELECT version AS v FROM quorate_schema"))
		}
		before := schema()
		eng := &tap{Engine: shared{e.db.Engine}, tb: e.T}
		_, err := store.Open(e.ctx, eng, silent)
		if !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrUnavailable) {
			e.Errorf("got %v, want an unusable schema", err)
		}
		if got := eng.traffic(); got.execs != 0 || got.defines != 0 {
			e.Errorf("requests: %+v, want reads only", got)
		}
		if after := schema(); after != before {
			e.Errorf("the schema changed from\n%s\nto\n%s", before, after)
		}
		if err := e.st.Ping(e.ctx); !errors.Is(err, store.ErrSchema) {
			e.Errorf("ping: %v, want an unusable schema", err)
		}
	}},
	{promise: "a ping tells whether commits would work, and if not, why", run: func(e *env) {
		e.must(e.st.Ping(e.ctx))
		e.foreign("DROP TABLE timers")
		if err := e.st.Ping(e.ctx); !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "timers") {
			e.Errorf("without a table: %v, want an unusable schema", err)
		}
		e.openStore(shared{e.db.Engine})
		e.must(e.st.Ping(e.ctx))
	}},
}

// interposed lets something happen just before the first Define.
type interposed struct {
	engine.Engine
	once   sync.Once
	before func(ctx context.Context, eng engine.Engine) error
}

func (e *interposed) Define(ctx context.Context, ddl []string) (err error) {
	e.once.Do(func() { err = e.before(ctx, e.Engine) })
	if err != nil {
		return err
	}
	return e.Engine.Define(ctx, ddl)
}

var errOwn = errors.New("the caller's own error")

var updateCases = []storeCase{
	{promise: "an update that meets another commit begins again", run: func(e *env) {
		e.create("x")
		calls := 0
		done := e.ok(e.Update(e.ctx, "x", func(c *store.Commit) error {
			calls++
			if calls <= 2 {
				x := e.load("x")
				x.ProcessedEvents += 10
				e.ok(e.Save(e.ctx, x))
			}
			c.Execution.ProcessedEvents++
			c.Emits = append(c.Emits, emit(fmt.Sprint(calls)))
			return nil
		}))
		if got := e.load("x"); calls != 3 || done.Version != 4 || got.ProcessedEvents != 21 {
			e.Errorf("%d calls, version %d, %d events; want 3, 4, 21", calls, done.Version, got.ProcessedEvents)
		}
		e.wantOutbox("3")
	}},
	{promise: "an update gives up after its attempts, with the conflict", options: []store.Option{store.WithUpdateAttempts(2)}, run: func(e *env) {
		e.create("x")
		calls := 0
		_, err := e.Update(e.ctx, "x", func(c *store.Commit) error {
			calls++
			e.ok(e.Save(e.ctx, e.load("x")))
			return nil
		})
		e.wantConflict(err, "x", 2, 3)
		if calls != 2 {
			e.Errorf("%d calls, want 2", calls)
		}
	}},
	{promise: "an update may be skipped, or fail with the caller's error", run: func(e *env) {
		e.create("x")
		before := e.dump()
		done, err := e.Update(e.ctx, "x", func(*store.Commit) error { return fmt.Errorf("not now: %w", store.ErrSkip) })
		if err != nil || done.Version != 0 {
			e.Errorf("skipped: %+v, %v", done, err)
		}
		if _, err := e.Update(e.ctx, "x", func(*store.Commit) error { return errOwn }); err != errOwn {
			e.Errorf("got %v, want the caller's own error", err)
		}
		if _, err := e.Update(e.ctx, "nobody", func(*store.Commit) error { return nil }); !errors.Is(err, store.ErrNotFound) {
			e.Errorf("got %v, want not found", err)
		}
		e.unchanged(before)
	}},
	{promise: "an update does not begin again where the outcome is unknown", options: []store.Option{store.WithTimeLimit(brief)}, run: func(e *env) {
		e.create("x")
		e.tap.playAlways(answerLost)
		calls := 0
		_, err := e.Update(e.ctx, "x", func(c *store.Commit) error { calls++; return nil })
		e.tap.playAlways(nil)
		e.wantUnknown(err, "x", 1)
		if calls != 1 {
			e.Errorf("%d calls, want 1", calls)
		}
	}},
	{promise: "an update whose context ends stops", run: func(e *env) {
		e.create("x")
		ctx, cancel := context.WithCancel(e.ctx)
		calls := 0
		_, err := e.Update(ctx, "x", func(c *store.Commit) error {
			calls++
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrOutcomeUnknown) || calls != 1 {
			e.Errorf("%d calls, %v; want one, and the context's end", calls, err)
		}
		if got := e.load("x"); got.Version != 1 {
			e.Errorf("version %d, want 1", got.Version)
		}
	}},
}
