// Testing shows how to test your own code against a cluster that fails: approve
// is the code, main runs it on SQLite, and main_test.go runs it on a test cluster
// of rqlite that loses an answer just when it matters.
//
//	go run ./examples/testing
//	go test ./examples/testing
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/sqlite"
)

// approve handles an approval of an application: its status changes and one
// letter goes out, however often the event is delivered.
func approve(ctx context.Context, s *actor.Store, application, event string) error {
	loaded, err := s.LoadForEvent(ctx, application, event).Await(ctx)
	switch {
	case err != nil:
		return err
	case loaded.Execution == nil:
		return &store.NotFoundError{ID: application}
	case loaded.Processed:
		return nil
	}
	letter, err := store.NewEvent("letter", map[string]string{"application": application})
	if err != nil {
		return err
	}
	loaded.Execution.Status, loaded.Execution.Outcome = store.StatusDone, "approved"
	_, err = s.Commit(ctx, &store.Commit{
		Execution: loaded.Execution, ProcessedEvent: event,
		Emits: []store.Emit{{Target: "post", Event: letter}},
	}).Await(ctx)
	return err
}

func main() {
	ctx := context.Background()
	st := must(store.Open(ctx, must(sqlite.Open(":memory:"))))
	defer st.Close()
	s := must(actor.New(st))
	defer s.Close(ctx)
	application := store.NewExecution("application")
	must(s.Save(ctx, application).Await(ctx))
	for range 2 { // delivered twice
		if err := approve(ctx, s, application.ID, "approval-1"); err != nil {
			log.Fatal(err)
		}
	}
	letters := must(s.PendingOutbox(ctx, 10).Await(ctx))
	fmt.Printf("approved, with %d letter\n", len(letters))
}

// must ends the program on an error.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
