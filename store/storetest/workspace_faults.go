package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/workspace"
)

var wsFaultCases = []workspaceCase{
	{promise: "a transaction whose answer is lost is applied once and its function is not run again", run: func(w *wsEnv) {
		for i, f := range []fault{answerLost, requestLost, resultsLost, twiceFirst, twiceSecond} {
			runs := 0
			w.tap.play(f)
			w.must(w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
				runs++
				return count(ctx, tx, workspaceID(i))
			}))
			w.equal(fmt.Sprint("runs under fault ", i), runs, 1)
			w.counted(ws1, i+1)
		}
	}},
	{promise: "a transaction that another overtakes runs again on what is there", run: func(w *wsEnv) {
		other := w.another()
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) { w.must(count(ctx, tx, "a")) })
		runs := 0
		w.must(w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
			if runs++; runs <= 2 {
				w.must(other.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
					return count(ctx, tx, fmt.Sprint("other", runs))
				}))
			}
			return count(ctx, tx, "b")
		}))
		w.equal("runs", runs, 3)
		w.counted(ws1, 4)
	}},
	{promise: "what a function decides on a view that is gone does not count", run: func(w *wsEnv) {
		other := w.another()
		w.append(ws1, entry("a"))
		runs := 0
		w.must(w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
			runs++
			if runs == 1 {
				_, err := other.Append(w.ctx, ws1, entry("b"))
				w.must(err)
				_, _, err = tx.Run(ctx, "r")
				w.is(err, workspace.ErrConflict)
				return errOwn
			}
			return nil
		}))
		w.equal("runs", runs, 2)
	}},
	{promise: "a transaction that always loses ends with a conflict and leaves nothing", run: func(w *wsEnv) {
		ws, other := w.open(w.tap, workspace.WithAttempts(3)), w.another()
		runs := 0
		err := ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
			runs++
			_, err := other.Append(w.ctx, ws1, entry(workspaceID(runs)))
			w.must(err)
			_, err = tx.Append(ctx, entry("never"))
			return errors.Join(err, tx.SaveRuns(ctx, run("never", "r", 1)))
		})
		w.is(err, workspace.ErrConflict)
		w.equal("runs", runs, 3)
		w.equal("log", w.dense(ws1), "[e00001 e00002 e00003]")
		w.equal("all", w.holds(ws1), "3 0 0 0 0 0 0")
	}},
	{promise: "a late copy of a transaction does nothing more", run: func(w *wsEnv) {
		l := &late{}
		w.tap.play(l.copy)
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) { w.must(fill(ctx, w, tx, "a")) })
		w.must(l.arrive(w.ctx, w.db.Engine))
		w.equal("at once", w.holds(ws1), "2 1 1 1 1 1 1")
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.ClearStates("rule"))
			w.must(tx.SaveRuns(ctx, status(run("a", "rule", 1), workspace.RunSucceeded)))
		})
		w.must(l.arrive(w.ctx, w.db.Engine))
		w.equal("behind another", w.holds(ws1), "2 1 1 1 1 1 0")
		r, _, err := w.ws.Run(w.ctx, ws1, "a")
		w.must(err)
		w.equal("status", r.Status, workspace.RunSucceeded)
	}},
	{promise: "a transaction that stays unknown says so, and can be resolved", run: func(w *wsEnv) {
		ws := w.open(w.tap, workspace.WithTimeLimit(200*time.Millisecond))
		l := &late{}
		w.tap.play(l.leave)
		w.tap.playAlways(requestLost)
		err := ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error { return count(ctx, tx, "a") })
		w.is(err, workspace.ErrOutcomeUnknown)
		if errors.Is(err, engine.ErrNotApplied) {
			w.Errorf("%v is of two kinds", err)
		}
		var unknown *workspace.UnknownError
		if !errors.As(err, &unknown) {
			w.Fatalf("%T", err)
		}
		resolve := func(want store.Resolution) {
			w.Helper()
			got, err := ws.Resolve(w.ctx, unknown.Commit)
			w.must(err)
			w.equal("resolution", got, want)
		}
		resolve(store.ResolutionOpen)
		w.must(l.arrive(w.ctx, w.db.Engine))
		resolve(store.ResolutionCommitted)
		w.tap.playAlways(nil)
		w.counted(ws1, 1)
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) { w.must(count(ctx, tx, "b")) })
		resolve(store.ResolutionCommitted)
		unknown.Commit.Token = workspace.NewID()
		resolve(store.ResolutionLost)
	}},
	{promise: "a transaction that an append overtakes while it is unknown is lost for good", run: func(w *wsEnv) {
		other := w.another()
		l := &late{}
		runs := 0
		w.tap.play(then(l.leave, func() {
			_, err := other.Append(w.ctx, ws1, entry("other"))
			w.must(err)
		}))
		w.must(w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error {
			runs++
			_, err := tx.Append(ctx, entry(fmt.Sprint("run", runs)))
			return err
		}))
		w.must(l.arrive(w.ctx, w.db.Engine))
		w.equal("log", w.dense(ws1), "[other run2]")
	}},
	{promise: "an append whose answer is lost is in the log once, and is told where", run: func(w *wsEnv) {
		for i, f := range []fault{answerLost, requestLost, resultsLost, twiceFirst, twiceSecond} {
			w.tap.play(f)
			out, err := w.ws.Append(w.ctx, ws1, entry(workspaceID(i)), entry(workspaceID(i)+"+"))
			w.must(err)
			w.equal(fmt.Sprint("told under fault ", i), seqs(out), []int{2*i + 1, 2*i + 2})
			w.equal("is as it was told", w.read(ws1, workspace.After(int64(2*i)))[0], out[0])
		}
		w.equal("events", len(w.dense(ws1)), 10)
	}},
	{promise: "a late copy of an append does nothing more", run: func(w *wsEnv) {
		l := &late{}
		w.tap.play(l.copy)
		_, err := w.ws.Append(w.ctx, ws1, entries("a", "b")...)
		w.must(err)
		w.must(l.arrive(w.ctx, w.db.Engine))
		w.append(ws1, entry("c"))
		w.must(l.arrive(w.ctx, w.db.Engine))
		w.equal("log", w.dense(ws1), "[a b c]")
	}},
	{promise: "an append that stays unknown is settled by appending again", run: func(w *wsEnv) {
		ws := w.open(w.tap, workspace.WithTimeLimit(100*time.Millisecond))
		w.tap.playAlways(answerLost)
		_, err := ws.Append(w.ctx, ws1, entry("a"))
		w.is(err, workspace.ErrOutcomeUnknown)
		w.tap.playAlways(nil)
		_, err = ws.Append(w.ctx, ws1, entry("a"))
		var dup *workspace.DuplicateError
		if !errors.As(err, &dup) || !dup.Same || dup.Envelope.Seq != 1 {
			w.Errorf("got %v, want the same event at 1", err)
		}
		w.equal("log", w.dense(ws1), "[a]")
	}},
	{promise: "appends that share a request fail and win one by one", run: func(w *wsEnv) {
		l, err := actor.NewLog(w.ws)
		w.must(err)
		w.append(ws1, entry("taken"))
		hold := w.tap.holdExec()
		first := l.Append(w.ctx, ws1, entry("first"))
		hold.entered()
		w.tap.playAlways(poisonous("poison"))
		var futures []*actor.AppendFuture
		for i := range 20 {
			id := workspaceID(i)
			switch i {
			case 3, 11:
				id = "taken"
			case 7:
				id = "poison"
			}
			futures = append(futures, l.Append(w.ctx, wsRef(fmt.Sprint("w", i%3)), entry(id)))
		}
		hold.pull()
		_, err = first.Await(w.ctx)
		w.must(err)
		for i, f := range futures {
			_, err := f.Await(w.ctx)
			var st *engine.StatementError
			switch {
			case i == 7:
				if !errors.As(err, &st) || !errors.Is(err, engine.ErrNotApplied) {
					w.Errorf("append %d: %v, want refused", i, err)
				}
			case err != nil && i != 3 && i != 11:
				w.Errorf("append %d: %v", i, err)
			}
		}
		_, err = l.Close(w.ctx)
		w.must(err)
		for i := range 3 {
			w.dense(wsRef(fmt.Sprint("w", i)))
		}
	}},
	{promise: "an unavailable database fails writes as not applied", run: func(w *wsEnv) {
		w.tap.playAlways(unavailable)
		_, err := w.ws.Append(w.ctx, ws1, entry("a"))
		w.is(err, workspace.ErrUnavailable, engine.ErrNotApplied)
		err = w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) error { return count(ctx, tx, "a") })
		w.is(err, workspace.ErrUnavailable, engine.ErrNotApplied)
		_, err = w.ws.AcquireLease(w.ctx, ws1, "l", "me", time.Second)
		w.is(err, workspace.ErrUnavailable, engine.ErrNotApplied)
		w.tap.playAlways(nil)
		w.equal("log", len(w.dense(ws1)), 0)
	}},
	{promise: "leases and cursors whose answer is lost are settled", run: func(w *wsEnv) {
		for _, f := range []fault{answerLost, requestLost, twiceSecond} {
			w.tap.play(f)
			w.equal("acquired", w.acquire(ws1, "l", "me", time.Minute), true)
			w.tap.play(f)
			w.equal("refused", w.acquire(ws1, "l", "you", time.Minute), false)
			w.tap.play(f)
			w.must(w.ws.SaveCursor(w.ctx, ws1, "c", 3))
			w.tap.play(f)
			w.must(w.ws.ReleaseLease(w.ctx, ws1, "l", "me"))
		}
	}},
	{promise: "a mix of faults loses nothing and doubles nothing", run: func(w *wsEnv) {
		l, err := actor.NewLog(w.ws)
		w.must(err)
		w.tap.playAlways(alternate(pass, answerLost, twiceSecond, pass, requestLost, resultsLost, twiceFirst))
		h := &history{}
		done := make(chan struct{})
		const callers, rounds = 6, 8
		for c := range callers {
			go func() {
				defer func() { done <- struct{}{} }()
				for r := range rounds {
					id := fmt.Sprintf("%d-%d", c, r)
					h.append(w, ws1, id, func() ([]workspace.Envelope, error) {
						if c%2 == 0 {
							return l.Append(w.ctx, ws1, entry(id), entry(id+"+")).Await(w.ctx)
						}
						var out []workspace.Envelope
						w.retry(func() error {
							return w.ws.Transact(w.ctx, ws1, func(ctx context.Context, tx *workspace.Tx) (err error) {
								out, err = tx.Append(ctx, entry(id), entry(id+"+"))
								return err
							})
						})
						return out, nil
					})
				}
			}()
		}
		for range callers {
			<-done
		}
		w.tap.playAlways(nil)
		_, err = l.Close(w.ctx)
		w.must(err)
		h.check(w, ws1)
	}},
}
