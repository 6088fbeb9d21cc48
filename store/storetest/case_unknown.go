package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// brief is a time limit for writes that are meant to run into it.
const brief = time.Second

var unknownCases = []storeCase{
	{promise: "applied, and the answer lost: committed, once", run: func(e *env) {
		e.settles(1, answerLost)
		if c := e.st.Counters(); c.Unknown == 0 || c.Resent == 0 || c.Recovered == 0 || c.Conflicts != 0 {
			e.Errorf("counters %+v", c)
		}
	}},
	{promise: "not applied, and nobody can tell: sent again and committed, once", run: func(e *env) { e.settles(1, requestLost) }},
	{promise: "lost again and again: committed, once", run: func(e *env) {
		e.settles(4, requestLost, answerLost, requestLost, answerLost)
	}},
	{promise: "applied later, before it is sent again: committed, once", run: func(e *env) {
		var l late
		e.settles(2, l.leave, l.before)
	}},
	{promise: "applied later, after it was sent again: committed, once", run: func(e *env) {
		var l late
		e.settles(2, l.leave, l.after)
	}},
	{promise: "applied with its results lost: committed, once", run: func(e *env) { e.settles(1, resultsLost) }},
	{promise: "unknown first and refused for now after that: sent again and committed, once", run: func(e *env) {
		e.settles(2, requestLost, unavailable)
	}},
	{promise: "applied first and refused for now after that: committed, once", run: func(e *env) {
		e.settles(2, answerLost, unavailable)
	}},
	{promise: "not applied, and a stranger wins meanwhile: a conflict that leaves nothing", run: func(e *env) {
		stranger := e.stranger()
		e.create("x")
		e.tap.play(then(requestLost, func() {
			x, err := stranger.Load(e.ctx, "x")
			e.must(err)
			_, err = stranger.Save(e.ctx, x)
			e.must(err)
		}))
		_, err := e.Commit(e.ctx, full(e.load("x"), "a"))
		e.wantConflict(err, "x", 1, 2)
		e.wantOutbox()
	}},
	{promise: "not applied, and a stranger creates the execution meanwhile: a conflict that leaves nothing", run: func(e *env) {
		stranger := e.stranger()
		e.tap.play(then(requestLost, func() {
			_, err := stranger.Save(e.ctx, execution("x"))
			e.must(err)
		}))
		_, err := e.Commit(e.ctx, full(execution("x"), "a"))
		e.wantConflict(err, "x", 0, 1)
		e.wantOutbox()
	}},
	{promise: "not applied, and the row is another's of the same version: a conflict", run: func(e *env) {
		stranger := e.stranger()
		e.create("x")
		e.tap.play(then(requestLost, func() {
			e.foreign("DELETE FROM executions WHERE id=?", "x")
			_, err := stranger.Save(e.ctx, execution("x"))
			e.must(err)
		}))
		_, err := e.Commit(e.ctx, full(e.load("x"), "a"))
		e.wantConflict(err, "x", 1, 1)
		e.wantOutbox()
	}},
	{promise: "applied, and another service commits on top, which leaves our token: committed", run: func(e *env) {
		e.create("x")
		e.tap.play(then(answerLost, func() { e.foreignCommit("x", 2, store.StatusDone) }))
		if done := e.ok(e.Commit(e.ctx, full(e.load("x"), "a"))); done.Version != 2 {
			e.Errorf("committed as version %d, want 2", done.Version)
		}
		e.wantOutbox("a-1", "a-2")
		if got := e.load("x"); got.Version != 3 || got.Status != store.StatusDone {
			e.Errorf("the other service's commit is gone: %s at version %d", got.Status, got.Version)
		}
	}},
	{promise: "applied, and a stranger commits on top: unknown with what is known, never a conflict", run: func(e *env) {
		stranger := e.stranger()
		e.create("x")
		e.tap.play(then(answerLost, func() {
			x, err := stranger.Load(e.ctx, "x")
			e.must(err)
			_, err = stranger.Save(e.ctx, x)
			e.must(err)
		}))
		_, err := e.Commit(e.ctx, full(e.load("x"), "a"))
		if u := e.wantUnknown(err, "x", 1); !u.Seen || u.Found != 3 {
			e.Errorf("got %+v, want version 3 seen", u)
		}
		e.wantOutbox("a-1", "a-2")
	}},
	{promise: "applied, and the row is purged: unknown, never a conflict", run: func(e *env) {
		e.create("x")
		e.tap.play(then(answerLost, func() { e.foreign("DELETE FROM executions WHERE id=?", "x") }))
		_, err := e.Commit(e.ctx, full(e.load("x"), "a"))
		if u := e.wantUnknown(err, "x", 1); !u.Seen || u.Found != store.NoVersion {
			e.Errorf("got %+v, want no row seen", u)
		}
	}},
	{promise: "no definite answer within the time limit: unknown, with a reference that settles it later", options: []store.Option{store.WithTimeLimit(brief)}, run: func(e *env) {
		e.create("x")
		x := e.load("x")
		for _, f := range []fault{requestLost, answerLost} {
			e.tap.playAlways(f)
			_, err := e.Commit(e.ctx, full(x, "a"))
			e.tap.playAlways(nil)
			u := e.wantUnknown(err, "x", 1)
			got, err := e.st.Resolve(e.ctx, u.Ref)
			e.must(err)
			want := store.ResolutionOpen
			if e.count("outbox") > 0 {
				want = store.ResolutionCommitted
			}
			if got != want {
				e.Errorf("resolved as %v, want %v", got, want)
			}
		}
		e.wantOutbox("a-1", "a-2")
		// The execution is not blocked for ever.
		e.ok(e.Save(e.ctx, e.load("x")))
	}},
	{promise: "a context that ends in flight: unknown at once", run: func(e *env) {
		e.create("x")
		x := e.load("x")
		ctx, cancel := context.WithCancelCause(e.ctx)
		cause := errors.New("the caller has had enough")
		started := make(chan pending, 1)
		e.tap.play(func(ctx context.Context, _ engine.Engine, _ []engine.Statement) ([]engine.Result, error) {
			p := <-started
			cancel(cause)
			select {
			case <-ctx.Done(): // as an engine whose request is cut
			case <-p.Done(): // its caller has its answer, while the request goes on
			}
			return nil, unknown()
		})
		p := e.start(ctx, full(x, "a"))
		started <- p
		_, err := p.wait()
		u := e.wantUnknown(err, "x", 1)
		if !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
			e.Errorf("%v does not name its cause", err)
		}
		if u.Ref != p.Ref() {
			e.Errorf("reference %+v, want %+v", u.Ref, p.Ref())
		}
	}},
	{promise: "a batch whose answer is lost: winners, losers and other writes each get their own verdict", options: []store.Option{store.WithTraceMax(3)}, run: func(e *env) {
		for name, faults := range map[string][]fault{
			"applied": {answerLost}, "not applied": {requestLost}, "applied twice": {twiceSecond}, "results lost": {resultsLost},
		} {
			const n = 12
			id := func(i int) string { return fmt.Sprintf("%s-%02d", name, i) }
			var ops []op
			for i := range n {
				switch i % 4 {
				case 0: // creates
					ops = append(ops, op{commit: full(execution(id(i)), id(i))})
				case 1: // replaces
					done := e.create(id(i))
					ops = append(ops, op{commit: full(done.Execution(), id(i))})
				case 2: // is stale
					stale := e.create(id(i)).Execution()
					e.ok(e.Save(e.ctx, stale))
					ops = append(ops, op{commit: full(stale, id(i))})
				case 3: // is no commit
					done := e.ok(e.Commit(e.ctx, full(execution(id(i)), id(i))))
					ops = append(ops, op{acks: []int64{done.Outbox.At(0)}},
						op{timer: &store.Timer{ExecutionID: id(i), Path: "/timer/" + id(i), FireAt: 1000}},
						op{trace: &step{id(i) + "-trace", object(`{"s":"a"}`)}}, op{spawns: []int64{done.Spawns.At(0)}})
				}
			}
			outbox, timers := e.count("outbox"), e.count("timers")
			before := e.tap.traffic().execs
			e.tap.play(faults...)
			results := e.together(e.ctx, ops)
			if left := e.tap.unplayed(); left != 0 {
				e.Fatalf("%s: %d faults had no turn", name, left)
			}
			// The request, its copy, and the form that tells who lost, should both
			// have counted on nobody losing.
			if sent := e.tap.traffic().execs - before; sent > 3 {
				e.Errorf("%s: %d requests for one batch", name, sent)
			}
			won := int64(0)
			for i, r := range results {
				switch c := ops[i].commit; {
				case c == nil:
					e.must(r.err)
				case c.Execution.Version == 1 && e.number("SELECT version AS v FROM executions WHERE id=?", c.Execution.ID) == 2 && c.Execution.ID == id(2),
					c.Execution.ID == id(6), c.Execution.ID == id(10):
					e.wantConflict(r.err, c.Execution.ID, 1, 2)
				default:
					e.must(r.err)
					won++
				}
			}
			if got, want := e.count("outbox")-outbox, 2*won-3; got != want {
				e.Errorf("%s: the outbox grew by %d rows, want %d", name, got, want)
			}
			if got, want := e.count("timers")-timers, won-3; got != want {
				e.Errorf("%s: the timers grew by %d rows, want %d", name, got, want)
			}
			for i := 3; i < n; i += 4 {
				e.wantTrace(id(i)+"-trace", "0 a")
			}
		}
	}},
	{promise: "writes beside commits are sent again until they are known to be applied", run: func(e *env) {
		done := e.ok(e.Commit(e.ctx, full(execution("x"), "a")))
		for i, f := range []fault{answerLost, requestLost, resultsLost} {
			e.tap.play(f)
			switch i {
			case 0:
				e.must(e.AckOutbox(e.ctx, done.Outbox.At(0), done.Outbox.At(1)))
			case 1:
				e.must(e.AckSpawn(e.ctx, done.Spawns.At(0)))
			case 2:
				e.must(e.DeleteTimer(e.ctx, store.Timer{ExecutionID: "x", Path: "/timer/a", FireAt: 1000}))
			}
		}
		if n := e.count("outbox") + e.count("spawns") + e.count("timers"); n != 0 {
			e.Errorf("%d rows are left", n)
		}
	}},
	{promise: "what is refused for now was not applied, and says so", run: func(e *env) {
		before := e.dump()
		e.tap.play(unavailable)
		_, err := e.Commit(e.ctx, full(execution("x"), "a"))
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, engine.ErrNotApplied) {
			e.Errorf("got %v, want unavailable and not applied", err)
		}
		e.unchanged(before)
	}},
}

// settles creates and replaces an execution, each under the faults, and checks
// that both are committed once.
func (e *env) settles(played int, faults ...fault) {
	e.Helper()
	e.tap.play(faults...)
	done := e.ok(e.Commit(e.ctx, full(execution("x"), "a")))
	if left := e.tap.unplayed(); left != len(faults)-played {
		e.Errorf("%d faults had no turn", left)
	}
	if done.Version != 1 {
		e.Errorf("created as version %d", done.Version)
	}
	e.wantOutbox("a-1", "a-2")
	e.tap.play(faults...)
	x := done.Execution()
	x.Status = store.StatusDone
	if done = e.ok(e.Commit(e.ctx, full(x, "b"))); done.Version != 2 {
		e.Errorf("replaced as version %d", done.Version)
	}
	e.wantOutbox("a-1", "a-2", "b-1", "b-2")
	if got := e.load("x"); got.Version != 2 || got.Status != store.StatusDone {
		e.Errorf("loaded %s at version %d", got.Status, got.Version)
	}
	for table, want := range map[string]int64{"executions": 1, "processed_events": 2, "timers": 2, "spawns": 2, "trace": 2} {
		if n := e.count(table); n != want {
			e.Errorf("%d rows in %s, want %d", n, table, want)
		}
	}
}

var resolveCases = []storeCase{
	{promise: "a commit is committed, lost, open or unclear", run: func(e *env) {
		resolve := func(ref store.CommitRef, want store.Resolution) {
			e.Helper()
			got, err := e.st.Resolve(e.ctx, ref)
			e.must(err)
			if got != want {
				e.Errorf("resolved as %v, want %v", got, want)
			}
		}
		never := e.start(e.ctx, &store.Commit{Execution: execution("never")})
		if e.kind.name == "async" {
			e.ok(never.wait())
			resolve(never.Ref(), store.ResolutionCommitted)
		} else {
			resolve(never.Ref(), store.ResolutionOpen)
		}

		done := e.create("x")
		ref := done.Ref()
		resolve(ref, store.ResolutionCommitted)
		next := ref
		next.Base, next.Token = 1, "00000000000000000000000000000000"
		resolve(next, store.ResolutionOpen)
		e.foreignCommit("x", 1, store.StatusRunning)
		resolve(ref, store.ResolutionCommitted) // others leave the token
		e.ok(e.Save(e.ctx, e.load("x")))
		resolve(ref, store.ResolutionUnclear)
		next.Base = 2
		resolve(next, store.ResolutionLost)
		e.foreign("DELETE FROM executions WHERE id=?", "x")
		resolve(next, store.ResolutionUnclear)
		next.Base = 0
		resolve(next, store.ResolutionOpen)
	}},
	{promise: "a reference that no commit had is refused", run: func(e *env) {
		for _, ref := range []store.CommitRef{{}, {ID: "x"}, {ID: "x", Token: "short"}, {ID: "x", Base: -1, Token: "00000000000000000000000000000000"}, {ID: "", Token: "00000000000000000000000000000000"}} {
			if _, err := e.st.Resolve(e.ctx, ref); !errors.Is(err, store.ErrInvalid) {
				e.Errorf("%+v: got %v, want invalid input", ref, err)
			}
		}
	}},
}
