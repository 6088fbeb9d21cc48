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

func TestReadsThatMeetShareARequest(t *testing.T) {
	bubble(t, func(f *fixture) {
		net := &network{Engine: f.tap}
		p, err := Open(f.ctx, net)
		if err != nil {
			f.Fatal(err)
		}
		defer p.Close(f.ctx)
		c := f.cache(p, "reads", CacheOptions{})
		for i := range 100 {
			f.set(c, fmt.Sprint(i), fmt.Sprint("value-", i), time.Hour)
		}
		net.set(nil, constant(time.Millisecond), nil)
		f.tap.mu.Lock()
		f.tap.reads = 0
		f.tap.mu.Unlock()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() { f.has(c, map[string]string{fmt.Sprint(i): fmt.Sprint("value-", i)}) })
		}
		all.Wait()
		f.tap.mu.Lock()
		defer f.tap.mu.Unlock()
		if f.tap.reads > 4 {
			f.Errorf("%d requests for 100 reads", f.tap.reads)
		}
	})
}

// TestReadIsNeverJoinedAfterItWasSent: who comes later sees what was written in
// between.
func TestReadIsNeverJoinedAfterItWasSent(t *testing.T) {
	bubble(t, func(f *fixture) {
		net := &network{Engine: f.tap}
		p, err := Open(f.ctx, net)
		if err != nil {
			f.Fatal(err)
		}
		defer p.Close(f.ctx)
		c, direct := f.cache(p, "reads", CacheOptions{}), f.cache(f.p, "reads", CacheOptions{})
		net.set(nil, constant(time.Second), nil)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { f.has(c, map[string]string{"k": ""}) })
		}
		synctest.Wait() // two are in flight, eight wait
		after(1500 * time.Millisecond)
		// Now the eight are in flight, and were answered from before.
		f.set(direct, "k", "new", time.Hour)
		for range 10 {
			all.Go(func() { f.has(c, map[string]string{"k": "new"}) })
		}
		all.Wait()
	})
}

func TestReaderLeavesAndOthersGetTheirAnswer(t *testing.T) {
	bubble(t, func(f *fixture) {
		net := &network{Engine: f.tap}
		p, err := Open(f.ctx, net)
		if err != nil {
			f.Fatal(err)
		}
		c := f.cache(p, "reads", CacheOptions{})
		f.set(c, "k", "v", time.Hour)
		net.set(nil, constant(time.Second), nil)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { f.has(c, map[string]string{"k": "v"}) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(f.ctx, 100*time.Millisecond)
		defer cancel()
		_, _, err = c.Get(ctx, "k")
		f.is(err, context.DeadlineExceeded)
		f.is(err, engine.ErrNotApplied)
		all.Wait()
		// One whose request fails for a reason of its own asks alone.
		net.set(nil, constant(time.Second), nil)
		broken := errors.New("broken")
		var mu sync.Mutex
		failed := 0
		p.eng = &pickyEngine{net, func(stmts []engine.Statement) error {
			mu.Lock()
			defer mu.Unlock()
			if len(stmts) > 1 {
				failed++
				return &engine.Error{Op: "query", Outcome: engine.NotApplied, Err: broken}
			}
			return nil
		}}
		for range 5 {
			all.Go(func() { f.has(c, map[string]string{"k": "v"}) })
		}
		all.Wait()
		if failed != 1 {
			f.Errorf("%d shared requests failed, want 1", failed)
		}
		f.ok(p.Close(f.ctx))
		_, _, err = c.Get(f.ctx, "k")
		f.is(err, ErrClosed)
	})
}

type pickyEngine struct {
	engine.Engine
	refuse func(stmts []engine.Statement) error
}

func (e *pickyEngine) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	if err := e.refuse(stmts); err != nil {
		return nil, err
	}
	return e.Engine.Query(ctx, level, stmts)
}
