package workspace

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/migration"
)

// Store keeps workspaces on an engine. It is safe for concurrent use. Make one
// with [Open].
type Store struct {
	eng      engine.Engine
	tr       engine.Transactor // nil if eng has no interactive transactions
	notify   engine.Notifier   // nil unless asked for
	clock    func() time.Time
	poll     time.Duration
	limit    time.Duration
	attempts int
	log      *slog.Logger

	turns    turns
	watch    watch
	counters counters

	closing   context.Context // ends when Close begins
	stop      context.CancelFunc
	closeOnce sync.Once
}

type counters struct {
	reruns, conflicts, unknown, recovered, polls atomic.Uint64
}

// Counters is a snapshot of what happened in a store.
type Counters struct {
	// Reruns counts transactions whose function ran again because others were
	// faster, Conflicts those that gave up.
	Reruns, Conflicts uint64
	// Unknown counts requests that ended without a definite answer, Recovered the
	// writes found to have been applied by one of them.
	Unknown, Recovered uint64
	// Polls counts queries for events of other processes.
	Polls uint64
}

// Open returns a store on an engine and creates what is missing of its tables.
// Many processes may open the same database at once. It blocks until the tables
// are there or ctx ends; the errors are [ErrInvalid] for options,
// [ErrUnavailable], the context's. The engine stays the caller's, to be closed
// after the store.
func Open(ctx context.Context, eng engine.Engine, opts ...Option) (*Store, error) {
	if eng == nil {
		return nil, &store.InvalidError{Field: "engine", Reason: "is nil"}
	}
	s := &Store{eng: eng, clock: time.Now, poll: 500 * time.Millisecond, limit: 30 * time.Second, attempts: 32, log: slog.Default()}
	s.watch.kick = make(chan struct{}, 1)
	s.tr, _ = eng.(engine.Transactor)
	for _, opt := range opts {
		if err := opt(s); err != nil {
			return nil, err
		}
	}
	if err := migration.Run(ctx, eng, "workspace", schema); err != nil {
		return nil, fmt.Errorf("open workspaces on %s: %w", eng.Traits().Name, err)
	}
	s.closing, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close ends all subscriptions, with [ErrClosed], and waits for the store's own
// goroutine. Other calls are left alone. The engine stays open. Closing twice is
// no error.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.watch.mu.Lock()
		s.stop() // no poller begins after this
		s.watch.mu.Unlock()
		s.watch.poller.Wait()
	})
	return nil
}

// Traits describes the engine below.
func (s *Store) Traits() engine.Traits { return s.eng.Traits() }

// TimeLimit is the time a write may take: see [WithTimeLimit].
func (s *Store) TimeLimit() time.Duration { return s.limit }

// Counters returns a snapshot of what happened so far.
func (s *Store) Counters() Counters {
	return Counters{
		Reruns:    s.counters.reruns.Load(),
		Conflicts: s.counters.conflicts.Load(),
		Unknown:   s.counters.unknown.Load(),
		Recovered: s.counters.recovered.Load(),
		Polls:     s.counters.polls.Load(),
	}
}

// now reads the clock, in microseconds, without the monotonic reading.
func (s *Store) now() time.Time { return exact(s.clock()) }

// query runs statements on one snapshot and checks that there is a result for
// each.
func (s *Store) query(ctx context.Context, level engine.Consistency, stmts ...engine.Statement) ([]engine.Result, error) {
	results, err := s.eng.Query(ctx, level, stmts)
	if err == nil && len(results) != len(stmts) {
		err = protocol("query", engine.NotApplied, "number of results differs from number of statements")
	}
	return results, err
}

// within marks a context as that of a function inside of a transaction.
type within struct{ s *Store }

// Outside returns [ErrNested] if ctx is that of a function inside of a transaction
// of this store, whose end a write with that context would wait for. It does not
// block.
func (s *Store) Outside(ctx context.Context) error {
	if ctx.Value(within{s}) != nil {
		return ErrNested
	}
	return nil
}
