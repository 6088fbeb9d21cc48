package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/store/workspace"
)

func workspaceID(i int) string { return fmt.Sprintf("e%05d", i) }

// fill writes something of every kind.
func fill(ctx context.Context, w *wsEnv, tx *workspace.Tx, mark string) error {
	_, err := tx.Append(ctx, entries(mark+"1", mark+"2")...)
	return errors.Join(err,
		tx.SaveRuns(ctx, run(mark, "rule", 1)),
		tx.SaveProgress(ctx, mark, workspace.Progress{Cursor: 1}),
		tx.SaveStates("rule", workspace.State{ScopeKey: mark, Value: json.RawMessage(`1`)}),
		tx.DeadLetter(workspace.DeadLetter{Rule: mark, Seq: 1, Error: "bad"}),
		tx.SaveSchedule(ctx, mark, w.clock.now()),
		tx.SaveStoredRule(ctx, workspace.StoredRule{Name: mark, Version: 1, Status: workspace.RuleActive, Rule: json.RawMessage(`{}`)}))
}

// holds says which of the kinds are there.
func (w *wsEnv) holds(ref workspace.Ref) string {
	w.Helper()
	log := w.read(ref)
	runs, err := w.ws.Runs(w.ctx, ref, workspace.RunFilter{})
	w.must(err)
	progress, err := w.ws.Progress(w.ctx, ref)
	w.must(err)
	letters, err := w.ws.DeadLetters(w.ctx, ref, "")
	w.must(err)
	ticks, err := w.ws.Schedules(w.ctx, ref)
	w.must(err)
	rules, err := w.ws.StoredRules(w.ctx, ref)
	w.must(err)
	var states []workspace.State
	w.transact(ref, func(ctx context.Context, tx *workspace.Tx) {
		states, err = tx.States(ctx, "rule", "a", "b", "c")
		w.must(err)
	})
	return fmt.Sprint(len(log), len(runs), len(progress), len(letters), len(ticks), len(rules), len(states))
}

var wsTxCases = []workspaceCase{
	{promise: "all kinds of writes are one step, and an error undoes them", run: func(w *wsEnv) {
		err := w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
			w.must(fill(ctx, w, tx, "a"))
			return errOwn
		})
		if err != errOwn {
			w.Errorf("got %v, want the function's own error", err)
		}
		w.equal("after an error", w.holds(ws1), "0 0 0 0 0 0 0")
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) { w.must(fill(ctx, w, tx, "a")) })
		w.equal("after a commit", w.holds(ws1), "2 1 1 1 1 1 1")
		w.is(w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
			return errors.Join(fill(ctx, w, tx, "b"), errOwn)
		}), errOwn)
		w.equal("after another error", w.holds(ws1), "2 1 1 1 1 1 1")
		w.dense(ws1)
	}},
	{promise: "a panic undoes all and leaves the workspace usable", run: func(w *wsEnv) {
		func() {
			defer func() {
				if v := recover(); v != "own" {
					w.Errorf("recovered %v", v)
				}
			}()
			_ = w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
				w.must(fill(ctx, w, tx, "a"))
				panic("own")
			})
		}()
		w.equal("after the panic", w.holds(ws1), "0 0 0 0 0 0 0")
		w.append(ws1, entry("a"))
		w.dense(ws1)
	}},
	{promise: "the log shows the transaction's own events behind those of before", run: func(w *wsEnv) {
		w.append(ws1, entries("a", "b", "c")...)
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.equal("head", tx.HeadSeq(), 3)
			out, err := tx.Append(ctx, entries("d", "e")...)
			w.must(err)
			w.equal("appended", seqs(out), "[4 5]")
			w.equal("head", tx.HeadSeq(), 5)
			for _, c := range []struct {
				after int64
				limit int
				want  string
			}{{0, 10, "[1 2 3 4 5]"}, {2, 2, "[3 4]"}, {3, 1, "[4]"}, {1, 1, "[2]"}, {4, 10, "[5]"}, {5, 10, "[]"}, {9, 10, "[]"}, {0, 0, "[]"}} {
				page, err := tx.Read(ctx, c.after, c.limit)
				w.must(err)
				w.equal(fmt.Sprint("read after ", c.after), seqs(page), c.want)
			}
			for id, want := range map[string]int64{"b": 2, "e": 5, "nobody": 0} {
				e, there, err := tx.Envelope(ctx, id)
				w.must(err)
				w.equal("event "+id, [2]any{e.Seq, there}, [2]any{want, want > 0})
			}
		})
		w.equal("ids", w.dense(ws1), "[a b c d e]")
	}},
	{promise: "an operation's error leaves the transaction usable", run: func(w *wsEnv) {
		w.append(ws1, entry("a"))
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			out, err := tx.Append(ctx, entries("b", "a", "c")...)
			w.is(err, workspace.ErrDuplicate)
			w.equal("added before it", seqs(out), "[2]")
			_, err = tx.Append(ctx, entry("b"))
			w.is(err, workspace.ErrDuplicate)
			_, err = tx.Append(ctx, workspace.Entry{})
			w.is(err, workspace.ErrInvalid)
			_, err = tx.Append(ctx, entry("d"))
			w.must(err)
		})
		w.equal("ids", w.dense(ws1), "[a b d]")
	}},
	{promise: "a transaction is over when its function returns", run: func(w *wsEnv) {
		var kept *workspace.Tx
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) { kept = tx })
		_, err := kept.Append(w.ctx, entry("a"))
		w.is(err, workspace.ErrTxDone)
		_, err = kept.Read(w.ctx, 0, 1)
		w.is(err, workspace.ErrTxDone)
		w.is(kept.SaveRuns(w.ctx, run("a", "rule", 1)), workspace.ErrTxDone)
		w.is(kept.ClearStates("rule"), workspace.ErrTxDone)
		w.equal("log", len(w.dense(ws1)), 0)
	}},
	{promise: "a call that would wait for its own transaction is refused", run: func(w *wsEnv) {
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.is(w.ws.Transact(ctx, wsRef("other"), func(context.Context, *workspace.Tx) error { return nil }), workspace.ErrNested)
			_, err := w.ws.Append(ctx, ws1, entry("a"))
			w.is(err, workspace.ErrNested)
			_, err = w.ws.AcquireLease(ctx, ws1, "l", "me", time.Second)
			w.is(err, workspace.ErrNested)
			w.is(w.ws.SaveCursor(ctx, ws1, "c", 1), workspace.ErrNested)
		})
	}},
	{promise: "a transaction that only reads writes nothing", run: func(w *wsEnv) {
		for range 3 {
			w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
				w.equal("head", tx.HeadSeq(), 0)
				page, err := tx.Read(ctx, 0, 10)
				w.must(err)
				w.equal("page", len(page), 0)
				_, there, err := tx.Progress(ctx, "rule")
				w.must(err)
				w.equal("progress", there, false)
			})
		}
		refs, err := w.ws.Workspaces(w.ctx)
		w.must(err)
		w.equal("workspaces", len(refs), 0)
	}},
	{promise: "a transaction sees what was committed before it began, through any store", run: func(w *wsEnv) {
		other := w.another()
		for i := range 20 {
			id := workspaceID(i)
			_, err := other.Append(w.ctx, ws1, entry(id))
			w.must(err)
			w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
				if _, there, err := tx.Envelope(ctx, id); !there || err != nil {
					w.Errorf("event %s is not seen (%v)", id, err)
				}
				_, err := tx.Append(ctx, entry(id+"-seen"))
				w.must(err)
			})
		}
		w.equal("events", len(w.dense(ws1)), 40)
	}},
	{promise: "a context that ends inside the function undoes all and leaves nothing locked", run: func(w *wsEnv) {
		for i := range 30 {
			ctx, cancel := context.WithCancel(w.ctx)
			err := w.ws.Transact(ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
				_, err := tx.Append(ctx, entry(workspaceID(i)))
				cancel()
				if i%3 == 0 {
					_, _, err = tx.Run(ctx, "a")
				}
				if i%3 == 1 {
					return ctx.Err()
				}
				return err
			})
			w.is(err, context.Canceled)
			w.append(ws1, entry("after-"+workspaceID(i)))
		}
		w.equal("events", len(w.dense(ws1)), 30)
	}},
}
