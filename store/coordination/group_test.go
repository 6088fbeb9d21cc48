package coordination

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
)

func insert(name string) engine.Statement {
	return engine.Statement{
		SQL:  "INSERT INTO quorate_locks(name,token,released,fence,version,lease_us,deadline_us) VALUES(?1,'','',1,1,0,0)",
		Args: []engine.Value{engine.Text(name)},
	}
}

// crowd submits one operation that is held in flight and then the others, and
// returns what each got.
func crowd(f *fixture, first context.Context, names []string, others ...context.Context) (release func(), errs func() []error) {
	f.tap.mu.Lock()
	f.tap.hold = make(chan struct{})
	f.tap.execs = nil
	f.tap.mu.Unlock()
	got := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		ctx := first
		if i > 0 {
			ctx = f.ctx
			if i-1 < len(others) {
				ctx = others[i-1]
			}
		}
		wg.Go(func() { _, got[i] = f.p.do(ctx, "test", name, insert(name), insert(name+"/2")) })
		synctest.Wait()
	}
	return func() { close(f.tap.hold) }, func() []error { wg.Wait(); return got }
}

func TestConcurrentOperationsShareARequest(t *testing.T) {
	bubble(t, func(f *fixture) {
		release, errs := crowd(f, f.ctx, []string{"a", "d", "c", "b"})
		release()
		for _, err := range errs() {
			f.ok(err)
		}
		if f.tap.writes() != 2 || len(f.tap.execs[1]) != 6 {
			t.Errorf("%d requests, want 2: one alone and one with the rest", f.tap.writes())
		}
		// In the order of their names.
		if got := fmt.Sprint(f.tap.execs[1][0].Args, f.tap.execs[1][2].Args, f.tap.execs[1][4].Args); got != `["b"] ["c"] ["d"]` {
			t.Errorf("order %s", got)
		}
	})
}

func TestRefusedOperationFailsAlone(t *testing.T) {
	bubble(t, func(f *fixture) {
		_, err := f.p.do(f.ctx, "test", "c", insert("c"))
		f.ok(err)
		release, errs := crowd(f, f.ctx, []string{"a", "b", "c", "d"})
		release()
		var refused *engine.StatementError
		for i, err := range errs() {
			if (i == 2) != errors.As(err, &refused) {
				t.Errorf("operation %d: %v", i, err)
			}
		}
		var e *Error
		if err := errs()[2]; !errors.As(err, &e) || e.Op != "test" || e.Name != "c" {
			t.Errorf("error %v", err)
		}
	})
}

func TestCallersLeaveOneByOne(t *testing.T) {
	bubble(t, func(f *fixture) {
		b, leaveB := context.WithCancel(f.ctx)
		c, leaveC := context.WithCancel(f.ctx)
		defer leaveC()
		release, errs := crowd(f, f.ctx, []string{"a", "b", "c"}, b, c)
		leaveB() // it has not been sent yet
		synctest.Wait()
		release()
		got := errs()
		f.ok(got[0])
		f.is(got[1], engine.ErrNotApplied)
		f.is(got[1], context.Canceled)
		f.ok(got[2])

		// In flight: the request ends when the last has left.
		d, leaveD := context.WithCancel(f.ctx)
		e, leaveE := context.WithCancel(f.ctx)
		_, errs = crowd(f, f.ctx, []string{"x", "d", "e"}, d, e)
		f.tap.hold <- struct{}{}
		synctest.Wait()
		leaveD()
		synctest.Wait()
		if f.tap.writes() != 2 {
			t.Fatalf("%d requests", f.tap.writes())
		}
		leaveE()
		got = errs()
		f.ok(got[0])
		for _, err := range got[1:] {
			f.is(err, engine.ErrOutcomeUnknown)
			f.is(err, context.Canceled)
		}
		synctest.Wait()
		f.p.mu.Lock()
		if f.p.group.flying {
			t.Error("still in flight although all have left")
		}
		f.p.mu.Unlock()
		f.tap.hold = nil
		_, err := f.p.do(f.ctx, "test", "y", insert("y"))
		f.ok(err)
	})
}

func TestRequestsAreBounded(t *testing.T) {
	bubble(t, func(f *fixture) {
		_, errs := crowd(f, f.ctx, []string{"a", "b"})
		began := time.Now()
		for _, err := range errs() {
			f.is(err, engine.ErrOutcomeUnknown)
			f.is(err, context.DeadlineExceeded)
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("took %v, want twice the limit", took)
		}
	}, WithTimeLimit(2*time.Second))
}

func TestLargeGroupsAreSplit(t *testing.T) {
	bubble(t, func(f *fixture) {
		names := make([]string, maxGroup)
		for i := range names {
			names[i] = fmt.Sprintf("%04d", i)
		}
		release, errs := crowd(f, f.ctx, names)
		release()
		for _, err := range errs() {
			f.ok(err)
		}
		if n := f.tap.writes(); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}

func TestCloseCutsOffWhatHangs(t *testing.T) {
	bubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{}))
		_, errs := crowd(f, f.ctx, []string{"a", "b"})
		go h.Release(f.ctx)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		began := time.Now()
		f.is(f.p.Close(ctx), context.DeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("closed after %v", took)
		}
		for _, err := range errs() {
			f.is(err, engine.ErrOutcomeUnknown)
		}
	})
}

func TestCloseWaitsForReleases(t *testing.T) {
	bubble(t, func(f *fixture) {
		h := f.acquire(f.lock("job", LockOptions{}))
		f.tap.hold = make(chan struct{})
		released := make(chan error)
		go func() { released <- h.Release(f.ctx) }()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- f.p.Close(f.ctx) }()
		synctest.Wait()
		close(f.tap.hold)
		f.ok(<-released)
		f.ok(<-closed)
	})
}
