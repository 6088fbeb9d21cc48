package actor

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

func TestMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, newFake())
		req, c, err := s.PrepareCommit(t.Context(), &store.Commit{Execution: execution("a"), ProcessedEvent: "e"})
		if err != nil {
			t.Fatal(err)
		}
		if next := c.Next(); next.Version != 1 || c.Ref().ID != "a" {
			t.Errorf("next version %d, ref %+v", next.Version, c.Ref())
		}
		synctest.Wait()
		select {
		case s.Mailbox() <- req:
		default:
			t.Fatal("an idle store did not take the request")
		}
		await(t, c)

		lr, l, err := s.PrepareLoad(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		er, e, err := s.PrepareLoadForEvent(t.Context(), "a", "e")
		if err != nil {
			t.Fatal(err)
		}
		s.Mailbox() <- lr
		s.Mailbox() <- er
		if v := await(t, l); v.Version != 1 {
			t.Errorf("version %d", v.Version)
		}
		if v := await(t, e); !v.Processed || v.Execution == nil {
			t.Errorf("%+v", v)
		}

		if _, _, err := s.PrepareCommit(t.Context(), commitOf(execution(""))); err == nil {
			t.Error("PrepareCommit took an empty id")
		}
		if _, _, err := s.PrepareLoad(t.Context(), ""); err == nil {
			t.Error("PrepareLoad took an empty id")
		}
		if _, _, err := s.PrepareLoadForEvent(t.Context(), "a", ""); err == nil {
			t.Error("PrepareLoadForEvent took an empty id")
		}
		mustClose(t, s)
	})
}

// Sending twice, or nothing, does no harm.
func TestMailboxMisuse(t *testing.T) {
	f := newFake()
	s := newStore(t, f)
	req, c, err := s.PrepareCommit(t.Context(), commitOf(execution("a")))
	if err != nil {
		t.Fatal(err)
	}
	lr, l, err := s.PrepareLoad(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Request{req, req, nil, new(Request)} {
		s.Mailbox() <- r
	}
	await(t, c)
	for range 2 {
		s.Mailbox() <- lr
	}
	await(t, l)
	mustClose(t, s)
	if n := len(f.log()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A full store blocks the senders; requests that were not taken never resolve and
// leave nothing behind.
func TestMailboxOfAFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := held()
		s := newStore(t, f, WithMaxPending(2, 1<<20))
		prepare := func(ctx context.Context, id string) (*Request, *CommitFuture) {
			req, c, err := s.PrepareCommit(ctx, commitOf(execution(id)))
			if err != nil {
				t.Fatal(err)
			}
			return req, c
		}
		var taken []*CommitFuture
		for _, id := range ids("e", 2) {
			req, c := prepare(t.Context(), id)
			s.Mailbox() <- req
			taken = append(taken, c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		req, waits := prepare(ctx, "waits")
		s.Mailbox() <- req // held until there is room
		synctest.Wait()
		notTaken, never := prepare(t.Context(), "never")
		trySend := func() bool {
			select {
			case s.Mailbox() <- notTaken:
				return true
			default:
				return false
			}
		}
		if trySend() {
			t.Error("a full store took a request")
		}
		// Leaving makes way for the next one, which waits for room in turn.
		cancel()
		wantErr(t, waits, context.Canceled, engine.ErrNotApplied)
		synctest.Wait()
		if !pending(&never.Future) {
			t.Error("a request that was not taken resolved")
		}
		req, waits = prepare(t.Context(), "waits")
		s.Mailbox() <- req
		synctest.Wait()
		if trySend() {
			t.Error("a full store took a request")
		}
		closed := make(chan struct{})
		go func() { mustClose(t, s); close(closed) }()
		<-s.Done()
		wantErr(t, waits, store.ErrClosed, engine.ErrNotApplied) // it never got in
		g.open()
		<-closed
		for _, c := range taken {
			await(t, c)
		}
		if !pending(&never.Future) {
			t.Error("a request that was not taken resolved")
		}
		if v := f.versions(); len(v) != 2 {
			t.Errorf("written: %v", v)
		}
	})
}

// The context of a request counts from the moment it is prepared.
func TestMailboxRequestWithEndedContext(t *testing.T) {
	s := newStore(t, newFake())
	ctx, cancel := context.WithCancel(t.Context())
	req, c, err := s.PrepareCommit(ctx, commitOf(execution("a")))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	s.Mailbox() <- req
	wantErr(t, c, context.Canceled, engine.ErrNotApplied)
	mustClose(t, s)
}
