package actor

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/batcher"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// PanicError says that code of this process panicked while it handled a request,
// an engine's for example. It comes inside an error that says what became of the
// operation: whether a write of that request was applied is then unknown.
type PanicError struct {
	// Value is what was passed to panic; nil if the goroutine was ended by
	// runtime.Goexit.
	Value any
}

// Error formats the panic's value.
func (e *PanicError) Error() string {
	if e.Value == nil {
		return "the goroutine handling the request was ended by runtime.Goexit"
	}
	return fmt.Sprintf("panic while handling the request: %v", e.Value)
}

// unsent is the error of an operation that was not sent and never will be.
func unsent(op string, err error) error {
	return &engine.Error{Op: op, Outcome: engine.NotApplied, Err: translate(err)}
}

// translate turns the batcher's errors into the store's.
func translate(err error) error {
	switch {
	case errors.Is(err, batcher.ErrFull):
		return store.ErrOverloaded
	case errors.Is(err, batcher.ErrClosed):
		return store.ErrClosed
	case errors.Is(err, batcher.ErrExpired):
		return errQueuedTooLong
	}
	return err
}

// Limits that passed match both the reason and the context's error of that kind.
var (
	errQueuedTooLong = fmt.Errorf("%w: the store's time limit passed while it was queued: %w", store.ErrUnavailable, context.DeadlineExceeded)
	errReadOverdue   = fmt.Errorf("%w: the store's time limit for a read passed: %w", store.ErrUnavailable, context.DeadlineExceeded)
	errWriteOverdue  = fmt.Errorf("the store's time limit for a write passed: %w", context.DeadlineExceeded)
)

// ended returns the error of a context that has ended, which matches both its
// Err and its Cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
