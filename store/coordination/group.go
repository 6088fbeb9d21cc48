package coordination

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/quorate/quorate/store/engine"
)

// group gathers the operations that are submitted while a request is in flight.
// They leave together in the next one. Every operation is guarded by itself and
// none sees another's verdict, so they may share a transaction.
type group struct {
	flying bool
	queue  []*member
}

// maxGroup bounds the statements of a request.
const maxGroup = 1024

// member is an operation that waits for its turn or is in flight.
type member struct {
	name   string
	stmts  []engine.Statement
	size   int
	flight *flight // nil while it waits
	left   bool    // its caller is gone

	results []engine.Result
	err     error
	done    chan struct{}
}

// flight is a request of several operations. It ends when all their callers left.
type flight struct {
	staying int
	cancel  context.CancelFunc
}

// do runs one operation, a list of statements that is atomic and guarded by itself,
// and returns one result for each. Concurrent operations share requests. It blocks
// until the answer is there or ctx ends, and for at most twice the provider's time
// limit. Errors are those of the engine in an [*Error]; those that are
// [engine.ErrOutcomeUnknown] include a ctx that ended in flight.
func (p *Provider) do(ctx context.Context, op, name string, stmts ...engine.Statement) ([]engine.Result, error) {
	results, err := p.submit(ctx, name, stmts, false)
	if err != nil {
		return nil, &Error{op, name, err}
	}
	return results, nil
}

// submit is do without the wrapping of errors. A task of the provider itself is
// served while Close waits for it.
func (p *Provider) submit(ctx context.Context, name string, stmts []engine.Statement, task bool) ([]engine.Result, error) {
	if ctx.Err() != nil {
		return nil, unsent(context.Cause(ctx))
	}
	p.mu.Lock()
	if p.closed && !task {
		p.mu.Unlock()
		return nil, unsent(ErrClosed)
	}
	if !p.group.flying {
		// Nobody is in flight, so it goes alone, on the caller's goroutine.
		p.group.flying = true
		p.tasks++
		p.mu.Unlock()
		defer p.next()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(p.ctx, func() { cancel(ErrClosed) })()
		return p.exec(ctx, stmts)
	}
	m := &member{name: name, stmts: stmts, done: make(chan struct{})}
	for i := range stmts {
		m.size += len(stmts[i].SQL)
		for _, a := range stmts[i].Args {
			m.size += a.Size()
		}
	}
	p.group.queue = append(p.group.queue, m)
	p.mu.Unlock()
	select {
	case <-m.done:
	case <-ctx.Done():
		if err := p.leave(m, context.Cause(ctx)); err != nil {
			return nil, err
		}
	}
	return m.results, m.err
}

// exec sends one list, bounded by the time limit.
func (p *Provider) exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	return p.eng.Exec(ctx, stmts)
}

// leave takes back an operation whose caller does not wait any longer. It returns
// nil if the answer has come in the meantime.
func (p *Provider) leave(m *member, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-m.done:
		return nil
	default:
	}
	m.left = true
	if m.flight == nil {
		p.group.queue = slices.DeleteFunc(p.group.queue, func(q *member) bool { return q == m })
		return unsent(cause)
	}
	if m.flight.staying--; m.flight.staying == 0 {
		m.flight.cancel()
	}
	return &engine.Error{Op: "exec", Outcome: engine.Unknown, Err: cause}
}

// next ends the flight of an operation that went alone, and lets those that have
// gathered take off, if there are any.
func (p *Provider) next() {
	defer p.ended()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.group.queue) == 0 {
		p.group.flying = false
		return
	}
	p.spawnLocked(p.fly)
}

// fly sends what has gathered, again and again until there is nothing more.
func (p *Provider) fly(ctx context.Context) {
	for {
		fctx, cancel := context.WithCancel(ctx)
		batch := p.board(cancel)
		if batch == nil {
			cancel()
			return
		}
		if !p.land(batch, p.together(fctx, batch)) {
			// One of them is refused by the database, and only one alone can tell
			// which.
			for i := range batch {
				if alone := batch[i : i+1]; !p.hasLeft(alone[0]) {
					p.land(alone, p.together(fctx, alone))
				}
			}
		}
		cancel()
	}
}

// board takes the next batch from the queue; none means that the flights are over.
func (p *Provider) board(cancel context.CancelFunc) []*member {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.group.queue
	if len(q) == 0 {
		p.group.flying = false
		return nil
	}
	n, stmts, size := 0, 0, 0
	for n < len(q) {
		stmts, size = stmts+len(q[n].stmts), size+q[n].size
		if n > 0 && (stmts > maxGroup || size > p.traits.MaxBatchBytes) {
			break
		}
		n++
	}
	batch := slices.Clone(q[:n])
	p.group.queue = slices.Delete(q, 0, n)
	f := &flight{staying: n, cancel: cancel}
	for _, m := range batch {
		m.flight = f
	}
	// Where rows are locked one by one, transactions that lock them in the same
	// order do not wait for each other in a circle.
	slices.SortStableFunc(batch, func(a, b *member) int { return cmp.Compare(a.name, b.name) })
	return batch
}

// together sends a batch and gives its results, or its error, to the members.
func (p *Provider) together(ctx context.Context, batch []*member) error {
	stmts := batch[0].stmts
	if len(batch) > 1 {
		stmts = make([]engine.Statement, 0, 2*len(batch))
		for _, m := range batch {
			stmts = append(stmts, m.stmts...)
		}
	}
	results, err := p.exec(ctx, stmts)
	at := 0
	for _, m := range batch {
		if m.err = err; err == nil {
			m.results = results[at : at+len(m.stmts) : at+len(m.stmts)]
		}
		at += len(m.stmts)
	}
	return err
}

// land tells the members, unless the batch has to be sent one by one.
func (p *Provider) land(batch []*member, err error) bool {
	var refused *engine.StatementError
	if len(batch) > 1 && errors.As(err, &refused) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range batch {
		close(m.done)
	}
	return true
}

func (p *Provider) hasLeft(m *member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.left
}

// ask runs queries on one snapshot and returns one result for each. Errors are
// those of the engine in an [*Error].
func (p *Provider) ask(ctx context.Context, op, name string, level engine.Consistency, stmts ...engine.Statement) ([]engine.Result, error) {
	if err := p.usable(); err != nil {
		return nil, &Error{op, name, err}
	}
	results, err := p.query(ctx, level, stmts...)
	if err != nil {
		return nil, &Error{op, name, err}
	}
	return results, nil
}

// usable returns nil, or the error of a provider that is closed.
func (p *Provider) usable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return unsent(ErrClosed)
	}
	return nil
}

// query is ask without the wrapping of errors, and also for tasks of the provider
// for which Close waits.
func (p *Provider) query(ctx context.Context, level engine.Consistency, stmts ...engine.Statement) ([]engine.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	return p.eng.Query(ctx, level, stmts)
}
