// Relay delivers events at least once: commits put them in the outbox together
// with the state that caused them, and a relay hands them on and acknowledges.
//
//	go run ./examples/relay
//
// A delivery may fail, and the relay may be stopped between a delivery and its
// acknowledgement; then the event comes again. Its id stays the same, by which
// the receiver recognises it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/sqlite"
)

func main() {
	ctx := context.Background()
	st := must(store.Open(ctx, must(sqlite.Open(":memory:"))))
	defer st.Close()
	s := must(actor.New(st))
	defer s.Close(ctx)

	const orders = 300
	mail := &flaky{received: map[string]bool{}}
	relay := &relay{store: s, deliver: mail.send, wake: make(chan struct{}, 1), idle: time.Second}
	relaying, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- relay.run(relaying) }()

	var paid []*actor.CommitFuture
	for range orders {
		order := store.NewExecution("order")
		paid = append(paid, s.Commit(ctx, &store.Commit{
			Execution: order,
			Emits:     []store.Emit{{Target: "mail", Event: must(store.NewEvent("order.paid", nil))}},
		}))
	}
	must(actor.AwaitAll(ctx, paid...))
	relay.poke() // do not wait for the next look

	for len(must(s.PendingOutbox(ctx, 1).Await(ctx))) > 0 {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	fmt.Printf("%d orders, %d mails sent, some of them after a failure: %t\n", orders, len(mail.received), mail.failures > 0)
}

// relay empties the outbox.
type relay struct {
	store   *actor.Store
	deliver func(context.Context, store.OutboxEntry) error
	wake    chan struct{} // of size 1
	idle    time.Duration // how long to wait before looking again
}

// poke makes the relay look at once. Commits of other processes are found by the
// next look.
func (r *relay) poke() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// run delivers until ctx ends. One relay for a store is enough, and keeps the
// order of the entries; a second one would deliver them twice.
func (r *relay) run(ctx context.Context) error {
	const page = 128
	for {
		delivered, err := r.pass(ctx, page)
		if err != nil {
			log.Printf("relay: %v", err) // and go on: what was not acknowledged is still there
		}
		if err == nil && delivered == page {
			continue // there may be more
		}
		select {
		case <-r.wake:
		case <-time.After(r.idle):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pass delivers a page, and acknowledges what was delivered in one request. It
// returns how many that were.
func (r *relay) pass(ctx context.Context, page int) (int, error) {
	entries, err := r.store.PendingOutbox(ctx, page).Await(ctx)
	if err != nil {
		return 0, err
	}
	var delivered []int64
	for _, entry := range entries {
		if err := r.deliver(ctx, entry); err != nil {
			log.Printf("relay: event %s: %v", entry.Event.ID, err)
			r.poke() // a real one would wait, longer each time
			continue
		}
		delivered = append(delivered, entry.Seq)
	}
	_, err = r.store.AckOutbox(ctx, delivered...).Await(ctx)
	return len(delivered), err
}

// flaky is a receiver whose every hundredth delivery fails.
type flaky struct {
	received        map[string]bool
	tries, failures int
}

func (f *flaky) send(_ context.Context, entry store.OutboxEntry) error {
	if f.tries++; f.tries%100 == 0 {
		f.failures++
		return errors.New("the mail server is busy")
	}
	f.received[entry.Event.ID] = true // once, however often it comes
	return nil
}

// must ends the program on an error.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
