package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/workspace"
)

var wsConcurrentCases = []workspaceCase{
	{promise: "transactions of one process take effect in the order they began", run: func(w *wsEnv) {
		// Each begins when the one before it is in line, behind the first, which holds
		// the workspace.
		hold := make(chan struct{})
		in := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			w.retry(func() error {
				return w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
					close(in)
					<-hold
					_, err := tx.Append(ctx, entry("first"))
					return err
				})
			})
		})
		<-in
		var want []string
		for i := range 20 {
			id := workspaceID(i)
			want = append(want, id)
			wg.Go(func() {
				w.retry(func() error {
					return w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
						_, err := tx.Append(ctx, entry(id))
						return err
					})
				})
			})
			for w.ws.Waiting(ws1) <= i {
				<-time.After(50 * time.Microsecond)
			}
		}
		close(hold)
		wg.Wait()
		w.equal("log", w.dense(ws1)[1:], want)
	}},
	{promise: "transactions of several stores on one workspace are serial", run: func(w *wsEnv) {
		stores := []*workspace.Store{w.ws, w.another(), w.another()}
		const rounds = 12
		var wg sync.WaitGroup
		for s, ws := range stores {
			for g := range 2 {
				wg.Go(func() {
					for r := range rounds {
						id := fmt.Sprintf("%d-%d-%d", s, g, r)
						w.retry(func() error {
							return ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error { return count(ctx, tx, id) })
						})
					}
				})
			}
		}
		wg.Wait()
		w.counted(ws1, len(stores)*2*rounds)
	}},
	{promise: "appends of many land once each, at the position they were told", run: func(w *wsEnv) {
		stores := []*workspace.Store{w.ws, w.another()}
		l, err := actor.NewLog(w.ws)
		w.must(err)
		h := &history{}
		var wg sync.WaitGroup
		const callers, rounds = 12, 15
		for c := range callers {
			wg.Go(func() {
				for r := range rounds {
					id := fmt.Sprintf("%d-%d", c, r)
					ref := wsRef(fmt.Sprint("w", r%3))
					h.append(w, ref, id, func() (out []workspace.Envelope, err error) {
						switch c % 3 {
						case 0:
							return l.Append(w.ctx, ref, entry(id), entry(id+"+")).Await(w.ctx)
						case 1:
							return stores[c%2].Append(w.ctx, ref, entry(id), entry(id+"+"))
						}
						w.retry(func() error {
							return stores[c%2].Transact(w.ctx, ref, func(ctx context.Context, tx *workspace.Tx) error {
								out, err = tx.Append(ctx, entry(id), entry(id+"+"))
								return err
							})
						})
						return out, err
					})
					if r%4 == 0 {
						h.read(w, stores[(c+1)%2], ref)
					}
				}
			})
		}
		wg.Wait()
		_, err = l.Close(w.ctx)
		w.must(err)
		for i := range 3 {
			h.check(w, wsRef(fmt.Sprint("w", i)))
		}
	}},
	{promise: "one event appended by many at once is in the log once", run: func(w *wsEnv) {
		stores := []*workspace.Store{w.ws, w.another()}
		for round := range 5 {
			id := workspaceID(round)
			var mu sync.Mutex
			won, same := 0, 0
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					_, err := stores[g%2].Append(w.ctx, ws1, entry(id))
					var dup *workspace.DuplicateError
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						won++
					case errors.As(err, &dup) && dup.Same && dup.Envelope.Seq == int64(round+1):
						same++
					default:
						w.Error(err)
					}
				})
			}
			wg.Wait()
			w.equal("won and told where it is", [2]int{won, same}, [2]int{1, 7})
		}
		w.equal("events", len(w.dense(ws1)), 5)
	}},
	{promise: "callers who give up at any moment leave a log without gaps", run: func(w *wsEnv) {
		l, err := actor.NewLog(w.ws)
		w.must(err)
		told := make(map[string]bool) // applied or not
		for i := range 100 {
			for way := range 3 {
				id := fmt.Sprintf("%d-%d", i, way)
				ctx, cancel := context.WithCancel(w.ctx)
				stop := context.AfterFunc(ctx, func() {})
				go func() {
					<-time.After(time.Duration(i) * 20 * time.Microsecond)
					cancel()
				}()
				var err error
				switch way {
				case 0:
					err = w.ws.Transact(ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
						_, err := tx.Append(ctx, entry(id))
						return errors.Join(err, tx.SaveRuns(ctx, run(id, "r", 1)))
					})
				case 1:
					_, err = w.ws.Append(ctx, ws1, entry(id))
				case 2:
					_, err = l.Append(ctx, ws1, entry(id)).Await(w.ctx)
				}
				stop()
				switch {
				case err == nil:
					told[id] = true
				case !errors.Is(err, workspace.ErrOutcomeUnknown):
					told[id] = false
				}
			}
		}
		_, err = l.Close(w.ctx)
		w.must(err)
		w.append(ws1, entry("after"))
		there := make(map[string]bool)
		for _, id := range w.dense(ws1) {
			if there[id] {
				w.Errorf("event %s is there twice", id)
			}
			there[id] = true
		}
		for id, applied := range told {
			if there[id] != applied {
				w.Errorf("event %s: told applied=%v, there=%v", id, applied, there[id])
			}
		}
		other := w.another()
		_, err = other.Append(w.ctx, ws1, entry("other"))
		w.must(err)
	}},
}

// retry repeats a transaction that lost too often, or that the database could not
// apply.
func (w *wsEnv) retry(f func() error) {
	for {
		err := f()
		if errors.Is(err, workspace.ErrConflict) || errors.Is(err, engine.ErrUnavailable) && engine.OutcomeOf(err) == engine.NotApplied {
			continue
		}
		if err != nil {
			w.Errorf("%T: %v", err, err)
		}
		return
	}
}

// count reads a number and writes the next one, in several tables at once.
func count(ctx context.Context, tx *workspace.Tx, id string) error {
	n, _, err := workspace.LoadState[int64](ctx, tx, "counter", "[]")
	if err != nil {
		return err
	}
	p, _, err := tx.Progress(ctx, "counter")
	if err != nil {
		return err
	}
	if p.Cursor != n || tx.HeadSeq() != n {
		return fmt.Errorf("a torn view: state %d, progress %d, head %d", n, p.Cursor, tx.HeadSeq())
	}
	_, err = tx.Append(ctx, entry(id))
	return errors.Join(err, workspace.SaveState(tx, "counter", "[]", n+1), tx.SaveProgress(ctx, "counter", workspace.Progress{Cursor: n + 1}), tx.SaveRuns(ctx, run(id, "counter", n+1)))
}

// counted checks what count has written n times.
func (w *wsEnv) counted(ref workspace.Ref, n int) {
	w.Helper()
	ids := w.dense(ref)
	w.equal("events", len(ids), n)
	runs, err := w.ws.Runs(w.ctx, ref, workspace.RunFilter{})
	w.must(err)
	w.equal("runs", len(runs), n)
	for i, r := range runs {
		if r.FiredSeq != int64(n-i) || r.ID != ids[n-i-1] {
			w.Errorf("run %d is %q of %d, want %q of %d", i, r.ID, r.FiredSeq, ids[n-i-1], n-i)
		}
	}
	w.transact(ref, func(ctx context.Context, tx *workspace.Tx) {
		got, err := tx.States(ctx, "counter", "[]")
		w.must(err)
		w.equal("state", string(got[0].Value), string(json.RawMessage(fmt.Sprint(n))))
	})
}

// history records what callers were told, to be checked for linearizability: an
// append takes effect at one moment between its call and its answer, and a read
// shows the log of one moment between its own.
type history struct {
	mu  sync.Mutex
	ops []historyOp
}

type historyOp struct {
	ref        workspace.Ref
	call, back time.Time
	appended   []workspace.Envelope // nil for a read
	ids        []string             // of a read
}

func (h *history) add(op historyOp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// append records an append. One whose outcome stays unknown is appended again until
// the log has it.
func (h *history) append(w *wsEnv, ref workspace.Ref, id string, do func() ([]workspace.Envelope, error)) {
	op := historyOp{ref: ref, call: time.Now()}
	out, err := do()
	for err != nil {
		var dup *workspace.DuplicateError
		switch {
		case errors.As(err, &dup) && dup.Same:
			log, rerr := w.ws.Read(w.ctx, ref, workspace.After(dup.Envelope.Seq-1), workspace.First(2))
			if rerr != nil {
				w.Error(rerr)
				return
			}
			out, err = log, nil
		case errors.Is(err, workspace.ErrOutcomeUnknown), errors.Is(err, engine.ErrUnavailable):
			out, err = do()
		default:
			w.Errorf("append %s: %T: %v", id, err, err)
			return
		}
	}
	op.back, op.appended = time.Now(), out
	h.add(op)
}

func (h *history) read(w *wsEnv, ws *workspace.Store, ref workspace.Ref) {
	op := historyOp{ref: ref, call: time.Now()}
	log, err := ws.Read(w.ctx, ref)
	if err != nil {
		w.Error(err)
		return
	}
	op.back, op.ids = time.Now(), eventIDs(log)
	h.add(op)
}

// check compares the history with the log. Since positions order the appends, it is
// enough that each is where it was told, that no append that was answered before
// another was called is behind it, and that a read holds all that was answered
// before it and nothing that was called after it.
func (h *history) check(w *wsEnv, ref workspace.Ref) {
	w.Helper()
	log := w.dense(ref)
	at := make(map[string]int64)
	for i, id := range log {
		if at[id] != 0 {
			w.Errorf("event %s is there twice", id)
		}
		at[id] = int64(i + 1)
	}
	n := 0
	for _, op := range h.ops {
		if op.ref != ref {
			continue
		}
		for i, e := range op.appended {
			n++
			if at[e.ID] != e.Seq || e.Seq != op.appended[0].Seq+int64(i) {
				w.Errorf("event %s was told to be at %d, it is at %d", e.ID, e.Seq, at[e.ID])
			}
		}
		for i, id := range op.ids {
			if log[i] != id {
				w.Errorf("a read showed %s at %d, it is %s", id, i+1, log[i])
			}
		}
	}
	w.equal("events acknowledged and there", n, len(log))
	for _, a := range h.ops {
		if a.ref != ref || a.appended == nil {
			continue
		}
		last := a.appended[len(a.appended)-1].Seq
		for _, b := range h.ops {
			if b.ref != ref {
				continue
			}
			if b.appended != nil && a.back.Before(b.call) && last > b.appended[0].Seq {
				w.Errorf("the append at %d was answered before the one at %d was called", last, b.appended[0].Seq)
			}
			if b.appended == nil && a.back.Before(b.call) && int64(len(b.ids)) < last {
				w.Errorf("a read of %d events began after the append at %d was answered", len(b.ids), last)
			}
			if b.appended == nil && b.back.Before(a.call) && int64(len(b.ids)) >= a.appended[0].Seq {
				w.Errorf("a read of %d events ended before the append at %d was called", len(b.ids), a.appended[0].Seq)
			}
		}
	}
}
