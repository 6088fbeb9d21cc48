package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/quorate/quorate/store/workspace"
)

func run(id, rule string, fired int64) workspace.Run {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return workspace.Run{ID: id, Rule: rule, ScopeKey: "[]", FiredSeq: fired, Matched: []int64{fired}, Status: workspace.RunPending, NextAttemptAt: at, CreatedAt: at, UpdatedAt: at}
}

func with(r workspace.Run, change func(r *workspace.Run)) workspace.Run {
	change(&r)
	return r
}

func status(r workspace.Run, s workspace.RunStatus) workspace.Run {
	r.Status = s
	return r
}

func runIDs(runs []workspace.Run) []string {
	out := make([]string, len(runs))
	for i, r := range runs {
		out[i] = r.ID
	}
	return out
}

func (w *wsEnv) saveRuns(ref workspace.Ref, runs ...workspace.Run) {
	w.Helper()
	w.transact(ref, func(ctx context.Context, tx *workspace.Tx) { w.must(tx.SaveRuns(ctx, runs...)) })
}

var wsRunCases = []workspaceCase{
	{promise: "runs come newest first, in the order of creation, filtered", run: func(w *wsEnv) {
		w.saveRuns(ws1, run("a", "r1", 3), with(run("b", "r2", 1), func(r *workspace.Run) { r.ScopeKey = `["x"]` }))
		w.saveRuns(ws1, run("c", "r1", 2))
		w.saveRuns(ws1, status(run("a", "r1", 3), workspace.RunDead), run("d", "r1", 1), status(run("d", "r1", 1), workspace.RunRunning))
		for _, c := range []struct {
			f    workspace.RunFilter
			want string
		}{
			{workspace.RunFilter{}, "[d c b a]"},
			{workspace.RunFilter{Limit: 2}, "[d c]"},
			{workspace.RunFilter{Rule: "r1"}, "[d c a]"},
			{workspace.RunFilter{Rule: "r1", Status: workspace.RunDead}, "[a]"},
			{workspace.RunFilter{Status: workspace.RunPending}, "[c b]"},
			{workspace.RunFilter{ScopeKey: `["x"]`}, "[b]"},
			{workspace.RunFilter{Rule: "r1", Limit: 1}, "[d]"},
			{workspace.RunFilter{Rule: "nobody"}, "[]"},
		} {
			runs, err := w.ws.Runs(w.ctx, ws1, c.f)
			w.must(err)
			w.equal(fmt.Sprint(c.f), runIDs(runs), c.want)
		}
		r, there, err := w.ws.Run(w.ctx, ws1, "d")
		w.must(err)
		w.equal("by id", [2]any{there, r.Status}, [2]any{true, workspace.RunRunning})
		for _, ref := range []workspace.Ref{wsRef("other"), {Tenant: "t2", Workspace: "w1"}} {
			_, there, err = w.ws.Run(w.ctx, ref, "d")
			w.must(err)
			w.equal("elsewhere", there, false)
		}
	}},
	{promise: "a run is kept whole, its own and others' documents included", run: func(w *wsEnv) {
		zone := time.FixedZone("", 5*3600)
		at := time.Date(2026, 2, 3, 4, 5, 6, 789123456, zone)
		want := workspace.Run{
			ID: "a", Rule: "r", ScopeKey: `["x<"]`, Scope: json.RawMessage(`["x<"]`), FiredSeq: 1 << 55, Matched: []int64{1, 2}, CorrelationID: "c", Depth: 2,
			Status: workspace.RunRetrying, Attempts: 3, NextAttemptAt: at, CreatedAt: at, UpdatedAt: at, Error: "e", Reason: "why",
			Checkpoint: json.RawMessage(`{"z":12345678901234567890,"a":1}`), Checkpoints: 2, Step: "s", Output: json.RawMessage(`[1.10]`), TraceIDs: []string{"t"},
		}
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.SaveRuns(ctx, want))
			got, there, err := tx.Run(ctx, "a")
			w.must(err)
			w.equal("inside", fmt.Sprint(there, string(got.Checkpoint)), `true{"z":12345678901234567890,"a":1}`)
		})
		got, _, err := w.ws.Run(w.ctx, ws1, "a")
		w.must(err)
		want.NextAttemptAt = at.Truncate(time.Microsecond)
		want.CreatedAt, want.UpdatedAt = want.NextAttemptAt, want.NextAttemptAt
		a, err := json.Marshal(got)
		w.must(err)
		b, err := json.Marshal(want)
		w.must(err)
		w.equal("read", string(a), string(b))
	}},
	{promise: "the runs of a scope come as they fired, without those that succeeded", run: func(w *wsEnv) {
		other := with(run("x", "r", 1), func(r *workspace.Run) { r.ScopeKey = `["x"]` })
		w.saveRuns(ws1, run("c", "r", 3), run("b1", "r", 2), other, run("y", "r2", 1))
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			w.must(tx.SaveRuns(ctx, run("b2", "r", 2), run("a", "r", 1)))
			got, err := tx.ScopeRuns(ctx, "r", "[]")
			w.must(err)
			w.equal("inside", runIDs(got), "[a b1 b2 c]")
			w.must(tx.SaveRuns(ctx, status(run("b1", "r", 2), workspace.RunSucceeded), status(run("c", "r", 3), workspace.RunSkipped)))
			got, err = tx.ScopeRuns(ctx, "r", "[]")
			w.must(err)
			w.equal("with own versions", runIDs(got), "[a b2 c]")
		})
		w.saveRuns(ws1, status(run("a", "r", 1), workspace.RunSucceeded), status(run("b2", "r", 2), workspace.RunCancelled))
		w.transact(ws1, func(ctx context.Context, tx *workspace.Tx) {
			got, err := tx.ScopeRuns(ctx, "r", "[]")
			w.must(err)
			w.equal("after", runIDs(got), "[b2 c]")
			_, err = tx.ScopeRuns(ctx, "", "[]")
			w.is(err, workspace.ErrInvalid)
			w.is(tx.SaveRuns(ctx, workspace.Run{ID: "z"}), workspace.ErrInvalid)
			w.is(tx.SaveRuns(ctx, with(run("z", "r", 1), func(r *workspace.Run) { r.Output = json.RawMessage("{") })), workspace.ErrInvalid)
		})
	}},
}

// due returns the ids of due runs, with their workspaces.
func (w *wsEnv) due(now time.Time, limit int, p workspace.Policy) string {
	w.Helper()
	runs, err := w.ws.DueRuns(w.ctx, now, limit, p)
	w.must(err)
	s := ""
	for _, r := range runs {
		s += r.Workspace + "/" + r.Run.ID + " "
	}
	return s
}

// at returns a run whose next attempt is so many minutes after the clock's start.
func at(r workspace.Run, minutes int) workspace.Run {
	r.NextAttemptAt = r.NextAttemptAt.Add(time.Duration(minutes) * time.Minute)
	return r
}

var wsDueCases = []workspaceCase{
	{promise: "waiting runs are due across workspaces, the longest due first", run: func(w *wsEnv) {
		now := w.clock.now().Add(10 * time.Minute)
		w.saveRuns(wsRef("w2"), at(run("a", "r", 1), 5), at(run("later", "r", 2), 11))
		w.saveRuns(workspace.Ref{Tenant: "t2", Workspace: "w3"}, at(status(run("b", "r", 1), workspace.RunRetrying), 3), at(run("now", "r", 1), 10))
		w.saveRuns(ws1, at(status(run("dead", "r", 1), workspace.RunDead), 1), at(run("c", "r", 2), 4), at(run("d", "r", 1), 4))
		w.equal("due", w.due(now, 10, workspace.Policy{}), "w3/b w1/c w1/d w2/a w3/now ")
		w.equal("two of them", w.due(now, 2, workspace.Policy{}), "w3/b w1/c ")
		w.equal("none asked for", w.due(now, 0, workspace.Policy{}), "")
		w.equal("in another zone", w.due(now.In(time.FixedZone("", 3600*9)), 1, workspace.Policy{}), "w3/b ")
	}},
	{promise: "a running run is due when its lease is absent or over", run: func(w *wsEnv) {
		now := w.clock.now()
		w.saveRuns(ws1, status(run("a", "r", 1), workspace.RunRunning), status(run("b", "r", 2), workspace.RunRunning))
		got, err := w.ws.AcquireLease(w.ctx, ws1, workspace.RunLease("b"), "me", time.Minute)
		w.must(err)
		w.equal("acquired", got, true)
		w.equal("while held", w.due(now, 10, workspace.Policy{}), "w1/a ")
		w.equal("just before its end", w.due(now.Add(time.Minute-time.Microsecond), 10, workspace.Policy{}), "w1/a ")
		w.equal("at its end", w.due(now.Add(time.Minute), 10, workspace.Policy{}), "w1/a w1/b ")
	}},
	{promise: "runs of disabled rules are not due and take no place", run: func(w *wsEnv) {
		w.saveRuns(ws1, at(run("a", "off", 1), -2), status(run("b", "off", 1), workspace.RunRunning), run("c", "on", 1))
		w.equal("due", w.due(w.clock.now(), 1, workspace.Policy{Disabled: []string{"off", "nobody"}}), "w1/c ")
	}},
	{promise: "of an ordered rule only the first of each scope is due", run: func(w *wsEnv) {
		var backlog []workspace.Run
		for i := range 30 {
			backlog = append(backlog, run(workspaceID(i), "o", int64(i+1)))
		}
		w.saveRuns(ws1, backlog...)
		w.saveRuns(ws1, with(run("x", "o", 50), func(r *workspace.Run) { r.ScopeKey = `["x"]` }))
		w.saveRuns(wsRef("w2"), run("u1", "u", 1), run("u2", "u", 2))
		w.equal("due", w.due(w.clock.now(), 10, workspace.Policy{Ordered: []string{"o"}}), "w1/e00000 w1/x w2/u1 w2/u2 ")
		w.equal("limit behind the filter", w.due(w.clock.now(), 2, workspace.Policy{Ordered: []string{"o"}}), "w1/e00000 w1/x ")
		w.saveRuns(ws1, status(backlog[0], workspace.RunSucceeded), status(backlog[1], workspace.RunCancelled), status(backlog[2], workspace.RunSkipped))
		w.equal("finished ones hold nothing", w.due(w.clock.now(), 1, workspace.Policy{Ordered: []string{"o"}}), "w1/e00003 ")
	}},
	{promise: "what waits for its time or runs under a lease holds its scope", run: func(w *wsEnv) {
		ordered := workspace.Policy{Ordered: []string{"o"}}
		scoped := func(r workspace.Run) workspace.Run { r.ScopeKey = `["x"]`; return r }
		w.saveRuns(ws1, at(status(run("a", "o", 1), workspace.RunRetrying), 5), run("b", "o", 2), status(scoped(run("c", "o", 1)), workspace.RunRunning), scoped(run("d", "o", 2)))
		_, err := w.ws.AcquireLease(w.ctx, ws1, workspace.RunLease("c"), "me", 2*time.Minute)
		w.must(err)
		now := w.clock.now()
		w.equal("both held", w.due(now, 10, ordered), "")
		w.equal("lease over", w.due(now.Add(2*time.Minute), 10, ordered), "w1/c ")
		w.equal("both over", w.due(now.Add(5*time.Minute), 10, ordered), "w1/c w1/a ")
	}},
	{promise: "an abandoned run is due wherever it stands, a dead one holds only where its rule blocks", run: func(w *wsEnv) {
		w.saveRuns(ws1, at(run("a", "o", 1), 5), status(run("b", "o", 2), workspace.RunRunning))
		w.saveRuns(wsRef("w2"), status(run("c", "o", 1), workspace.RunDead), run("d", "o", 2), run("e", "o", 2))
		now := w.clock.now()
		w.equal("ordered", w.due(now, 10, workspace.Policy{Ordered: []string{"o"}}), "w1/b w2/d ")
		w.equal("blocking", w.due(now, 10, workspace.Policy{Ordered: []string{"o"}, Blocking: []string{"o"}}), "w1/b ")
		w.equal("neither", w.due(now, 10, workspace.Policy{}), "w1/b w2/d w2/e ")
		_, err := w.ws.DueRuns(w.ctx, now, -1, workspace.Policy{})
		w.is(err, workspace.ErrInvalid)
	}},
}
