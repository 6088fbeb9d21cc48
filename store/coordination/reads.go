package coordination

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quorate/quorate/store/engine"
)

// reads lets reads that fall together share requests: the ticks of a hundred
// elections, or many callers of a cache. A read may be joined only before it is
// sent, so that nobody sees a database older than his question.
type reads struct {
	mu      sync.Mutex
	flights int
	next    *reading // gathers; nil if nobody waits
}

// maxReadFlights is how many reads leave at once before others wait for company.
const maxReadFlights = 2

// reading is one request of several readers.
type reading struct {
	stmts   []engine.Statement
	results []engine.Result
	err     error
	done    chan struct{}
}

// read is ask at the level Linearizable, in company where there is some.
func (p *Provider) read(ctx context.Context, op, name string, stmts ...engine.Statement) ([]engine.Result, error) {
	g := &p.reads
	g.mu.Lock()
	if g.flights < maxReadFlights {
		g.flights++
		g.mu.Unlock()
		defer p.readNext()
		return p.ask(ctx, op, name, engine.Linearizable, stmts...)
	}
	if g.next == nil {
		g.next = &reading{done: make(chan struct{})}
	}
	r, at := g.next, len(g.next.stmts)
	if at+len(stmts) > maxGroup {
		g.mu.Unlock()
		return p.ask(ctx, op, name, engine.Linearizable, stmts...)
	}
	r.stmts = append(r.stmts, stmts...)
	g.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, &Error{op, name, &engine.Error{Op: "query", Outcome: engine.NotApplied, Err: context.Cause(ctx)}}
	}
	switch {
	case r.err == nil:
		return slices.Clip(r.results[at : at+len(stmts)]), nil
	case errors.Is(r.err, engine.ErrUnavailable), errors.Is(r.err, ErrClosed):
		return nil, &Error{op, name, r.err}
	}
	// What the request met may concern one of its readers only.
	return p.ask(ctx, op, name, engine.Linearizable, stmts...)
}

// readNext ends a flight, and lets those who wait take its place.
func (p *Provider) readNext() {
	g := &p.reads
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.next
	if g.next = nil; r == nil {
		g.flights--
		return
	}
	fly := func(ctx context.Context) {
		defer p.readNext()
		defer close(r.done)
		ctx, cancel := context.WithTimeout(ctx, p.limit)
		defer cancel()
		r.results, r.err = p.eng.Query(ctx, engine.Linearizable, r.stmts)
	}
	if !p.spawn(fly) {
		r.err = unsent(ErrClosed)
		close(r.done)
		g.flights--
	}
}
