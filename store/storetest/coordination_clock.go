package storetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/engine"
)

// clocked is an engine whose clock a test sets, so that deadlines can be met to the
// microsecond on any engine.
type clocked struct {
	engine.Engine
	now *atomic.Int64 // microseconds
}

func (e clocked) bound(stmts []engine.Statement) []engine.Statement {
	stmts = cloneStatements(stmts)
	at := time.UnixMicro(e.now.Load())
	for _, s := range stmts {
		for i := range s.Args {
			s.Args[i] = s.Args[i].At(at)
		}
	}
	return stmts
}

func (e clocked) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	return e.Engine.Exec(ctx, e.bound(stmts))
}

func (e clocked) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	return e.Engine.Query(ctx, level, e.bound(stmts))
}

// noon is when the clocks that tests set begin.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// stopped opens two providers whose clock stands at noon until it is moved.
func (c *coord) stopped() (p, other *coordination.Provider, move func(d time.Duration)) {
	c.Helper()
	now := new(atomic.Int64)
	now.Store(noon.UnixMicro())
	open := func() *coordination.Provider { return c.provider(clocked{shared{c.db.Engine}, now}) }
	return open(), open(), func(d time.Duration) { now.Add(d.Microseconds()) }
}
