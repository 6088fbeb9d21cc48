package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/quorate/quorate/store/engine"
)

// Consistency is how fresh a scan must be. Loads are always linearizable, since
// commits build on them.
type Consistency = engine.Consistency

// The levels of consistency. Linearizable is the zero value.
const (
	Linearizable = engine.Linearizable
	Weak         = engine.Weak
	Stale        = engine.Stale
)

// OutboxEntry is an event that waits for delivery.
type OutboxEntry struct {
	// Seq identifies the entry; acknowledge it with [Store.AckOutbox].
	Seq int64
	// Target is the execution the event is for, empty if none.
	Target string
	// Event is the event.
	Event Event
}

// SpawnEntry is a child that waits to be created.
type SpawnEntry struct {
	// Seq identifies the entry; acknowledge it with [Store.AckSpawn].
	Seq int64
	// ParentID is the execution that spawned the child.
	ParentID string
	Spawn
}

// Timer is a timer of an execution.
type Timer struct {
	// ExecutionID is the execution, Path the timer's name within it.
	ExecutionID, Path string
	// FireAt is when it is due, in seconds since the Unix epoch, exactly as
	// stored.
	FireAt float64
}

// TraceStep is one step of an execution's trace.
type TraceStep struct {
	// Index grows by one with each step, for ever, also when old steps are let
	// go.
	Index int64
	// Entry is the step.
	Entry Object
}

const (
	sqlPendingOutbox = `SELECT seq AS seq,target_id AS target,event AS event FROM outbox ORDER BY seq LIMIT ?`
	sqlPendingSpawns = `SELECT seq AS seq,parent_id AS parent,child_id AS child,root_path AS root_path,context AS context FROM spawns ORDER BY seq LIMIT ?`
	sqlDueTimers     = `SELECT execution_id AS id,path AS path,fire_at AS fire_at FROM timers WHERE fire_at<=? ORDER BY fire_at,execution_id,path LIMIT ?`
	sqlReadTrace     = `SELECT idx AS idx,entry AS entry FROM trace WHERE execution_id=? ORDER BY idx`
)

// PendingOutbox returns up to limit entries of the outbox, oldest first. An entry
// stays, with the same event id, until it is acknowledged, so delivery is at least
// once; whoever reads at the same time gets the same entries. Sequence numbers are
// never given twice and become visible in their order (on PostgreSQL only those of
// one execution do; a lower one may appear after a higher one). Errors:
// [ErrInvalid], [*InvalidDataError] if an entry is not an event, [ErrUnavailable],
// [ErrClosed], the context's. Entries that are not valid are left out, each with
// an [*InvalidDataError] in the error, and the valid ones are returned beside it.
func (s *Store) PendingOutbox(ctx context.Context, limit int) ([]OutboxEntry, error) {
	res, cols, err := s.scan(ctx, "pending outbox", Linearizable, limit, sqlPendingOutbox, nil, "seq", "target", "event")
	if err != nil {
		return nil, err
	}
	out := make([]OutboxEntry, 0, res.Len())
	var invalid []error
	for i := range res.Len() {
		row := res.Row(i)
		var e OutboxEntry
		e.Seq, _ = row[cols[0]].Int()
		e.Target, _ = row[cols[1]].Bytes()
		event, _ := row[cols[2]].Bytes()
		if err := e.Event.UnmarshalJSON([]byte(event)); err != nil {
			invalid = append(invalid, &InvalidDataError{ID: fmt.Sprintf("outbox/%d", e.Seq), Reason: "not an event: " + reason(err)})
			continue
		}
		out = append(out, e)
	}
	return out, errors.Join(invalid...)
}

// PendingSpawns returns up to limit children to create, oldest first. An entry
// stays until it is acknowledged. If the child is there already, whoever created
// it and whether or not it has finished, committing it at version 0 is a conflict
// that changes nothing, neither of the child nor of the parent: acknowledge the
// entry then. Errors as for [Store.PendingOutbox].
func (s *Store) PendingSpawns(ctx context.Context, limit int) ([]SpawnEntry, error) {
	res, cols, err := s.scan(ctx, "pending spawns", Linearizable, limit, sqlPendingSpawns, nil, "seq", "parent", "child", "root_path", "context")
	if err != nil {
		return nil, err
	}
	out := make([]SpawnEntry, 0, res.Len())
	var invalid []error
	for i := range res.Len() {
		row := res.Row(i)
		var e SpawnEntry
		e.Seq, _ = row[cols[0]].Int()
		e.ParentID, _ = row[cols[1]].Bytes()
		e.ChildID, _ = row[cols[2]].Bytes()
		e.RootPath, _ = row[cols[3]].Bytes()
		raw, _ := row[cols[4]].Bytes()
		if e.Context, err = ParseObject(raw); err != nil {
			invalid = append(invalid, &InvalidDataError{ID: fmt.Sprintf("spawns/%d", e.Seq), Reason: "context: " + reason(err)})
			continue
		}
		out = append(out, e)
	}
	return out, errors.Join(invalid...)
}

// DueTimers returns up to limit timers that are due at now, in seconds since the
// Unix epoch: earliest first, ties by execution and path. Errors as for
// [Store.PendingOutbox].
func (s *Store) DueTimers(ctx context.Context, now float64, limit int) ([]Timer, error) {
	if math.IsNaN(now) {
		return nil, &InvalidError{Field: "now", Reason: "is not a number"}
	}
	now = min(max(now, -math.MaxFloat64), math.MaxFloat64)
	res, cols, err := s.scan(ctx, "due timers", Linearizable, limit, sqlDueTimers, []engine.Value{engine.Float(now)}, "id", "path", "fire_at")
	if err != nil {
		return nil, err
	}
	out := make([]Timer, 0, res.Len())
	var invalid []error
	for i := range res.Len() {
		row := res.Row(i)
		var t Timer
		t.ExecutionID, _ = row[cols[0]].Bytes()
		t.Path, _ = row[cols[1]].Bytes()
		var ok bool
		if t.FireAt, ok = row[cols[2]].Float(); !ok {
			invalid = append(invalid, &InvalidDataError{ID: t.ExecutionID, Reason: fmt.Sprintf("timer %q: fire_at is not a number", t.Path)})
			continue
		}
		out = append(out, t)
	}
	return out, errors.Join(invalid...)
}

// ReadTrace returns the steps of an execution's trace that are kept, oldest
// first. It is empty if there are none. Errors as for [Store.PendingOutbox].
func (s *Store) ReadTrace(ctx context.Context, id string) ([]TraceStep, error) {
	if err := s.limits.name("id", id); err != nil {
		return nil, err
	}
	results, err := s.query(ctx, Linearizable, []engine.Statement{{SQL: sqlReadTrace, Args: []engine.Value{engine.Text(id)}}})
	if err != nil {
		return nil, fmt.Errorf("read trace of execution %q: %w", id, err)
	}
	res := &results[0]
	cols, err := columns(res, "idx", "entry")
	if err != nil {
		return nil, err
	}
	out := make([]TraceStep, 0, res.Len())
	var invalid []error
	for i := range res.Len() {
		row := res.Row(i)
		var step TraceStep
		step.Index, _ = row[cols[0]].Int()
		raw, _ := row[cols[1]].Bytes()
		if step.Entry, err = ParseObject(raw); err != nil {
			invalid = append(invalid, &InvalidDataError{ID: id, Reason: fmt.Sprintf("trace step %d: %s", step.Index, reason(err))})
			continue
		}
		out = append(out, step)
	}
	return out, errors.Join(invalid...)
}

// reason is what is wrong with invalid data, without saying again that it is
// invalid.
func reason(err error) string {
	var invalid *InvalidDataError
	if errors.As(err, &invalid) {
		return invalid.Reason
	}
	return err.Error()
}

// scan runs one bounded query whose last parameter is the limit.
func (s *Store) scan(ctx context.Context, what string, level Consistency, limit int, sql string, args []engine.Value, names ...string) (*engine.Result, [8]int, error) {
	if limit < 1 {
		return nil, [8]int{}, &InvalidError{Field: "limit", Reason: "is less than 1"}
	}
	args = append(args, engine.Int(int64(limit)))
	results, err := s.query(ctx, level, []engine.Statement{{SQL: sql, Args: args}})
	if err != nil {
		return nil, [8]int{}, fmt.Errorf("%s: %w", what, err)
	}
	cols, err := columns(&results[0], names...)
	return &results[0], cols, err
}
