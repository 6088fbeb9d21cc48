package store

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/store/engine"
)

// Errors of the store, for errors.Is. What became of the data is always said:
// an error that matches ErrOutcomeUnknown may have been applied, every other
// error of a write means that it was not.
var (
	// ErrConflict: the execution is not at the version the commit was built on.
	// The error is a [*ConflictError].
	ErrConflict = errors.New("conflict")
	// ErrNotFound: there is no such execution. The error is a [*NotFoundError].
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the input was refused before anything was sent. The error is
	// an [*InvalidError].
	ErrInvalid = errors.New("invalid input")
	// ErrTooLarge: the input is above a limit (see [Limits]).
	ErrTooLarge = engine.ErrTooLarge
	// ErrOutcomeUnknown: the write was sent and no definite answer came; it may
	// have been applied, or may yet be. For commits the error is an
	// [*UnknownError], by which [Store.Resolve] can ask again later.
	ErrOutcomeUnknown = engine.ErrOutcomeUnknown
	// ErrUnavailable: the database could not be reached or has no leader.
	ErrUnavailable = engine.ErrUnavailable
	// ErrOverloaded: too much is waiting already; nothing was sent.
	ErrOverloaded = errors.New("overloaded")
	// ErrClosed: the store is closed; nothing was written.
	ErrClosed = engine.ErrClosed
	// ErrSchema: the database's schema cannot be used, such as one that a newer
	// version of this library made.
	ErrSchema = errors.New("unusable schema")
)

// NoVersion stands for "no such row" in [ConflictError] and [UnknownError].
const NoVersion int64 = -1

// ConflictError says that a commit lost its compare-and-swap and left nothing
// behind. It matches [ErrConflict].
type ConflictError struct {
	// ID is the execution.
	ID string
	// Expected is the version the commit was built on; 0 means that the commit
	// wanted to create the execution.
	Expected int64
	// Found is the version that was found instead, or [NoVersion] if there is no
	// such execution. It may equal Expected if the row carries another commit's
	// token: then somebody else's commit took the place of the one this was
	// built on.
	Found int64
}

// Error describes the conflict.
func (e *ConflictError) Error() string {
	switch {
	case e.Found == NoVersion:
		return fmt.Sprintf("execution %q: conflict: expected version %d, found none", e.ID, e.Expected)
	case e.Expected == 0:
		return fmt.Sprintf("execution %q: conflict: expected none, found version %d", e.ID, e.Found)
	case e.Found == e.Expected:
		return fmt.Sprintf("execution %q: conflict: version %d is another commit's", e.ID, e.Found)
	}
	return fmt.Sprintf("execution %q: conflict: expected version %d, found %d", e.ID, e.Expected, e.Found)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// NotFoundError says that there is no execution of that id. It matches
// [ErrNotFound].
type NotFoundError struct{ ID string }

// Error names the execution.
func (e *NotFoundError) Error() string { return fmt.Sprintf("execution %q: not found", e.ID) }

// Is reports whether target is ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// InvalidError says which input was refused and why, before anything was sent.
// It matches [ErrInvalid], and [ErrTooLarge] where a limit was exceeded.
type InvalidError struct {
	// Field is the input's name, such as "Execution.ID".
	Field string
	// Reason says what is wrong with it. It never contains the value.
	Reason string

	tooLarge bool
}

// Error returns the field and the reason.
func (e *InvalidError) Error() string { return "invalid input: " + e.Field + " " + e.Reason }

// Is reports whether target is ErrInvalid, or ErrTooLarge for a limit.
func (e *InvalidError) Is(target error) bool {
	return target == ErrInvalid || e.tooLarge && target == ErrTooLarge
}

// UnknownError says that a commit was sent and that its outcome could not be
// learned. It matches [ErrOutcomeUnknown] and whatever Err wraps.
type UnknownError struct {
	// Ref identifies the commit; give it to [Store.Resolve] to ask later.
	Ref CommitRef
	// Found is the version last seen in the database, [NoVersion] if the row was
	// not there; it means something only if Seen.
	Found int64
	// Seen tells whether the row was looked at after the commit was sent.
	Seen bool
	// Err is why no definite answer came.
	Err error
}

// Error describes what is known.
func (e *UnknownError) Error() string {
	s := fmt.Sprintf("execution %q: outcome of the commit on version %d is unknown", e.Ref.ID, e.Ref.Base)
	if e.Seen {
		if e.Found == NoVersion {
			s += ", no row was found"
		} else {
			s += fmt.Sprintf(", found version %d", e.Found)
		}
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrOutcomeUnknown and the cause.
func (e *UnknownError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrOutcomeUnknown}
	}
	return []error{ErrOutcomeUnknown, e.Err}
}

// CommitRef identifies one commit for ever: it is what a caller keeps in order
// to ask later what became of a commit whose outcome was unknown.
type CommitRef struct {
	// ID is the execution.
	ID string
	// Base is the version that the commit was built on.
	Base int64
	// Token is the commit's random token.
	Token string
	// BaseToken is the token that version Base carries, empty if that is not
	// known.
	BaseToken string
}
