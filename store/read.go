package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// Read is a validated read of one execution, ready to be sent. Make one with the
// Prepare methods of [Store] and send it with [Store.Fetch], once.
type Read struct {
	kind      readKind
	id, event string

	exec      *Execution
	processed bool
}

type readKind uint8

const (
	readLoad readKind = iota
	readLoadForEvent
	readIsProcessed
)

// Loaded is the result of [Store.LoadForEvent].
type Loaded struct {
	// Execution is the execution, or nil if there is none.
	Execution *Execution
	// Processed tells whether the event is in the execution's dedupe ledger. It
	// is false if there is no execution.
	Processed bool
}

// ID returns the execution that is read.
func (r *Read) ID() string { return r.id }

// Event returns the event that is asked about, if any.
func (r *Read) Event() string { return r.event }

// Loaded returns what was read. Each call returns a copy of its own.
func (r *Read) Loaded() Loaded {
	if r.exec == nil {
		return Loaded{Processed: r.processed}
	}
	return Loaded{Execution: r.exec.Clone(), Processed: r.processed}
}

// PrepareLoad validates a load. It does not block. The errors are
// [*InvalidError].
func (s *Store) PrepareLoad(id string) (*Read, error) {
	if err := s.limits.name("id", id); err != nil {
		return nil, err
	}
	return &Read{kind: readLoad, id: id}, nil
}

// PrepareLoadForEvent validates a load for an event, as [Store.PrepareLoad].
func (s *Store) PrepareLoadForEvent(id, event string) (*Read, error) {
	return s.prepareForEvent(readLoadForEvent, id, event)
}

// PrepareIsProcessed validates a look into the ledger, as [Store.PrepareLoad].
func (s *Store) PrepareIsProcessed(id, event string) (*Read, error) {
	return s.prepareForEvent(readIsProcessed, id, event)
}

func (s *Store) prepareForEvent(kind readKind, id, event string) (*Read, error) {
	if err := s.limits.name("id", id); err != nil {
		return nil, err
	}
	if err := s.limits.name("event", event); err != nil {
		return nil, err
	}
	return &Read{kind: kind, id: id, event: event}, nil
}

// Load returns an execution. It blocks for one linearizable read. Errors:
// [*NotFoundError], [*InvalidDataError] if what is stored is not an execution,
// [*InvalidError], [ErrUnavailable], [ErrClosed], the context's.
func (s *Store) Load(ctx context.Context, id string) (*Execution, error) {
	r, err := s.PrepareLoad(id)
	if err != nil {
		return nil, err
	}
	if err := s.fetch(ctx, r); err != nil {
		return nil, err
	}
	return r.exec, nil
}

// LoadForEvent returns an execution, nil if there is none, and whether an event
// was processed already, both from the same state. Errors as for [Store.Load],
// without [ErrNotFound].
func (s *Store) LoadForEvent(ctx context.Context, id, event string) (Loaded, error) {
	r, err := s.PrepareLoadForEvent(id, event)
	if err != nil {
		return Loaded{}, err
	}
	if err := s.fetch(ctx, r); err != nil {
		return Loaded{}, err
	}
	return Loaded{Execution: r.exec, Processed: r.processed}, nil
}

// IsProcessed reports whether an event is in the dedupe ledger of an execution.
// Errors: [*InvalidError], [ErrUnavailable], [ErrClosed], the context's.
func (s *Store) IsProcessed(ctx context.Context, id, event string) (bool, error) {
	r, err := s.PrepareIsProcessed(id, event)
	if err != nil {
		return false, err
	}
	if err := s.fetch(ctx, r); err != nil {
		return false, err
	}
	return r.processed, nil
}

// LoadMany returns executions in the order of ids, nil for those that are not
// there, all from one state. Rows that hold invalid data are nil too, and the
// error joins an [*InvalidDataError] for each; other errors are those of
// [Store.Load], without [ErrNotFound], and then nothing is returned.
func (s *Store) LoadMany(ctx context.Context, ids ...string) ([]*Execution, error) {
	reads := make([]*Read, len(ids))
	for i, id := range ids {
		r, err := s.PrepareLoad(id)
		if err != nil {
			return nil, fmt.Errorf("id %d: %w", i, err)
		}
		reads[i] = r
	}
	out := make([]*Execution, len(ids))
	var invalid []error
	var failed error
	s.Fetch(ctx, reads, func(i int, err error) {
		switch {
		case err == nil:
			out[i] = reads[i].exec
		case errors.Is(err, ErrNotFound):
		case errors.Is(err, ErrInvalidData):
			invalid = append(invalid, err)
		default:
			failed = err
		}
	})
	if failed != nil {
		return nil, failed
	}
	return out, errors.Join(invalid...)
}

func (s *Store) fetch(ctx context.Context, r *Read) (err error) {
	s.Fetch(ctx, []*Read{r}, func(_ int, e error) { err = e })
	return err
}

// Fetch sends reads in one request, so that all see one state, and reports each
// through report, by its position, exactly once and on the calling goroutine. A
// row that holds invalid data fails only the reads of that row.
func (s *Store) Fetch(ctx context.Context, reads []*Read, report func(i int, err error)) {
	if len(reads) == 0 {
		return
	}
	loads, forEvent, ledger := rows{t: sqlLoad}, rows{t: sqlLoadForEvent}, rows{t: sqlIsProcessed}
	byID := make([]int, 0, len(reads)) // positions of the loads
	for i, r := range reads {
		switch r.kind {
		case readLoad:
			byID = append(byID, i)
		case readLoadForEvent:
			forEvent.args = append(forEvent.args, engine.Int(int64(i)), engine.Text(r.id), engine.Text(r.event))
		case readIsProcessed:
			ledger.args = append(ledger.args, engine.Int(int64(i)), engine.Text(r.id), engine.Text(r.event))
		}
	}
	slices.SortFunc(byID, func(i, j int) int { return strings.Compare(reads[i].id, reads[j].id) })
	for n, i := range byID {
		if n == 0 || reads[i].id != reads[byID[n-1]].id {
			loads.args = append(loads.args, engine.Text(reads[i].id))
		}
	}
	var stmts []engine.Statement
	for _, r := range []*rows{&loads, &forEvent, &ledger} {
		if len(r.args) > 0 {
			stmts = r.emit(stmts, &s.traits)
		}
	}
	results, err := s.query(ctx, engine.Linearizable, stmts)
	if err != nil {
		for i := range reads {
			report(i, fmt.Errorf("load: %w", err))
		}
		return
	}
	errs := make(map[int]error)
	stray := false
	for _, r := range []*rows{&loads, &forEvent, &ledger} {
		for k := range r.count {
			if err := take(reads, byID, r.t, &results[r.first+k], errs, &stray); err != nil {
				for i := range reads {
					report(i, fmt.Errorf("load: %w", err))
				}
				return
			}
		}
	}
	for i, r := range reads {
		switch {
		case errs[i] != nil:
			report(i, errs[i])
		case r.kind == readLoad && r.exec == nil && stray:
			// In a table that others made, ids may compare in ways of their own.
			report(i, &InvalidDataError{ID: r.id, Reason: "the id in the row is another text, or none"})
		case r.kind == readLoad && r.exec == nil:
			report(i, &NotFoundError{ID: r.id})
		default:
			report(i, nil)
		}
	}
}

// take puts the rows of one result into the reads they are for. byID holds the
// positions of the loads, in the order of their ids; stray is set if there is a row
// with an id that none of them asked for. It returns an error if the result as a
// whole cannot be understood.
func take(reads []*Read, byID []int, t *template, res *engine.Result, errs map[int]error, stray *bool) error {
	names := []string{"n", "version", "token", "data", "definition", "status", "processed"}
	switch t {
	case sqlLoad:
		names = names[:6]
		names[0] = "id"
	case sqlIsProcessed:
		names = names[:1]
	}
	cols, err := columns(res, names...)
	if err != nil {
		return err
	}
	next := 0
	for i := range res.Len() {
		row := res.Row(i)
		if t == sqlLoad {
			id, _ := row[cols[0]].Bytes()
			// The rows come in the order of the ids in practice, but nothing promises
			// it.
			if next == len(byID) || reads[byID[next]].id != id {
				var found bool
				next, found = slices.BinarySearchFunc(byID, id, func(i int, id string) int { return strings.Compare(reads[i].id, id) })
				if !found {
					*stray = true
					continue
				}
			}
			for ; next < len(byID) && reads[byID[next]].id == id; next++ {
				if err := reads[byID[next]].take(row, &cols); err != nil {
					errs[byID[next]] = err
				}
			}
			continue
		}
		n, ok := row[cols[0]].Int()
		if !ok || n < 0 || n >= int64(len(reads)) {
			return &engine.Error{Op: "query", Outcome: engine.NotApplied, Reason: engine.ErrProtocol, Err: fmt.Errorf("column %q does not name a row that was asked for", names[0])}
		}
		r := reads[n]
		if t == sqlIsProcessed {
			r.processed = true
			continue
		}
		if err := r.take(row, &cols); err != nil {
			errs[int(n)] = err
			continue
		}
		p, _ := row[cols[6]].Int()
		r.processed = p != 0
	}
	return nil
}

// take puts one row of executions into the read.
func (r *Read) take(row []engine.Value, cols *[8]int) error {
	version, ok := row[cols[1]].Int()
	if !ok {
		return &InvalidDataError{ID: r.id, Reason: invalidVersion}
	}
	data, ok := row[cols[3]].Bytes()
	if !ok {
		return &InvalidDataError{ID: r.id, Reason: "data is not text"}
	}
	e, err := decode(r.id, data, version)
	if err != nil {
		return err
	}
	if e.token, e.tokenKnown = row[cols[2]].Bytes(); e.tokenKnown {
		// The row's own definition, which others may have written differently
		// from the JSON's.
		e.baseDefinition, _ = row[cols[4]].Bytes()
		status, _ := row[cols[5]].Bytes()
		e.baseStatus = Status(status)
	}
	r.exec = e
	return nil
}

// decode decodes one row. Should the decoder panic on some input, that fails
// this row and none beside it.
func decode(id, data string, version int64) (e *Execution, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, &InvalidDataError{ID: id, Reason: fmt.Sprintf("decoding panicked: %v", p)}
		}
	}()
	return decodeExecution(id, data, version)
}
