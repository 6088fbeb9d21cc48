package workspace

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// Errors of this package, for errors.Is. What became of the data is always said:
// an error that matches ErrOutcomeUnknown may have been applied, every other error
// of a write means that it was not.
var (
	// ErrDuplicate: an event of that id is in the log. The error is a
	// [*DuplicateError].
	ErrDuplicate = errors.New("already in the log")
	// ErrMismatch: the event of that id in the log is another one. It comes with
	// ErrDuplicate, inside the same [*DuplicateError].
	ErrMismatch = errors.New("the event in the log differs")
	// ErrConflict: other writers were faster too often. The error is a
	// [*ConflictError]. Only engines without interactive transactions give it.
	ErrConflict = store.ErrConflict
	// ErrVersion: a stored rule was not saved as its next version. The error is a
	// [*VersionError].
	ErrVersion = errors.New("not the next version")
	// ErrInvalid: the input was refused before anything was sent. The error is a
	// [*store.InvalidError].
	ErrInvalid = store.ErrInvalid
	// ErrNested: the call was made, with its context, from within a transaction
	// of the same store, for whose end it would wait for ever.
	ErrNested = errors.New("called within a transaction")
	// ErrTxDone: the transaction was used after its function had returned.
	ErrTxDone = errors.New("the transaction is over")
	// ErrOutcomeUnknown: the write was sent and no definite answer came; it may
	// have been applied, or may yet be. The error is an [*UnknownError].
	ErrOutcomeUnknown = engine.ErrOutcomeUnknown
	// ErrUnavailable: the database could not be reached or has no leader.
	ErrUnavailable = engine.ErrUnavailable
	// ErrClosed: the store or its engine is closed.
	ErrClosed = engine.ErrClosed
)

// DuplicateError says that an event of this id is in the log, or is about to be.
// Nothing was added for it. It matches [ErrDuplicate], and [ErrMismatch] if there
// is an Envelope that is not the Same.
type DuplicateError struct {
	// ID is the event's id.
	ID string
	// Envelope is the event in the log, with its position. Its Seq is 0 if the
	// call named the same id twice.
	Envelope Envelope
	// Same tells that the two are equal in everything but their time: the event
	// was appended before, by a retry or by somebody else, and a caller that only
	// wants it to be in the log is done.
	Same bool
}

// Error names the id and the position.
func (e *DuplicateError) Error() string {
	switch {
	case e.Envelope.Seq == 0:
		return fmt.Sprintf("event %q: given twice", e.ID)
	case e.Same:
		return fmt.Sprintf("event %q: already in the log at %d", e.ID, e.Envelope.Seq)
	}
	return fmt.Sprintf("event %q: already in the log at %d, with other content", e.ID, e.Envelope.Seq)
}

// Is reports whether target is ErrDuplicate, or ErrMismatch for another event.
func (e *DuplicateError) Is(target error) bool {
	return target == ErrDuplicate || target == ErrMismatch && !e.Same && e.Envelope.Seq > 0
}

// ConflictError says that a transaction lost against others as often as it may be
// tried. It left nothing behind. It matches [ErrConflict].
type ConflictError struct {
	// Ref is the workspace.
	Ref Ref
	// Attempts is how often the function ran.
	Attempts int
}

// Error describes the conflict.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("workspace %v: conflict: others were faster %d times", e.Ref, e.Attempts)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// VersionError says that a stored rule was not saved as its next version. It
// matches [ErrVersion].
type VersionError struct {
	// Rule is the rule's name.
	Rule string
	// Want is the version that comes next, Got the one that was given.
	Want, Got int64
}

// Error states both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("rule %q: version %d was given, %d comes next", e.Rule, e.Got, e.Want)
}

// Is reports whether target is ErrVersion.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// UnknownError says that a write was sent and that its outcome could not be
// learned. It matches [ErrOutcomeUnknown] and whatever Err wraps.
//
// An append settles it by appending the same entries again: those that are in the
// log are then reported as duplicates. A transaction settles it by
// [Store.Resolve].
type UnknownError struct {
	// Commit identifies the transaction's commit; zero for appends.
	Commit CommitRef
	// Ref is the workspace.
	Ref Ref
	// Err is why no definite answer came.
	Err error
}

// Error describes what is known.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("workspace %v: outcome of the write is unknown: %v", e.Ref, e.Err)
}

// Unwrap returns ErrOutcomeUnknown and the cause.
func (e *UnknownError) Unwrap() []error { return []error{ErrOutcomeUnknown, cause{e.Err}} }

// cause is why an outcome is unknown. It may be that a later request was surely
// not applied, which must not be taken for the outcome of them all.
type cause struct{ error }

// Is reports whether target is in the error, the kinds of outcome left aside.
func (c cause) Is(target error) bool {
	switch target {
	case engine.ErrNotApplied, engine.ErrApplied, engine.ErrOutcomeUnknown:
		return false
	}
	return errors.Is(c.error, target)
}

// As finds target in the error.
func (c cause) As(target any) bool { return errors.As(c.error, target) }

func protocol(op string, outcome engine.Outcome, text string) error {
	return &engine.Error{Op: op, Outcome: outcome, Reason: engine.ErrProtocol, Err: errors.New(text)}
}
