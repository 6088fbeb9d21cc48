package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// Store is the synchronous store: each call sends one request and waits for it.
// It is safe for concurrent use. The asynchronous store of package actor is
// built on it and batches the calls of many.
//
// Every method honours its context. One that writes and is interrupted after
// the request left returns an error that matches [ErrOutcomeUnknown]; every
// other error of a write means that nothing was applied. Reads are linearizable:
// a read sees every commit that was acknowledged, to anybody, before it began.
type Store struct {
	eng      engine.Engine
	traits   engine.Traits
	limits   Limits
	limit    time.Duration
	traceMax int
	retries  int
	log      *slog.Logger
	rivals   rivals
	counters counters
}

type counters struct {
	unknown, resent, recovered, splits, conflicts atomic.Uint64
}

// Counters is a snapshot of what happened to the writes of a store.
type Counters struct {
	// Unknown counts requests that ended without a definite answer, Resent those
	// that were then sent again.
	Unknown, Resent uint64
	// Recovered counts commits whose answer was lost and that were found to have
	// been applied.
	Recovered uint64
	// Splits counts batches that were halved to find a write that the database
	// refused.
	Splits uint64
	// Conflicts counts commits that lost their compare-and-swap.
	Conflicts uint64
}

// Option sets up a [Store]. See [Open].
type Option func(*Store) error

// WithLimits bounds what one call may carry, overriding the defaults of
// [Limits].
func WithLimits(l Limits) Option {
	return func(s *Store) (err error) {
		s.limits, err = l.withDefaults()
		return err
	}
}

// WithTimeLimit bounds the time that a write may take, whatever its context
// says, overriding the default of 30 s. A write that was sent and is not settled
// by then ends with [ErrOutcomeUnknown].
func WithTimeLimit(d time.Duration) Option {
	return func(s *Store) error {
		if d <= 0 {
			return &InvalidError{Field: "WithTimeLimit", Reason: "is not positive"}
		}
		s.limit = d
		return nil
	}
}

// WithTraceMax sets how many of an execution's trace steps are kept, the newest
// ones, overriding the default of 200; 0 keeps all.
func WithTraceMax(n int) Option {
	return func(s *Store) error {
		if n < 0 {
			return &InvalidError{Field: "WithTraceMax", Reason: "is negative"}
		}
		s.traceMax = n
		return nil
	}
}

// WithUpdateAttempts sets how often [Store.Update] tries before it returns the
// conflict, overriding the default of 16.
func WithUpdateAttempts(n int) Option {
	return func(s *Store) error {
		if n < 1 {
			return &InvalidError{Field: "WithUpdateAttempts", Reason: "is less than 1"}
		}
		s.retries = n
		return nil
	}
}

// WithLogger sets where the store tells what an operator must know, overriding
// the default of [slog.Default]. Nothing is logged per operation.
func WithLogger(l *slog.Logger) Option {
	return func(s *Store) error {
		if l == nil {
			return &InvalidError{Field: "WithLogger", Reason: "is nil"}
		}
		s.log = l
		return nil
	}
}

// Open returns a store on an engine and creates what is missing of its schema.
// Tables that others made are adopted and never rebuilt. Many workers may open
// the same database at once. It blocks until the schema is there or ctx ends;
// the errors are [ErrInvalid] for options, [ErrSchema], [ErrUnavailable], the
// context's. The store takes the engine over: its Close closes it. If Open fails
// the engine stays open.
func Open(ctx context.Context, eng engine.Engine, opts ...Option) (*Store, error) {
	if eng == nil {
		return nil, &InvalidError{Field: "engine", Reason: "is nil"}
	}
	s := &Store{eng: eng, traits: eng.Traits(), limit: 30 * time.Second, traceMax: 200, retries: 16, log: slog.Default()}
	s.limits, _ = Limits{}.withDefaults()
	for _, opt := range opts {
		if err := opt(s); err != nil {
			return nil, err
		}
	}
	if err := s.ensureSchema(ctx); err != nil {
		return nil, fmt.Errorf("open store on %s: %w", s.traits.Name, err)
	}
	return s, nil
}

// Traits describes the engine below.
func (s *Store) Traits() engine.Traits { return s.traits }

// TimeLimit is the time a write may take: see [WithTimeLimit].
func (s *Store) TimeLimit() time.Duration { return s.limit }

// Counters returns a snapshot of what happened to writes so far.
func (s *Store) Counters() Counters {
	return Counters{
		Unknown:   s.counters.unknown.Load(),
		Resent:    s.counters.resent.Load(),
		Recovered: s.counters.recovered.Load(),
		Splits:    s.counters.splits.Load(),
		Conflicts: s.counters.conflicts.Load(),
	}
}

// Close closes the engine. Calls under way end with an error. Closing twice is
// no error.
func (s *Store) Close() error { return s.eng.Close() }

// Ping reports whether commits would work now: nil, or an error that says why
// not: [ErrUnavailable] (unreachable, or no leader), [ErrSchema] (the tables are
// missing), [ErrClosed]. It blocks for up to two requests.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.eng.Ping(ctx); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	missing, version, err := s.missingObjects(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("ping: %w", err)
	case len(missing) > 0:
		return fmt.Errorf("ping: %w: %s is missing", ErrSchema, missing[0].name)
	case version > schemaVersion:
		return fmt.Errorf("ping: %w: version %d is newer than this release", ErrSchema, version)
	}
	return nil
}

// Commit stores one step of an execution, all of it or nothing. It blocks for
// one request in the normal case. Errors: [*ConflictError] if the execution has
// moved on, [*InvalidError], [*UnknownError], [ErrUnavailable], [ErrClosed], an
// engine's [engine.StatementError].
func (s *Store) Commit(ctx context.Context, c *Commit) (Committed, error) {
	w, err := s.PrepareCommit(c)
	if err != nil {
		return Committed{}, err
	}
	if err := s.apply(ctx, w); err != nil {
		return Committed{}, err
	}
	return w.Committed(), nil
}

// Save commits an execution with nothing beside its state.
func (s *Store) Save(ctx context.Context, e *Execution) (Committed, error) {
	return s.Commit(ctx, &Commit{Execution: e})
}

// apply sends one write and waits for its verdict.
func (s *Store) apply(ctx context.Context, w *Write) (err error) {
	s.Apply(ctx, []*Write{w}, func(_ int, e error) { err = e })
	return err
}

// AckOutbox removes outbox entries that were delivered. Numbers that are not
// there are no error. Errors: [ErrInvalid], [ErrOutcomeUnknown] (acknowledging
// again is safe), [ErrUnavailable], [ErrClosed].
func (s *Store) AckOutbox(ctx context.Context, seqs ...int64) error {
	w, err := s.PrepareAckOutbox(seqs...)
	if err != nil || len(seqs) == 0 {
		return err
	}
	return s.apply(ctx, w)
}

// AckSpawn removes spawns that were carried out, as [Store.AckOutbox] does for
// the outbox.
func (s *Store) AckSpawn(ctx context.Context, seqs ...int64) error {
	w, err := s.PrepareAckSpawn(seqs...)
	if err != nil || len(seqs) == 0 {
		return err
	}
	return s.apply(ctx, w)
}

// DeleteTimer removes a timer that has fired, if it still holds that exact
// FireAt: one that was scheduled anew meanwhile stays. It is no error if there is
// none. Errors as for [Store.AckOutbox].
func (s *Store) DeleteTimer(ctx context.Context, t Timer) error {
	w, err := s.PrepareDeleteTimer(t)
	if err != nil {
		return err
	}
	return s.apply(ctx, w)
}

// AppendTrace adds a step to an execution's trace, outside of any commit. The
// execution need not exist. Sent twice by a retry, the step is stored once.
// Errors: [ErrInvalid], [ErrOutcomeUnknown], [ErrUnavailable], [ErrClosed].
func (s *Store) AppendTrace(ctx context.Context, id string, step Object) error {
	w, err := s.PrepareAppendTrace(id, step)
	if err != nil {
		return err
	}
	return s.apply(ctx, w)
}

// query runs statements and checks that there is a result for each.
func (s *Store) query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	results, err := s.eng.Query(ctx, level, stmts)
	if err == nil && len(results) != len(stmts) {
		err = &engine.Error{Op: "query", Outcome: engine.NotApplied, Reason: engine.ErrProtocol, Err: errors.New("number of results differs from number of statements")}
	}
	return results, err
}

// columns finds result columns by name.
func columns(res *engine.Result, names ...string) ([8]int, error) {
	var at [8]int
	for i, name := range names {
		if at[i] = res.Column(name); at[i] < 0 {
			return at, &engine.Error{Op: "query", Outcome: engine.NotApplied, Reason: engine.ErrProtocol, Err: fmt.Errorf("column %q is missing", name)}
		}
	}
	return at, nil
}
