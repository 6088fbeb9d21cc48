package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/store"
)

var traceCases = []storeCase{
	{promise: "indices begin at 0 and grow by one", run: func(e *env) {
		e.trace("x", nil, "a", "b")
		e.must(e.AppendTrace(e.ctx, "x", object(`{"s":"c"}`)))
		e.trace("x", e.load("x"), "d")
		e.wantTrace("x", "0 a", "1 b", "2 c", "3 d")
	}},
	{promise: "an execution without steps has an empty trace", run: func(e *env) {
		e.create("x")
		e.wantTrace("x")
		e.wantTrace("nobody")
	}},
	{promise: "the last steps are kept and their indices go on for ever", options: []store.Option{store.WithTraceMax(3)}, run: func(e *env) {
		e.trace("x", nil, "a", "b", "c", "d", "e")
		e.wantTrace("x", "2 c", "3 d", "4 e")
		for _, s := range []string{"f", "g"} {
			e.must(e.AppendTrace(e.ctx, "x", object(`{"s":"`+s+`"}`)))
		}
		e.wantTrace("x", "4 e", "5 f", "6 g")
		e.trace("x", e.load("x"), "h")
		e.wantTrace("x", "5 f", "6 g", "7 h")
	}},
	{promise: "a ring of one keeps the last step", options: []store.Option{store.WithTraceMax(1)}, run: func(e *env) {
		e.trace("x", nil, "a", "b", "c")
		e.must(e.AppendTrace(e.ctx, "x", object(`{"s":"d"}`)))
		e.wantTrace("x", "3 d")
	}},
	{promise: "a ring of zero keeps all", options: []store.Option{store.WithTraceMax(0)}, run: func(e *env) {
		done := e.create("x")
		for i := range 250 {
			e.foreign("INSERT INTO trace(execution_id,idx,entry) VALUES(?,?,?)", "x", i, "{}")
		}
		trace := object(`{"s":"last"}`)
		e.ok(e.Commit(e.ctx, &store.Commit{Execution: done.Execution(), Trace: &trace}))
		e.must(e.AppendTrace(e.ctx, "x", trace))
		steps, err := e.ReadTrace(e.ctx, "x")
		e.must(err)
		if len(steps) != 252 || steps[0].Index != 0 || steps[251].Index != 251 {
			e.Errorf("%d steps, from %d to %d", len(steps), steps[0].Index, steps[len(steps)-1].Index)
		}
	}},
	{promise: "a negative ring is refused", run: func(e *env) {
		_, err := store.Open(e.ctx, shared{e.db.Engine}, store.WithTraceMax(-1))
		if !errors.Is(err, store.ErrInvalid) {
			e.Errorf("got %v, want invalid input", err)
		}
	}},
	{promise: "by default the last 200 steps are kept", run: func(e *env) {
		done := e.create("x")
		for i := range 230 {
			e.foreign("INSERT INTO trace(execution_id,idx,entry) VALUES(?,?,?)", "x", i, "{}")
		}
		trace := object(`{}`)
		e.ok(e.Commit(e.ctx, &store.Commit{Execution: done.Execution(), Trace: &trace}))
		steps, err := e.ReadTrace(e.ctx, "x")
		e.must(err)
		if len(steps) != 200 || steps[0].Index != 31 || steps[199].Index != 230 {
			e.Errorf("%d steps, from %d to %d; want 200, from 31 to 230", len(steps), steps[0].Index, steps[len(steps)-1].Index)
		}
	}},
	{promise: "a ring that shrinks is trimmed to its new size, by commits and by appended steps", options: []store.Option{store.WithTraceMax(50)}, run: func(e *env) {
		for _, id := range []string{"x", "y", "z"} {
			e.create(id)
			for i := range 50 {
				e.foreign("INSERT INTO trace(execution_id,idx,entry) VALUES(?,?,?)", id, i, `{"s":"old"}`)
			}
		}
		small := e.another(store.WithTraceMax(2))
		trace := object(`{"s":"new"}`)
		x, err := small.Load(e.ctx, "x")
		e.must(err)
		e.ok(small.Commit(e.ctx, &store.Commit{Execution: x, Trace: &trace}))
		e.wantTrace("x", "49 old", "50 new")
		e.must(small.AppendTrace(e.ctx, "y", trace))
		e.wantTrace("y", "49 old", "50 new")
		if n := e.number("SELECT count(*) AS n FROM trace WHERE execution_id='z'"); n != 50 {
			e.Errorf("another's trace has %d steps left of 50", n)
		}
	}},
	{promise: "steps of many executions in one batch are each numbered and trimmed for themselves", options: []store.Option{store.WithTraceMax(2)}, run: func(e *env) {
		ids := []string{"a", "b", "c", "d"}
		for round := range 4 {
			var ops []op
			for i, id := range ids {
				if i >= round { // executions of different length
					continue
				}
				entry := object(fmt.Sprintf(`{"s":"%s%d"}`, id, round))
				if x, err := e.Load(e.ctx, id); i%2 == 0 && err == nil {
					ops = append(ops, op{commit: &store.Commit{Execution: x, Trace: &entry}})
				} else if i%2 == 0 {
					ops = append(ops, op{commit: &store.Commit{Execution: execution(id), Trace: &entry}})
				} else {
					ops = append(ops, op{trace: &step{id, entry}})
				}
			}
			for _, r := range e.together(e.ctx, ops) {
				e.must(r.err)
			}
		}
		e.wantTrace("a", "1 a2", "2 a3")
		e.wantTrace("b", "0 b2", "1 b3")
		e.wantTrace("c", "0 c3")
		e.wantTrace("d")
	}},
	{promise: "an appended step is stored once although its request is applied twice", options: []store.Option{store.WithTraceMax(2)}, run: func(e *env) {
		e.tap.playAlways(twiceFirst)
		for _, s := range []string{"a", "b", "c"} {
			e.must(e.AppendTrace(e.ctx, "x", object(`{"s":"`+s+`"}`)))
		}
		e.wantTrace("x", "1 b", "2 c")
		e.tap.playAlways(nil)
		e.tap.play(answerLost)
		e.must(e.AppendTrace(e.ctx, "x", object(`{"s":"d"}`)))
		e.wantTrace("x", "2 c", "3 d")
		e.must(e.AppendTrace(e.ctx, "x", object(`{"s":"d"}`))) // an equal step, but another one
		e.wantTrace("x", "3 d", "4 d")
	}},
}

// trace commits x, or creates the execution, once for each step.
func (e *env) trace(id string, x *store.Execution, steps ...string) {
	e.Helper()
	if x == nil {
		x = execution(id)
	}
	for _, s := range steps {
		entry := object(`{"s":"` + s + `"}`)
		x = e.ok(e.Commit(e.ctx, &store.Commit{Execution: x, Trace: &entry})).Execution()
	}
}

func (e *env) wantTrace(id string, want ...string) {
	e.Helper()
	steps, err := e.ReadTrace(e.ctx, id)
	e.must(err)
	var got []string
	for _, s := range steps {
		var text string
		_, err := s.Entry.Get("s", &text)
		e.must(err)
		got = append(got, fmt.Sprint(s.Index, " ", text))
	}
	if !slices.Equal(got, want) {
		e.Errorf("trace of %q: %q, want %q", id, got, want)
	}
}

var largeCases = []storeCase{
	{promise: "one commit carries thousands of rows, beyond the parameters of one statement", run: func(e *env) {
		// 33,000 parameters for the emits alone, where one statement might take them.
		const timers, spawns = 100, 100
		emits := 5500
		if e.db.Engine.Traits().RowsPerStatement < 1000 {
			emits = 1500
		}
		c := &store.Commit{Execution: execution("x")}
		for i := range emits {
			c.Emits = append(c.Emits, store.Emit{Event: store.Event{ID: fmt.Sprint(i), Kind: "k"}})
		}
		for i := range timers {
			c.Timers = append(c.Timers, store.TimerOp{Path: fmt.Sprint(i), FireAt: float64(i)})
		}
		for i := range spawns {
			c.Spawns = append(c.Spawns, store.Spawn{ChildID: fmt.Sprint(i)})
		}
		done := e.ok(e.Commit(e.ctx, c))
		if done.Outbox.Len != emits || done.Spawns.Len != spawns {
			e.Errorf("numbers %+v and %+v", done.Outbox, done.Spawns)
		}
		if o, s, t := e.count("outbox"), e.count("spawns"), e.count("timers"); o != int64(emits) || s != spawns || t != timers {
			e.Errorf("%d outbox, %d spawn and %d timer rows, want %d, %d and %d", o, s, t, emits, spawns, timers)
		}
		if n := e.number("SELECT count(*) AS n FROM outbox WHERE json_extract(event,'$.id')<>CAST(seq-? AS TEXT)", done.Outbox.First); n != 0 {
			e.Errorf("%d rows of the outbox are out of order", n)
		}
		seqs := make([]int64, done.Outbox.Len)
		for i := range seqs {
			seqs[i] = done.Outbox.At(i)
		}
		e.must(e.AckOutbox(e.ctx, seqs...))
		if n := e.count("outbox"); n != 0 {
			e.Errorf("%d rows left after all were acknowledged", n)
		}
	}},
	{promise: "one request loads more executions than one statement can name", run: func(e *env) {
		e.create("x")
		n := 2000
		if tr := e.db.Engine.Traits(); tr.RowsPerStatement > 1 {
			n = tr.MaxParams/2 + 10
		}
		if testing.Short() {
			n = 2000
		}
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprint("nobody-", i)
		}
		ids[n-1] = "x"
		got, errs := e.loads(e.ctx, ids)
		for i := range n - 1 {
			if !errors.Is(errs[i], store.ErrNotFound) {
				e.Fatalf("load of %q: %v", ids[i], errs[i])
			}
		}
		e.must(errs[n-1])
		if got[n-1].ID != "x" {
			e.Errorf("loaded %q", got[n-1].ID)
		}
	}},
	{promise: "a document of megabytes survives", run: func(e *env) {
		x := execution("x")
		text := make([]byte, 3<<20)
		for i := range text {
			text[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[(i*i+i/7)%36]
		}
		e.must(x.Context.Set("text", string(text)))
		x = e.ok(e.Save(e.ctx, x)).Execution()
		e.ok(e.Save(e.ctx, x))
		if got := e.load("x"); got.Context.Raw() != x.Context.Raw() {
			e.Errorf("loaded %d bytes of context, want %d equal ones", len(got.Context.Raw()), len(x.Context.Raw()))
		}
	}},
}
