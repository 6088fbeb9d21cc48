package actor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store"
)

func TestFutureBeforeAndAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("failure")
		for _, want := range []error{nil, failure} {
			f := &Future[int]{}
			if _, _, ok := f.Poll(); ok || f.Err() != nil {
				t.Error("a new future is resolved")
			}
			var wg sync.WaitGroup
			read := func() {
				for range 2 {
					if v, err := f.Await(t.Context()); v != 7 || err != want {
						t.Errorf("Await: %d, %v", v, err)
					}
				}
				<-f.Done()
				if v, err, ok := f.Poll(); v != 7 || err != want || !ok || f.Err() != want {
					t.Errorf("Poll: %d, %v, %v; Err: %v", v, err, ok, f.Err())
				}
			}
			for range 10 {
				wg.Go(read)
			}
			synctest.Wait()
			if !f.resolve(7, want) {
				t.Error("first resolve did not count")
			}
			if f.resolve(8, errors.New("second")) {
				t.Error("second resolve counted")
			}
			wg.Wait()
			read()
		}
	})
}

func TestFutureDoneChannels(t *testing.T) {
	f := &Future[int]{}
	done := f.Done()
	if f.Done() != done {
		t.Error("Done changes")
	}
	f.resolve(1, nil)
	<-done
	if f.Done() != done {
		t.Error("Done changed when the future was resolved")
	}
	g := &Future[int]{}
	g.resolve(1, nil)
	<-g.Done()
	if n := testing.AllocsPerRun(100, func() { <-g.Done() }); n != 0 {
		t.Errorf("Done of a resolved future allocates %v times", n)
	}
}

func TestAwaitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Future[int]{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		v, err := f.Await(ctx)
		if v != 0 || !errors.Is(err, ErrStillPending) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Await: %d, %v", v, err)
		}
		if f.Err() != nil || !pending(f) {
			t.Error("giving up resolved the future")
		}
		f.resolve(7, nil)
		for range 10 { // the result counts, also with a context that has ended
			if v, err := f.Await(ctx); v != 7 || err != nil {
				t.Errorf("Await: %d, %v", v, err)
			}
		}
	})
}

// When result and end of the context come together, the result counts.
func TestAwaitPrefersResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			f := &Future[int]{}
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error)
			go func() { _, err := f.Await(ctx); got <- err }()
			synctest.Wait()
			f.mu.Lock() // both happen before the reader looks
			cancel()
			f.isDone = true
			close(f.done)
			f.mu.Unlock()
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAwaitAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("failure")
		fs := []*Future[int]{{}, {}, {}}
		go func() {
			pass(time.Second)
			fs[2].resolve(3, nil)
			fs[0].resolve(1, nil)
			fs[1].resolve(2, failure)
		}()
		v, err := AwaitAll(t.Context(), fs...)
		if len(v) != 3 || v[0] != 1 || v[1] != 0 || v[2] != 3 || !errors.Is(err, failure) || err.Error() != "future 1: failure" {
			t.Errorf("AwaitAll: %v, %v", v, err)
		}

		never := &Future[int]{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		v, err = AwaitAll(ctx, fs[0], never, fs[2])
		if v[0] != 1 || v[2] != 3 || !errors.Is(err, ErrStillPending) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AwaitAll: %v, %v", v, err)
		}
		if v, err := AwaitAll[int, *Future[int]](ctx); len(v) != 0 || err != nil {
			t.Errorf("AwaitAll of nothing: %v, %v", v, err)
		}
	})
}

// leaves is an operation for tests.
type leaves func(ctx context.Context)

func (l leaves) left(ctx context.Context) { l(ctx) }

// The end of the context of a call resolves its future for everybody who looks at
// it, in whatever way, and ends the operation once.
func TestTheContextOfTheCallGoverns(t *testing.T) {
	type look = func(ctx context.Context, f *Future[int]) error
	looks := map[string]look{
		"Await with the same context": func(ctx context.Context, f *Future[int]) error { _, err := f.Await(ctx); return err },
		"Await with another context": func(ctx context.Context, f *Future[int]) error {
			_, err := f.Await(context.Background())
			return err
		},
		"Done": func(ctx context.Context, f *Future[int]) error { <-f.Done(); return f.Err() },
		"Poll after the end": func(ctx context.Context, f *Future[int]) error {
			<-ctx.Done()
			_, err, ok := f.Poll()
			if !ok {
				return errors.New("pending")
			}
			return err
		},
		"Err after the end": func(ctx context.Context, f *Future[int]) error { <-ctx.Done(); return f.Err() },
	}
	for name, look := range looks {
		for _, before := range []bool{false, true} { // known before the operation is submitted, as for the mailbox
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				f, left := &Future[int]{}, 0
				op := leaves(func(c context.Context) {
					left++
					f.resolve(0, context.Cause(c))
				})
				if before {
					f.under(ctx)
				} else {
					f.govern(ctx, op)
				}
				got := make(chan error, 3)
				if strings.HasSuffix(name, "after the end") {
					got = make(chan error, 1) // a second one may look while the first ends it
				}
				for range cap(got) {
					go func() { got <- look(ctx, f) }()
				}
				synctest.Wait()
				if before {
					f.govern(ctx, op)
				}
				reason := errors.New("reason")
				cancel(reason)
				for range cap(got) {
					if err := <-got; !errors.Is(err, reason) {
						t.Errorf("%s, before %v: %v", name, before, err)
					}
				}
				synctest.Wait()
				if left != 1 {
					t.Errorf("%s, before %v: left %d times", name, before, left)
				}
			})
		}
	}
}

// A future that is resolved first is not given up, and nothing hangs on its
// context any more.
func TestAResolvedFutureIsNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := leaves(func(context.Context) { t.Error("given up") })
		f := &Future[int]{}
		ctx, cancel := context.WithCancel(t.Context())
		f.govern(ctx, never)
		f.Done()
		f.resolve(1, nil)
		cancel()
		synctest.Wait()
		if v, err := f.Await(ctx); v != 1 || err != nil {
			t.Errorf("Await: %d, %v", v, err)
		}

		ctx, cancel = context.WithCancel(t.Context())
		f.govern(ctx, never) // too late
		f.watch()
		cancel()
		synctest.Wait()
		if f.Err() != nil || f.governor() != nil {
			t.Error("a resolved future is governed")
		}
	})
}

// A context that ends before the operation is submitted ends it when it is.
func TestTheContextEndsBeforeSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Future[int]{}
		ctx, cancel := context.WithCancel(t.Context())
		f.under(ctx)
		done := f.Done()
		cancel()
		synctest.Wait()
		if _, err := f.Await(ctx); !errors.Is(err, ErrStillPending) || !errors.Is(err, context.Canceled) {
			t.Errorf("Await before submission: %v", err)
		}
		f.govern(ctx, leaves(func(ctx context.Context) { f.resolve(0, ctx.Err()) }))
		<-done
	})
}

// Futures of refused calls are resolved at once and say nothing else.
func TestRefusedCommit(t *testing.T) {
	s := newStore(t, newFake())
	defer mustClose(t, s)
	f := s.Save(t.Context(), execution(""))
	if v, err, ok := f.Poll(); !ok || v.ID != "" || !errors.Is(err, store.ErrInvalid) {
		t.Errorf("Poll: %v, %v, %v", v, err, ok)
	}
	if f.Next() != nil || f.Ref() != (store.CommitRef{}) {
		t.Error("a refused commit has a successor")
	}
}
