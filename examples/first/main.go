// First makes a first commit and loads it again.
//
//	go run ./examples/first
//
// A commit is one atomic step of an execution: its new state, the events it
// sends, the event it has handled, its timers. Here all of it is stored in a
// database in memory; give sqlite.Open a file name to keep it, or use
// client.Open for an rqlite cluster. Nothing else changes.
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
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, eng) // creates the tables
	if err != nil {
		return errors.Join(err, eng.Close())
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	s, err := actor.New(st)
	if err != nil {
		return err
	}

	invoice := store.NewExecution("invoice")
	invoice.ID, invoice.Status = "invoice-7", store.StatusRunning
	if err := invoice.Context.Set("amount", 120); err != nil {
		return err
	}
	sent, err := store.NewEvent("invoice_sent", map[string]string{"invoice": invoice.ID})
	if err != nil {
		return err
	}
	future := s.Commit(ctx, &store.Commit{
		Execution:      invoice,
		Emits:          []store.Emit{{Target: "bookkeeping", Event: sent}},
		ProcessedEvent: "order-7-confirmed",
		Timers:         []store.TimerOp{store.Schedule("reminder", time.Now().Add(14*24*time.Hour))},
	})
	// The future was there at once, and this goroutine is free. Await waits.
	done, err := future.Await(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("committed %s at version %d\n", done.ID, done.Version)

	loaded, err := s.LoadForEvent(ctx, invoice.ID, "order-7-confirmed").Await(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("loaded %s: %s, %s\n", loaded.Execution.ID, loaded.Execution.Status, loaded.Execution.Context.Raw())
	fmt.Printf("has seen order-7-confirmed: %v\n", loaded.Processed)
	_, err = s.Close(ctx)
	return err
}
