package coordination

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

// over is what all that hold one lock have in common: the tokens grow, and when
// one is granted those before are valid no longer.
type over struct {
	t       *testing.T
	mu      sync.Mutex
	last    int64
	before  interface{ Valid() bool }
	readers []interface{ Valid() bool } // of whom none may be there beside a writer
	grants  int
}

func (o *over) granted(token int64, h interface{ Valid() bool }) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if token <= o.last {
		o.t.Errorf("token %d after token %d", token, o.last)
	}
	o.last, o.grants = token, o.grants+1
	for _, b := range append(o.readers, o.before) {
		if b != nil && b.Valid() {
			o.t.Errorf("two hold at once when token %d is granted", token)
		}
	}
	o.before, o.readers = h, nil
}

// work is what a holder does: nothing, for a while, as long as it may.
func work(ctx context.Context, held context.Context) {
	t := time.NewTimer(rand.N(4 * time.Second))
	defer t.Stop()
	select {
	case <-t.C:
	case <-held.Done():
	case <-ctx.Done():
	}
}

// TestLocksOverATroubledCluster: whatever happens to requests, answers and leaders,
// a lock is held once, a release says the truth or that nobody knows it, and after
// the trouble everything is free.
func TestLocksOverATroubledCluster(t *testing.T) {
	for _, noSharedClock := range []bool{false, true} {
		t.Run(fmt.Sprint("noSharedClock=", noSharedClock), func(t *testing.T) {
			onCluster(t, func(t *testing.T, c *rqlitetest.Cluster, open func() *Provider) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				o, writers := over{t: t}, over{t: t}
				var all sync.WaitGroup
				var providers []*Provider
				for range 3 {
					p := open()
					p.noSharedClock = noSharedClock
					providers = append(providers, p)
					for i := range 2 {
						l, err := p.Lock("job", LockOptions{Lease: 3 * time.Second, KeepAlive: i == 0})
						if err != nil {
							t.Fatal(err)
						}
						all.Go(func() {
							for ctx.Err() == nil {
								h, err := l.Acquire(ctx)
								if err != nil {
									if !errors.Is(err, context.Canceled) {
										t.Error(err)
									}
									continue
								}
								o.granted(h.Token(), h)
								work(ctx, h.Context())
								err = h.Release(t.Context())
								for errors.Is(err, engine.ErrNotApplied) {
									err = h.Release(t.Context())
								}
								if err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, engine.ErrOutcomeUnknown) {
									t.Error(err)
								}
							}
						})
						rw, err := p.RWLock("doc", RWLockOptions{Lease: 3 * time.Second, KeepAlive: i == 0})
						if err != nil {
							t.Fatal(err)
						}
						all.Go(func() {
							for ctx.Err() == nil {
								if rand.IntN(2) == 0 {
									if h, err := rw.AcquireWrite(ctx); err == nil {
										writers.granted(h.Token(), h)
										work(ctx, h.Context())
										_ = h.Release(t.Context())
									}
								} else if h, err := rw.AcquireRead(ctx); err == nil {
									writers.mu.Lock()
									if writers.before != nil && writers.before.Valid() {
										t.Error("a reader beside a writer")
									}
									if h.Generation() < writers.last {
										t.Errorf("generation %d after token %d", h.Generation(), writers.last)
									}
									writers.readers = append(writers.readers, h)
									writers.mu.Unlock()
									work(ctx, h.Context())
									_ = h.Release(t.Context())
								}
							}
						})
					}
				}
				all.Go(func() { trouble(ctx, c) })
				after(2 * time.Minute)
				cancel()
				all.Wait()
				c.ClearFaults()
				after(10 * time.Second) // whatever was left behind has ended by now
				l, err := providers[0].Lock("job", LockOptions{})
				if err != nil {
					t.Fatal(err)
				}
				h, err := l.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				o.granted(h.Token(), h)
				if err := h.Release(t.Context()); err != nil {
					t.Error(err)
				}
				if o.grants < 20 || writers.grants < 5 {
					t.Errorf("%d grants, %d to writers", o.grants, writers.grants)
				}
			})
		})
	}
}
