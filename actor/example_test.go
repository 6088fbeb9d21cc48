package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/sqlite"
)

// open returns an asynchronous store on a database in memory, and what closes
// both.
func open(ctx context.Context) (*actor.Store, func()) {
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		panic(err)
	}
	st, err := store.Open(ctx, eng, store.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	s, err := actor.New(st)
	if err != nil {
		panic(err)
	}
	return s, func() {
		if _, err := s.Close(ctx); err != nil {
			panic(err)
		}
		if err := st.Close(); err != nil {
			panic(err)
		}
	}
}

// A commit returns at once; its future tells the verdict.
func ExampleStore_Commit() {
	ctx := context.Background()
	s, closeStore := open(ctx)
	defer closeStore()

	e := store.NewExecution("checkout")
	e.ID = "order-1"
	future := s.Commit(ctx, &store.Commit{
		Execution: e,
		Timers:    []store.TimerOp{store.Schedule("payment", time.Unix(1_700_000_000, 0))},
	})
	// ... do something else ...
	done, err := future.Await(ctx)
	fmt.Println(done.ID, done.Version, err)

	// Another one on the same version loses.
	_, err = s.Save(ctx, e).Await(ctx)
	fmt.Println(errors.Is(err, store.ErrConflict))
	fmt.Println(err)
	// Output:
	// order-1 1 <nil>
	// true
	// execution "order-1": conflict: expected none, found version 1
}

// A worker that selects between sending and being told to stop.
func ExampleStore_Mailbox() {
	ctx := context.Background()
	s, closeStore := open(ctx)
	defer closeStore()
	stop := make(chan struct{})

	e := store.NewExecution("checkout")
	e.ID = "order-1"
	request, future, err := s.PrepareCommit(ctx, &store.Commit{Execution: e})
	if err != nil {
		fmt.Println(err)
		return
	}
	select {
	case s.Mailbox() <- request:
		done, err := future.Await(ctx)
		fmt.Println(done.ID, done.Version, err)
	case <-s.Done():
		fmt.Println("the store is closing")
	case <-stop:
		fmt.Println("told to stop")
	}
	// Output:
	// order-1 1 <nil>
}

// Steps are built one on the other without waiting. If one loses, all that were
// built on it lose too.
func ExampleCommitFuture_Next() {
	ctx := context.Background()
	s, closeStore := open(ctx)
	defer closeStore()

	e := store.NewExecution("checkout")
	e.ID = "order-1"
	var futures []*actor.CommitFuture
	for _, status := range []store.Status{store.StatusPending, store.StatusRunning, store.StatusDone} {
		e.Status = status
		future := s.Save(ctx, e)
		futures = append(futures, future)
		e = future.Next()
	}
	done, err := futures[2].Await(ctx)
	fmt.Println(done.Version, done.Execution().Status, err)
	// Output:
	// 3 DONE <nil>
}

// Many futures, one wait: the values of those that succeeded, and the errors of
// the others.
func ExampleAwaitAll() {
	ctx := context.Background()
	s, closeStore := open(ctx)
	defer closeStore()

	var futures []*actor.CommitFuture
	for _, id := range []string{"order-1", "order-2", "order-1"} {
		e := store.NewExecution("checkout")
		e.ID = id
		futures = append(futures, s.Save(ctx, e))
	}
	all, err := actor.AwaitAll(ctx, futures...)
	for _, done := range all {
		fmt.Printf("%q at version %d\n", done.ID, done.Version)
	}
	fmt.Println(err)
	// Output:
	// "order-1" at version 1
	// "order-2" at version 1
	// "" at version 0
	// future 2: execution "order-1": conflict: expected none, found version 1
}

// A caller that would rather shed load than wait.
func ExampleStore_Try() {
	ctx := context.Background()
	s, closeStore := open(ctx)
	defer closeStore()
	try := s.Try()

	e := store.NewExecution("checkout")
	e.ID = "order-1"
	future := try.Save(ctx, e)
	if errors.Is(future.Err(), store.ErrOverloaded) {
		fmt.Println("busy, try later") // known at once
		return
	}
	done, err := future.Await(ctx)
	fmt.Println(done.Version, err)
	// Output:
	// 1 <nil>
}

// Close waits for what was handed in, for a while, and says what it left.
func ExampleStore_Close() {
	ctx := context.Background()
	s, closeStore := open(ctx)
	defer closeStore()

	e := store.NewExecution("checkout")
	e.ID = "order-1"
	future := s.Save(ctx, e)

	window, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	left, err := s.Close(window)
	fmt.Println(left.Unsent, left.InFlight, err)

	done, err, resolved := future.Poll()
	fmt.Println(done.Version, err, resolved)

	_, err = s.Save(ctx, e).Await(ctx)
	fmt.Println(errors.Is(err, store.ErrClosed))
	// Output:
	// 0 0 <nil>
	// 1 <nil> true
	// true
}
