package actor

import (
	"context"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

// fakeEngine is a scripted engine. It keeps executions, with the compare-and-swap
// of commits, and records each request; of other tables it knows nothing.
type fakeEngine struct {
	traits engine.Traits

	mu       sync.Mutex
	rows     map[string]fakeRow
	seen     map[string]bool // "execution event" pairs that were processed
	outbox   [][]engine.Value
	defined  []engine.Value // names of tables, columns, indexes
	requests []*request
	closed   bool

	// script, if set, is called with each request that is about executions and
	// decides what becomes of it. It may block, panic, or end the goroutine.
	script func(ctx context.Context, r *request) error
}

type fakeRow struct {
	version                         int64
	token, data, definition, status string
}

// request is one call of Exec or Query.
type request struct {
	f     *fakeEngine
	exec  bool
	stmts []engine.Statement
	kinds map[string]int // rows per kind of statement
	ids   []string       // the executions committed or loaded
	ctx   context.Context

	results []engine.Result // set by apply
	err     error           // likewise
}

func newFake() *fakeEngine {
	return &fakeEngine{
		traits: engine.Traits{Name: "fake", MaxParams: 30_000, RowsPerStatement: 1000, MaxBatchBytes: 4 << 20, Writers: 1, Readers: 1},
		rows:   make(map[string]fakeRow),
		seen:   make(map[string]bool),
	}
}

// kinds of statements, told by a part of their text.
var statementKinds = []struct{ part, kind string }{
	{"INSERT INTO executions(", "commit"},
	{"UPDATE executions SET data", "commit"},
	{"UPDATE executions SET definition_id", "commit"},
	{"INSERT INTO outbox(", "emit"},
	{"INSERT INTO processed_events(", "processed"},
	{"DELETE FROM outbox", "ack outbox"},
	{"DELETE FROM spawns", "ack spawn"},
	{"DELETE FROM timers WHERE (execution_id,path,fire_at)", "delete timer"},
	{"INSERT INTO trace(execution_id,idx,entry,token)", "append trace"},
	{"DELETE FROM trace", "trim"},
	{" AS processed FROM", "load for event"},
	{"AS status FROM executions e", "load"},
	{"e.commit_token AS token FROM", "peek"},
	{" AS n FROM", "is processed"},
	{"FROM outbox ORDER", "outbox"},
	{"FROM spawns ORDER", "spawns"},
	{"FROM timers WHERE fire_at", "timers"},
	{"FROM trace WHERE execution_id=?", "trace"},
	{"FROM executions", "list"},
}

func kindOf(s engine.Statement) string {
	if strings.Contains(s.SQL, "sqlite_master") || strings.Contains(s.SQL, "SET quorate_status=CASE") {
		return "schema"
	}
	for _, k := range statementKinds {
		if strings.Contains(s.SQL, k.part) {
			return k.kind
		}
	}
	return ""
}

// listColumns names the parameters of each row of statements that are lists of
// rows, as those of batches are in which all commits have to win.
var listColumns = map[string]string{
	"INSERT INTO executions(":                                      "id,definition,data,token,status",
	"INSERT INTO processed_events(execution_id,event_id) VALUES (": "id,event",
	"INSERT INTO outbox(target_id,event) VALUES (":                 "target,event",
}

// singleColumns names the parameters of statements for one row, which have no
// WITH clause.
var singleColumns = map[string]string{
	"INSERT INTO executions(":                 "id,definition,data,token,status",
	"UPDATE executions SET data":              "id,at,data,token",
	"UPDATE executions SET definition_id":     "id,at,data,token,status,definition",
	"INSERT INTO processed_events(":           "id,at,event",
	"INSERT INTO outbox(":                     "ord,id,at,target,event",
	" AS processed FROM executions":           "n,id,event",
	"AS status FROM executions e":             "id",
	"e.commit_token AS token FROM executions": "id",
	"SELECT ?1 AS n FROM processed_events":    "n,id,event",
}

// rowsOf returns the rows that a statement binds by the names of their columns,
// or one row without columns if it has none that matter here.
func rowsOf(s engine.Statement) []map[string]engine.Value {
	names, found := strings.CutPrefix(s.SQL, "WITH w(")
	if found {
		names, _, _ = strings.Cut(names, ")")
	} else {
		for _, of := range []map[string]string{singleColumns, listColumns} {
			for part, columns := range of {
				if strings.Contains(s.SQL, part) {
					names, found = columns, true
				}
			}
		}
	}
	if !found {
		return []map[string]engine.Value{nil}
	}
	columns := strings.Split(names, ",")
	var rows []map[string]engine.Value
	for i := 0; i < len(s.Args); i += len(columns) {
		row := make(map[string]engine.Value)
		for c, name := range columns {
			row[name] = s.Args[i+c]
		}
		rows = append(rows, row)
	}
	return rows
}

func text(v engine.Value) string  { t, _ := v.Text(); return t }
func number(v engine.Value) int64 { n, _ := v.Int(); return n }

func (f *fakeEngine) request(ctx context.Context, exec bool, stmts []engine.Statement) *request {
	r := &request{f: f, exec: exec, stmts: stmts, kinds: make(map[string]int), ctx: ctx}
	for _, s := range stmts {
		kind := kindOf(s)
		if kind == "" || kind == "schema" {
			continue
		}
		for _, row := range rowsOf(s) {
			r.kinds[kind]++
			if kind == "commit" || !exec && row != nil {
				r.ids = append(r.ids, text(row["id"]))
			}
		}
	}
	return r
}

func (f *fakeEngine) serve(ctx context.Context, exec bool, stmts []engine.Statement) ([]engine.Result, error) {
	r := f.request(ctx, exec, stmts)
	outcome := engine.NotApplied
	f.mu.Lock()
	closed, script := f.closed, f.script
	if len(r.kinds) > 0 {
		f.requests = append(f.requests, r)
	}
	f.mu.Unlock()
	if closed {
		return nil, &engine.Error{Op: "serve", Outcome: outcome, Reason: engine.ErrClosed}
	}
	if script != nil && len(r.kinds) > 0 {
		if err := script(ctx, r); err != nil {
			return nil, err
		}
	}
	return r.apply()
}

// apply takes effect once.
func (r *request) apply() ([]engine.Result, error) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if r.results != nil || r.err != nil {
		return r.results, r.err
	}
	rows, seen := maps.Clone(r.f.rows), maps.Clone(r.f.seen)
	results := make([]engine.Result, len(r.stmts))
	for i, s := range r.stmts {
		if strings.Contains(s.SQL, "changes()") && results[i-1].RowsAffected != number(s.Args[0]) {
			r.f.rows, r.f.seen = rows, seen
			r.err = &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: &engine.StatementError{Index: i, Message: "not all"}}
			return nil, r.err
		}
		results[i] = r.f.run(s)
	}
	r.results = results
	return results, nil
}

// columnsOf are the result columns of queries.
var columnsOf = map[string][]string{
	"schema":         {"name"},
	"load":           {"id", "version", "token", "data", "definition", "status"},
	"load for event": {"n", "version", "token", "data", "definition", "status", "processed"},
	"peek":           {"id", "version", "token"},
	"is processed":   {"n"},
	"outbox":         {"seq", "target", "event"},
	"spawns":         {"seq", "parent", "child", "root_path", "context"},
	"timers":         {"id", "path", "fire_at"},
	"trace":          {"idx", "entry"},
	"list":           {"id", "definition_id", "version", "status", "outcome", "active_path", "parent_id"},
}

func (f *fakeEngine) run(s engine.Statement) engine.Result {
	kind := kindOf(s)
	res := engine.Result{Columns: columnsOf[kind]}
	if s.Returning {
		res.Columns = []string{"id"}
	}
	if kind == "schema" {
		res.Values = f.defined
		return res
	}
	if kind == "outbox" {
		for _, row := range f.outbox {
			res.Values = append(res.Values, row...)
		}
		return res
	}
	for _, w := range rowsOf(s) {
		id := text(w["id"])
		row, there := f.rows[id]
		event := id + " " + text(w["event"])
		switch kind {
		case "commit":
			old, base, known := number(w["at"]), "", false
			if at, ok := w["at"].Text(); ok {
				v, token, _ := strings.Cut(at, ":")
				old, _ = strconv.ParseInt(v, 10, 64)
				base, known = token, true
			}
			if old == 0 && there || old > 0 && (row.version != old || known && row.token != base) {
				continue
			}
			definition, status := row.definition, row.status
			if d, assigned := w["definition"]; assigned {
				definition, status = text(d), text(w["status"])
			}
			f.rows[id] = fakeRow{version: old + 1, token: text(w["token"]), data: text(w["data"]), definition: definition, status: status}
			res.RowsAffected++
			if s.Returning {
				res.Values = append(res.Values, w["id"])
			}
		case "processed":
			f.seen[event] = true
		case "load", "load for event":
			if !there {
				continue
			}
			name := w["id"]
			if kind == "load for event" {
				name = w["n"]
			}
			res.Values = append(res.Values, name, engine.Int(row.version), engine.Text(row.token), engine.Text(row.data), engine.Text(row.definition), engine.Text(row.status))
			if kind == "load for event" {
				var p int64
				if f.seen[event] {
					p = 1
				}
				res.Values = append(res.Values, engine.Int(p))
			}
		case "peek":
			if there {
				res.Values = append(res.Values, w["id"], engine.Int(row.version), engine.Text(row.token))
			}
		case "is processed":
			if f.seen[event] {
				res.Values = append(res.Values, w["n"])
			}
		}
	}
	return res
}

func (f *fakeEngine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	return f.serve(ctx, true, stmts)
}

func (f *fakeEngine) Query(ctx context.Context, _ engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	return f.serve(ctx, false, stmts)
}

var definition = regexp.MustCompile(`^(?:CREATE (?:TABLE|INDEX|TRIGGER) IF NOT EXISTS|ALTER TABLE) (\w+)(?: ADD COLUMN (\w+))?`)

func (f *fakeEngine) Define(_ context.Context, ddl []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, stmt := range ddl {
		m := definition.FindStringSubmatch(stmt)
		name := m[1]
		if m[2] != "" {
			name += "." + m[2]
		}
		f.defined = append(f.defined, engine.Text(name))
	}
	return nil
}

func (f *fakeEngine) Ping(context.Context) error { return nil }
func (f *fakeEngine) Traits() engine.Traits      { return f.traits }

func (f *fakeEngine) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// setScript changes what becomes of later requests.
func (f *fakeEngine) setScript(script func(ctx context.Context, r *request) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = script
}

// log returns the requests so far that are about executions.
func (f *fakeEngine) log() []*request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*request(nil), f.requests...)
}

// count returns the number of requests so far that hold statements of a kind.
func (f *fakeEngine) count(kind string) int {
	n := 0
	for _, r := range f.log() {
		if r.kinds[kind] > 0 {
			n++
		}
	}
	return n
}

func (f *fakeEngine) row(id string) fakeRow {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rows[id]
}

func (f *fakeEngine) versions() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]int64)
	for id, row := range f.rows {
		out[id] = row.version
	}
	return out
}

// gate holds requests until it is opened, or their context ends.
type gate struct{ ch chan struct{} }

func newGate() *gate { return &gate{ch: make(chan struct{})} }

func (g *gate) open() { close(g.ch) }

// one lets one request through.
func (g *gate) one(t testing.TB) {
	t.Helper()
	select {
	case g.ch <- struct{}{}:
	default:
		t.Error("no request waits at the gate")
	}
}

// hold waits at the gate. When the context ends first, nobody knows whether a
// write was applied, and nothing was read.
func (g *gate) hold(ctx context.Context, r *request) error {
	select {
	case <-g.ch:
		return nil
	case <-ctx.Done():
		return interrupted(ctx, r)
	}
}

func interrupted(ctx context.Context, r *request) error {
	e := &engine.Error{Op: "query", Outcome: engine.NotApplied, Err: ctx.Err()}
	if r.exec {
		e.Op, e.Outcome = "exec", engine.Unknown
	}
	return e
}

// held returns a fake engine all of whose requests wait at a gate.
func held() (*fakeEngine, *gate) {
	f, g := newFake(), newGate()
	f.script = g.hold
	return f, g
}
