package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// calls are one call of each method that a context governs.
func (e *env) calls(ctx context.Context) map[string]error {
	out := make(map[string]error)
	_, out["Commit"] = e.Commit(ctx, full(execution("x"), "a"))
	_, out["Save"] = e.Save(ctx, execution("x"))
	out["AckOutbox"] = e.AckOutbox(ctx, 1)
	out["AckSpawn"] = e.AckSpawn(ctx, 1)
	out["DeleteTimer"] = e.DeleteTimer(ctx, store.Timer{ExecutionID: "x", Path: "/"})
	out["AppendTrace"] = e.AppendTrace(ctx, "x", store.Object{})
	_, out["Load"] = e.Load(ctx, "x")
	_, out["LoadForEvent"] = e.LoadForEvent(ctx, "x", "ev")
	_, out["IsProcessed"] = e.IsProcessed(ctx, "x", "ev")
	_, out["List"] = e.List(ctx, store.ListQuery{})
	_, out["PendingOutbox"] = e.PendingOutbox(ctx, 1)
	_, out["PendingSpawns"] = e.PendingSpawns(ctx, 1)
	_, out["DueTimers"] = e.DueTimers(ctx, 1, 1)
	_, out["ReadTrace"] = e.ReadTrace(ctx, "x")
	_, out["Update"] = e.Update(ctx, "x", func(*store.Commit) error { return nil })
	return out
}

var contextCases = []storeCase{
	{promise: "a context that has ended: nothing is applied, and the error says so", run: func(e *env) {
		before := e.dump()
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		for name, err := range e.calls(ctx) {
			if !errors.Is(err, context.Canceled) || !errors.Is(err, engine.ErrNotApplied) || errors.Is(err, store.ErrOutcomeUnknown) {
				e.Errorf("%s: got %v, want the context's end and not applied", name, err)
			}
		}
		e.unchanged(before)
	}},
	{promise: "a closed store: every call says closed, and nothing is applied", run: func(e *env) {
		if e.db.Again != nil {
			e.db.Engine = e.again() // for the oracle, which has to outlive the store
		}
		before := e.dump()
		e.must(e.close(e.ctx))
		e.must(e.st.Close())
		e.must(e.st.Close())
		for name, err := range e.calls(e.ctx) {
			if !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrOutcomeUnknown) {
				e.Errorf("%s: got %v, want closed", name, err)
			}
		}
		if err := e.st.Ping(e.ctx); !errors.Is(err, store.ErrClosed) {
			e.Errorf("Ping: got %v, want closed", err)
		}
		if e.db.Again != nil {
			e.unchanged(before)
		}
	}},
	{promise: "contexts that end at any moment: each commit is whole or absent, as its error says", run: func(e *env) {
		const workers, rounds = 4, 25
		var won, unsure atomic.Int64
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for r := range rounds {
					id := fmt.Sprint(w, "-", r)
					ctx, cancel := context.WithCancel(e.ctx)
					ended := make(chan struct{})
					spins := rand.IntN(2000)
					go func() {
						defer close(ended)
						for range spins {
							if ctx.Err() != nil {
								return
							}
						}
						cancel()
					}()
					_, err := e.Commit(ctx, full(execution(id), id))
					cancel()
					<-ended
					switch {
					case err == nil:
						won.Add(1)
						if x, err := e.Load(e.ctx, id); err != nil || x.Version != 1 {
							e.Errorf("%s was acknowledged: %v, %v", id, x, err)
						}
					case errors.Is(err, store.ErrOutcomeUnknown):
						unsure.Add(1)
					default:
						if _, err2 := e.Load(e.ctx, id); !errors.Is(err2, store.ErrNotFound) {
							e.Errorf("%s was not applied (%v), and is there: %v", id, err, err2)
						}
					}
				}
			})
		}
		wg.Wait()
		// One more commit for each goes through, so nothing is left half done.
		for w := range workers {
			e.create(fmt.Sprint("after-", w))
		}
		n := e.count("executions") - workers
		if n < won.Load() || n > won.Load()+unsure.Load() {
			e.Errorf("%d executions, want %d and up to %d more", n, won.Load(), unsure.Load())
		}
		if o, p, t, s, r := e.count("outbox"), e.count("processed_events"), e.count("timers"), e.count("spawns"), e.count("trace"); o != 2*n || p != n || t != n || s != n || r != n {
			e.Errorf("%d executions with %d outbox rows, %d marks, %d timers, %d spawns, %d steps", n, o, p, t, s, r)
		}
	}},
}

var contentionCases = []storeCase{
	{promise: "stores that contend for few executions: versions, outbox and ledger equal the successes", ownPace: true, run: func(e *env) {
		const workers, rounds, executions = 8, 12, 4
		faces := []face{e.face, e.another()}
		for i := range executions {
			e.create(fmt.Sprint("x", i))
		}
		var won, lost atomic.Int64
		var wg sync.WaitGroup
		for w := range workers {
			f := faces[w%len(faces)]
			wg.Go(func() {
				for r := range rounds {
					mark := fmt.Sprint(w, "-", r)
					x, err := f.Load(e.ctx, fmt.Sprint("x", (w+r)%executions))
					if err != nil {
						e.Error(err)
						return
					}
					x.ProcessedEvents++
					_, err = f.Commit(e.ctx, &store.Commit{Execution: x, Emits: []store.Emit{emit(mark)}, ProcessedEvent: mark})
					switch {
					case err == nil:
						won.Add(1)
					case errors.Is(err, store.ErrConflict):
						lost.Add(1)
					default:
						e.Errorf("%s: neither won nor lost: %v", mark, err)
					}
				}
			})
		}
		wg.Wait()
		if won.Load()+lost.Load() != workers*rounds || won.Load() == 0 {
			e.Errorf("%d won and %d lost of %d", won.Load(), lost.Load(), workers*rounds)
		}
		e.wantSums(won.Load(), executions)
		if n := e.number("SELECT sum(CAST(json_extract(data,'$.processed_events') AS INTEGER)) AS n FROM executions"); n != won.Load() {
			e.Errorf("the states count %d events, %d commits were won", n, won.Load())
		}
	}},
	{promise: "updates by many are all counted", ownPace: true, options: []store.Option{store.WithUpdateAttempts(1000)}, run: func(e *env) {
		const workers, rounds = 4, 5
		faces := []face{e.face, e.another(store.WithUpdateAttempts(1000))}
		e.create("x")
		var wg sync.WaitGroup
		for w := range workers {
			f := faces[w%len(faces)]
			wg.Go(func() {
				for range rounds {
					if _, err := f.Update(e.ctx, "x", func(c *store.Commit) error {
						c.Execution.ProcessedEvents++
						return nil
					}); err != nil {
						e.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if x := e.load("x"); x.ProcessedEvents != workers*rounds || x.Version != workers*rounds+1 {
			e.Errorf("%d counted at version %d, want %d at %d", x.ProcessedEvents, x.Version, workers*rounds, workers*rounds+1)
		}
	}},
	{promise: "16 contenders on 40 executions, a third of the requests sent twice: nothing leaks and nothing is doubled", ownPace: true, run: func(e *env) {
		const contenders, rounds, executions = 16, 15, 40
		other := &tap{Engine: e.again(), tb: e.T}
		faces := []face{e.face, e.openFace(e.openStore(other), other, true)}
		var copies sync.WaitGroup
		e.tap.playAlways(oftenTwice(&copies))
		other.playAlways(oftenTwice(&copies))

		verdicts := make([][]error, contenders)
		var wg sync.WaitGroup
		for c := range contenders {
			verdicts[c] = make([]error, rounds)
			f := faces[c%len(faces)]
			wg.Go(func() {
				for r := range rounds {
					id, mark := fmt.Sprint("x", rand.IntN(executions)), fmt.Sprint(c, "-", r)
					x, err := f.Load(e.ctx, id)
					if errors.Is(err, store.ErrNotFound) {
						x, err = execution(id), nil
					}
					if err != nil {
						e.Error(err)
						return
					}
					_, verdicts[c][r] = f.Commit(e.ctx, &store.Commit{Execution: x, Emits: []store.Emit{emit(mark)}, ProcessedEvent: mark})
				}
			})
		}
		wg.Wait()
		copies.Wait()
		stored := make(map[string]bool)
		for _, row := range e.query("SELECT event_id AS id FROM processed_events") {
			id, _ := row[0].Text()
			stored[id] = true
		}
		for c := range contenders {
			for r, err := range verdicts[c] {
				switch mark := fmt.Sprint(c, "-", r); {
				case err == nil && !stored[mark]:
					e.Errorf("%s was acknowledged and is not there", mark)
				case errors.Is(err, store.ErrConflict) && stored[mark]:
					e.Errorf("%s was called a conflict and is there: %v", mark, err)
				case err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrOutcomeUnknown):
					e.Errorf("%s: %v", mark, err)
				}
			}
		}
		e.wantSums(int64(len(stored)), 0)
	}},
}

// oftenTwice sends a third of the requests twice: now a copy follows the
// original, which is answered, and now the first copy is still on its way when
// the store sends the second.
func oftenTwice(copies *sync.WaitGroup) fault {
	var turn atomic.Int64
	return func(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
		copied := cloneStatements(stmts)
		again := func() { copies.Go(func() { _, _ = eng.Exec(context.WithoutCancel(ctx), copied) }) }
		switch turn.Add(1) % 6 {
		case 0:
			again()
			return nil, unknown()
		case 3:
			res, err := eng.Exec(ctx, stmts)
			again()
			return res, err
		}
		return eng.Exec(ctx, stmts)
	}
}

// wantSums fails unless as many commits were stored as were won, each with its
// one event. base is the sum of the versions before.
func (e *env) wantSums(won, base int64) {
	e.Helper()
	versions := e.number("SELECT sum(version) AS n FROM executions")
	outbox := e.count("outbox")
	events := e.number("SELECT count(DISTINCT json_extract(event,'$.id')) AS n FROM outbox")
	ledger := e.count("processed_events")
	if versions-base != won || outbox != won || events != won || ledger != won {
		e.Errorf("%d commits were won; the versions grew by %d, with %d outbox rows of %d different events and %d marks", won, versions-base, outbox, events, ledger)
	}
}
