package main

import (
	"context"
	"sync/atomic"

	"github.com/quorate/quorate/store/engine"
)

// counts is what was sent to a database.
type counts struct {
	writes, reads atomic.Uint64 // requests
	statements    atomic.Uint64
	bytes         atomic.Uint64 // of SQL text and parameters
}

// traffic is a snapshot of counts.
type traffic struct{ writes, reads, statements, bytes uint64 }

func (c *counts) snapshot() traffic {
	return traffic{c.writes.Load(), c.reads.Load(), c.statements.Load(), c.bytes.Load()}
}

func (t traffic) since(old traffic) traffic {
	return traffic{t.writes - old.writes, t.reads - old.reads, t.statements - old.statements, t.bytes - old.bytes}
}

// countingEngine counts the requests that pass through it.
type countingEngine struct {
	engine.Engine
	counts *counts
}

func (e *countingEngine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	e.counts.writes.Add(1)
	e.counts.add(stmts)
	return e.Engine.Exec(ctx, stmts)
}

func (e *countingEngine) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	e.counts.reads.Add(1)
	e.counts.add(stmts)
	return e.Engine.Query(ctx, level, stmts)
}

func (c *counts) add(stmts []engine.Statement) {
	size := 0
	for i := range stmts {
		size += len(stmts[i].SQL)
		for _, v := range stmts[i].Args {
			size += v.Size()
		}
	}
	c.statements.Add(uint64(len(stmts)))
	c.bytes.Add(uint64(size))
}
