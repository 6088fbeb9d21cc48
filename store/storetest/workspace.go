package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/workspace"
)

// workspaceCase is one promise of the workspace store and its test.
type workspaceCase struct {
	promise string
	run     func(w *wsEnv)
}

// wsEnv is a workspace store on a database of its own.
type wsEnv struct {
	*testing.T
	ctx    context.Context
	db     Database
	hidden bool // interactive transactions are
	tap    *tap // between store and engine, if hidden
	clock  *fakeClock
	ws     *workspace.Store
	face   wsFace
}

// wsFace is a way to append to a log.
type wsFace struct {
	name   string
	append func(w *wsEnv, ref workspace.Ref, entries ...workspace.Entry) ([]workspace.Envelope, error)
}

var wsFaces = []wsFace{
	{"in a transaction", func(w *wsEnv, ref workspace.Ref, entries ...workspace.Entry) (out []workspace.Envelope, err error) {
		err = w.ws.Transact(w.ctx, ref, func(ctx context.Context, tx *workspace.Tx) (err error) {
			out, err = tx.Append(ctx, entries...)
			return err
		})
		return out, err
	}},
	{"alone", func(w *wsEnv, ref workspace.Ref, entries ...workspace.Entry) ([]workspace.Envelope, error) {
		return w.ws.Append(w.ctx, ref, entries...)
	}},
	{"asynchronously", func(w *wsEnv, ref workspace.Ref, entries ...workspace.Entry) ([]workspace.Envelope, error) {
		l, err := actor.NewLog(w.ws)
		w.must(err)
		defer func() {
			_, err := l.Close(w.ctx)
			w.must(err)
		}()
		return l.Append(w.ctx, ref, entries...).Await(w.ctx)
	}},
}

// fakeClock is the clock of a store under test.
type fakeClock struct {
	mu sync.Mutex
	at time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *fakeClock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func (c *fakeClock) advance(d time.Duration) { c.set(c.now().Add(d)) }

// RunWorkspace checks what package workspace promises, on the engine: with
// interactive transactions where the engine has them, and without.
func RunWorkspace(t *testing.T, h Harness) {
	t.Helper()
	for _, hidden := range []bool{false, true} {
		name := "interactive"
		if hidden {
			name = "optimistic"
		}
		t.Run(name, func(t *testing.T) {
			if !hidden && !interactive(t, h) {
				t.Skip("the engine has no interactive transactions: store/conformance runs this on SQLite and PostgreSQL")
			}
			for _, f := range wsFaces {
				t.Run("log "+f.name, func(t *testing.T) { runWorkspaceCases(t, h, hidden, f, wsLogCases) })
			}
			for _, g := range []struct {
				name  string
				cases []workspaceCase
			}{
				{"transaction", wsTxCases},
				{"rules", wsRuleCases},
				{"runs", wsRunCases},
				{"due runs", wsDueCases},
				{"leases and cursors", wsLeaseCases},
				{"subscription", wsSubscribeCases},
				{"concurrent", wsConcurrentCases},
			} {
				t.Run(g.name, func(t *testing.T) { runWorkspaceCases(t, h, hidden, wsFaces[0], g.cases) })
			}
			if hidden {
				t.Run("faults", func(t *testing.T) { runWorkspaceCases(t, h, hidden, wsFaces[0], wsFaultCases) })
			}
		})
	}
}

func runWorkspaceCases(t *testing.T, h Harness, hidden bool, f wsFace, cases []workspaceCase) {
	for _, c := range cases {
		t.Run(c.promise, func(t *testing.T) { c.run(newWsEnv(t, h, hidden, f)) })
	}
}

// interactive reports whether the engine has interactive transactions.
func interactive(t *testing.T, h Harness) bool {
	eng := h.Open(t).Engine
	defer func() { _ = eng.Close() }()
	_, ok := eng.(engine.Transactor)
	return ok
}

func newWsEnv(t *testing.T, h Harness, hidden bool, f wsFace) *wsEnv {
	t.Helper()
	w := &wsEnv{T: t, db: h.Open(t), hidden: hidden, clock: newFakeClock(), face: f}
	ctx, cancel := context.WithTimeout(t.Context(), caseLimit)
	t.Cleanup(cancel)
	w.ctx = ctx
	t.Cleanup(func() {
		if err := w.db.Engine.Close(); err != nil {
			t.Error("close the engine:", err)
		}
	})
	eng := w.db.Engine
	if hidden {
		w.tap = &tap{Engine: eng, tb: t}
		eng = w.tap
	}
	w.ws = w.open(eng)
	return w
}

// open opens a store with the clock and a short poll interval.
func (w *wsEnv) open(eng engine.Engine, opts ...workspace.Option) *workspace.Store {
	w.Helper()
	ws, err := workspace.Open(w.ctx, eng, append([]workspace.Option{
		workspace.WithClock(w.clock.now), workspace.WithPollInterval(20 * time.Millisecond), workspace.WithLogger(slog.New(slog.DiscardHandler)),
	}, opts...)...)
	w.must(err)
	w.Cleanup(func() { _ = ws.Close() })
	return ws
}

// another opens another store on the database, as another process has it.
func (w *wsEnv) another(opts ...workspace.Option) *workspace.Store {
	w.Helper()
	eng := w.db.Engine
	if w.db.Again != nil {
		own := w.db.Again(w.T)
		w.Cleanup(func() {
			if err := own.Close(); err != nil {
				w.Error("close the other engine:", err)
			}
		})
		eng = own
	}
	if w.hidden {
		eng = shared{eng} // hides what the engine has beyond engine.Engine
	}
	return w.open(eng, opts...)
}

func (w *wsEnv) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%T: %v", err, err)
	}
}

// is fails unless err matches all of targets.
func (w *wsEnv) is(err error, targets ...error) {
	w.Helper()
	if err == nil {
		w.Error("no error")
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			w.Errorf("got %v (%T), want it to match %v", err, err, target)
		}
	}
}

// append appends through the face under test.
func (w *wsEnv) append(ref workspace.Ref, entries ...workspace.Entry) []workspace.Envelope {
	w.Helper()
	out, err := w.face.append(w, ref, entries...)
	w.must(err)
	return out
}

// transact runs fn in a transaction, which must commit.
func (w *wsEnv) transact(ref workspace.Ref, fn func(ctx context.Context, tx *workspace.Tx)) {
	w.Helper()
	w.must(w.ws.Transact(w.ctx, ref, func(ctx context.Context, tx *workspace.Tx) error { fn(ctx, tx); return nil }))
}

// read reads a log.
func (w *wsEnv) read(ref workspace.Ref, opts ...workspace.ReadOption) []workspace.Envelope {
	w.Helper()
	out, err := w.ws.Read(w.ctx, ref, opts...)
	w.must(err)
	return out
}

// dense fails unless a log is numbered from 1 without gaps, with times that never
// decrease, and its head is its end. It returns the ids.
func (w *wsEnv) dense(ref workspace.Ref) []string {
	w.Helper()
	log := w.read(ref)
	head, err := w.ws.HeadSeq(w.ctx, ref)
	w.must(err)
	if head != int64(len(log)) {
		w.Errorf("the head is %d, the log has %d events", head, len(log))
	}
	for i, e := range log {
		if e.Seq != int64(i+1) {
			w.Fatalf("event %d is numbered %d", i+1, e.Seq)
		}
		if i > 0 && e.TS.Before(log[i-1].TS) {
			w.Errorf("event %d is of %v, before %v", e.Seq, e.TS, log[i-1].TS)
		}
	}
	return eventIDs(log)
}

func eventIDs(log []workspace.Envelope) []string {
	out := make([]string, len(log))
	for i, e := range log {
		out[i] = e.ID
	}
	return out
}

func seqs(log []workspace.Envelope) []int64 {
	out := make([]int64, len(log))
	for i, e := range log {
		out[i] = e.Seq
	}
	return out
}

func wsRef(name string) workspace.Ref { return workspace.Ref{Tenant: "t1", Workspace: name} }

// ws1 is the workspace of most cases.
var ws1 = wsRef("w1")

func entry(id string) workspace.Entry { return entryOf(id, "note:taken") }

func entryOf(id, typ string) workspace.Entry {
	return workspace.Entry{ID: id, Actor: workspace.System("suite"), Event: fmt.Appendf(nil, `{"type":%q,"id":%q}`, typ, id)}
}

func entries(ids ...string) []workspace.Entry {
	out := make([]workspace.Entry, len(ids))
	for i, id := range ids {
		out[i] = entry(id)
	}
	return out
}

// equal fails unless got is want, as both are printed.
func (w *wsEnv) equal(what string, got, want any) {
	w.Helper()
	if g, e := fmt.Sprint(got), fmt.Sprint(want); g != e {
		w.Errorf("%s: got %s, want %s", what, g, e)
	}
}
