package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// OP-04.
func TestRateLimitHoldsAfterIdling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, burst = 10, 5
		l := newRateLimit(rate, burst)
		defer l.close()
		for range 3 {
			<-time.After(5 * time.Second)
			began := time.Now()
			var mu sync.Mutex
			var at []time.Duration
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					if err := l.wait(t.Context()); err != nil {
						t.Error(err)
					}
					mu.Lock()
					at = append(at, time.Since(began))
					mu.Unlock()
				})
			}
			wg.Wait()
			perSecond := map[int]int{}
			for _, d := range at {
				perSecond[int(d/time.Second)]++
			}
			if perSecond[0] > rate+burst || perSecond[0] < rate {
				t.Errorf("%d calls in the first second, want at most %d", perSecond[0], rate+burst)
			}
			for s := 1; s < 4; s++ {
				if perSecond[s] > rate {
					t.Errorf("%d calls in second %d, want at most %d", perSecond[s], s, rate)
				}
			}
			if last := at[len(at)-1]; last > 5*time.Second {
				t.Errorf("the last of 50 calls waited %v", last)
			}
		}
	})
}

// OP-05.
func TestRateLimitCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRateLimit(1.0/60, 1)
		if err := l.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if err := l.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("wait: %v", err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d != 50*time.Millisecond {
			t.Errorf("cancelled calls waited %v", d)
		}
		// They used up no permit: the next one comes a minute after the first.
		if err := l.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("the next permit came after %v, want 1 minute", d)
		}
		// A caller that waits is told when the limit is closed, at once.
		done := make(chan error)
		go func() { done <- l.wait(context.Background()) }()
		synctest.Wait()
		closing := time.Now()
		l.close()
		if err := <-done; err != engine.ErrClosed || time.Since(closing) != 0 {
			t.Errorf("wait during close: %v after %v", err, time.Since(closing))
		}
		synctest.Wait() // ends only if no goroutine remains
	})
}

// A permit that nobody took in time does not add to the burst.
func TestRateLimitBanksNoMoreThanTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRateLimit(1, 2)
		defer l.close()
		for range 2 {
			if err := l.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if l.wait(ctx) == nil {
			t.Fatal("third permit at once")
		}
		cancel()
		<-time.After(time.Minute)
		began := time.Now()
		for range 2 {
			if err := l.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("a burst of 2 took %v", d)
		}
		if err := l.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < time.Second {
			t.Errorf("a third call went after %v", d)
		}
	})
}
