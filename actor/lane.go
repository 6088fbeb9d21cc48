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
	b *batcher.Batcher[*readOp[K, V]]

	mu   sync.Mutex
	open map[K]*readOp[K, V] // queued, not sent, so that others may join
}

// readOp is one read and those who wait for it.
type readOp[K comparable, V any] struct {
	ticket  batcher.Ticket[*readOp[K, V]]
	key     K
	value   V
	waiters []waiter[V]
	live    int  // waiters that have not left
	sealed  bool // sent: nobody may join
	flight  *flight
}

// waiter is told the outcome of a read.
type waiter[V any] interface {
	deliver(value V, err error)
	// leaves arranges that left is called when the waiter's context ends first.
	leaves(ctx context.Context, left func())
}

// flight is a request that carries reads. It ends early when nobody waits for
// any of them.
type flight struct {
	live   int
	cancel context.CancelFunc
}

// fetchFunc sends reads, and reports each exactly once.
type fetchFunc[K comparable, V any] func(ctx context.Context, ops []*readOp[K, V], report func(i int, err error))

func newLane[K comparable, V any](cfg batcher.Config[*readOp[K, V]], fetch fetchFunc[K, V]) (*lane[K, V], error) {
	l := &lane[K, V]{open: make(map[K]*readOp[K, V])}
	cfg.Flush = func(ctx context.Context, batch []*batcher.Ticket[*readOp[K, V]]) { l.flush(ctx, batch, fetch) }
	cfg.Drop = func(t *batcher.Ticket[*readOp[K, V]], err error) { l.finish(t.Item, unsent("read", err)) }
	cfg.Overdue = func(t *batcher.Ticket[*readOp[K, V]]) { l.finish(t.Item, unsent("read", batcher.ErrExpired)) }
	cfg.Panicked = func(batch []*batcher.Ticket[*readOp[K, V]], v any) {
		for _, t := range batch {
			l.finish(t.Item, &PanicError{Value: v})
		}
	}
	var err error
	l.b, err = batcher.New(cfg)
	return l, err
}

// submit adds w to an equal read that is waiting to be sent, or queues a new one
// made by newValue.
func (l *lane[K, V]) submit(ctx context.Context, key K, try bool, w waiter[V], newValue func() V, size int) {
	if err := ctx.Err(); err != nil {
		w.deliver(*new(V), unsent("read", err))
		return
	}
	l.mu.Lock()
	if op := l.open[key]; op != nil {
		op.waiters = append(op.waiters, w)
		op.live++
		l.mu.Unlock()
		w.leaves(ctx, func() { l.leave(op, w, ctx) })
		return
	}
	l.mu.Unlock()

	op := &readOp[K, V]{key: key, value: newValue(), waiters: []waiter[V]{w}, live: 1}
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
	w.leaves(ctx, func() { l.leave(op, w, ctx) })
}

// leave lets one waiter go.
func (l *lane[K, V]) leave(op *readOp[K, V], w waiter[V], ctx context.Context) {
	w.deliver(*new(V), unsent("read", context.Cause(ctx)))
	l.mu.Lock()
	defer l.mu.Unlock()
	op.live--
	if op.live > 0 {
		return
	}
	if op.flight != nil {
		op.flight.live--
		if op.flight.live == 0 {
			op.flight.cancel()
		}
		return
	}
	// Not sent, and nobody may join a read whose first caller's fate is sealed.
	l.seal(op)
	l.b.Withdraw(&op.ticket)
}

// seal keeps others from joining. It is called with the lock held.
func (l *lane[K, V]) seal(op *readOp[K, V]) {
	op.sealed = true
	if l.open[op.key] == op {
		delete(l.open, op.key)
	}
}

func (l *lane[K, V]) flush(ctx context.Context, batch []*batcher.Ticket[*readOp[K, V]], fetch fetchFunc[K, V]) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &flight{cancel: cancel}
	ops := make([]*readOp[K, V], 0, len(batch))
	l.mu.Lock()
	for _, t := range batch {
		op := t.Item
		l.seal(op)
		if op.live == 0 {
			continue
		}
		op.flight = f
		f.live++
		ops = append(ops, op)
	}
	l.mu.Unlock()
	if len(ops) == 0 {
		return
	}
	fetch(ctx, ops, func(i int, err error) {
		if err != nil && errors.Is(context.Cause(ctx), batcher.ErrClosed) {
			err = unsent("read", batcher.ErrClosed)
		}
		l.finish(ops[i], err)
	})
}

// finish delivers the outcome to everybody who still waits.
func (l *lane[K, V]) finish(op *readOp[K, V], err error) {
	l.mu.Lock()
	l.seal(op)
	waiters := op.waiters
	op.waiters = nil
	l.mu.Unlock()
	for _, w := range waiters {
		w.deliver(op.value, err)
	}
}
