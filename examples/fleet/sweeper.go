package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
)

// clock is the time of the data, not of this machine: the latest time of an
// event that was settled, and the end of time once the input has ended. Timers
// are due by it, so that a sample of a minute runs in seconds.
//
// Events come out of order, so the clock may pass a deadline although a payment
// in time is still to come. That is no harm: see order.go.

func (f *fleet) tick(at time.Time) {
	ns := at.UnixNano()
	for {
		now := f.clock.Load()
		if ns <= now || f.clock.CompareAndSwap(now, ns) {
			return
		}
	}
}

// endOfTime is after every deadline that an input can have.
var endOfTime = maxTime.Add(2 * maxPayWithinMS * time.Millisecond)

func (f *fleet) now() float64 {
	if f.inputDone.Load() {
		return store.EpochSeconds(endOfTime)
	}
	return store.EpochSeconds(time.Unix(0, f.clock.Load()))
}

// sweep fires a page of the timers that are due. The commit that handles a timer
// removes it; where nothing was left to handle, it is removed here, unless it was
// scheduled anew meanwhile. It returns how many timers it found.
func (f *fleet) sweep(ctx context.Context) (int, error) {
	timers, err := f.db.DueTimers(ctx, f.now(), pageSize)
	if err != nil {
		return 0, fmt.Errorf("read the timers: %w", err)
	}
	messages := make([]*message, len(timers))
	for i, t := range timers {
		if t.Path != paymentTimer {
			return 0, fmt.Errorf("timer %q of %q is not one of the fleet's", t.Path, t.ExecutionID)
		}
		messages[i] = &message{target: t.ExecutionID, event: event{
			ID: timeoutEvent, Kind: kindTimeout, Order: t.ExecutionID, At: store.EpochTime(t.FireAt),
		}}
	}
	if err := f.workAll(ctx, messages); err != nil {
		return 0, fmt.Errorf("fire timers: %w", err)
	}
	var removals []actor.Awaitable[struct{}]
	for i, m := range messages {
		if !m.effect.committed {
			removals = append(removals, f.db.DeleteTimer(ctx, timers[i]))
		}
	}
	if _, err := actor.AwaitAll(ctx, removals...); err != nil {
		return 0, fmt.Errorf("remove timers: %w", err)
	}
	return len(timers), nil
}
