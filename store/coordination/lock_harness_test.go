package coordination

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// tap is an engine whose requests a test may count and spoil.
type tap struct {
	engine.Engine

	mu    sync.Mutex
	execs [][]engine.Statement
	reads int
	// fault, if set, decides on each write: an error is returned in place of the
	// answer, after the write was applied if applied is true.
	fault func(n int) (err error, applied bool)
	// lose, if set, decides after a write whether its answer is lost.
	lose func() bool
	// hold, if set, is received from before each write is applied.
	hold chan struct{}
}

func (e *tap) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	e.mu.Lock()
	n := len(e.execs)
	e.execs = append(e.execs, stmts)
	fault, hold := e.fault, e.hold
	e.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, &engine.Error{Op: "exec", Outcome: engine.Unknown, Err: ctx.Err()}
		}
	}
	var err error
	applied := true
	if fault != nil {
		err, applied = fault(n)
	}
	if !applied {
		return nil, err
	}
	results, failed := e.Engine.Exec(ctx, stmts)
	if err == nil && e.lose != nil && e.lose() {
		err = errLost
	}
	if err != nil {
		return nil, err
	}
	return results, failed
}

func (e *tap) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	e.mu.Lock()
	e.reads++
	e.mu.Unlock()
	return e.Engine.Query(ctx, level, stmts)
}

// spoil sets the fault for the writes to come.
func (e *tap) spoil(f func(n int) (error, bool)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault, e.execs = f, nil
}

func (e *tap) writes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.execs)
}

var (
	errLost = &engine.Error{Op: "exec", Outcome: engine.Unknown, Reason: engine.ErrUnavailable}
	errDown = &engine.Error{Op: "exec", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable}
)

// lostOnce loses the answer to the first write.
func lostOnce(n int) (error, bool) {
	if n == 0 {
		return errLost, true
	}
	return nil, true
}

func down(int) (error, bool) { return errDown, false }

// fixture is a database in memory, inside a bubble of fake time.
type fixture struct {
	*testing.T
	ctx context.Context
	tap *tap
	p   *Provider
}

// inBubble runs a test in fake time, for which every mode of judging leases is
// tried.
func inBubble(t *testing.T, test func(f *fixture)) {
	for name, opts := range map[string][]Option{"shared clock": nil, "no shared clock": {WithoutSharedClock()}} {
		t.Run(name, func(t *testing.T) { bubble(t, test, opts...) })
	}
}

func bubble(t *testing.T, test func(f *fixture), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		eng, err := sqlite.Open(":memory:")
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		f := &fixture{T: t, ctx: t.Context(), tap: &tap{Engine: eng}}
		f.p = f.provider(opts...)
		test(f)
	})
}

// provider opens a provider as another process has it. The test closes it.
func (f *fixture) provider(opts ...Option) *Provider {
	f.Helper()
	p, err := Open(f.ctx, f.tap, opts...)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := p.Close(context.WithoutCancel(f.ctx)); err != nil {
			f.Error("close the provider:", err)
		}
	})
	return p
}

func (f *fixture) lock(name string, o LockOptions) *Lock { f.Helper(); return f.lockOf(f.p, name, o) }

func (f *fixture) lockOf(p *Provider, name string, o LockOptions) *Lock {
	f.Helper()
	l, err := p.Lock(name, o)
	if err != nil {
		f.Fatal(err)
	}
	return l
}

func (f *fixture) acquire(l *Lock) *Held {
	f.Helper()
	h, err := l.Acquire(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return h
}

func (f *fixture) is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("got error %v, want one that matches %q", err, want)
	}
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Error("unexpected:", err)
	}
}

// row returns the row of a lock, as it is.
func (f *fixture) row(name string) (token string, fence, version, deadline int64) {
	f.Helper()
	res, err := f.tap.Engine.Query(context.WithoutCancel(f.ctx), engine.Linearizable, []engine.Statement{{
		SQL: "SELECT token,fence,version,deadline_us FROM quorate_locks WHERE name=?1", Args: []engine.Value{engine.Text(name)},
	}})
	if err != nil || res[0].Len() != 1 {
		f.Fatal(res, err)
	}
	r := res[0].Row(0)
	token, _ = r[0].Text()
	fence, _ = r[1].Int()
	version, _ = r[2].Int()
	deadline, _ = r[3].Int()
	return token, fence, version, deadline
}

// after waits for d in the bubble's time.
func after(d time.Duration) { <-time.After(d) }
