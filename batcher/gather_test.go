package batcher

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// closedLoop runs callers that each submit again as soon as their item is done,
// rounds times, and returns how long that took in fake time and the number of
// batches.
func closedLoop(t *testing.T, callers, rounds int, flush, think time.Duration, inFlight int) (time.Duration, uint64) {
	t.Helper()
	done := make(map[*Ticket[int]]chan struct{})
	var mu sync.Mutex
	var b *Batcher[int]
	b, err := New(Config[int]{
		InFlight: inFlight,
		Flush: func(_ context.Context, batch []*Ticket[int]) {
			pass(flush)
			b.Landing(batch)
			mu.Lock()
			defer mu.Unlock()
			for _, tk := range batch {
				close(done[tk])
				delete(done, tk)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				tk, ch := &Ticket[int]{}, make(chan struct{})
				mu.Lock()
				done[tk] = ch
				mu.Unlock()
				if err := b.Submit(t.Context(), tk); err != nil {
					t.Error(err)
					return
				}
				<-ch
				if think > 0 {
					pass(think)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	batches := b.Stats().Batches
	if _, err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return took, batches
}

// Callers that come back at once share one batch if there is one slot, and lose
// nothing to overlapping ones if there are more.
func TestCallersThatComeBackShareFlights(t *testing.T) {
	for _, inFlight := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			const callers, rounds, flush = 32, 50, 2 * time.Millisecond
			took, batches := closedLoop(t, callers, rounds, flush, 0, inFlight)
			if inFlight == 1 && batches > rounds*5/4 {
				t.Errorf("%d batches for %d rounds", batches, rounds)
			}
			if took > rounds*flush*3/2 {
				t.Errorf("InFlight %d: %v for %d rounds of %v", inFlight, took, rounds, flush)
			}
			if batches > rounds*4 {
				t.Errorf("InFlight %d: %d batches for %d rounds of %d callers", inFlight, batches, rounds, callers)
			}
		})
	}
}

// Where a flight costs little but for what it carries, callers are not kept
// waiting for each other.
func TestNoGatheringWhereFlightsHaveNoFixedCost(t *testing.T) {
	var c costModel
	for i := range 100 {
		n := 1 + i%50
		c.observe(n, time.Duration(n)*time.Millisecond)
	}
	if !c.known || c.fixed > time.Millisecond {
		t.Errorf("fixed cost %v, want none", c.fixed)
	}
	for i := range 100 {
		n := 1 + i%50
		c.observe(n, 20*time.Millisecond+time.Duration(n)*time.Millisecond)
	}
	if c.fixed < 19*time.Millisecond || c.fixed > 21*time.Millisecond {
		t.Errorf("fixed cost %v, want 20ms", c.fixed)
	}
	before := c.fixed
	for range 1000 {
		c.observe(50, 70*time.Millisecond) // sizes that do not differ tell nothing
	}
	if d := c.fixed - before; d < -time.Millisecond || d > time.Millisecond {
		t.Errorf("fixed cost %v after flights of one size", c.fixed)
	}
}

// A caller that is alone waits for nothing but its own items.
func TestALoneCallerNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 100
		if took, _ := closedLoop(t, 1, rounds, 2*time.Millisecond, 0, 1); took != rounds*2*time.Millisecond {
			t.Errorf("%v for %d rounds of 2ms", took, rounds)
		}
	})
}

// Where callers do not come back at once, gathering is soon left out: what it may
// cost in all is a small share of the time.
func TestGatheringInVainIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds, flush = 200, 8 * time.Millisecond
		var starts []time.Time
		b := mustNew(t, Config[int]{Flush: func(context.Context, batch) {
			starts = append(starts, time.Now())
			pass(flush)
		}})
		// In each round one item flies, then two, then one that was queued beside
		// them; nobody reacts to the end of a flight.
		for range rounds {
			mustSubmit(t, b, &ticket{})
			pass(time.Millisecond)
			mustSubmit(t, b, &ticket{}, &ticket{})
			pass(flush)
			mustSubmit(t, b, &ticket{})
			pass(4 * flush)
		}
		mustClose(t, b)
		waited := 0
		for i := 2; i < len(starts); i += 3 {
			switch gap := starts[i].Sub(starts[i-1]); gap {
			case flush:
			case flush + flush/gatherShare:
				waited++
			default:
				t.Errorf("flight %d began %v after the one before it", i, gap)
			}
		}
		if len(starts) != 3*rounds || waited == 0 || waited > rounds/10 {
			t.Errorf("%d flights; waited in vain %d times in %d rounds", len(starts), waited, rounds)
		}
	})
}

// Close does not wait for those who are not expected any more.
func TestCloseEndsGathering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flush = 8 * time.Millisecond
		b, err := New(Config[int]{Flush: func(context.Context, []*Ticket[int]) { pass(flush) }})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for range 5 {
			if err := b.Submit(t.Context(), &Ticket[int]{}); err != nil {
				t.Fatal(err)
			}
		}
		pass(2*flush + time.Microsecond) // one item, then four; now the worker gathers
		if err := b.Submit(t.Context(), &Ticket[int]{}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 3*flush+time.Microsecond {
			t.Errorf("closed after %v", took)
		}
	})
}
