package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// rawRqlite is the loop by hand over the rqlite client: a few goroutines send full
// batches of multi-row statements.
type rawRqlite struct {
	*handwritten
	conn *connection
}

func openRawRqlite(ctx context.Context, env *environment) (target, error) {
	conn, err := env.backend.connect(ctx, 0)
	if err != nil {
		return nil, err
	}
	t := &rawRqlite{handwritten: newHandwritten(env), conn: conn}
	if err := t.populate(ctx, conn.eng); err != nil {
		return nil, errors.Join(err, conn.close())
	}
	return t, nil
}

// worthARequest is the number of rows from which on another request beside the
// first one pays.
const worthARequest = 128

func (t *rawRqlite) steps(o op, callers int) ([]step, error) {
	traits := t.conn.store.Traits()
	flights := traits.Readers
	if o.writes() {
		flights = traits.Writers
	}
	// Few rows are not worth several requests.
	flights = max(1, min(flights, callers/worthARequest))
	if t.env.cfg.inFlight > 0 {
		flights = min(t.env.cfg.inFlight, callers)
	}
	limit := 1024
	if t.env.cfg.maxBatch > 0 {
		limit = t.env.cfg.maxBatch
	}
	out := make([]step, flights)
	for i := range out {
		lo, hi := share(callers, i, flights)
		n := min(hi-lo, limit)
		w := t.hand(i, flights)
		if !o.writes() {
			out[i] = func(ctx context.Context) (int, time.Duration, error) {
				st := w.loadStatement(o, n)
				d, err := took(func() error { return t.load(ctx, st, n) })
				return n, d, err
			}
			continue
		}
		out[i] = func(ctx context.Context) (int, time.Duration, error) {
			rows := w.batch(o, n)
			d, err := took(func() error { return t.write(ctx, o, rows) })
			if err != nil {
				return 0, 0, err
			}
			w.won(rows)
			return n, d, nil
		}
	}
	return out, nil
}

func (t *rawRqlite) load(ctx context.Context, st engine.Statement, n int) error {
	results, err := t.conn.eng.Query(ctx, engine.Linearizable, []engine.Statement{st})
	if err != nil {
		return err
	}
	if got := results[0].Len(); got != n {
		return fmt.Errorf("a batch of %d loads returned %d rows", n, got)
	}
	return nil
}

func (t *rawRqlite) write(ctx context.Context, o op, rows []row) error {
	if o == opMixed {
		st := engine.Statement{SQL: rawLoadEvent(len(rows))}
		for i := range rows {
			st.Args = append(st.Args, engine.Text(rows[i].id), engine.Text(rows[i].event))
		}
		if err := t.load(ctx, st, len(rows)); err != nil {
			return err
		}
	}
	stmts := rawStatements(t.env.data, rows)
	results, err := t.conn.eng.Exec(ctx, stmts)
	if err != nil {
		return err
	}
	if won := results[len(results)-1].RowsAffected; won != int64(len(rows)) {
		return fmt.Errorf("a batch of %d commits changed %d executions", len(rows), won)
	}
	if o != opMixed {
		return nil
	}
	last := results[0].LastInsertID
	ack := engine.Statement{SQL: "DELETE FROM outbox WHERE seq IN (?" + strings.Repeat(",?", len(rows)-1) + ")"}
	for i := range rows {
		ack.Args = append(ack.Args, engine.Int(last-int64(i)))
	}
	_, err = t.conn.eng.Exec(ctx, []engine.Statement{ack})
	return err
}

func (t *rawRqlite) traffic() traffic                 { return t.conn.counts.snapshot() }
func (t *rawRqlite) verify(ctx context.Context) error { return t.handwritten.verify(ctx, t.conn.eng) }
func (t *rawRqlite) close(context.Context) error      { return t.conn.close() }

// values returns n rows of placeholders.
func values(n, cols int) string {
	row := "(?" + strings.Repeat(",?", cols-1) + ")"
	return row + strings.Repeat(","+row, n-1)
}

func rawLoadEvent(n int) string {
	return "WITH w(id,event) AS (VALUES " + values(n, 2) + ") SELECT e.id,e.version,e.commit_token,e.data," +
		"EXISTS(SELECT 1 FROM processed_events p WHERE p.execution_id=w.id AND p.event_id=w.event) FROM w JOIN executions e ON e.id=w.id"
}

func (w *hand) loadStatement(o op, n int) engine.Statement {
	var st engine.Statement
	if o == opLoadForEvent {
		st.SQL = rawLoadEvent(n)
	} else {
		st.SQL = "SELECT id,version,commit_token,data FROM executions WHERE id IN (?" + strings.Repeat(",?", n-1) + ")"
	}
	for range n {
		st.Args = append(st.Args, engine.Text(w.ids[w.next()]))
		if o == opLoadForEvent {
			st.Args = append(st.Args, engine.Text(w.events.id()))
		}
	}
	return st
}

// rawStatements is the transaction of a batch of commits, the outbox first and
// the states last.
func rawStatements(data *dataset, rows []row) []engine.Statement {
	const at = " FROM w JOIN executions e ON e.id=w.id AND e.version=w.old"
	var outbox, processed, timers, spawns, traces, trims, updates []engine.Value
	for i := range rows {
		r := &rows[i]
		id, old := engine.Text(r.id), engine.Int(r.old)
		for _, e := range r.emits {
			outbox = append(outbox, id, old, id, engine.Text(e))
		}
		if r.event != "" {
			processed = append(processed, id, old, engine.Text(r.event))
		}
		if r.child != "" {
			timers = append(timers, id, old, engine.Text("/step/timeout"), engine.Float(fireAt))
			spawns = append(spawns, id, old, engine.Text(r.child), engine.Text("/child"), engine.Text(data.child.Raw()))
			traces = append(traces, id, old, engine.Int(r.traceIdx), engine.Text(data.trace.Raw()))
			if r.traceIdx >= traceKept {
				trims = append(trims, id, engine.Int(r.traceIdx-traceKept))
			}
		}
		updates = append(updates, id, old, engine.Text(r.data), engine.Text(r.token))
	}
	var stmts []engine.Statement
	add := func(columns string, args []engine.Value, body string) {
		if len(args) == 0 {
			return
		}
		n := strings.Count(columns, ",") + 1
		stmts = append(stmts, engine.Statement{SQL: "WITH w(" + columns + ") AS (VALUES " + values(len(args)/n, n) + ") " + body, Args: args})
	}
	add("id,old,target,event", outbox, "INSERT INTO outbox(target_id,event) SELECT w.target,w.event"+at)
	add("id,old,event", processed, "INSERT INTO processed_events(execution_id,event_id) SELECT w.id,w.event"+at+" WHERE true ON CONFLICT(execution_id,event_id) DO NOTHING")
	add("id,old,path,fire_at", timers, "INSERT INTO timers(execution_id,path,fire_at) SELECT w.id,w.path,w.fire_at"+at+" WHERE true ON CONFLICT(execution_id,path) DO UPDATE SET fire_at=excluded.fire_at")
	add("id,old,child,root_path,context", spawns, "INSERT INTO spawns(parent_id,child_id,root_path,context) SELECT w.id,w.child,w.root_path,w.context"+at)
	add("id,old,idx,entry", traces, "INSERT INTO trace(execution_id,idx,entry) SELECT w.id,w.idx,w.entry"+at)
	add("id,idx", trims, "DELETE FROM trace WHERE (execution_id,idx) IN (SELECT w.id,w.idx FROM w)")
	add("id,old,data,token", updates, "UPDATE executions SET data=w.data,version=w.old+1,commit_token=w.token,quorate_listed=w.old+1 FROM w WHERE executions.id=w.id AND executions.version=w.old")
	return stmts
}
