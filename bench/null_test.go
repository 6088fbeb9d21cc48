package main

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/quorate/quorate/store"
)

// The engine has to take every statement for what it is: in a batch of full
// commits all win, and what they read afterwards is what they began with.
func TestNullEngineAnswersWholeBatches(t *testing.T) {
	eng, err := newNullEngine()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), eng, store.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const n = 5
	apply := func(what string, commits []*store.Commit) {
		t.Helper()
		writes := make([]*store.Write, len(commits))
		for i, c := range commits {
			if writes[i], err = st.PrepareCommit(c); err != nil {
				t.Fatal(err)
			}
		}
		st.Apply(t.Context(), writes, func(i int, err error) {
			if err != nil {
				t.Errorf("%s %d: %v", what, i, err)
			}
		})
	}
	full := func(e *store.Execution) *store.Commit {
		var trace store.Object
		return &store.Commit{
			Execution: e, ProcessedEvent: "p", Emits: []store.Emit{{Event: store.Event{ID: "e"}}}, Timers: []store.TimerOp{{Path: "/a", FireAt: 1}},
			Spawns: []store.Spawn{{ChildID: "c"}}, Trace: &trace,
		}
	}
	var creates, plain, all []*store.Commit
	for i := range n {
		e := store.NewExecution("d")
		e.ID = fmt.Sprint("execution", i)
		creates = append(creates, full(e))
	}
	apply("creation", creates)
	for _, c := range creates {
		e, err := st.Load(t.Context(), c.Execution.ID)
		if err != nil || e.ID != c.Execution.ID || e.Version != 1 {
			t.Fatalf("loaded %v, %v", e, err)
		}
		plain, all = append(plain, &store.Commit{Execution: e}), append(all, full(e))
	}
	apply("plain commit", plain)
	apply("full commit", all)
	for _, c := range creates {
		if e, err := st.Load(t.Context(), c.Execution.ID); err != nil || e.Version != 1 {
			t.Errorf("loaded %v, %v; every execution stays at version 1", e, err)
		}
	}
}
