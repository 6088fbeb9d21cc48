package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// RunLease is the name of the lease that whoever executes a run holds.
func RunLease(id string) string { return runLease + id }

const runLease = "run:"

// DueRun is a run that is due, and its workspace.
type DueRun struct {
	Ref
	Run Run
}

// Policy tells [Store.DueRuns] what rules ask for, by their names. A rule in no
// list asks for nothing.
type Policy struct {
	// Disabled rules' runs are not due, running ones neither.
	Disabled []string
	// Ordered rules want the runs of one scope to be executed one after the other:
	// a waiting run is due only if no earlier one of its scope waits or runs.
	Ordered []string
	// Blocking rules, which are ordered too, want a dead run to hold up those
	// behind it.
	Blocking []string
}

// DueRuns returns at most limit runs of all workspaces that are due at now: those
// that wait and whose time has come, and those that are running although nobody
// holds their lease (see [RunLease]) at now. The longest due come first. It takes
// no lock and promises nothing: whoever claims a run looks again, in a transaction
// of its own. It blocks for one linearizable read. Errors: [ErrInvalid],
// [ErrUnavailable], [ErrClosed], the context's.
func (s *Store) DueRuns(ctx context.Context, now time.Time, limit int, p Policy) ([]DueRun, error) {
	if limit < 0 {
		return nil, &store.InvalidError{Field: "limit", Reason: "is negative"}
	}
	if limit == 0 {
		return nil, nil
	}
	for _, names := range [][]string{p.Disabled, p.Ordered, p.Blocking} {
		for _, name := range names {
			if err := checkName("Policy", name); err != nil {
				return nil, err
			}
		}
	}
	results, err := s.query(ctx, engine.Linearizable, dueStatement(now, limit, p))
	if err != nil {
		return nil, fmt.Errorf("read due runs: %w", err)
	}
	r := rows{res: &results[0]}
	var out []DueRun
	for r.next() {
		d := DueRun{Ref: Ref{Tenant: r.text("tenant_id"), Workspace: r.text("workspace_id")}}
		body := r.text("body")
		if r.err != nil {
			break
		}
		if d.Run, err = decodeRun(body); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, r.err
}

// dueStatement builds the query. The two kinds of due runs are two branches, so
// that each finds its rows by the index on status and time.
func dueStatement(now time.Time, limit int, p Policy) engine.Statement {
	const columns = `SELECT r.tenant_id AS tenant_id,r.workspace_id AS workspace_id,r.next_attempt_at AS next_attempt_at,r.position AS position,r.body AS body FROM quorate_ws_runs r WHERE `
	a := []engine.Value{engine.Int(micros(now)), engine.Int(int64(limit)), engine.Text(runLease)}
	enabled := ""
	if len(p.Disabled) > 0 {
		enabled = " AND r.rule NOT" + oneOf(&a, p.Disabled)
	}
	free := ""
	if len(p.Ordered) > 0 {
		holds := "h.status IN ('pending','retrying','running')"
		if len(p.Blocking) > 0 {
			holds = "(" + holds + " OR h.status='dead' AND h.rule" + oneOf(&a, p.Blocking) + ")"
		}
		free = " AND NOT (r.rule" + oneOf(&a, p.Ordered) + " AND EXISTS(SELECT 1 FROM quorate_ws_runs h WHERE h.tenant_id=r.tenant_id AND h.workspace_id=r.workspace_id" +
			" AND h.rule=r.rule AND h.scope_key=r.scope_key AND " + holds + " AND (h.fired_seq<r.fired_seq OR h.fired_seq=r.fired_seq AND h.position<r.position)))"
	}
	waiting := columns + "r.status IN ('pending','retrying') AND r.next_attempt_at<=?1" + enabled + free
	abandoned := columns + "r.status='running' AND NOT EXISTS(SELECT 1 FROM quorate_ws_leases l WHERE l.tenant_id=r.tenant_id AND l.workspace_id=r.workspace_id" +
		" AND l.name=?3||r.id AND l.expires_at>?1)" + enabled
	return engine.Statement{SQL: waiting + " UNION ALL " + abandoned + " ORDER BY next_attempt_at,tenant_id,workspace_id,position LIMIT ?2", Args: a}
}
