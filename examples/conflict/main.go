// Conflict shows what happens when two workers change the same execution, and
// how Update makes it no problem.
//
//	go run ./examples/conflict
//
// A commit wins only if the execution is still at the version it was loaded
// with. The loser gets a *store.ConflictError and has changed nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/sqlite"
)

func main() {
	ctx := context.Background()
	// Update gives up after 16 attempts by default; here many want the same row.
	st := must(store.Open(ctx, must(sqlite.Open(":memory:")), store.WithUpdateAttempts(1000)))
	defer st.Close()
	s := must(actor.New(st))
	defer s.Close(ctx)

	counter := store.NewExecution("counter")
	counter.ID = "visits"
	done := must(s.Save(ctx, counter).Await(ctx))
	// Two workers have the same version. The first to commit wins.
	first, second := s.Save(ctx, done.Execution()), s.Save(ctx, done.Execution())
	must(first.Await(ctx))
	_, err := second.Await(ctx)
	if lost, ok := errors.AsType[*store.ConflictError](err); ok {
		fmt.Printf("lost: %s was expected at version %d and is at %d\n", lost.ID, lost.Expected, lost.Found)
	}
	// Update loads, changes and commits, and begins again after a conflict.
	var workers sync.WaitGroup
	for range 40 {
		workers.Go(func() { must(s.Update(ctx, "visits", increment)) })
	}
	workers.Wait()
	e := must(s.Load(ctx, "visits").Await(ctx))
	fmt.Printf("40 workers counted a visit each: %s\n", e.Context.Raw())
}

func increment(c *store.Commit) error {
	var n int
	if _, err := c.Execution.Context.Get("n", &n); err != nil {
		return err
	}
	return c.Execution.Context.Set("n", n+1)
}

// must ends the program on an error.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
