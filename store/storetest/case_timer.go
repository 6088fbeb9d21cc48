package storetest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/store"
)

var timerCases = []storeCase{
	{promise: "a timer is scheduled, scheduled anew and cancelled", run: func(e *env) {
		done := e.timers(execution("x"), store.TimerOp{Path: "/a", FireAt: 10}, store.TimerOp{Path: "/b", FireAt: 20})
		e.wantTimers("x /a 10", "x /b 20")
		done = e.timers(done.Execution(), store.TimerOp{Path: "/a", FireAt: 30})
		e.wantTimers("x /b 20", "x /a 30")
		done = e.timers(done.Execution(), store.CancelTimer("/b"), store.CancelTimer("/never there"))
		e.wantTimers("x /a 30")
		e.timers(done.Execution(), store.CancelTimer("/a"), store.TimerOp{Path: "/c", FireAt: 5})
		e.wantTimers("x /c 5")
	}},
	{promise: "of several operations on one path the last one counts", run: func(e *env) {
		at := func(path string, at float64) store.TimerOp { return store.TimerOp{Path: path, FireAt: at} }
		done := e.timers(execution("x"), at("/a", 1), at("/b", 1), store.CancelTimer("/a"), at("/b", 2), at("/c", 1), store.CancelTimer("/c"), at("/c", 3), at("/b", 4))
		e.wantTimers("x /c 3", "x /b 4")
		e.timers(done.Execution(), store.CancelTimer("/b"), at("/b", 9), at("/c", 7), store.CancelTimer("/c"))
		e.wantTimers("x /b 9")
	}},
	{promise: "the due time is kept bit for bit, and -0 becomes 0", run: func(e *env) {
		c := &store.Commit{Execution: execution("x")}
		times := []float64{
			0.1, 1.0 / 3, 1700000000, 1700000000.123456789, math.Nextafter(1700000000, 0), 1 << 53, 1<<53 + 2, 1e15 + 0.3, 1e20, 1e22, 1e23,
			math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 2.2250738585072014e-308, -1.5, -1, 0, 9223372036854775807, -9223372036854775808, 0.30000000000000004,
		}
		for i, at := range times {
			c.Timers = append(c.Timers, store.TimerOp{Path: fmt.Sprint(i), FireAt: at})
		}
		c.Timers = append(c.Timers, store.TimerOp{Path: "minus zero", FireAt: math.Copysign(0, -1)})
		e.ok(e.Commit(e.ctx, c))
		got, err := e.DueTimers(e.ctx, math.Inf(1), 1000)
		e.must(err)
		if len(got) != len(times)+1 {
			e.Fatalf("%d timers, want %d", len(got), len(times)+1)
		}
		for _, t := range got {
			want := 0.0
			if t.Path != "minus zero" {
				var i int
				_, err := fmt.Sscan(t.Path, &i)
				e.must(err)
				want = times[i]
			}
			if math.Float64bits(t.FireAt) != math.Float64bits(want) {
				e.Errorf("timer %s: %x (%v), want %x (%v)", t.Path, math.Float64bits(t.FireAt), t.FireAt, math.Float64bits(want), want)
			}
			e.must(e.DeleteTimer(e.ctx, t))
		}
		e.wantTimers()
	}},
	{promise: "a time.Time survives to the microsecond", run: func(e *env) {
		at := time.Date(2031, 5, 6, 7, 8, 9, 123456000, time.UTC)
		e.timers(execution("x"), store.Schedule("/a", at))
		got, err := e.DueTimers(e.ctx, store.EpochSeconds(at), 1)
		e.must(err)
		if len(got) != 1 || store.EpochTime(got[0].FireAt).Sub(at).Abs() > time.Microsecond {
			e.Errorf("got %+v, want %v", got, at)
		}
	}},
	{promise: "a timer is deleted only if it still holds that exact due time", run: func(e *env) {
		const at = 1700000000.25
		done := e.timers(execution("x"), store.TimerOp{Path: "/a", FireAt: at})
		for _, stale := range []store.Timer{
			{ExecutionID: "x", Path: "/a", FireAt: math.Nextafter(at, 0)}, {ExecutionID: "x", Path: "/a", FireAt: math.Nextafter(at, math.Inf(1))},
			{ExecutionID: "x", Path: "/a", FireAt: 1700000000}, {ExecutionID: "y", Path: "/a", FireAt: at}, {ExecutionID: "x", Path: "/b", FireAt: at},
		} {
			e.must(e.DeleteTimer(e.ctx, stale))
		}
		e.wantTimers("x /a 1.70000000025e+09")
		fired := store.Timer{ExecutionID: "x", Path: "/a", FireAt: at}
		e.timers(done.Execution(), store.TimerOp{Path: "/a", FireAt: at + 60})
		e.must(e.DeleteTimer(e.ctx, fired)) // a stale sweep
		e.wantTimers("x /a 1.70000006025e+09")
		fired.FireAt += 60
		e.must(e.DeleteTimer(e.ctx, fired))
		e.must(e.DeleteTimer(e.ctx, fired))
		e.wantTimers()
	}},
	{promise: "a timer at 0 is deleted by -0 too", run: func(e *env) {
		e.timers(execution("x"), store.TimerOp{Path: "/a"})
		e.must(e.DeleteTimer(e.ctx, store.Timer{ExecutionID: "x", Path: "/a", FireAt: math.Copysign(0, -1)}))
		e.wantTimers()
	}},
	{promise: "due timers come earliest first, ties by execution and path in byte order", run: func(e *env) {
		var ops []op
		for _, id := range []string{"b", "a", "B", "ä"} {
			c := &store.Commit{Execution: execution(id)}
			for _, path := range []string{"/y", "/x", "/Z"} {
				c.Timers = append(c.Timers, store.TimerOp{Path: path, FireAt: 5})
			}
			c.Timers = append(c.Timers, store.TimerOp{Path: "/early " + id, FireAt: 5 - float64(len(ops))}, store.TimerOp{Path: "/late", FireAt: 5.000001})
			ops = append(ops, op{commit: c})
		}
		for _, r := range e.together(e.ctx, ops) {
			e.must(r.err)
		}
		want := []string{
			"ä /early ä 2", "B /early B 3", "a /early a 4",
			"B /Z 5", "B /x 5", "B /y 5", "a /Z 5", "a /x 5", "a /y 5", "b /Z 5", "b /early b 5", "b /x 5", "b /y 5", "ä /Z 5", "ä /x 5", "ä /y 5",
		}
		for _, limit := range []int{1, 2, 7, 16, 100} {
			got, err := e.DueTimers(e.ctx, 5, limit)
			e.must(err)
			if lines := timerLines(got); !slices.Equal(lines, want[:min(limit, len(want))]) {
				e.Errorf("limit %d: got %q\nwant %q", limit, lines, want[:min(limit, len(want))])
			}
		}
		if got, err := e.DueTimers(e.ctx, 1.999, 100); err != nil || len(got) != 0 {
			e.Errorf("before the first: %v, %v", got, err)
		}
	}},
	{promise: "finding due timers reads only those", run: func(e *env) {
		e.create("x")
		_, err := e.DueTimers(e.ctx, 1, 1)
		e.must(err)
		e.wantPlan(nil, "SCAN timers", "TEMP B-TREE")
	}},
}

func (e *env) timers(x *store.Execution, ops ...store.TimerOp) store.Committed {
	e.Helper()
	return e.ok(e.Commit(e.ctx, &store.Commit{Execution: x, Timers: ops}))
}

func timerLines(timers []store.Timer) []string {
	lines := make([]string, len(timers))
	for i, t := range timers {
		lines[i] = fmt.Sprint(t.ExecutionID, " ", t.Path, " ", t.FireAt)
	}
	return lines
}

// wantTimers fails unless these are all timers, in the order they fall due.
func (e *env) wantTimers(want ...string) {
	e.Helper()
	got, err := e.DueTimers(e.ctx, math.MaxFloat64, 1000)
	e.must(err)
	if lines := timerLines(got); !slices.Equal(lines, want) {
		e.Errorf("timers %q, want %q", lines, want)
	}
	if n := e.count("timers"); n != int64(len(want)) {
		e.Errorf("%d timers stored, want %d", n, len(want))
	}
}
