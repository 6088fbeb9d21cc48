package storetest

import (
	"errors"
	"strings"

	"github.com/quorate/quorate/store"
)

var casCases = []storeCase{
	{promise: "version 0 is inserted only where no row is", run: func(e *env) {
		e.create("x")
		before := e.dump()
		_, err := e.Commit(e.ctx, full(execution("x"), "a"))
		e.wantConflict(err, "x", 0, 1)
		if err != nil && !strings.Contains(err.Error(), `"x"`) {
			e.Errorf("the message does not name the execution: %v", err)
		}
		e.unchanged(before)
	}},
	{promise: "a loaded version is replaced only where the row is still at it", run: func(e *env) {
		e.create("x")
		mine, theirs := e.load("x"), e.load("x")
		e.ok(e.Save(e.ctx, theirs))
		before := e.dump()
		_, err := e.Commit(e.ctx, full(mine, "a"))
		e.wantConflict(err, "x", 1, 2)
		e.unchanged(before)
		e.ok(e.Save(e.ctx, e.load("x")))
	}},
	{promise: "a purged execution is not brought back by a stale copy", run: func(e *env) {
		e.create("x")
		stale := e.load("x")
		e.foreign("DELETE FROM executions WHERE id=?", "x")
		before := e.dump()
		_, err := e.Commit(e.ctx, full(stale, "a"))
		e.wantConflict(err, "x", 1, store.NoVersion)
		e.unchanged(before)
	}},
	{promise: "a loser leaves nothing in any table and trims nothing", options: []store.Option{store.WithTraceMax(2)}, run: func(e *env) {
		// More steps are there than a winner would keep.
		done := e.ok(e.Commit(e.ctx, full(execution("x"), "a")))
		for i := range 4 {
			e.foreign("INSERT INTO trace(execution_id,idx,entry) VALUES(?,?,?)", "x", 10+i, "{}")
		}
		stale := done.Execution()
		e.ok(e.Save(e.ctx, done.Execution()))
		before := e.dump()

		c := full(stale, "b")
		c.Timers = append(c.Timers, store.CancelTimer("/timer/a"), store.TimerOp{Path: "/timer/c", FireAt: 5})
		_, err := e.Commit(e.ctx, c)
		e.wantConflict(err, "x", 1, 2)
		e.unchanged(before)

		c.Execution = execution("x")
		_, err = e.Commit(e.ctx, c)
		e.wantConflict(err, "x", 0, 2)
		e.unchanged(before)
	}},
	{promise: "a loser leaves nothing although the row was deleted or made anew", run: func(e *env) {
		done := e.ok(e.Commit(e.ctx, full(execution("x"), "a")))
		e.foreign("DELETE FROM executions WHERE id=?", "x")
		e.create("x") // version 1 again, but another's
		before := e.dump()
		_, err := e.Commit(e.ctx, full(done.Execution(), "b"))
		e.wantConflict(err, "x", 1, 1)
		e.unchanged(before)
	}},
	{promise: "a version that is another commit's is a conflict, although its number fits", run: func(e *env) {
		e.create("x")
		loaded := e.load("x")
		e.foreign("DELETE FROM executions WHERE id=?", "x")
		e.create("x")
		_, err := e.Save(e.ctx, loaded)
		e.wantConflict(err, "x", 1, 1)
	}},
	{promise: "where the token of a version is not known, the version decides", run: func(e *env) {
		e.create("x")
		var x store.Execution
		e.must(x.UnmarshalJSON([]byte(e.stored("x"))))
		if done := e.ok(e.Save(e.ctx, &x)); done.Version != 2 {
			e.Errorf("committed as version %d, want 2", done.Version)
		}
		_, err := e.Save(e.ctx, &x)
		e.wantConflict(err, "x", 1, 2)
	}},
	{promise: "of two commits with equal bytes only the one that was stored is acknowledged", run: func(e *env) {
		e.create("x")
		stranger := e.stranger()
		other, err := stranger.Load(e.ctx, "x")
		e.must(err)
		mine := e.load("x")

		// The first copy of our request is lost, and the stranger's commit of the
		// same bytes gets in between.
		e.tap.play(then(requestLost, func() {
			_, err := stranger.Commit(e.ctx, &store.Commit{Execution: other, Emits: []store.Emit{emit("theirs")}})
			e.must(err)
		}))
		_, err = e.Commit(e.ctx, &store.Commit{Execution: mine, Emits: []store.Emit{emit("ours")}})
		e.wantConflict(err, "x", 1, 2)
		e.wantOutbox("theirs")
	}},
	{promise: "the same the other way round: ours was stored, so theirs is the conflict", run: func(e *env) {
		e.create("x")
		stranger := e.stranger()
		other, err := stranger.Load(e.ctx, "x")
		e.must(err)
		var theirs error
		e.tap.play(then(answerLost, func() {
			_, theirs = stranger.Commit(e.ctx, &store.Commit{Execution: other, Emits: []store.Emit{emit("theirs")}})
		}))
		done := e.ok(e.Commit(e.ctx, &store.Commit{Execution: e.load("x"), Emits: []store.Emit{emit("ours")}}))
		if done.Version != 2 {
			e.Errorf("committed as version %d, want 2", done.Version)
		}
		e.wantConflict(theirs, "x", 1, 2)
		e.wantOutbox("ours")
	}},
	{promise: "commits built on unsettled ones are won in their order", run: func(e *env) {
		a := e.start(e.ctx, full(execution("x"), "a"))
		b := e.start(e.ctx, full(a.Next(), "b"))
		c := e.start(e.ctx, full(b.Next(), "c"))
		for i, p := range []pending{a, b, c} {
			if done := e.ok(p.wait()); done.Version != int64(i+1) || done.Ref() != p.Ref() {
				e.Errorf("commit %d: %+v, its reference was %+v", i, done, p.Ref())
			}
		}
		e.wantOutbox("a-1", "a-2", "b-1", "b-2", "c-1", "c-2")
		steps, err := e.ReadTrace(e.ctx, "x")
		e.must(err)
		if len(steps) != 3 || steps[0].Entry.Raw() != `{"step":"a"}` || steps[2].Entry.Raw() != `{"step":"c"}` {
			e.Errorf("trace %+v", steps)
		}
	}},
	{promise: "a commit built on one that loses to a stranger loses too, and the stranger's state stands", run: func(e *env) {
		e.create("x")
		mine := e.load("x")
		x := e.load("x")
		x.ActivePath = "/the/strangers"
		_, err := e.stranger().Save(e.ctx, x) // version 2, which ours would be
		e.must(err)
		before := e.dump()

		a := e.start(e.ctx, full(mine, "a"))
		b := e.start(e.ctx, full(a.Next(), "b"))
		c := e.start(e.ctx, full(b.Next(), "c"))
		_, err = a.wait()
		e.wantConflict(err, "x", 1, 2)
		_, err = b.wait()
		e.wantConflict(err, "x", 2, 2)
		_, err = c.wait()
		e.wantConflict(err, "x", 3, 2)
		e.unchanged(before)
	}},
	{promise: "the same where the predecessor would have created the execution", run: func(e *env) {
		hold := e.tap.holdExec()
		a := e.start(e.ctx, full(execution("x"), "a"))
		b := e.start(e.ctx, full(a.Next(), "b"))
		if e.kind.name == "async" {
			hold.entered() // the first is under way, the second waits behind it
		}
		_, err := e.stranger().Save(e.ctx, execution("x"))
		e.must(err)
		before := e.dump()
		hold.pull()
		_, err = a.wait()
		e.wantConflict(err, "x", 0, 1)
		_, err = b.wait()
		e.wantConflict(err, "x", 1, 1)
		e.unchanged(before)
	}},
	{promise: "a commit built on one whose answer was lost is won", run: func(e *env) {
		e.create("x")
		e.tap.play(answerLost)
		a := e.start(e.ctx, full(e.load("x"), "a"))
		b := e.start(e.ctx, full(a.Next(), "b"))
		e.ok(a.wait())
		e.ok(b.wait())
		e.wantOutbox("a-1", "a-2", "b-1", "b-2")
	}},
	{promise: "rows that other services insert are loaded and committed", run: func(e *env) {
		e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(?,?,?,?)", "x", "d", `{"id":"x","definition_id":"d","status":"RUNNING","version":3}`, 3)
		x := e.load("x")
		x.Status = store.StatusDone
		if done := e.ok(e.Commit(e.ctx, full(x, "a"))); done.Version != 4 {
			e.Errorf("committed as version %d, want 4", done.Version)
		}
	}},
	{promise: "a commit of another service makes ours a conflict, although it leaves the token alone", run: func(e *env) {
		done := e.create("x")
		e.foreignCommit("x", 1, store.StatusSuspended)
		before := e.dump()
		_, err := e.Commit(e.ctx, full(done.Execution(), "a"))
		e.wantConflict(err, "x", 1, 2)
		e.unchanged(before)

		x := e.load("x")
		if x.Status != store.StatusSuspended || x.Version != 2 {
			e.Errorf("loaded %s at version %d", x.Status, x.Version)
		}
		e.ok(e.Commit(e.ctx, full(x, "b")))
		e.wantOutbox("b-1", "b-2")
	}},
	{promise: "conflicts count as conflicts, and not as unknown", run: func(e *env) {
		e.create("x")
		_, err := e.Save(e.ctx, execution("x"))
		e.wantConflict(err, "x", 0, 1)
		if c := e.st.Counters(); c.Conflicts != 1 || c.Unknown != 0 || c.Resent != 0 || c.Splits != 0 {
			e.Errorf("counters %+v", c)
		}
		if errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrNotFound) {
			e.Errorf("%v matches more than it should", err)
		}
	}},
}

// foreignCommit replaces the state as a service in another language does: by the
// four columns it knows.
func (e *env) foreignCommit(id string, base int64, status store.Status) {
	e.Helper()
	var x store.Execution
	e.must(x.UnmarshalJSON([]byte(e.stored(id))))
	x.Status, x.Version = status, base+1
	data, err := x.MarshalJSON()
	e.must(err)
	e.foreign("UPDATE executions SET definition_id=?,data=?,version=? WHERE id=? AND version=?", x.DefinitionID, string(data), base+1, id, base)
	if got := e.number("SELECT version AS v FROM executions WHERE id=?", id); got != base+1 {
		e.Fatalf("the foreign commit left version %d", got)
	}
}

// wantOutbox fails unless the outbox holds these events, in this order.
func (e *env) wantOutbox(ids ...string) {
	e.Helper()
	got, err := e.PendingOutbox(e.ctx, 1000)
	e.must(err)
	var have []string
	for _, o := range got {
		have = append(have, o.Event.ID)
	}
	if strings.Join(have, " ") != strings.Join(ids, " ") {
		e.Errorf("outbox holds %v, want %v", have, ids)
	}
}
