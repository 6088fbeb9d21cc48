package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// handwritten is what the modes share that write their own SQL: executions with
// the counters they are at, and the text of a step's rows. The effect on the
// tables is that of the store's commits.
type handwritten struct {
	env       *environment
	ids       []string
	order     []int // positions in ids, at random
	docs      []document
	versions  []int64
	processed []int64
	traced    []int64 // trace steps written so far
}

func newHandwritten(env *environment) *handwritten {
	n := env.data.ids
	h := &handwritten{
		env: env, ids: env.data.newIDs(), order: env.data.rng.Perm(n),
		docs: make([]document, n), versions: make([]int64, n), processed: make([]int64, n), traced: make([]int64, n),
	}
	for i, id := range h.ids {
		h.docs[i] = env.data.document(id)
		h.versions[i] = 1
	}
	return h
}

// traceKept is the number of trace steps that the store keeps by default.
const traceKept = 200

// row is one commit on its way: all that its statements bind.
type row struct {
	k        int // the execution
	id       string
	old      int64
	data     string
	token    string
	event    string // processed event, "" for none
	emits    []string
	child    string // "" for no spawn, timer, and trace step
	traceIdx int64
}

// hand is one caller of a handwritten mode.
type hand struct {
	*handwritten
	order  []int // the executions of this caller, and the one whose turn is next
	at     int
	events *eventIDs
	prefix string // of an event's JSON up to its id
	suffix string
	rows   []row
}

func (h *handwritten) hand(caller, callers int) *hand {
	w := &hand{handwritten: h, events: h.env.data.newEventIDs()}
	// At random: the callers of a store whose commits meet in a batch do not happen
	// to work on neighbouring rows, several of which share a page of the database,
	// either.
	lo, hi := share(len(h.ids), caller, callers)
	w.order = h.order[lo:hi]
	e := store.Event{ID: "@", Kind: "charge", CreatedTime: eventTime, Data: h.env.data.eventData}
	raw, err := e.MarshalJSON()
	if err != nil {
		panic(err) // the event is ours
	}
	w.prefix, w.suffix = cutOnce(string(raw), "@")
	return w
}

func cutOnce(s, sep string) (before, after string) {
	for i := range len(s) {
		if s[i:i+len(sep)] == sep {
			return s[:i], s[i+len(sep):]
		}
	}
	panic("separator not found")
}

func (w *hand) next() int {
	k := w.order[w.at]
	if w.at++; w.at == len(w.order) {
		w.at = 0
	}
	return k
}

// batch makes up the next n commits of an op, each of another execution.
func (w *hand) batch(o op, n int) []row {
	w.rows = w.rows[:0]
	for range n {
		k := w.next()
		r := row{
			k: k, id: w.ids[k], old: w.versions[k],
			data: w.docs[k].at(w.processed[k]+1, w.versions[k]+1), token: w.events.id(),
		}
		switch o {
		case opMixed:
			r.event = w.events.id()
			r.emits = []string{w.emit()}
		case opCommitFull:
			r.event = w.events.id()
			r.emits = []string{w.emit(), w.emit()}
			r.child = w.events.id()
			r.traceIdx = w.traced[k]
		}
		w.rows = append(w.rows, r)
	}
	return w.rows
}

func (w *hand) emit() string { return w.prefix + w.events.id() + w.suffix }

// won moves the executions of commits that were applied on.
func (w *hand) won(rows []row) {
	for i := range rows {
		k := rows[i].k
		w.versions[k]++
		w.processed[k]++
		if rows[i].child != "" {
			w.traced[k]++
		}
	}
}

// verify compares with what an engine finds.
func (h *handwritten) verify(ctx context.Context, eng engine.Engine) error {
	return verifyVersions(ctx, eng, h.ids, func(i int) int64 { return h.versions[i] })
}

// populate creates the executions in multi-row statements.
func (h *handwritten) populate(ctx context.Context, eng engine.Engine) error {
	const token = "00000000000000000000000000000000"
	for lo, hi := range chunks(len(h.ids), 512, h.env.data.state) {
		args := make([]engine.Value, 0, (hi-lo)*7)
		for i := lo; i < hi; i++ {
			args = append(args, engine.Text(h.ids[i]), engine.Text(definition), engine.Text(h.docs[i].at(0, 1)), engine.Int(1), engine.Text(token), engine.Text(string(status)), engine.Int(1))
		}
		_, err := eng.Exec(ctx, []engine.Statement{{
			SQL:  "INSERT INTO executions(id,definition_id,data,version,commit_token,quorate_status,quorate_listed) VALUES " + values(hi-lo, 7),
			Args: args,
		}})
		if err != nil {
			return fmt.Errorf("creating executions: %w", err)
		}
	}
	return nil
}

// statement is one statement of a single commit, for the modes that send
// commits one by one. The guards are as the store has them: side writes happen
// iff the execution is at the version that the commit was built on.
type statement struct {
	sql  string
	args []any
}

const (
	handGuard     = ` WHERE EXISTS(SELECT 1 FROM executions WHERE id=? AND version=?)`
	handUpdate    = `UPDATE executions SET data=?,version=?,commit_token=?,quorate_listed=? WHERE id=? AND version=?`
	handOutbox    = `INSERT INTO outbox(target_id,event) SELECT ?,?` + handGuard
	handProcessed = `INSERT INTO processed_events(execution_id,event_id) SELECT ?,?` + handGuard + ` ON CONFLICT(execution_id,event_id) DO NOTHING`
	handTimer     = `INSERT INTO timers(execution_id,path,fire_at) SELECT ?,?,?` + handGuard + ` ON CONFLICT(execution_id,path) DO UPDATE SET fire_at=excluded.fire_at`
	handSpawn     = `INSERT INTO spawns(parent_id,child_id,root_path,context) SELECT ?,?,?,?` + handGuard
	handTrace     = `INSERT INTO trace(execution_id,idx,entry) SELECT ?,?,?` + handGuard
	handTrim      = `DELETE FROM trace WHERE execution_id=? AND idx<=?`
	handAck       = `DELETE FROM outbox WHERE seq=?`
	handLoad      = `SELECT version,commit_token,data FROM executions WHERE id=?`
	handLoadEvent = `SELECT version,commit_token,data,EXISTS(SELECT 1 FROM processed_events WHERE execution_id=? AND event_id=?) FROM executions WHERE id=?`
)

// statements returns the transaction of one commit; its last statement affects
// one row iff the commit is won.
func (r *row) statements(data *dataset) []statement {
	var out []statement
	add := func(sql string, args ...any) { out = append(out, statement{sql, args}) }
	for _, e := range r.emits {
		add(handOutbox, r.id, e, r.id, r.old)
	}
	if r.event != "" {
		add(handProcessed, r.id, r.event, r.id, r.old)
	}
	if r.child != "" {
		add(handTimer, r.id, "/step/timeout", float64(fireAt), r.id, r.old)
		add(handSpawn, r.id, r.child, "/child", data.child.Raw(), r.id, r.old)
		add(handTrace, r.id, r.traceIdx, data.trace.Raw(), r.id, r.old)
		add(handTrim, r.id, r.traceIdx-traceKept)
	}
	add(handUpdate, r.data, r.old+1, r.token, r.old+1, r.id, r.old)
	return out
}

// took measures f.
func took(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}
