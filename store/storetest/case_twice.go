package storetest

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/store"
)

var twiceCases = []storeCase{
	{promise: "a request that is applied twice does nothing the second time", options: []store.Option{store.WithTraceMax(2)}, run: func(e *env) {
		once := e.scenario(nil)
		for name, f := range map[string]fault{"first answer": twiceFirst, "second answer": twiceSecond, "lost answer": alternate(answerLost, pass)} {
			if got := e.scenario(f); got != once {
				e.Errorf("with each request applied twice (%s):\n%s\nonce:\n%s", name, got, once)
			}
		}
	}},
	{promise: "whichever answer arrives, a commit that was applied twice is won", run: func(e *env) {
		for i, f := range []fault{twiceFirst, twiceSecond} {
			id := fmt.Sprint("x", i)
			e.tap.playAlways(f)
			done := e.ok(e.Commit(e.ctx, full(execution(id), id)))
			x := done.Execution()
			for range 3 {
				x = e.ok(e.Commit(e.ctx, full(x, id))).Execution()
			}
			e.tap.playAlways(nil)
			if got := e.load(id); got.Version != 4 {
				e.Errorf("version %d, want 4", got.Version)
			}
		}
		if n := e.count("outbox"); n != 16 {
			e.Errorf("%d rows in the outbox, want 16", n)
		}
	}},
	{promise: "a request that is applied again long after changes nothing", run: func(e *env) {
		var l late
		e.tap.play(l.copy)
		done := e.ok(e.Commit(e.ctx, full(execution("x"), "a")))
		e.ok(e.Commit(e.ctx, full(done.Execution(), "b")))
		before := e.dump()
		e.must(l.arrive(e.ctx, e.db.Engine))
		e.unchanged(before)
	}},
}

// scenario runs writes of every kind, each under f, and returns what is in the
// database then, without the numbers, which differ from run to run.
func (e *env) scenario(f fault) string {
	e.Helper()
	must := func(err error) {
		e.Helper()
		e.must(err)
	}
	for _, t := range tables {
		e.foreign("DELETE FROM " + t.name)
	}
	e.tap.playAlways(f)
	defer e.tap.playAlways(nil)

	done := e.ok(e.Commit(e.ctx, full(execution("x"), "a")))
	done = e.ok(e.Commit(e.ctx, full(done.Execution(), "b")))
	stale := done.Execution()
	c := full(done.Execution(), "c")
	c.Timers = append(c.Timers, store.CancelTimer("/timer/a"), store.TimerOp{Path: "/timer/b", FireAt: 7})
	e.ok(e.Commit(e.ctx, c))
	must(e.AppendTrace(e.ctx, "x", object(`{"step":"appended"}`)))
	must(e.AppendTrace(e.ctx, "nobody", object(`{"step":"appended"}`)))
	must(e.DeleteTimer(e.ctx, store.Timer{ExecutionID: "x", Path: "/timer/b", FireAt: 7}))
	outbox, err := e.PendingOutbox(e.ctx, 2)
	must(err)
	must(e.AckOutbox(e.ctx, outbox[0].Seq, outbox[1].Seq))
	spawns, err := e.PendingSpawns(e.ctx, 1)
	must(err)
	must(e.AckSpawn(e.ctx, spawns[0].Seq))
	for i, r := range e.together(e.ctx, []op{
		{commit: full(execution("y"), "d")}, {commit: full(execution("z"), "e")}, {commit: full(stale, "f")},
		{acks: []int64{outbox[0].Seq + 2}}, {trace: &step{"w", object(`{"step":"w"}`)}},
	}) {
		if i == 2 {
			e.wantConflict(r.err, "x", 2, 3)
		} else {
			must(r.err)
		}
	}
	var b strings.Builder
	for _, t := range tables {
		columns := strings.TrimPrefix(t.columns, "seq,")
		for _, row := range e.query("SELECT " + columns + " FROM " + t.name + " ORDER BY " + t.order) {
			fmt.Fprintln(&b, t.name, row)
		}
	}
	return b.String()
}
