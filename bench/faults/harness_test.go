package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// world is an asynchronous store with everything below it.
type world struct {
	c   *rqlitetest.Cluster // nil on SQLite
	eng engine.Engine
	st  *store.Store
	s   *actor.Store
	log *syncBuffer // what all layers logged
}

// inBubble runs a test with fake time on a cluster on an in-memory network.
func inBubble(t *testing.T, test func(t *testing.T, w *world), opts ...rqlitetest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, append([]rqlitetest.Option{rqlitetest.InMemoryNetwork()}, opts...)...)
		w := openOn(t, c, nil)
		synctest.Wait() // what the opening asked of nodes that did not matter any more
		c.ResetLog()
		test(t, w)
	})
}

// onEach runs a test on a cluster and on SQLite, in fake time.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("rqlite", func(t *testing.T) { inBubble(t, test) })
	t.Run("sqlite", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, openFile(t, ":memory:", nil)) })
	})
}

// openOn opens a store on a cluster, as another process would. It is closed when
// the test ends.
func openOn(t *testing.T, c *rqlitetest.Cluster, storeOpts []store.Option, opts ...actor.Option) *world {
	t.Helper()
	w := &world{c: c, log: new(syncBuffer)}
	eng, err := client.Open(t.Context(), c.URLs(), client.WithDialContext(c.DialContext), client.WithLogger(w.logger()))
	if err != nil {
		t.Fatal(err)
	}
	w.eng = eng
	return w.finish(t, storeOpts, opts)
}

// openFile opens a store on SQLite, closed when the test ends.
func openFile(t *testing.T, path string, storeOpts []store.Option, opts ...actor.Option) *world {
	t.Helper()
	w := &world{log: new(syncBuffer)}
	eng, err := sqlite.Open(path, sqlite.WithLogger(w.logger()), sqlite.WithDurability(sqlite.Normal))
	if err != nil {
		t.Fatal(err)
	}
	w.eng = eng
	return w.finish(t, storeOpts, opts)
}

func (w *world) finish(t *testing.T, storeOpts []store.Option, opts []actor.Option) *world {
	t.Helper()
	t.Cleanup(func() { _ = w.eng.Close() })
	var err error
	if w.st, err = store.Open(t.Context(), w.eng, append([]store.Option{store.WithLogger(w.logger())}, storeOpts...)...); err != nil {
		t.Fatal(err)
	}
	if w.s, err = actor.New(w.st, opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if left, err := w.s.Close(ctx); err != nil {
			t.Errorf("close: %+v, %v", left, err)
		}
	})
	return w
}

func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// rows asks the database past the store.
func (w *world) rows(t *testing.T, sql string) [][]any {
	t.Helper()
	if w.c != nil {
		rows, err := w.c.SQL(context.Background(), sql)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	res, err := w.eng.Query(context.Background(), engine.Linearizable, []engine.Statement{{SQL: sql}})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([][]any, res[0].Len())
	for i := range rows {
		for _, v := range res[0].Row(i) {
			rows[i] = append(rows[i], native(v))
		}
	}
	return rows
}

func native(v engine.Value) any {
	if n, ok := v.Int(); ok {
		return n
	}
	if f, ok := v.Float(); ok {
		return f
	}
	if s, ok := v.Text(); ok {
		return s
	}
	return nil
}

// number is the integer that a query yields.
func (w *world) number(t *testing.T, sql string) int64 {
	t.Helper()
	rows := w.rows(t, sql)
	if len(rows) != 1 || len(rows[0]) != 1 {
		t.Fatalf("%s: %v", sql, rows)
	}
	n, ok := rows[0][0].(int64)
	if !ok {
		t.Fatalf("%s: %v", sql, rows)
	}
	return n
}

// run runs a statement past the store.
func (w *world) run(t *testing.T, sql string) {
	t.Helper()
	var err error
	if w.c != nil {
		_, err = w.c.Exec(context.Background(), sql)
	} else {
		_, err = w.eng.Exec(context.Background(), []engine.Statement{{SQL: sql}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// dump is everything that the store has written, in an order of its own.
func (w *world) dump(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, q := range dumps {
		fmt.Fprintln(&b, q)
		for _, row := range w.rows(t, q) {
			fmt.Fprintln(&b, " ", row)
		}
	}
	return b.String()
}

var dumps = []string{
	"SELECT id,definition_id,data,version,commit_token FROM executions ORDER BY id",
	"SELECT seq,target_id,event FROM outbox ORDER BY seq",
	"SELECT execution_id,event_id FROM processed_events ORDER BY 1,2",
	"SELECT execution_id,path,fire_at FROM timers ORDER BY 1,2",
	"SELECT seq,parent_id,child_id,root_path,context FROM spawns ORDER BY seq",
	"SELECT execution_id,idx,entry FROM trace ORDER BY 1,2",
}

// consistent fails unless each execution at version n has what n full commits
// leave, with a trace of the default length, and returns the sum of the versions.
func (w *world) consistent(t *testing.T) int64 {
	t.Helper()
	// Each table is grouped once: a subquery for each row would take its time.
	query := "SELECT e.id,e.version"
	from := " FROM executions e"
	for i, table := range sides {
		query += fmt.Sprintf(",coalesce(s%d.n,0)", i)
		from += fmt.Sprintf(" LEFT JOIN (SELECT %s AS id,count(*) AS n FROM %s GROUP BY 1) s%d ON s%d.id=e.id", table.id, table.name, i, i)
	}
	for _, row := range w.rows(t, query+from) {
		n := row[1].(int64)
		if fmt.Sprint(row[2:]) != fmt.Sprint([]int64{2 * n, n, n, n, min(n, 200)}) {
			t.Errorf("execution %v at version %d: outbox, ledger, timers, spawns and trace have %v rows", row[0], n, row[2:])
		}
	}
	for _, table := range sides {
		if n := w.number(t, "SELECT count(*) FROM "+table.name+" WHERE "+table.id+" NOT IN (SELECT id FROM executions)"); n != 0 {
			t.Errorf("%d rows in %s are of no execution", n, table.name)
		}
	}
	return w.number(t, "SELECT coalesce(sum(version),0) FROM executions")
}

// sides are the tables beside executions, and whose a row is.
var sides = []struct{ name, id string }{
	{"outbox", "json_extract(event,'$.data.of')"}, {"processed_events", "execution_id"}, {"timers", "execution_id"}, {"spawns", "parent_id"}, {"trace", "execution_id"},
}

// create commits the first version of executions.
func (w *world) create(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		await(t, w.s.Save(t.Context(), execution(id)))
	}
}

func (w *world) load(t *testing.T, id string) *store.Execution {
	t.Helper()
	return await(t, w.s.Load(t.Context(), id))
}

func execution(id string) *store.Execution {
	e := store.NewExecution("order")
	e.ID, e.Status = id, store.StatusRunning
	return e
}

func object(raw string) store.Object {
	o, err := store.ParseObject(raw)
	if err != nil {
		panic(err)
	}
	return o
}

func event(id, of string) store.Event {
	data, err := store.NewObject(map[string]string{"of": of})
	if err != nil {
		panic(err)
	}
	return store.Event{ID: id, Kind: "k", Data: data}
}

// full is a commit with something of everything, named after the version that it
// makes.
func full(e *store.Execution) *store.Commit {
	mark := fmt.Sprintf("%s@%d", e.ID, e.Version+1)
	trace := object(`{"step":1}`)
	return &store.Commit{
		Execution:      e,
		Emits:          []store.Emit{{Target: "target", Event: event(mark+"/1", e.ID)}, {Event: event(mark+"/2", e.ID)}},
		ProcessedEvent: "seen " + mark,
		Timers:         []store.TimerOp{{Path: "/" + mark, FireAt: 1000}},
		Spawns:         []store.Spawn{{ChildID: "child of " + mark, RootPath: "/", Context: object(`{}`)}},
		Trace:          &trace,
	}
}

// await waits for a future that must succeed.
func await[T any](t *testing.T, f actor.Awaitable[T]) T {
	t.Helper()
	v, err := f.Await(context.Background())
	if err != nil {
		t.Errorf("%T: %v", f, err)
	}
	return v
}

// wantErr fails unless err matches all of want and is of at most one kind.
func wantErr(t *testing.T, err error, want ...error) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v", want)
		return
	}
	for _, target := range want {
		if !errors.Is(err, target) {
			t.Errorf("error %q is not %q", err, target)
		}
	}
	kinds := 0
	for _, kind := range []error{engine.ErrNotApplied, engine.ErrApplied, engine.ErrOutcomeUnknown} {
		if errors.Is(err, kind) {
			kinds++
		}
	}
	if kinds > 1 {
		t.Errorf("error %q is of %d kinds", err, kinds)
	}
}

// within returns a context with a time limit, released with the test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }

func ids(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return out
}

// lines counts the lines of a log that contain a text.
func lines(log, text string) int {
	n := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// syncBuffer is a bytes.Buffer for loggers that goroutines share.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
