package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorate/quorate/batcher"
	"github.com/quorate/quorate/store"
)

// Store is the asynchronous store. Its methods return futures and are safe for
// concurrent use. Make one with [New].
type Store struct {
	*core
	try bool
}

// core is what a Store and its Try view share.
type core struct {
	st     *store.Store
	writes *batcher.Batcher[*writeOp]
	reads  *lane[readKey, *store.Read]
	scans  *lane[string, *scanValue]

	mailbox     chan *Request
	stopMailbox context.CancelFunc
	mailboxDone chan struct{}
	closing     chan struct{}
	closeOnce   sync.Once
}

// Option sets up a [Store]. See [New].
type Option func(*config) error

type config struct {
	maxBatch                    int
	maxPending, maxPendingBytes int
	writeInFlight, readInFlight int
}

func positive(name string, v int) error {
	if v < 1 {
		return &store.InvalidError{Field: name, Reason: "is less than 1"}
	}
	return nil
}

// WithMaxBatch bounds the operations that share a request, overriding the
// default of 1,024. The size of a batch of writes is also bounded in bytes, by what
// the engine handles well.
func WithMaxBatch(n int) Option {
	return func(c *config) error { c.maxBatch = n; return positive("WithMaxBatch", n) }
}

// WithMaxPending bounds the operations of each lane (writes, loads, scans) that
// are queued or in flight, and the bytes they hold, overriding the defaults of
// 65,536 and 256 MiB. When either is reached, calls block, or fail with
// [store.ErrOverloaded] on a store made by [Store.Try].
func WithMaxPending(operations, bytes int) Option {
	return func(c *config) error {
		c.maxPending, c.maxPendingBytes = operations, bytes
		return errors.Join(positive("WithMaxPending operations", operations), positive("WithMaxPending bytes", bytes))
	}
}

// WithInFlight bounds the requests that are under way at the same time,
// overriding what the engine finds best for itself. Fewer requests carry more
// operations each.
func WithInFlight(writes, reads int) Option {
	return func(c *config) error {
		c.writeInFlight, c.readInFlight = writes, reads
		return errors.Join(positive("WithInFlight writes", writes), positive("WithInFlight reads", reads))
	}
}

func orDefault(v, def int) int {
	if v == 0 {
		return max(def, 1)
	}
	return v
}

// New returns an asynchronous store on top of a synchronous one, which may be
// used beside it. Close it before st. The errors are [store.ErrInvalid].
func New(st *store.Store, opts ...Option) (*Store, error) {
	if st == nil {
		return nil, &store.InvalidError{Field: "store", Reason: "is nil"}
	}
	cfg := &config{maxBatch: 1024, maxPending: 65536, maxPendingBytes: 256 << 20}
	for _, opt := range opts {
		if err := opt(cfg); err != nil {
			return nil, err
		}
	}
	c := &core{
		st:          st,
		mailbox:     make(chan *Request),
		mailboxDone: make(chan struct{}),
		closing:     make(chan struct{}),
	}
	var err error
	if c.writes, err = newWriteLane(st, cfg); err != nil {
		return nil, err
	}
	if c.reads, err = newReadLane(st, cfg); err != nil {
		return nil, err
	}
	if c.scans, err = newScanLane(st, cfg); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, c.stopMailbox = context.WithCancel(context.Background())
	s := &Store{core: c}
	go s.serveMailbox(ctx)
	return s, nil
}

// Try returns a view of the store whose calls never block: where the store is
// full, their future fails with [store.ErrOverloaded] at once.
func (s *Store) Try() *Store { return &Store{core: s.core, try: true} }

// Sync returns the synchronous store below.
func (s *Store) Sync() *store.Store { return s.st }

// Done returns a channel that is closed when the store begins to close, for use
// in a select beside [Store.Mailbox].
func (s *Store) Done() <-chan struct{} { return s.closing }

// Leftover is what a Close found when its context ended before everything was
// done.
type Leftover struct {
	// Unsent is the number of operations that were never sent; their futures
	// failed with [store.ErrClosed]. Equal reads that share a request count once.
	Unsent int
	// InFlight is the number of operations that were cut short; of futures that
	// were pending then, those of writes failed with [store.ErrOutcomeUnknown],
	// those of reads with [store.ErrClosed].
	InFlight int
}

// Close takes no more operations and waits until all that were taken are done.
// If ctx ends first, those not sent fail with [store.ErrClosed] and those in
// flight are cut short: writes resolve as unknown. Every future is resolved when
// Close returns. It reports what was left over, with the context's error.
// Closing again waits in the same way. The synchronous store stays open.
func (s *Store) Close(ctx context.Context) (Leftover, error) {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.stopMailbox()
	})
	lanes := []func(context.Context) (batcher.Leftover, error){s.writes.Close, s.reads.b.Close, s.scans.b.Close}
	left := make([]batcher.Leftover, len(lanes))
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, closeLane := range lanes {
		wg.Go(func() { left[i], errs[i] = closeLane(ctx) })
	}
	wg.Wait()
	<-s.mailboxDone
	var sum Leftover
	for i := range left {
		sum.Unsent += left[i].Unsent
		sum.InFlight += left[i].InFlight
	}
	if errors.Join(errs...) != nil {
		return sum, fmt.Errorf("close: %d operations unsent, %d in flight: %w", sum.Unsent, sum.InFlight, ended(ctx))
	}
	return sum, nil
}

// LaneStats is a snapshot of one lane.
type LaneStats = batcher.Stats

// Stats is a snapshot of a store.
type Stats struct {
	// Writes are commits and the writes that travel with them, Reads the loads,
	// Scans the lists and other reads over many rows.
	Writes, Reads, Scans LaneStats
	// Outcomes counts what happened to writes.
	Outcomes store.Counters
}

// Stats returns a snapshot of the queues and counters.
func (s *Store) Stats() Stats {
	return Stats{
		Writes:   s.writes.Stats(),
		Reads:    s.reads.b.Stats(),
		Scans:    s.scans.b.Stats(),
		Outcomes: s.st.Counters(),
	}
}
