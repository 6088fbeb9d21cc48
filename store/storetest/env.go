package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// storeCase is one promise of the store and its test.
type storeCase struct {
	promise string
	run     func(e *env)
	options []store.Option
	// before runs on the empty database, before the store is opened.
	before func(e *env)
	// ownPace leaves the number of requests under way to the store.
	ownPace bool
}

// env is a store on a database of its own, through one face.
type env struct {
	*testing.T
	ctx  context.Context
	db   Database
	tap  *tap
	st   *store.Store
	kind makeFace
	face // of st
}

// caseLimit bounds one test, so that what hangs says where.
const caseLimit = 5 * time.Minute

func newEnv(t *testing.T, h Harness, kind makeFace, c *storeCase) *env {
	t.Helper()
	e := &env{T: t, kind: kind, db: h.Open(t)}
	ctx, cancel := context.WithTimeout(t.Context(), caseLimit)
	t.Cleanup(cancel)
	e.ctx = ctx
	e.tap = &tap{Engine: e.db.Engine, tb: t}
	t.Cleanup(func() {
		if err := e.tap.Close(); err != nil {
			t.Error("close the engine:", err)
		}
	})
	if c.before != nil {
		c.before(e)
	}
	e.st = e.openStore(e.tap, c.options...)
	e.face = e.openFace(e.st, e.tap, c.ownPace)
	return e
}

var silent = store.WithLogger(slog.New(slog.DiscardHandler))

func (e *env) openStore(eng engine.Engine, opts ...store.Option) *store.Store {
	e.Helper()
	st, err := store.Open(e.ctx, eng, append([]store.Option{silent}, opts...)...)
	if err != nil {
		e.Fatal("store.Open:", err)
	}
	return st
}

func (e *env) openFace(st *store.Store, eng *tap, ownPace bool) face {
	f := e.kind.open(e.T, st, eng, ownPace)
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), caseLimit)
		defer cancel()
		if err := f.close(ctx); err != nil {
			e.Error("close the store:", err)
		}
	})
	return f
}

// again opens another engine on the database, or shares the one there is.
func (e *env) again() engine.Engine {
	e.Helper()
	if e.db.Again == nil {
		return shared{e.db.Engine}
	}
	eng := e.db.Again(e.T)
	e.Cleanup(func() {
		if err := eng.Close(); err != nil {
			e.Error("close the other engine:", err)
		}
	})
	return eng
}

// another opens another store on the database, as another process has it.
func (e *env) another(opts ...store.Option) face {
	e.Helper()
	eng := &tap{Engine: e.again(), tb: e.T}
	return e.openFace(e.openStore(eng, opts...), eng, true)
}

// stranger is another store, for use inside faults.
func (e *env) stranger() *store.Store {
	e.Helper()
	return e.openStore(e.again())
}

// value turns a Go value into a parameter.
func value(v any) engine.Value {
	switch v := v.(type) {
	case nil:
		return engine.Null()
	case int:
		return engine.Int(int64(v))
	case int64:
		return engine.Int(v)
	case float64:
		return engine.Float(v)
	case string:
		return engine.Text(v)
	case engine.Value:
		return v
	}
	panic(fmt.Sprintf("storetest: a parameter of type %T", v))
}

func values(args []any) []engine.Value {
	out := make([]engine.Value, len(args))
	for i, a := range args {
		out[i] = value(a)
	}
	return out
}

// statement builds a statement from Go values.
func statement(sql string, args ...any) engine.Statement {
	return engine.Statement{SQL: sql, Args: values(args)}
}

// foreign runs plain SQL as a service in another language would.
func (e *env) foreign(sql string, args ...any) {
	e.Helper()
	if _, err := e.db.Engine.Exec(e.ctx, []engine.Statement{statement(sql, args...)}); err != nil {
		e.Fatalf("foreign writer: %s: %v", sql, err)
	}
}

// define creates tables as others would.
func (e *env) define(ddl ...string) {
	e.Helper()
	if err := e.db.Engine.Define(e.ctx, ddl); err != nil {
		e.Fatal("define:", err)
	}
}

// query asks the oracle.
func (e *env) query(sql string, args ...any) [][]engine.Value {
	e.Helper()
	return askOracle(e.ctx, e.T, &e.db, sql, values(args))
}

func askOracle(ctx context.Context, t testing.TB, db *Database, sql string, args []engine.Value) [][]engine.Value {
	t.Helper()
	if db.Oracle != nil {
		return db.Oracle(t, sql, args...)
	}
	res, err := db.Engine.Query(ctx, engine.Linearizable, []engine.Statement{{SQL: sql, Args: args}})
	if err != nil {
		t.Fatalf("oracle: %s: %v", sql, err)
	}
	rows := make([][]engine.Value, res[0].Len())
	for i := range rows {
		rows[i] = res[0].Row(i)
	}
	return rows
}

// number returns the integer that a query yields.
func (e *env) number(sql string, args ...any) int64 {
	e.Helper()
	rows := e.query(sql, args...)
	if len(rows) != 1 || len(rows[0]) != 1 {
		e.Fatalf("%s: got %v, want one value", sql, rows)
	}
	n, ok := rows[0][0].Int()
	if !ok {
		e.Fatalf("%s: got %v, want an integer", sql, rows[0][0])
	}
	return n
}

// text returns the text that a query yields.
func (e *env) text(sql string, args ...any) string {
	e.Helper()
	rows := e.query(sql, args...)
	if len(rows) != 1 || len(rows[0]) != 1 {
		e.Fatalf("%s: got %v, want one value", sql, rows)
	}
	s, ok := rows[0][0].Text()
	if !ok {
		e.Fatalf("%s: got %v, want a text", sql, rows[0][0])
	}
	return s
}

func (e *env) count(table string) int64 {
	e.Helper()
	return e.number("SELECT count(*) AS n FROM " + table)
}

// stored is what is in an execution's row.
func (e *env) stored(id string) string {
	e.Helper()
	return e.text("SELECT data AS data FROM executions WHERE id=?", id)
}

// tables are the tables with their columns that two runs of the same writes
// leave equal.
var tables = []struct{ name, columns, order string }{
	{"executions", "id,definition_id,data,version", "id"},
	{"outbox", "seq,target_id,event", "seq"},
	{"processed_events", "execution_id,event_id", "execution_id,event_id"},
	{"timers", "execution_id,path,fire_at", "execution_id,path"},
	{"spawns", "seq,parent_id,child_id,root_path,context", "seq"},
	{"trace", "execution_id,idx,entry", "execution_id,idx"},
}

// dump prints everything in the database.
func (e *env) dump() string {
	e.Helper()
	var b strings.Builder
	for _, t := range tables {
		fmt.Fprintf(&b, "%s:\n", t.name)
		for _, row := range e.query("SELECT " + t.columns + " FROM " + t.name + " ORDER BY " + t.order) {
			fmt.Fprintf(&b, "  %v\n", row)
		}
	}
	return b.String()
}

// unchanged fails unless the database is as it was when before was dumped.
func (e *env) unchanged(before string) {
	e.Helper()
	if after := e.dump(); after != before {
		e.Errorf("the database has changed\nbefore:\n%safter:\n%s", before, after)
	}
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%T: %v", err, err)
	}
}

// ok is must for a commit.
func (e *env) ok(c store.Committed, err error) store.Committed {
	e.Helper()
	e.must(err)
	return c
}

// load is Load that must succeed.
func (e *env) load(id string) *store.Execution {
	e.Helper()
	got, err := e.Load(e.ctx, id)
	e.must(err)
	return got
}

// create commits a new execution.
func (e *env) create(id string) store.Committed {
	e.Helper()
	return e.ok(e.Commit(e.ctx, &store.Commit{Execution: execution(id)}))
}

// wantConflict fails unless err is a conflict with these fields.
func (e *env) wantConflict(err error, id string, expected, found int64) {
	e.Helper()
	var c *store.ConflictError
	switch {
	case !errors.As(err, &c):
		e.Errorf("got error %v, want a conflict", err)
	case !errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrOutcomeUnknown):
		e.Errorf("a conflict that matches the wrong sentinels: %v", err)
	case c.ID != id || c.Expected != expected || c.Found != found:
		e.Errorf("got conflict %+v, want id %q, expected %d, found %d", *c, id, expected, found)
	}
}

// wantUnknown fails unless err says that the outcome is unknown.
func (e *env) wantUnknown(err error, id string, base int64) *store.UnknownError {
	e.Helper()
	var u *store.UnknownError
	switch {
	case !errors.As(err, &u):
		e.Fatalf("got error %v, want an unknown outcome", err)
	case !errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrConflict) || errors.Is(err, engine.ErrNotApplied):
		e.Errorf("an unknown outcome that matches the wrong sentinels: %v", err)
	case u.Ref.ID != id || u.Ref.Base != base || len(u.Ref.Token) != 32:
		e.Errorf("got reference %+v, want execution %q, base %d and a token", u.Ref, id, base)
	}
	return u
}

// execution returns a new execution of a fixed id.
func execution(id string) *store.Execution {
	x := store.NewExecution("storetest/order")
	x.ID = id
	return x
}

func object(raw string) store.Object {
	o, err := store.ParseObject(raw)
	if err != nil {
		panic(err)
	}
	return o
}

// event returns an event of a fixed id.
func event(id string) store.Event {
	data, err := store.NewObject(map[string]string{"for": id})
	if err != nil {
		panic(err)
	}
	return store.Event{ID: id, Kind: "storetest", Data: data}
}

// emit is an event for nobody.
func emit(id string) store.Emit { return store.Emit{Event: event(id)} }

// full is a commit with something of everything, named after mark.
func full(x *store.Execution, mark string) *store.Commit {
	trace, err := store.NewObject(map[string]string{"step": mark})
	if err != nil {
		panic(err)
	}
	return &store.Commit{
		Execution:      x,
		Emits:          []store.Emit{{Target: "target-" + mark, Event: event(mark + "-1")}, emit(mark + "-2")},
		ProcessedEvent: "seen-" + mark,
		Timers:         []store.TimerOp{{Path: "/timer/" + mark, FireAt: 1000}},
		Spawns:         []store.Spawn{{ChildID: "child-" + mark, RootPath: "/" + mark, Context: object(`{"c":1}`)}},
		Trace:          &trace,
	}
}
