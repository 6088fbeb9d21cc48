package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// RunStatus is where a run stands. The store does not police the moves between
// them.
type RunStatus string

// The statuses of a run.
const (
	RunPending   RunStatus = "pending"
	RunRunning   RunStatus = "running"
	RunRetrying  RunStatus = "retrying"
	RunSucceeded RunStatus = "succeeded"
	RunDead      RunStatus = "dead"
	RunCancelled RunStatus = "cancelled"
	RunSkipped   RunStatus = "skipped"
)

// Waiting reports whether a run of this status waits for its next attempt.
func (s RunStatus) Waiting() bool { return s == RunPending || s == RunRetrying }

// Holding reports whether a run of this status waits or runs.
func (s RunStatus) Holding() bool { return s.Waiting() || s == RunRunning }

// Finished reports whether a run of this status has come to an end.
func (s RunStatus) Finished() bool {
	return s == RunSucceeded || s == RunDead || s == RunCancelled || s == RunSkipped
}

// Run is one firing of a rule and what became of it.
type Run struct {
	// ID identifies the run, and its firing, in the workspace.
	ID   string `json:"id"`
	Rule string `json:"rule"`
	// ScopeKey is the canonical JSON of Scope, such as ["auth"], or [] for none.
	// The store only compares it.
	ScopeKey string          `json:"scope_key"`
	Scope    json.RawMessage `json:"scope,omitempty"`
	// FiredSeq is the position of the event that fired it, Matched the positions
	// of all events that took part.
	FiredSeq      int64   `json:"fired_seq"`
	Matched       []int64 `json:"matched"`
	CorrelationID string  `json:"correlation_id"`
	Depth         int     `json:"depth"`

	Status   RunStatus `json:"status"`
	Attempts int       `json:"attempts"`
	// NextAttemptAt is when a waiting run is due; see [Store.DueRuns]. Times are
	// kept in microseconds, with their zone.
	NextAttemptAt time.Time `json:"next_attempt_at"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`

	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Checkpoint and Output are JSON of the application's own.
	Checkpoint  json.RawMessage `json:"checkpoint,omitempty"`
	Checkpoints int             `json:"checkpoints,omitempty"`
	Step        string          `json:"step,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"`
	TraceIDs    []string        `json:"trace_ids,omitempty"`

	body string // as it is stored
}

// encodeRun checks a run and encodes it. What it returns shares nothing with what
// the caller gave.
func encodeRun(r Run) (Run, error) {
	for _, f := range []struct{ field, value string }{
		{"Run.ID", r.ID}, {"Run.Rule", r.Rule}, {"Run.ScopeKey", r.ScopeKey}, {"Run.Status", string(r.Status)},
	} {
		if err := checkName(f.field, f.value); err != nil {
			return r, err
		}
	}
	r.NextAttemptAt, r.CreatedAt, r.UpdatedAt = exact(r.NextAttemptAt), exact(r.CreatedAt), exact(r.UpdatedAt)
	body, err := marshal(r)
	if err != nil {
		return r, &store.InvalidError{Field: "Run", Reason: "cannot be encoded: " + err.Error()}
	}
	if err := checkDocument("Run", body); err != nil {
		return r, err
	}
	return decodeRun(string(body))
}

func decodeRun(body string) (Run, error) {
	r := Run{body: body}
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		return r, fmt.Errorf("stored run: %w", err)
	}
	return r, nil
}

// readRuns reads the runs of a result, with their positions.
func readRuns(res *engine.Result) ([]positioned[Run], error) {
	r := rows{res: res}
	var out []positioned[Run]
	for r.next() {
		position, body := r.int("position"), r.text("body")
		if r.err != nil {
			break
		}
		run, err := decodeRun(body)
		if err != nil {
			return nil, err
		}
		out = append(out, positioned[Run]{run, position})
	}
	return out, r.err
}

// Run returns the run of an id, and whether there is one.
func (t *Tx) Run(ctx context.Context, id string) (Run, bool, error) {
	if err := t.usable(); err != nil {
		return Run{}, false, err
	}
	if err := checkName("id", id); err != nil {
		return Run{}, false, err
	}
	if r, ok := t.runs.get(id); ok {
		return r, true, nil
	}
	results, err := t.read(ctx, selectOf(runColumns+" AND id=?3", args(t.ref, engine.Text(id))))
	if err != nil {
		return Run{}, false, err
	}
	found, err := readRuns(&results[0])
	if err != nil {
		return Run{}, false, t.broken(err)
	}
	if len(found) == 0 {
		t.runs.learn(id, 0)
		return Run{}, false, nil
	}
	t.runs.learn(id, found[0].position)
	return found[0].value, true, nil
}

// SaveRuns stores runs, each in the place of the one with its id. If an id is given
// twice, the last one counts, at the first one's place in the order of creation.
func (t *Tx) SaveRuns(ctx context.Context, runs ...Run) error {
	if err := t.usable(); err != nil {
		return err
	}
	encoded := make([]Run, len(runs))
	var unknown []string
	for i, r := range runs {
		var err error
		if encoded[i], err = encodeRun(r); err != nil {
			return err
		}
		if _, own := t.runs.own[r.ID]; !own {
			if _, known := t.runs.known[r.ID]; !known {
				unknown = append(unknown, r.ID)
			}
		}
	}
	if err := t.learnRuns(ctx, unknown); err != nil {
		return err
	}
	for _, r := range encoded {
		position := t.runs.own[r.ID].position
		if position == 0 {
			position = t.runs.known[r.ID]
		}
		if position == 0 {
			position = t.next()
		}
		t.runs.put(r.ID, r, position)
	}
	return nil
}

// learnRuns looks up where runs are in the order of creation.
func (t *Tx) learnRuns(ctx context.Context, ids []string) error {
	if len(ids) == 0 || t.base.position == 0 {
		return nil
	}
	var stmts []engine.Statement
	for part := range slices.Chunk(ids, chunk) {
		a := args(t.ref)
		cond := oneOf(&a, part)
		stmts = append(stmts, selectOf("SELECT id AS id,position AS position FROM quorate_ws_runs WHERE "+ofWorkspace+" AND id"+cond, a))
	}
	results, err := t.read(ctx, stmts...)
	if err != nil {
		return err
	}
	for _, id := range ids {
		t.runs.learn(id, 0)
	}
	for i := range results {
		r := rows{res: &results[i]}
		for r.next() {
			t.runs.learn(r.text("id"), r.int("position"))
		}
		if r.err != nil {
			return t.broken(r.err)
		}
	}
	return nil
}

// ScopeRuns returns the runs of a rule and scope that have not succeeded, in the
// order in which they fired: by FiredSeq, then by creation.
func (t *Tx) ScopeRuns(ctx context.Context, rule, scopeKey string) ([]Run, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := checkName("rule", rule); err != nil {
		return nil, err
	}
	if err := checkName("scope key", scopeKey); err != nil {
		return nil, err
	}
	var all []positioned[Run]
	if t.base.position > 0 {
		results, err := t.read(ctx, selectOf(runColumns+" AND rule=?3 AND scope_key=?4 AND status<>'succeeded'", args(t.ref, engine.Text(rule), engine.Text(scopeKey))))
		if err != nil {
			return nil, err
		}
		if all, err = readRuns(&results[0]); err != nil {
			return nil, t.broken(err)
		}
	}
	all = slices.DeleteFunc(all, func(p positioned[Run]) bool {
		_, own := t.runs.own[p.value.ID]
		return own
	})
	for _, id := range t.runs.order {
		if p := t.runs.own[id]; p.value.Rule == rule && p.value.ScopeKey == scopeKey && p.value.Status != RunSucceeded {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b positioned[Run]) int {
		return cmp.Or(cmp.Compare(a.value.FiredSeq, b.value.FiredSeq), cmp.Compare(a.position, b.position))
	})
	out := make([]Run, len(all))
	for i := range all {
		out[i] = all[i].value
	}
	return out, nil
}

// Run returns the run of an id, and whether there is one. It blocks for one
// linearizable read.
func (s *Store) Run(ctx context.Context, ref Ref, id string) (Run, bool, error) {
	if err := ref.check(); err != nil {
		return Run{}, false, err
	}
	if err := checkName("id", id); err != nil {
		return Run{}, false, err
	}
	found, err := s.runs(ctx, ref, selectOf(runColumns+" AND id=?3", args(ref, engine.Text(id))))
	if err != nil || len(found) == 0 {
		return Run{}, false, err
	}
	return found[0], true, nil
}

// RunFilter narrows [Store.Runs]. Zero fields narrow nothing.
type RunFilter struct {
	Rule     string
	Status   RunStatus
	ScopeKey string
	// Limit is how many runs to return at most; 0 stands for all.
	Limit int
}

// Runs returns the runs of a workspace that match all of the filter, the newest
// first, by when they were created. It blocks for one linearizable read.
func (s *Store) Runs(ctx context.Context, ref Ref, f RunFilter) ([]Run, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	if f.Limit < 0 {
		return nil, &store.InvalidError{Field: "RunFilter.Limit", Reason: "is negative"}
	}
	sql, a := runColumns, args(ref)
	for _, c := range []struct{ column, value string }{{"rule", f.Rule}, {"status", string(f.Status)}, {"scope_key", f.ScopeKey}} {
		if c.value == "" {
			continue
		}
		if err := checkName("RunFilter", c.value); err != nil {
			return nil, err
		}
		sql += " AND " + c.column + "=" + param(&a, engine.Text(c.value))
	}
	sql += " ORDER BY position DESC"
	if f.Limit > 0 {
		sql += " LIMIT " + param(&a, engine.Int(int64(f.Limit)))
	}
	return s.runs(ctx, ref, selectOf(sql, a))
}

func (s *Store) runs(ctx context.Context, ref Ref, stmt engine.Statement) ([]Run, error) {
	results, err := s.query(ctx, engine.Linearizable, stmt)
	if err != nil {
		return nil, fmt.Errorf("read runs of workspace %v: %w", ref, err)
	}
	found, err := readRuns(&results[0])
	if err != nil {
		return nil, err
	}
	out := make([]Run, len(found))
	for i := range found {
		out[i] = found[i].value
	}
	return out, nil
}
