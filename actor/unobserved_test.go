package actor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// What nobody waits for, and whose context ends while it is queued, is not sent.
func TestUnobservedOperationsAreNotSentAfterTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f, WithInFlight(1, 1))
		create(t, s, "a", "b", "c")
		g := newGate()
		f.setScript(g.hold)
		commits, loads := f.count("commit"), f.count("load")
		held, heldLoad := s.Save(t.Context(), execution("d")), s.Load(t.Context(), "a")
		synctest.Wait()

		cause := errors.New("caller is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		commit, ack, load := s.Save(ctx, execution("e")), s.AckOutbox(ctx, 1), s.Load(ctx, "b")
		joined := s.Load(t.Context(), "c")
		joinedGone := s.Load(ctx, "c")
		cancel(cause)
		synctest.Wait()
		g.open()
		await(t, held)
		await(t, heldLoad)
		if e := await(t, joined); e.ID != "c" {
			t.Errorf("got %q", e.ID)
		}
		synctest.Wait()
		for _, f := range []interface{ Err() error }{commit, ack, load, joinedGone} {
			checkErr(t, f.Err(), context.Canceled, cause, engine.ErrNotApplied)
		}
		if n := f.count("commit") - commits; n != 1 {
			t.Errorf("%d requests of commits, want 1", n)
		}
		if n := f.count("load") - loads; n != 2 {
			t.Errorf("%d requests of loads, want 2", n)
		}
		mustClose(t, s)
	})
}

// Where room is short, those who have left make room at once, although nobody
// looks at their futures.
func TestUnobservedOperationsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 100
		f := newFake()
		s := newStore(t, f, WithMaxPending(room, 1<<20))
		g := newGate()
		f.setScript(g.hold)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i := range room {
			s.Save(ctx, execution(fmt.Sprintf("c%03d", i)))
			s.Load(ctx, fmt.Sprintf("c%03d", i))
		}
		synctest.Wait()
		pass(time.Second)
		synctest.Wait()
		for i := range room/2 - 1 {
			if _, err, done := s.Try().Save(t.Context(), execution(fmt.Sprintf("d%03d", i))).Poll(); done {
				t.Fatalf("commit %d: %v", i, err)
			}
			if _, err, done := s.Try().Load(t.Context(), fmt.Sprintf("d%03d", i)).Poll(); done {
				t.Fatalf("load %d: %v", i, err)
			}
		}
		g.open()
		mustClose(t, s)
	})
}
