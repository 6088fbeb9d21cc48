package workspace

import (
	"log/slog"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// Option sets up a [Store]. See [Open].
type Option func(*Store) error

// WithClock sets the clock that events, leases and nothing else are stamped with,
// overriding the default of [time.Now]. Its zone is kept in the events. It must be
// safe for concurrent use.
func WithClock(now func() time.Time) Option {
	return func(s *Store) error {
		if now == nil {
			return &store.InvalidError{Field: "WithClock", Reason: "is nil"}
		}
		s.clock = now
		return nil
	}
}

// WithPollInterval sets how often subscriptions look for events that other
// processes appended, overriding the default of 0.5 s. However many subscriptions
// wait, it is one query, for all of them. Those of this store are seen at once.
func WithPollInterval(d time.Duration) Option {
	return func(s *Store) error {
		if d <= 0 {
			return &store.InvalidError{Field: "WithPollInterval", Reason: "is not positive"}
		}
		s.poll = d
		return nil
	}
}

// WithNotifications lets every write wake the subscriptions of other processes, where
// the engine can do that (see [engine.Notifier]), so that they need not wait for the
// poll interval, which stays as it is. All processes have to set it. Other engines
// ignore it.
func WithNotifications() Option {
	return func(s *Store) error {
		s.notify, _ = s.eng.(engine.Notifier)
		return nil
	}
}

// WithTimeLimit bounds the time that a write which was sent may take to become
// definite, whatever its context says, overriding the default of 30 s. One that is
// not settled by then ends with [ErrOutcomeUnknown].
func WithTimeLimit(d time.Duration) Option {
	return func(s *Store) error {
		if d <= 0 {
			return &store.InvalidError{Field: "WithTimeLimit", Reason: "is not positive"}
		}
		s.limit = d
		return nil
	}
}

// WithAttempts sets how often [Store.Transact] runs its function, on an engine
// without interactive transactions, before it returns [ErrConflict], overriding
// the default of 32.
func WithAttempts(n int) Option {
	return func(s *Store) error {
		if n < 1 {
			return &store.InvalidError{Field: "WithAttempts", Reason: "is less than 1"}
		}
		s.attempts = n
		return nil
	}
}

// WithLogger sets where the store tells what an operator must know, overriding the
// default of [slog.Default]. Nothing is logged per operation.
func WithLogger(l *slog.Logger) Option {
	return func(s *Store) error {
		if l == nil {
			return &store.InvalidError{Field: "WithLogger", Reason: "is nil"}
		}
		s.log = l
		return nil
	}
}
