package actor

import (
	"context"
	"errors"
	"sync"

	"github.com/quorate/quorate/batcher"
)

// lane sends reads and lets equal ones share a request. A read joins another
// only as long as that one has not been sent, never one in flight: so it never
// returns what was read before it began. Each waiter leaves by its own context
// without disturbing the others; when all have left, the request is cancelled.
//
// K tells equal reads apart, V is what a read yields.
type lane[K comparable, V any] struct {
	b         *batcher.Batcher[*readOp[K, V]]
	maxJoined int

	mu     sync.Mutex
	open   map[K]*readOp[K, V] // queued, not sent, so that others may join
	joined int                 // waiters that joined, whom the batcher does not count
}

// readOp is one read and those who wait for it. Everything but the ticket is
// guarded by the lane's lock.
type readOp[K comparable, V any] struct {
	ticket  batcher.Ticket[*readOp[K, V]]
	key     K
	value   V
	first   [1]waiter[V] // room for waiters when nobody joins
	waiters []waiter[V]  // nil once they were told the outcome
	live    int          // waiters that have not left
	sealed  bool         // nobody may join: it was sent, or has ended
	flight  *flight
}

// waiter is told the outcome of a read.
type waiter[V any] interface {
	deliver(value V, err error)
	// govern lets the end of the waiter's context end op; watch, without waiting
	// for somebody to look.
	govern(ctx context.Context, op governed)
	watch()
	// governor returns the context that governs the waiter, if it has not left;
	// look lets it leave if that has ended.
	governor() context.Context
	look()
}

// leaver lets one waiter of a read leave.
type leaver[K comparable, V any] struct {
	lane *lane[K, V]
	op   *readOp[K, V]
	w    waiter[V]
}

func (l *leaver[K, V]) left(ctx context.Context) { l.lane.leave(l.op, l.w, ctx) }

// flight is a request that carries reads. It ends early when nobody waits for
// any of them.
type flight struct {
	live   int
	cancel context.CancelFunc
}

// fetchFunc sends reads, and reports each exactly once.
type fetchFunc[K comparable, V any] func(ctx context.Context, ops []*readOp[K, V], report func(i int, err error))

func newLane[K comparable, V any](cfg batcher.Config[*readOp[K, V]], fetch fetchFunc[K, V]) (*lane[K, V], error) {
	l := &lane[K, V]{open: make(map[K]*readOp[K, V]), maxJoined: cfg.MaxPending}
	cfg.Flush = func(ctx context.Context, batch []*batcher.Ticket[*readOp[K, V]]) { l.flush(ctx, batch, fetch) }
	cfg.Drop = func(t *batcher.Ticket[*readOp[K, V]], err error) { l.fail(t.Item, unsent("read", err)) }
	cfg.Overdue = func(t *batcher.Ticket[*readOp[K, V]]) { l.overdue(t.Item) }
	cfg.Panicked = func(batch []*batcher.Ticket[*readOp[K, V]], v any) {
		for _, t := range batch {
			l.fail(t.Item, unsent("read", &PanicError{Value: v}))
		}
	}
	var err error
	l.b, err = batcher.New(cfg)
	return l, err
}

// submit adds w to an equal read that is waiting to be sent, or queues a new one
// that yields value. As many may join others as may be queued; beyond that, each
// needs room in the queue.
func (l *lane[K, V]) submit(ctx context.Context, key K, try bool, w waiter[V], value V, size int) {
	if ctx.Err() != nil {
		w.deliver(*new(V), unsent("read", ended(ctx)))
		return
	}
	l.mu.Lock()
	op := l.open[key]
	if op != nil && l.joined < l.maxJoined {
		op.waiters = append(op.waiters, w)
		op.live++
		l.joined++
		crowded := l.joined > l.maxJoined/2
		l.mu.Unlock()
		l.govern(ctx, op, w, crowded)
		return
	}
	l.mu.Unlock()

	op = &readOp[K, V]{key: key, value: value, live: 1}
	op.first[0], op.waiters = w, op.first[:]
	op.ticket.Item, op.ticket.Size = op, size
	var err error
	if try {
		err = l.b.TrySubmit(&op.ticket)
	} else {
		err = l.b.Submit(ctx, &op.ticket)
	}
	if err != nil {
		w.deliver(*new(V), unsent("read", err))
		return
	}
	l.mu.Lock()
	if !op.sealed && l.open[key] == nil {
		l.open[key] = op
	}
	l.mu.Unlock()
	l.govern(ctx, op, w, op.ticket.Crowded)
}

// govern lets a waiter leave when its context ends.
func (l *lane[K, V]) govern(ctx context.Context, op *readOp[K, V], w waiter[V], crowded bool) {
	if ctx.Done() == nil {
		return
	}
	w.govern(ctx, &leaver[K, V]{l, op, w})
	if crowded {
		w.watch()
	}
}

// leave lets one waiter go.
func (l *lane[K, V]) leave(op *readOp[K, V], w waiter[V], ctx context.Context) {
	err := unsent("read", ended(ctx))
	w.deliver(*new(V), err)
	l.mu.Lock()
	op.live--
	last := op.live == 0 && op.waiters != nil
	if last {
		l.desert(op)
	}
	sent := op.flight != nil
	l.mu.Unlock()
	if last && !sent {
		l.b.Withdraw(&op.ticket, err)
	}
}

// desert notes that nobody waits for a read any more. It is called with the lock
// held.
func (l *lane[K, V]) desert(op *readOp[K, V]) {
	l.seal(op)
	if f := op.flight; f != nil {
		f.live--
		if f.live == 0 {
			f.cancel()
		}
	}
}

// seal keeps others from joining. It is called with the lock held.
func (l *lane[K, V]) seal(op *readOp[K, V]) {
	op.sealed = true
	if l.open[op.key] == op {
		delete(l.open, op.key)
	}
}

// retire ends a read and returns those who are to be told. It is called with the
// lock held.
func (l *lane[K, V]) retire(op *readOp[K, V]) []waiter[V] {
	l.seal(op)
	waiters := op.waiters
	if waiters != nil {
		l.joined -= len(waiters) - 1
		op.waiters = nil
	}
	return waiters
}

// dismiss lets those leave whose contexts have ended unnoticed.
func (l *lane[K, V]) dismiss(batch []*batcher.Ticket[*readOp[K, V]]) {
	var gone []waiter[V]
	l.mu.Lock()
	for _, t := range batch {
		for _, w := range t.Item.waiters {
			if ctx := w.governor(); ctx != nil && ctx.Err() != nil {
				gone = append(gone, w)
			}
		}
	}
	l.mu.Unlock()
	for _, w := range gone {
		w.look()
	}
}

func (l *lane[K, V]) flush(ctx context.Context, batch []*batcher.Ticket[*readOp[K, V]], fetch fetchFunc[K, V]) {
	l.dismiss(batch)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &flight{cancel: cancel}
	ops := make([]*readOp[K, V], 0, len(batch))
	l.mu.Lock()
	for _, t := range batch {
		op := t.Item
		if op.live <= 0 {
			l.retire(op) // everybody left between queue and flight
			continue
		}
		l.seal(op)
		op.flight = f
		f.live++
		ops = append(ops, op)
	}
	l.mu.Unlock()
	if len(ops) == 0 {
		return
	}
	landing := false
	fetch(ctx, ops, func(i int, err error) {
		if !landing {
			landing = true
			l.b.Landing(batch)
		}
		if err != nil && errors.Is(context.Cause(ctx), batcher.ErrClosed) {
			err = unsent("read", batcher.ErrClosed)
		}
		l.finish(ops[i], err)
	})
}

// finish delivers the outcome to everybody who still waits. Some outcomes are a
// value and an error.
func (l *lane[K, V]) finish(op *readOp[K, V], err error) {
	l.mu.Lock()
	waiters := l.retire(op)
	l.mu.Unlock()
	for _, w := range waiters {
		w.deliver(op.value, err)
	}
}

// fail delivers an error. It leaves the value alone, which belongs to the flight
// if there is one.
func (l *lane[K, V]) fail(op *readOp[K, V], err error) {
	l.mu.Lock()
	waiters := l.retire(op)
	l.mu.Unlock()
	for _, w := range waiters {
		w.deliver(*new(V), err)
	}
}

// overdue fails a read whose time has passed in flight, and ends the flight if
// that leaves it without anybody who waits.
func (l *lane[K, V]) overdue(op *readOp[K, V]) {
	// Under one lock, so that nobody who leaves meanwhile thinks that the flight
	// still has somebody.
	l.mu.Lock()
	waiters := l.retire(op)
	if op.live > 0 {
		op.live = 0
		l.desert(op)
	}
	l.mu.Unlock()
	for _, w := range waiters {
		w.deliver(*new(V), unsent("read", errReadOverdue))
	}
}
