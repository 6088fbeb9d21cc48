// Selecting is a worker loop around one select: it takes jobs, hands requests to
// the store's mailbox, and collects futures, whichever is possible first.
//
//	go run ./examples/selecting
//
// Sending to the mailbox succeeds when the store has taken the request, so a
// full store pushes back on this loop without blocking it. A nil channel is never
// chosen: that is how the loop says what it is not ready for.
package main

import (
	"context"
	"fmt"
	"log"

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
	jobs := make(chan string, 1000)
	for i := range cap(jobs) {
		jobs <- fmt.Sprintf("job-%d", i)
	}
	close(jobs)
	fmt.Printf("%d jobs are stored\n", must(work(ctx, s, jobs)))
}

// work stores an execution for each job and returns how many it stored.
func work(ctx context.Context, s *actor.Store, jobs <-chan string) (stored int, err error) {
	var request *actor.Request         // prepared, to be sent
	var future *actor.CommitFuture     // of request
	var inFlight []*actor.CommitFuture // oldest first
	for jobs != nil || request != nil || len(inFlight) > 0 {
		next, mailbox, oldest := jobs, (chan<- *actor.Request)(nil), (<-chan struct{})(nil)
		if request != nil {
			next, mailbox = nil, s.Mailbox()
		}
		if len(inFlight) > 0 {
			oldest = inFlight[0].Done()
		}
		select {
		case job, ok := <-next:
			if !ok {
				jobs = nil
				continue
			}
			e := store.NewExecution("job")
			e.ID = job
			if request, future, err = s.PrepareCommit(ctx, &store.Commit{Execution: e}); err != nil {
				return stored, err
			}
		case mailbox <- request:
			inFlight, request = append(inFlight, future), nil
		case <-oldest:
			if err := inFlight[0].Err(); err != nil {
				return stored, err
			}
			inFlight, stored = inFlight[1:], stored+1
		case <-s.Done():
			return stored, store.ErrClosed
		case <-ctx.Done():
			return stored, ctx.Err()
		}
	}
	return stored, nil
}

// must ends the program on an error.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
