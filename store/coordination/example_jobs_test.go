package coordination_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/sqlite"
)

// provide opens a provider on a database in memory.
func provide(ctx context.Context) (p *coordination.Provider, done func()) {
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		log.Fatal(err)
	}
	p, err = coordination.Open(ctx, eng)
	if err != nil {
		log.Fatal(err)
	}
	return p, func() {
		if err := p.Close(ctx); err != nil {
			log.Fatal(err)
		}
		eng.Close()
	}
}

// Of all processes that run this, one at a time does the work.
func ExampleElection_Lead() {
	ctx := context.Background()
	p, done := provide(ctx)
	defer done()
	election, err := p.Election("sweeper", coordination.ElectionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	err = election.Lead(ctx, func(ctx context.Context, term coordination.Term) error {
		// ctx ends when the leadership does. Whatever must not be done by two uses
		// term.Number to tell who came later.
		fmt.Println("leading in term", term.Number)
		return nil // goes, and lets another lead
	})
	fmt.Println(err, election.IsLeader())
	// Output:
	// leading in term 1
	// <nil> false
}

// Every process that knows a job runs this; each tick is run by one of them.
func ExampleRunner() {
	ctx, stop := context.WithCancel(context.Background())
	p, done := provide(context.Background())
	defer done()
	r, err := p.Runner(coordination.RunnerOptions{Grace: 5 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	report := func(ctx context.Context, t coordination.Tick) error { return nil }
	if err := r.Cron("nightly-report", "30 2 * * *", time.UTC, report); err != nil {
		log.Fatal(err)
	}
	heartbeat := func(ctx context.Context, t coordination.Tick) error {
		fmt.Println("tick of", t.Job)
		stop()
		return nil
	}
	if err := r.Every("heartbeat", 20*time.Millisecond, heartbeat); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Run(ctx)) // until ctx ends
	// Output:
	// tick of heartbeat
	// context canceled
}

func ExampleCache_GetOrSet() {
	ctx := context.Background()
	p, done := provide(ctx)
	defer done()
	prices, err := p.Cache("prices", coordination.CacheOptions{StaleFor: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	load := func(ctx context.Context) ([]byte, error) {
		fmt.Println("asking the supplier")
		return []byte("995"), nil
	}
	for range 2 {
		price, err := prices.GetOrSet(ctx, "sku-1", time.Minute, load, "supplier:7")
		fmt.Printf("%s %v\n", price, err)
	}
	if err := prices.DeleteTags(ctx, "supplier:7"); err != nil {
		log.Fatal(err)
	}
	_, found, err := prices.Get(ctx, "sku-1")
	fmt.Println(found, err)
	// Output:
	// asking the supplier
	// 995 <nil>
	// 995 <nil>
	// false <nil>
}

func ExampleLimiter_Allow() {
	ctx := context.Background()
	p, done := provide(ctx)
	defer done()
	logins, err := p.Limiter("logins", coordination.Rate{Limit: 2, Window: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := logins.Allow(ctx, "anna", 1)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Minute), err)
	}
	// Output:
	// true 1 0s <nil>
	// true 0 0s <nil>
	// false 0 30m0s <nil>
}
