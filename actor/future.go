package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Future is the result of a call that has not come back yet. It resolves exactly
// once and always: with the result, with an error, at the latest when the
// store's time limit passes. All methods may be called any number of times, from
// any goroutine, and futures that nobody looks at cost nothing but their memory.
type Future[T any] struct {
	mu     sync.Mutex
	done   chan struct{}   // made when somebody asks for it
	ctx    context.Context // governs the operation, if it can end and the future is pending
	op     governed        // what ends with ctx; nil before it was submitted and after it was left
	stop   func() bool     // ends the watch on ctx
	value  T
	err    error
	isDone bool
}

// governed is an operation that ends early when the context of its caller ends.
type governed interface {
	// left gives the operation up, so that its future resolves now. It is called
	// once at most.
	left(ctx context.Context)
}

// closedChan serves every future that is resolved before anybody waits.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done returns a channel that is closed when the future is resolved, for use in
// a select.
func (f *Future[T]) Done() <-chan struct{} {
	f.mu.Lock()
	done := f.channel()
	f.mu.Unlock()
	f.watch()
	return done
}

// channel is called with the lock held.
func (f *Future[T]) channel() chan struct{} {
	if f.done == nil {
		if f.isDone {
			f.done = closedChan
		} else {
			f.done = make(chan struct{})
		}
	}
	return f.done
}

// Await waits until the future is resolved or ctx ends, and returns the result.
// Giving up on waiting does not cancel what was asked for: the error then is
// [ErrStillPending] and the context's, and the future can be awaited again. If ctx
// is the one that the call was made with, its end ends the operation too, and
// Await returns what that makes of it.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	f.mu.Lock()
	if f.isDone {
		defer f.mu.Unlock()
		return f.value, f.err
	}
	done, governor := f.channel(), f.ctx
	f.mu.Unlock()
	ended := ctx.Done()
	// The usual caller waits under the context that governs the operation, and
	// sees it end by itself: that spares a watch on it.
	if governor != nil && governor.Done() != ended {
		f.watch()
	}
	if ended == nil {
		<-done
		return f.result()
	}
	select {
	case <-done:
		return f.result()
	case <-ended:
	}
	if governor != nil && governor.Done() == ended && f.leave() {
		<-done
	}
	// Both may have happened: the result counts.
	if v, err, ok := f.Poll(); ok {
		return v, err
	}
	var zero T
	return zero, fmt.Errorf("%w: %w", ErrStillPending, ctx.Err())
}

func (f *Future[T]) result() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, f.err
}

// ErrStillPending is what Await returns, together with the context's error, when
// its context ended first. The future is not resolved, and its operation goes on.
var ErrStillPending = errors.New("gave up waiting, still pending")

// Poll returns the result and true if the future is resolved. It never blocks.
func (f *Future[T]) Poll() (value T, err error, ok bool) { //nolint:staticcheck // ok goes last, as everywhere
	f.look()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, f.err, f.isDone
}

// Err returns the error of a resolved future, and nil for one that is pending or
// succeeded. It never blocks.
func (f *Future[T]) Err() error {
	f.look()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// resolve settles the future. Only the first call counts; it returns whether
// this was it.
func (f *Future[T]) resolve(value T, err error) bool {
	f.mu.Lock()
	if f.isDone {
		f.mu.Unlock()
		return false
	}
	f.isDone, f.value, f.err = true, value, err
	done, stop := f.done, f.stop
	f.ctx, f.op, f.stop = nil, nil, nil
	f.mu.Unlock()
	if done != nil {
		close(done)
	}
	if stop != nil {
		stop()
	}
	return true
}

// under names the context that will govern the operation, before anybody else
// has the future. Without it govern does.
func (f *Future[T]) under(ctx context.Context) {
	if ctx.Done() != nil {
		f.ctx = ctx
	}
}

// govern lets the end of ctx end op, which was submitted.
//
// Nobody watches ctx as long as nobody looks at the future: whoever waits under
// the same context sees the end of it himself, and an operation that nobody waits
// for is left out when its turn comes (see writeOp.stale). Only where room is short
// is ctx watched from the start. A watch is three allocations, and a place in a
// list that all operations under ctx share.
func (f *Future[T]) govern(ctx context.Context, op governed) {
	if ctx.Done() == nil {
		return
	}
	f.mu.Lock()
	if f.isDone {
		f.mu.Unlock()
		return
	}
	f.ctx, f.op = ctx, op
	watched := f.stop != nil
	f.mu.Unlock()
	if watched {
		f.look() // ctx may have ended when there was nothing to end yet
	}
}

// governor returns the context that governs the operation, or nil if the future
// is resolved or the context never ends.
func (f *Future[T]) governor() context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ctx
}

// watch ends the operation when its context ends, from now on.
func (f *Future[T]) watch() {
	f.mu.Lock()
	ctx := f.ctx
	watched := f.stop != nil
	f.mu.Unlock()
	if ctx == nil || watched {
		return
	}
	stop := context.AfterFunc(ctx, func() { f.leave() })
	f.mu.Lock()
	if !f.isDone && f.stop == nil {
		f.stop, stop = stop, nil
	}
	f.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// look ends the operation if its context has ended.
func (f *Future[T]) look() {
	f.mu.Lock()
	ended := f.op != nil && f.ctx.Err() != nil
	f.mu.Unlock()
	if ended {
		f.leave()
	}
}

// leave ends the operation because its context has ended. It returns whether the
// future is resolved, or is about to be by somebody else. One whose operation was
// not submitted yet is neither.
func (f *Future[T]) leave() bool {
	f.mu.Lock()
	ctx, op, done, stop := f.ctx, f.op, f.isDone, f.stop
	left := op == nil && ctx == nil
	if op != nil {
		f.ctx, f.op, f.stop = nil, nil, nil
	}
	f.mu.Unlock()
	if op == nil {
		return done || left
	}
	if stop != nil {
		stop()
	}
	op.left(ctx)
	return true
}

// AwaitAll waits for all futures, or until ctx ends, and returns their values in
// order. If any failed, it returns the values of the others all the same, and an
// error that joins those of the failed ones, each with its position, from 0 on.
func AwaitAll[T any, F Awaitable[T]](ctx context.Context, futures ...F) ([]T, error) {
	values := make([]T, len(futures))
	var errs []error
	for i, f := range futures {
		v, err := f.Await(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("future %d: %w", i, err))
			continue
		}
		values[i] = v
	}
	return values, errors.Join(errs...)
}

// Awaitable is what all futures of this package are.
type Awaitable[T any] interface {
	Await(ctx context.Context) (T, error)
	Done() <-chan struct{}
	Err() error
}
