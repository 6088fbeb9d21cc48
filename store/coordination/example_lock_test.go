package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/sqlite"
)

// A lock in three calls. In a program of several processes each opens the same file.
func Example() {
	ctx := context.Background()
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	p, err := coordination.Open(ctx, eng)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	lock, err := p.Lock("invoices", coordination.LockOptions{Lease: 30 * time.Second, KeepAlive: true})
	if err != nil {
		log.Fatal(err)
	}
	held, err := lock.Acquire(ctx) // waits until ctx ends
	if err != nil {
		log.Fatal(err)
	}
	defer held.Release(ctx)
	fmt.Println("held, with token", held.Token())
	// Work under held.Context(): it ends when the lock may no longer be held.

	other, err := p.Lock("invoices", coordination.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = other.TryAcquire(ctx)
	fmt.Println(errors.Is(err, coordination.ErrWouldBlock), err)
	// Output:
	// held, with token 1
	// true acquire lock "invoices": would block
}

// Readers share, a writer is alone, and a writer may go on as a reader.
func ExampleRWLock() {
	ctx := context.Background()
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	p, err := coordination.Open(ctx, eng)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	catalogue, err := p.RWLock("catalogue", coordination.RWLockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	writer, err := catalogue.AcquireWrite(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("writing as", writer.Token(), "poisoned:", writer.Poisoned())
	reader, err := writer.Downgrade(ctx) // nobody writes in between
	if err != nil {
		log.Fatal(err)
	}
	state, err := catalogue.State(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("reading %d: %+v\n", reader.Generation(), state)
	if err := reader.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// writing as 1 poisoned: false
	// reading 1: {Generation:1 Writing:false Readers:1 WaitingWriters:0}
}

// A job that must not run twice within ten minutes, in whatever process.
func ExampleLockOptions_minHold() {
	ctx := context.Background()
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	p, err := coordination.Open(ctx, eng)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	job := func() {
		lock, err := p.Lock("report", coordination.LockOptions{Lease: time.Hour, MinHold: 10 * time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		held, err := lock.TryAcquire(ctx)
		if errors.Is(err, coordination.ErrWouldBlock) {
			fmt.Println("has run already")
			return
		} else if err != nil {
			log.Fatal(err)
		}
		fmt.Println("runs")
		if err := held.Release(ctx); err != nil {
			log.Fatal(err)
		}
	}
	job()
	job()
	// Output:
	// runs
	// has run already
}
