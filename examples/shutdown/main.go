// Shutdown stops without losing track of anything: on a signal it takes no more
// work, gives what is under way some time, and says what is left.
//
//	go run ./examples/shutdown     and then Ctrl-C
//
// Every future resolves, also those of what could not be finished: with
// store.ErrClosed if it was never sent, with store.ErrOutcomeUnknown if it was.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/sqlite"
)

func main() {
	stop, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(stop, restore) // a second signal ends the program at once
	st := must(store.Open(stop, must(sqlite.Open(":memory:"))))
	defer st.Close()
	fmt.Println("working; Ctrl-C to stop")
	r, err := serve(stop, st, 10*time.Second)
	fmt.Printf("%d committed, %d failed, %d unknown, %d not sent\n", r.committed, r.failed, r.unknown, r.unsent)
	if err != nil {
		log.Print(err)
	}
}

// report is what became of the work that was taken.
type report struct{ committed, failed, unknown, unsent int }

// serve commits until stop ends, then drains for as long as grace.
func serve(stop context.Context, st *store.Store, grace time.Duration) (r report, err error) {
	// What may be pending is what a shutdown may have to drain.
	s, err := actor.New(st, actor.WithMaxPending(1000, 64<<20))
	if err != nil {
		return r, err
	}
	// stop ends the taking of work. It does not govern what was taken: that would
	// take it back; here Close decides about it.
	flight := context.WithoutCancel(stop)
	var futures []*actor.CommitFuture
	for stop.Err() == nil {
		request, future, err := s.PrepareCommit(flight, &store.Commit{Execution: store.NewExecution("work")})
		if err != nil {
			return r, err
		}
		select {
		case s.Mailbox() <- request: // waits while the store is full
			futures = append(futures, future)
		case <-stop.Done():
		}
	}

	drain, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if _, closeErr := s.Close(drain); closeErr != nil {
		err = fmt.Errorf("shutdown: %w", closeErr)
	}
	for _, f := range futures { // all of them are resolved now
		switch err := f.Err(); {
		case err == nil:
			r.committed++
		case errors.Is(err, store.ErrOutcomeUnknown):
			r.unknown++
		case errors.Is(err, store.ErrClosed):
			r.unsent++
		default:
			r.failed++
		}
	}
	return r, err
}

// must ends the program on an error.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
