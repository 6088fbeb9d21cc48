package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/sqlite"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

func Example() {
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	main()
	// Output:
	// 300 orders, 300 mails sent, some of them after a failure: true
}

// TestStoppedBeforeItAcknowledged: what a relay delivered without telling is
// delivered again, under the same id.
func TestStoppedBeforeItAcknowledged(t *testing.T) {
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), eng)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s, err := actor.New(st)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	event := must(store.NewEvent("order.paid", nil))
	commit := &store.Commit{Execution: store.NewExecution("order"), Emits: []store.Emit{{Target: "mail", Event: event}}}
	if _, err := s.Commit(t.Context(), commit).Await(t.Context()); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, interrupted := range []bool{true, false} {
		ctx, stop := context.WithCancel(t.Context())
		r := &relay{store: s, wake: make(chan struct{}, 1), deliver: func(_ context.Context, entry store.OutboxEntry) error {
			got = append(got, entry.Event.ID)
			if interrupted {
				stop()
			}
			return nil
		}}
		_, err := r.pass(ctx, 10)
		stop()
		if interrupted && !errors.Is(err, context.Canceled) || !interrupted && err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 2 || got[0] != event.ID || got[1] != event.ID {
		t.Errorf("delivered %v, want %s twice", got, event.ID)
	}
	left, err := s.PendingOutbox(t.Context(), 1).Await(t.Context())
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
