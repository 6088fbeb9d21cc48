package main

import (
	"context"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
)

// backend is what the fleet needs of a store. The asynchronous store returns
// futures that are pending, the synchronous one such that are resolved; the
// fleet's logic is the same for both.
type backend interface {
	LoadForEvent(ctx context.Context, id, event string) actor.Awaitable[store.Loaded]
	Commit(ctx context.Context, c *store.Commit) actor.Awaitable[store.Committed]
	AckOutbox(ctx context.Context, seqs ...int64) error
	AckSpawn(ctx context.Context, seqs ...int64) error
	DeleteTimer(ctx context.Context, t store.Timer) actor.Awaitable[struct{}]
	PendingOutbox(ctx context.Context, limit int) ([]store.OutboxEntry, error)
	PendingSpawns(ctx context.Context, limit int) ([]store.SpawnEntry, error)
	DueTimers(ctx context.Context, now float64, limit int) ([]store.Timer, error)
	// Async tells whether futures may be pending, so that one goroutine can keep
	// many operations in flight.
	Async() bool
}

// asyncBackend is the store of package actor.
type asyncBackend struct{ s *actor.Store }

func (b asyncBackend) LoadForEvent(ctx context.Context, id, event string) actor.Awaitable[store.Loaded] {
	return b.s.LoadForEvent(ctx, id, event)
}

func (b asyncBackend) Commit(ctx context.Context, c *store.Commit) actor.Awaitable[store.Committed] {
	return b.s.Commit(ctx, c)
}

func (b asyncBackend) AckOutbox(ctx context.Context, seqs ...int64) error {
	_, err := b.s.AckOutbox(ctx, seqs...).Await(ctx)
	return err
}

func (b asyncBackend) AckSpawn(ctx context.Context, seqs ...int64) error {
	_, err := b.s.AckSpawn(ctx, seqs...).Await(ctx)
	return err
}

func (b asyncBackend) DeleteTimer(ctx context.Context, t store.Timer) actor.Awaitable[struct{}] {
	return b.s.DeleteTimer(ctx, t)
}

func (b asyncBackend) PendingOutbox(ctx context.Context, limit int) ([]store.OutboxEntry, error) {
	return b.s.PendingOutbox(ctx, limit).Await(ctx)
}

func (b asyncBackend) PendingSpawns(ctx context.Context, limit int) ([]store.SpawnEntry, error) {
	return b.s.PendingSpawns(ctx, limit).Await(ctx)
}

func (b asyncBackend) DueTimers(ctx context.Context, now float64, limit int) ([]store.Timer, error) {
	return b.s.DueTimers(ctx, now, limit).Await(ctx)
}

func (asyncBackend) Async() bool { return true }

// syncBackend is the store of package store: each call is one request, and the
// caller waits for it.
type syncBackend struct{ *store.Store }

func (b syncBackend) LoadForEvent(ctx context.Context, id, event string) actor.Awaitable[store.Loaded] {
	v, err := b.Store.LoadForEvent(ctx, id, event)
	return ready[store.Loaded]{v, err}
}

func (b syncBackend) Commit(ctx context.Context, c *store.Commit) actor.Awaitable[store.Committed] {
	v, err := b.Store.Commit(ctx, c)
	return ready[store.Committed]{v, err}
}

func (b syncBackend) DeleteTimer(ctx context.Context, t store.Timer) actor.Awaitable[struct{}] {
	return ready[struct{}]{err: b.Store.DeleteTimer(ctx, t)}
}

func (syncBackend) Async() bool { return false }

// ready is a future that is resolved from the start.
type ready[T any] struct {
	value T
	err   error
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (r ready[T]) Await(context.Context) (T, error) { return r.value, r.err }
func (r ready[T]) Done() <-chan struct{}            { return closed }
func (r ready[T]) Err() error                       { return r.err }
