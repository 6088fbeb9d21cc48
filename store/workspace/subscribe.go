package workspace

import (
	"context"
	"fmt"
	"iter"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// pageSize is how many events a subscription reads at once.
const pageSize = 500

// Subscribe returns the events of a log behind position after, in order, without a
// gap or a repetition, those that are there and then those that come. A consumer
// resumes with the position of the last event that it has handled; a position
// beyond the end waits for what comes behind it.
//
// It ends only with ctx, whose error it yields, or when the consumer stops; or by
// yielding an error of the database that will not pass by itself, such as
// [ErrClosed]. An unavailable database is waited for. Between pages of 500 events
// it holds neither a connection nor memory but its place; however slow a consumer
// is, it holds up nobody. Appends through this Store are seen at once, those of
// other processes within the poll interval (see [WithPollInterval]). The iterator
// may be used several times, each time from after on.
func (s *Store) Subscribe(ctx context.Context, ref Ref, after int64) iter.Seq2[Envelope, error] {
	return func(yield func(Envelope, error) bool) {
		err := ref.check()
		if err == nil && after < 0 {
			err = &store.InvalidError{Field: "after", Reason: "is negative"}
		}
		if err == nil {
			err = s.follow(ctx, ref, after, yield)
		}
		if err != nil {
			yield(Envelope{}, fmt.Errorf("subscribe to workspace %v: %w", ref, err))
		}
	}
}

// follow yields events until the consumer stops, with nil, or something ends it.
func (s *Store) follow(ctx context.Context, ref Ref, cursor int64, yield func(Envelope, error) bool) error {
	l := s.watch.join(ref)
	defer s.watch.leave(ref, l)
	for {
		if err := s.ended(ctx); err != nil {
			return err
		}
		page, err := s.page(ctx, ref, cursor)
		if err != nil {
			if !mayPass(err) {
				return err
			}
		}
		for _, e := range page {
			if e.Seq != cursor+1 {
				return protocol("query", engine.NotApplied, fmt.Sprintf("event %d follows event %d", e.Seq, cursor))
			}
			if !yield(e, nil) {
				return nil
			}
			cursor = e.Seq
			if err := s.ended(ctx); err != nil {
				return err
			}
		}
		if len(page) > 0 {
			continue
		}
		if s.known(l) > cursor {
			// A node that lags, or a failure: the head is ahead of what can be read.
			retry.Sleep(ctx, s.moment())
			continue
		}
		if err := s.wait(ctx, l, cursor); err != nil {
			return err
		}
	}
}

func (s *Store) page(ctx context.Context, ref Ref, cursor int64) ([]Envelope, error) {
	return s.events(ctx, engine.Weak, ref, selectOf(eventColumns+" AND seq>?3 ORDER BY seq LIMIT ?4", args(ref, engine.Int(cursor), engine.Int(pageSize))))
}

func (s *Store) known(l *watched) int64 {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return l.head
}
