package actor

import (
	"context"
	"sync/atomic"

	"github.com/quorate/quorate/store"
)

// Request is an operation that was validated and encoded and can be sent to the
// store's mailbox. Its future resolves only if it is sent. Sending it a second
// time does nothing.
type Request struct {
	submit func()
	sent   atomic.Bool
}

// Mailbox returns the channel that takes requests, for callers that want to
// select between sending and something else:
//
//	req, future, err := s.PrepareCommit(ctx, commit)
//	...
//	select {
//	case s.Mailbox() <- req: // taken: the future will resolve
//	case <-s.Done(): // the store is closing
//	case <-other:
//	}
//
// The channel has no buffer, so that a send succeeds only if the store took the
// request. Requests are queued one after the other: one that finds the store full
// is held until there is room, its context ends, or the store closes, and until
// then no other is taken. The channel is never closed; a store that closes says so
// by its Done channel.
func (s *Store) Mailbox() chan<- *Request { return s.mailbox }

// serveMailbox takes requests one by one and queues each before it takes the
// next.
func (s *Store) serveMailbox(ctx context.Context) {
	defer close(s.mailboxDone)
	take := func(r *Request) {
		if r != nil && r.submit != nil && r.sent.CompareAndSwap(false, true) {
			r.submit()
		}
	}
	for {
		// Under load somebody is waiting already; that costs less than a select.
		for burst := 0; burst < 64; burst++ {
			select {
			case r := <-s.mailbox:
				take(r)
				continue
			default:
			}
			break
		}
		select {
		case r := <-s.mailbox:
			take(r)
		case <-ctx.Done():
			return
		}
	}
}

// PrepareCommit validates and encodes a commit for the mailbox. It does not
// block. The context governs the commit as that of [Store.Commit] does. The
// errors are [*store.InvalidError].
func (s *Store) PrepareCommit(ctx context.Context, c *store.Commit) (*Request, *CommitFuture, error) {
	w, err := s.st.PrepareCommit(c)
	if err != nil {
		return nil, nil, err
	}
	op := newWriteOp(w)
	op.commit.under(ctx)
	return &Request{submit: func() { s.submit(ctx, op, false) }}, &op.commit, nil
}

// PrepareLoad validates a load for the mailbox, as [Store.PrepareCommit] does a
// commit.
func (s *Store) PrepareLoad(ctx context.Context, id string) (*Request, *Future[*store.Execution], error) {
	r, err := s.st.PrepareLoad(id)
	if err != nil {
		return nil, nil, err
	}
	w := &read[*store.Execution]{of: loadedExecution}
	w.under(ctx)
	return &Request{submit: func() { submitInto(ctx, s, readKey{kind: kindLoad, id: id}, w, r, false) }}, &w.Future, nil
}

// PrepareLoadForEvent validates a load for an event for the mailbox, as
// [Store.PrepareCommit] does a commit.
func (s *Store) PrepareLoadForEvent(ctx context.Context, id, event string) (*Request, *Future[store.Loaded], error) {
	r, err := s.st.PrepareLoadForEvent(id, event)
	if err != nil {
		return nil, nil, err
	}
	w := &read[store.Loaded]{of: loaded}
	w.under(ctx)
	return &Request{submit: func() { submitInto(ctx, s, readKey{kind: kindLoadForEvent, id: id, event: event}, w, r, false) }}, &w.Future, nil
}
