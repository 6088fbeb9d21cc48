package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/workspace"
)

func state(key, value string) workspace.State {
	return workspace.State{ScopeKey: key, Value: json.RawMessage(value)}
}

func showStates(states []workspace.State) string {
	s := ""
	for _, st := range states {
		s += st.ScopeKey + "=" + string(st.Value) + " "
	}
	return s
}

var wsRuleCases = []workspaceCase{
	{promise: "progress is none, then what was saved, in the order of first saving", run: func(w *wsEnv) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
		want := workspace.Progress{Cursor: 1 << 60, Generation: 2, Definition: "h<>", Deadlines: map[string]time.Time{`["a"]`: at}, SilentThrough: 3}
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			_, there, err := tx.Progress(ctx, "b")
			w.must(err)
			w.equal("before", there, false)
			if err := tx.SaveProgress(ctx, "b", workspace.Progress{Cursor: -1}); !errors.Is(err, store.ErrInvalid) {
				w.Errorf("a negative cursor: %v", err)
			}
			w.must(tx.SaveProgress(ctx, "b", want))
			w.must(tx.SaveProgress(ctx, "a", workspace.Progress{Cursor: 1}))
			got, there, err := tx.Progress(ctx, "b")
			w.must(err)
			w.equal("inside", fmt.Sprint(there, got.Cursor, got.Deadlines[`["a"]`].Equal(at)), "true 1152921504606846976 true")
		})
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.SaveProgress(ctx, "0", workspace.Progress{}))
			w.must(tx.SaveProgress(ctx, "b", workspace.Progress{Cursor: 5, Deadlines: want.Deadlines}))
		})
		all, err := w.ws.Progress(w.ctx, ws1)
		w.must(err)
		s := ""
		for _, p := range all {
			s += fmt.Sprint(p.Rule, p.Cursor, " ")
		}
		w.equal("all", s, "b5 a1 00 ")
		_, offset := all[0].Deadlines[`["a"]`].Zone()
		w.equal("zone of a deadline", offset, 3600)
	}},
	{promise: "states come in the order asked for, without those missing", run: func(w *wsEnv) {
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.SaveStates("r", state("a", `{"z":1, "a":2}`), state("b", "2")))
			w.must(tx.SaveStates("other", state("a", "9")))
		})
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.SaveStates("r", state("c", "3"), state("b", "4"), state("b", "5")))
			got, err := tx.States(ctx, "r", "c", "nobody", "a", "b")
			w.must(err)
			w.equal("inside", showStates(got), `c=3 a={"z":1, "a":2} b=5 `)
		})
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			got, err := tx.States(ctx, "r", "b", "a", "c")
			w.must(err)
			w.equal("after", showStates(got), `b=5 a={"z":1, "a":2} c=3 `)
			none, err := tx.States(ctx, "nobody", "a")
			w.must(err)
			w.equal("another rule", len(none), 0)
		})
	}},
	{promise: "clearing hides states of before and of the transaction, and spares later ones and other rules", run: func(w *wsEnv) {
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.SaveStates("r", state("a", "1"), state("b", "1")))
			w.must(tx.SaveStates("other", state("a", "1")))
		})
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.SaveStates("r", state("c", "2")))
			w.must(tx.ClearStates("r"))
			got, err := tx.States(ctx, "r", "a", "b", "c")
			w.must(err)
			w.equal("cleared", showStates(got), "")
			w.must(tx.SaveStates("r", state("b", "3")))
			got, err = tx.States(ctx, "r", "a", "b", "c")
			w.must(err)
			w.equal("saved again", showStates(got), "b=3 ")
		})
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			got, err := tx.States(ctx, "r", "a", "b", "c")
			w.must(err)
			w.equal("after", showStates(got), "b=3 ")
			got, err = tx.States(ctx, "other", "a")
			w.must(err)
			w.equal("another rule", showStates(got), "a=1 ")
			v, there, err := workspace.LoadState[int](ctx, tx, "r", "b")
			w.must(err)
			w.equal("decoded", [2]any{v, there}, [2]any{3, true})
			w.must(workspace.SaveState(tx, "r", "b", "text"))
			_, _, err = workspace.LoadState[int](ctx, tx, "r", "b")
			w.equal("decoded as something else", err != nil, true)
		})
	}},
	{promise: "more than a thousand states are saved and read at once", run: func(w *wsEnv) {
		const n = 1234
		var states []workspace.State
		var keys []string
		for i := range n {
			states = append(states, state(workspaceID(i), fmt.Sprint(i)))
			keys = append(keys, workspaceID((i*7)%n))
		}
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) { w.must(tx.SaveStates("r", states...)) })
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			got, err := tx.States(ctx, "r", keys...)
			w.must(err)
			w.equal("number", len(got), n)
			for i, st := range got {
				if st.ScopeKey != keys[i] || string(st.Value) != fmt.Sprint((i*7)%n) {
					w.Fatalf("state %d is %s=%s", i, st.ScopeKey, st.Value)
				}
			}
		})
	}},
	{promise: "dead letters come in order, all or a rule's", run: func(w *wsEnv) {
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.DeadLetter(workspace.DeadLetter{Rule: "b", Seq: 1, Error: "x<"}, workspace.DeadLetter{Rule: "a", Seq: 1}))
		})
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.DeadLetter(workspace.DeadLetter{Rule: "b", Seq: 2}))
		})
		show := func(rule string) string {
			letters, err := w.ws.DeadLetters(w.ctx, ws1, rule)
			w.must(err)
			s := ""
			for _, d := range letters {
				s += fmt.Sprint(d.Rule, d.Seq, d.Error, " ")
			}
			return s
		}
		w.equal("all", show(""), "b1x< a1 b2 ")
		w.equal("of b", show("b"), "b1x< b2 ")
		w.equal("of nobody", show("nobody"), "")
	}},
	{promise: "schedules keep their order and come back in UTC", run: func(w *wsEnv) {
		at := time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.FixedZone("", -7*3600))
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			_, there, err := tx.Schedule(ctx, "b")
			w.must(err)
			w.equal("before", there, false)
			w.must(tx.SaveSchedule(ctx, "b", at))
			w.must(tx.SaveSchedule(ctx, "a", at))
			got, there, err := tx.Schedule(ctx, "b")
			w.must(err)
			w.equal("inside", [2]any{got, there}, [2]any{at.UTC(), true})
			w.is(tx.SaveSchedule(ctx, "c", time.Time{}), workspace.ErrInvalid)
		})
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) { w.must(tx.SaveSchedule(ctx, "b", at.Add(time.Hour))) })
		ticks, err := w.ws.Schedules(w.ctx, ws1)
		w.must(err)
		w.equal("all", ticks, []workspace.Tick{{Schedule: "b", At: at.Add(time.Hour).UTC()}, {Schedule: "a", At: at.UTC()}})
	}},
	{promise: "a stored rule is saved as its next version only", run: func(w *wsEnv) {
		rule := func(name string, version int64, status string) workspace.StoredRule {
			return workspace.StoredRule{Name: name, Version: version, Status: status, Rule: json.RawMessage(fmt.Sprintf(`{"v": %d}`, version))}
		}
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.is(tx.SaveStoredRule(ctx, rule("b", 2, workspace.RuleActive)), workspace.ErrVersion)
			for _, name := range []string{"b", "a-b", "ab", "B"} {
				w.must(tx.SaveStoredRule(ctx, rule(name, 1, workspace.RuleActive)))
			}
			w.is(tx.SaveStoredRule(ctx, rule("b", 1, workspace.RuleActive)), workspace.ErrVersion)
			w.is(tx.SaveStoredRule(ctx, rule("b", 2, "odd")), workspace.ErrInvalid)
			rules, err := tx.StoredRules(ctx)
			w.must(err)
			w.equal("inside", ruleNames(rules), "[B a-b ab b]")
		})
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.is(tx.SaveStoredRule(ctx, rule("b", 1, workspace.RuleActive)), workspace.ErrVersion)
			w.is(tx.SaveStoredRule(ctx, rule("b", 3, workspace.RuleActive)), workspace.ErrVersion)
			w.must(tx.SaveStoredRule(ctx, rule("b", 2, workspace.RuleArchived)))
			rules, err := tx.StoredRules(ctx)
			w.must(err)
			w.equal("inside", ruleNames(rules), "[B a-b ab]")
		})
		rules, err := w.ws.StoredRules(w.ctx, ws1)
		w.must(err)
		w.equal("active", ruleNames(rules), "[B a-b ab]")
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			got, there, err := tx.StoredRule(ctx, "b")
			w.must(err)
			w.equal("archived", fmt.Sprint(there, got.Version, got.Status, string(got.Rule), string(got.Provenance)), `true 2archived{"v": 2}null`)
			w.must(tx.SaveStoredRule(ctx, rule("b", 3, workspace.RuleActive)))
		})
		rules, err = w.ws.StoredRules(w.ctx, ws1)
		w.must(err)
		w.equal("installed again", ruleNames(rules), "[B a-b ab b]")
	}},
}

func ruleNames(rules []workspace.StoredRule) []string {
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = r.Name
	}
	return out
}
