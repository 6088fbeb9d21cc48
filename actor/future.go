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
	done   chan struct{} // made when somebody asks for it
	stop   func() bool   // ends the watch on the caller's context
	value  T
	err    error
	isDone bool
}

// closedChan serves every future that is resolved before anybody waits.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done returns a channel that is closed when the future is resolved, for use in
// a select.
func (f *Future[T]) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
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
// Giving up on waiting does not cancel what was asked for: the error then is the
// context's and says so, and the future can be awaited again.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	if v, err, ok := f.Poll(); ok {
		return v, err
	}
	select {
	case <-f.Done():
		v, err, _ := f.Poll()
		return v, err
	case <-ctx.Done():
		// Both may have happened: the result counts.
		if v, err, ok := f.Poll(); ok {
			return v, err
		}
		var zero T
		return zero, fmt.Errorf("%w: %w", ErrStillPending, ctx.Err())
	}
}

// ErrStillPending is what Await returns, together with the context's error, when
// its context ended first. The future is not resolved, and its operation goes on.
var ErrStillPending = errors.New("gave up waiting, still pending")

// Poll returns the result and true if the future is resolved. It never blocks.
func (f *Future[T]) Poll() (value T, err error, ok bool) { //nolint:staticcheck // ok goes last, as everywhere
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, f.err, f.isDone
}

// Err returns the error of a resolved future, and nil for one that is pending or
// succeeded. It never blocks.
func (f *Future[T]) Err() error {
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
	f.stop = nil
	f.mu.Unlock()
	if done != nil {
		close(done)
	}
	if stop != nil {
		stop()
	}
	return true
}

// watch calls give when ctx ends, unless the future is resolved before. It is not
// worth calling for contexts that never end.
func (f *Future[T]) watch(ctx context.Context, give func()) {
	stop := context.AfterFunc(ctx, give)
	f.mu.Lock()
	if !f.isDone {
		f.stop, stop = stop, nil
	}
	f.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// AwaitAll waits for all futures, or until ctx ends, and returns their values in
// order. If any failed, it returns the values of the others all the same, and an
// error that joins those of the failed ones, each with its position.
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
