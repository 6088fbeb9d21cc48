package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// ReadOption narrows [Store.Read].
type ReadOption func(*readRange)

type readRange struct {
	after, before, limit, last             int64
	hasBefore, hasLimit, hasLast, hasTypes bool
	types                                  []string
}

// After leaves out events up to and including this position.
func After(seq int64) ReadOption { return func(r *readRange) { r.after = seq } }

// Before leaves out events from this position on.
func Before(seq int64) ReadOption { return func(r *readRange) { r.before, r.hasBefore = seq, true } }

// First takes the first n of the events that are not left out. It excludes [Last].
func First(n int) ReadOption {
	return func(r *readRange) { r.limit, r.hasLimit = int64(n), true }
}

// Last takes the last n of the events that are not left out. It excludes [First].
func Last(n int) ReadOption {
	return func(r *readRange) { r.last, r.hasLast = int64(n), true }
}

// Types leaves out events of other types. No types leave out all.
func Types(types ...string) ReadOption {
	return func(r *readRange) { r.types, r.hasTypes = types, true }
}

func (r *readRange) check() error {
	switch {
	case r.after < 0 || r.before < 0 || r.limit < 0 || r.last < 0:
		return &store.InvalidError{Field: "Read", Reason: "has a negative bound"}
	case r.hasLimit && r.hasLast:
		return &store.InvalidError{Field: "Read", Reason: "has both First and Last"}
	}
	for _, t := range r.types {
		if err := checkName("Types", t); err != nil {
			return err
		}
	}
	return nil
}

func (r *readRange) empty() bool {
	return r.hasBefore && r.before <= r.after+1 || r.hasLimit && r.limit == 0 || r.hasLast && r.last == 0 || r.hasTypes && len(r.types) == 0
}

// Read returns events of a log, in order: all of them, or those that the options
// say. A log that is not there is empty. It blocks for one linearizable read, and
// holds all that it returns in memory. Errors: [ErrInvalid], [ErrUnavailable],
// [ErrClosed], the context's.
func (s *Store) Read(ctx context.Context, ref Ref, opts ...ReadOption) ([]Envelope, error) {
	var r readRange
	for _, o := range opts {
		o(&r)
	}
	if err := ref.check(); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.empty() {
		return nil, nil
	}
	sql, a := eventColumns+" AND seq>?3", args(ref, engine.Int(r.after))
	if r.hasBefore {
		sql += " AND seq<" + param(&a, engine.Int(r.before))
	}
	if r.hasTypes {
		sql += " AND event_type" + oneOf(&a, r.types)
	}
	switch {
	case r.hasLast:
		sql += " ORDER BY seq DESC LIMIT " + param(&a, engine.Int(r.last))
	case r.hasLimit:
		sql += " ORDER BY seq LIMIT " + param(&a, engine.Int(r.limit))
	default:
		sql += " ORDER BY seq"
	}
	out, err := s.events(ctx, engine.Linearizable, ref, selectOf(sql, a))
	if r.hasLast {
		slices.Reverse(out)
	}
	return out, err
}

func (s *Store) events(ctx context.Context, level engine.Consistency, ref Ref, stmts ...engine.Statement) ([]Envelope, error) {
	results, err := s.query(ctx, level, stmts...)
	if err == nil {
		var out []Envelope
		if out, err = envelopes(ref, results); err == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("read log of workspace %v: %w", ref, err)
}

// Envelope returns the event of an id, and whether there is one. It blocks for one
// linearizable read.
func (s *Store) Envelope(ctx context.Context, ref Ref, id string) (Envelope, bool, error) {
	if err := ref.check(); err != nil {
		return Envelope{}, false, err
	}
	if err := checkName("id", id); err != nil {
		return Envelope{}, false, err
	}
	found, err := s.events(ctx, engine.Linearizable, ref, byIDs(ref, []string{id})...)
	if err != nil || len(found) == 0 {
		return Envelope{}, false, err
	}
	return found[0], true, nil
}

// HeadSeq returns the position of a log's last event, or 0 if it has none. It
// blocks for one linearizable read.
func (s *Store) HeadSeq(ctx context.Context, ref Ref) (int64, error) {
	if err := ref.check(); err != nil {
		return 0, err
	}
	results, err := s.query(ctx, engine.Linearizable, selectOf(sqlRow, args(ref)))
	if err != nil {
		return 0, fmt.Errorf("read head of workspace %v: %w", ref, err)
	}
	snap, err := snapshotOf(results)
	return snap.seq, err
}

// Workspaces returns all workspaces whose log holds an event, by tenant and then by
// id. It blocks for one linearizable read.
func (s *Store) Workspaces(ctx context.Context) ([]Ref, error) {
	results, err := s.query(ctx, engine.Linearizable, selectOf("SELECT tenant_id AS tenant_id,workspace_id AS workspace_id FROM quorate_ws_workspaces WHERE head_seq>0", nil))
	if err != nil {
		return nil, fmt.Errorf("read workspaces: %w", err)
	}
	r := rows{res: &results[0]}
	var out []Ref
	for r.next() {
		out = append(out, Ref{Tenant: r.text("tenant_id"), Workspace: r.text("workspace_id")})
	}
	slices.SortFunc(out, Ref.compare)
	return out, r.err
}
