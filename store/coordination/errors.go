package coordination

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/store/engine"
)

// Errors of this package, for errors.Is. They come inside an [*Error], which names
// the operation. What a failure of the database did is said beside them by
// [engine.ErrNotApplied], [engine.ErrApplied] and [engine.ErrOutcomeUnknown].
var (
	// ErrNotHeld: the handle was released before, or never held anything.
	ErrNotHeld = errors.New("not held")
	// ErrLost: the lease ended, or another has taken over, before the holder
	// renewed or released it. It matches ErrNotHeld too.
	ErrLost error = &kindError{"lost", []error{ErrNotHeld}}
	// ErrWouldBlock: another holds it, and the call does not wait.
	ErrWouldBlock = errors.New("would block")
	// ErrTimeout: another held it until the deadline of the context. It matches
	// ErrWouldBlock and [context.DeadlineExceeded] too.
	ErrTimeout error = &kindError{"timed out", []error{ErrWouldBlock, context.DeadlineExceeded}}
	// ErrReentrant: the object already holds it, or waits for it; nothing was sent.
	ErrReentrant = errors.New("already in use by the same object")
	// ErrUpgrade: a read lock does not turn into a write lock; nothing was sent.
	ErrUpgrade = errors.New("a read lock cannot become a write lock")
	// ErrInvalidName: see [NameError]; nothing was sent.
	ErrInvalidName = errors.New("invalid name")
	// ErrInvalid: an argument or option that makes no sense; nothing was sent. It
	// is an [*InvalidError] or a [*NameError].
	ErrInvalid = errors.New("invalid input")
	// ErrClosed: the provider, or its engine, is closed.
	ErrClosed = engine.ErrClosed
)

// kindError is a sentinel that is a special case of others.
type kindError struct {
	text string
	of   []error
}

func (e *kindError) Error() string { return e.text }

func (e *kindError) Unwrap() []error { return e.of }

// Error says which operation failed, and on what. It matches whatever Err does.
type Error struct {
	// Op is what was being done, such as "acquire lock".
	Op string
	// Name is the name of the lock, election, schedule, or key.
	Name string
	// Err is why it failed.
	Err error
}

// Error returns the operation, the name and the cause.
func (e *Error) Error() string { return fmt.Sprintf("%s %q: %v", e.Op, e.Name, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// InvalidError says which input was refused and why. It matches [ErrInvalid].
type InvalidError struct {
	// Field is the input's name, such as "LockOptions.Lease".
	Field string
	// Reason says what is wrong with it.
	Reason string
}

// Error returns the field and the reason.
func (e *InvalidError) Error() string { return "invalid input: " + e.Field + " " + e.Reason }

// Is reports whether target is ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(field, reason string) error { return &InvalidError{field, reason} }

// unsent is the failure of a request that never left.
func unsent(err error) error {
	return &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: err}
}

// doubtful returns the failure of a request of which an earlier sending may have
// been carried out: then nobody can tell, whatever the last one met.
func doubtful(err error) error {
	if engine.OutcomeOf(err) != engine.NotApplied {
		return err
	}
	if e, ok := err.(*Error); ok {
		return &Error{e.Op, e.Name, doubtful(e.Err)}
	}
	said := &engine.Error{Op: "exec", Outcome: engine.Unknown, Err: err}
	var e *engine.Error
	if errors.As(err, &e) {
		said.Op, said.Reason, said.Err = e.Op, e.Reason, e.Err
	}
	if errors.Is(said.Err, engine.ErrNotApplied) {
		said.Err = errors.New(said.Err.Error())
	}
	return said
}

// passing reports whether the same request may succeed later: the database is away
// for now, or nobody knows what became of the request.
func passing(err error) bool {
	return err != nil && !errors.Is(err, ErrClosed) &&
		(errors.Is(err, engine.ErrUnavailable) || engine.OutcomeOf(err) != engine.NotApplied)
}
