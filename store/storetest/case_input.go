package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/quorate/quorate/store"
)

// smallLimits makes each limit reachable by a test.
var smallLimits = store.Limits{MaxName: 40, MaxState: 2000, MaxCommit: 6000, MaxRows: 10}

// badNames are ids and paths that some engine cannot keep, so that all refuse
// them.
var badNames = map[string]string{
	"NUL":                        "a\x00b",
	"NUL alone":                  "\x00",
	"invalid UTF-8":              "a\xff",
	"half a rune":                "\xe2\x82",
	"a surrogate in UTF-8":       "\xed\xa0\x80",
	"a blob literal":             "x'4142'",
	"a blob literal, upper case": "X'4142'",
	"an empty blob literal":      "x''",
	"a blob literal in blanks":   " \t\nx'4142'\r ",
	"a blob literal in U+00A0":   "\u00a0x'4142'\u00a0",
	"a blob literal in U+2003":   "\u2003x'41'",
	"a blob literal in U+3000":   "x'41'\u3000",
	"a blob literal in U+0085":   "\u0085x'41'\u2028",
	"one byte above the limit":   strings.Repeat("n", 41),
}

var inputCases = []storeCase{
	{promise: "what no engine can keep is refused at the call, by one typed error, and nothing is sent", options: []store.Option{store.WithLimits(smallLimits)}, run: func(e *env) {
		e.create("ok")
		before := e.tap.traffic()
		check := func(what string, err error) {
			e.Helper()
			var invalid *store.InvalidError
			if !errors.As(err, &invalid) || invalid.Field == "" || !errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrOutcomeUnknown) {
				e.Errorf("%s: got %v, want invalid input", what, err)
			}
			if strings.Contains(what, "limit") != errors.Is(err, store.ErrTooLarge) {
				e.Errorf("%s: %v is wrong about a limit", what, err)
			}
		}
		commit := func(what string, change func(c *store.Commit)) {
			e.Helper()
			c := full(execution("x"), "a")
			change(c)
			_, err := e.Commit(e.ctx, c)
			check(what, err)
		}
		names := map[string]string{"empty": ""}
		for what, n := range badNames {
			names[what] = n
		}
		for what, n := range names {
			mayBeEmpty := n == ""
			commit("id: "+what, func(c *store.Commit) { c.Execution.ID = n })
			commit("definition: "+what, func(c *store.Commit) { c.Execution.DefinitionID = n })
			commit("event id: "+what, func(c *store.Commit) { c.Emits[1].Event.ID = n })
			commit("child: "+what, func(c *store.Commit) { c.Spawns[0].ChildID = n })
			if !mayBeEmpty {
				commit("processed event: "+what, func(c *store.Commit) { c.ProcessedEvent = n })
				commit("target: "+what, func(c *store.Commit) { c.Emits[0].Target = n })
				commit("timer path: "+what, func(c *store.Commit) { c.Timers[0].Path = n })
				commit("cancelled path: "+what, func(c *store.Commit) { c.Timers = []store.TimerOp{store.CancelTimer(n)} })
				commit("root path: "+what, func(c *store.Commit) { c.Spawns[0].RootPath = n })
				check("deleted timer's path: "+what, e.DeleteTimer(e.ctx, store.Timer{ExecutionID: "x", Path: n}))
				_, err := e.List(e.ctx, store.ListQuery{DefinitionID: n})
				check("listed definition: "+what, err)
			}
			check("trace: "+what, e.AppendTrace(e.ctx, n, store.Object{}))
			check("deleted timer: "+what, e.DeleteTimer(e.ctx, store.Timer{ExecutionID: n, Path: "/"}))
			_, err := e.Load(e.ctx, n)
			check("load: "+what, err)
			_, err = e.LoadForEvent(e.ctx, n, "ev")
			check("load for event: "+what, err)
			_, err = e.LoadForEvent(e.ctx, "x", n)
			check("event of load: "+what, err)
			_, err = e.IsProcessed(e.ctx, n, "ev")
			check("processed: "+what, err)
			_, err = e.IsProcessed(e.ctx, "x", n)
			check("event processed: "+what, err)
			_, err = e.ReadTrace(e.ctx, n)
			check("read trace: "+what, err)
			_, err = e.Update(e.ctx, n, func(*store.Commit) error { return nil })
			check("update: "+what, err)
		}
		_, err := e.Commit(e.ctx, &store.Commit{})
		check("no execution", err)
		for _, v := range []int64{-1, math.MinInt64, math.MaxInt64} {
			commit(fmt.Sprint("version ", v), func(c *store.Commit) { c.Execution.Version = v })
		}
		for _, p := range []int{-1, 5} {
			commit(fmt.Sprint("priority ", p), func(c *store.Commit) { c.Execution.Priority = p })
		}
		for _, st := range []store.Status{"", "pending", "UNHEARD", "DONE\x00"} {
			commit(fmt.Sprintf("status %q", st), func(c *store.Commit) { c.Execution.Status = st })
			_, err := e.List(e.ctx, store.ListQuery{Status: []store.Status{store.StatusDone, st}})
			check(fmt.Sprintf("listed status %q", st), err)
		}
		for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			commit(fmt.Sprint("timer at ", f), func(c *store.Commit) { c.Timers[0].FireAt = f })
			commit(fmt.Sprint("created at ", f), func(c *store.Commit) { c.Execution.CreatedAt = f })
			check(fmt.Sprint("deleted timer at ", f), e.DeleteTimer(e.ctx, store.Timer{ExecutionID: "x", Path: "/", FireAt: f}))
		}
		_, err = e.DueTimers(e.ctx, math.NaN(), 1)
		check("due at NaN", err)
		for what, set := range map[string]func(x *store.Execution){
			"outcome": func(x *store.Execution) { x.Outcome = "\xff" }, "error": func(x *store.Execution) { x.Error = "\xff" },
			"active path": func(x *store.Execution) { x.ActivePath = "\xff" }, "parent": func(x *store.Execution) { x.ParentID = "\xff" },
		} {
			commit(what+" is invalid UTF-8", func(c *store.Commit) { set(c.Execution) })
		}
		commit("kind is invalid UTF-8", func(c *store.Commit) { c.Emits[0].Event.Kind = "\xff" })
		for _, n := range []int{0, -1, math.MinInt} {
			_, err := e.PendingOutbox(e.ctx, n)
			check(fmt.Sprint("outbox of ", n), err)
			_, err = e.PendingSpawns(e.ctx, n)
			check(fmt.Sprint("spawns of ", n), err)
			_, err = e.DueTimers(e.ctx, 1, n)
			check(fmt.Sprint("due timers of ", n), err)
		}
		if after := e.tap.traffic(); after != before {
			e.Errorf("requests were sent: %+v before, %+v after", before, after)
		}
	}},
	{promise: "sizes at a limit are kept, and one step above are too large, and nothing is sent", options: []store.Option{store.WithLimits(smallLimits)}, run: func(e *env) {
		pad := func(overhead, size int) store.Object {
			return object(`{"p":"` + strings.Repeat("p", size-overhead-len(`{"p":""}`)) + `"}`)
		}
		state := func(size int) *store.Execution {
			x := execution(fmt.Sprint("state-", size))
			b, err := execution(x.ID).MarshalJSON()
			e.must(err)
			x.Context = pad(len(b)-len("{}"), size)
			return x
		}
		rows := func(n int) *store.Commit {
			c := &store.Commit{Execution: execution(fmt.Sprint("rows-", n))}
			for i := range n {
				switch i % 3 {
				case 0:
					c.Emits = append(c.Emits, emit(fmt.Sprint(i)))
				case 1:
					c.Timers = append(c.Timers, store.TimerOp{Path: fmt.Sprint(i)})
				case 2:
					c.Spawns = append(c.Spawns, store.Spawn{ChildID: fmt.Sprint(i)})
				}
			}
			return c
		}
		trace := func(id string, size int) *store.Commit {
			o := pad(0, size)
			return &store.Commit{Execution: execution(id), Trace: &o}
		}
		spawn := func(id string, size int) *store.Commit {
			return &store.Commit{Execution: execution(id), Spawns: []store.Spawn{{ChildID: "c", Context: pad(0, size)}}}
		}
		sum := func(id string, parts int) *store.Commit {
			c := &store.Commit{Execution: execution(id)}
			for range parts {
				c.Spawns = append(c.Spawns, store.Spawn{ChildID: "c", Context: pad(0, 1500)})
			}
			return c
		}
		for what, c := range map[string]*store.Commit{
			"state": {Execution: state(smallLimits.MaxState)}, "rows": rows(smallLimits.MaxRows), "trace": trace("trace-1", smallLimits.MaxState),
			"spawn": spawn("spawn-1", smallLimits.MaxState), "sum": sum("sum-1", 3), "name": {Execution: execution(strings.Repeat("n", smallLimits.MaxName))},
		} {
			if _, err := e.Commit(e.ctx, c); err != nil {
				e.Errorf("%s at its limit: %v", what, err)
			}
		}
		if n := len(e.stored(fmt.Sprint("state-", smallLimits.MaxState))); n != smallLimits.MaxState {
			e.Errorf("the state at its limit has %d bytes, want %d", n, smallLimits.MaxState)
		}
		before := e.tap.traffic()
		for what, c := range map[string]*store.Commit{
			"state": {Execution: state(smallLimits.MaxState + 1)}, "rows": rows(smallLimits.MaxRows + 1), "trace": trace("trace-2", smallLimits.MaxState+1),
			"spawn": spawn("spawn-2", smallLimits.MaxState+1), "sum": sum("sum-2", 5), "name": {Execution: execution(strings.Repeat("n", smallLimits.MaxName+1))},
		} {
			if _, err := e.Commit(e.ctx, c); !errors.Is(err, store.ErrTooLarge) || !errors.Is(err, store.ErrInvalid) {
				e.Errorf("%s above its limit: got %v, want too large", what, err)
			}
		}
		for what, err := range map[string]error{
			"acknowledged events": e.AckOutbox(e.ctx, make([]int64, smallLimits.MaxRows+1)...), "acknowledged spawns": e.AckSpawn(e.ctx, make([]int64, smallLimits.MaxRows+1)...),
			"step": e.AppendTrace(e.ctx, "x", pad(0, smallLimits.MaxState+1)),
		} {
			if !errors.Is(err, store.ErrTooLarge) {
				e.Errorf("%s above its limit: got %v, want too large", what, err)
			}
		}
		if after := e.tap.traffic(); after != before {
			e.Errorf("requests were sent: %+v before, %+v after", before, after)
		}
	}},
	{promise: "in a batch, invalid input fails alone", run: func(e *env) {
		for i, r := range e.together(e.ctx, []op{{commit: full(execution("a"), "a")}, {commit: full(execution("x'41'"), "b")}, {commit: full(execution("c"), "c")}}) {
			if i == 1 && !errors.Is(r.err, store.ErrInvalid) {
				e.Errorf("got %v, want invalid input", r.err)
			} else if i != 1 {
				e.must(r.err)
			}
		}
		_, errs := e.loads(e.ctx, []string{"a", "\x00", "c"})
		if errs[0] != nil || !errors.Is(errs[1], store.ErrInvalid) || errs[2] != nil {
			e.Errorf("loads: %v", errs)
		}
	}},
	{promise: "options that make no sense are refused", run: func(e *env) {
		for what, opt := range map[string]store.Option{
			"time limit": store.WithTimeLimit(0), "trace": store.WithTraceMax(-1), "attempts": store.WithUpdateAttempts(0), "logger": store.WithLogger(nil),
			"names": store.WithLimits(store.Limits{MaxName: -1}), "rows": store.WithLimits(store.Limits{MaxRows: -1}),
		} {
			if _, err := store.Open(e.ctx, shared{e.db.Engine}, opt); !errors.Is(err, store.ErrInvalid) {
				e.Errorf("%s: got %v, want invalid input", what, err)
			}
		}
	}},
}
