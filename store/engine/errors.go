package engine

import (
	"errors"
	"fmt"
	"strings"
)

// The three kinds of failure, for errors.Is. Every error of [Engine.Exec] is
// exactly one of them. Reads change nothing, so errors of [Engine.Query] are
// always [ErrNotApplied].
var (
	// ErrNotApplied: the statements had no effect and never will have.
	ErrNotApplied = errors.New("not applied")
	// ErrApplied: the statements took effect, but their results are lost.
	ErrApplied = errors.New("applied, results lost")
	// ErrOutcomeUnknown: the statements may have taken effect, or may yet.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// Reasons for a failure, for errors.Is. They say why; the kinds above say what
// became of the statements.
var (
	// ErrUnavailable: no node could be reached, or none leads, or the file is
	// busy beyond its timeout. Trying again later may help.
	ErrUnavailable = errors.New("database unavailable")
	// ErrNoLeader: the cluster answered but has no leader now. It comes with
	// ErrUnavailable.
	ErrNoLeader = errors.New("no leader")
	// ErrUnauthorized: the database refused the credentials.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrInsecure: the TLS connection could not be trusted, or the server did
	// not speak TLS. There is no fallback.
	ErrInsecure = errors.New("TLS failure")
	// ErrProtocol: the answer was not what the database's protocol allows.
	ErrProtocol = errors.New("protocol violation")
	// ErrTooLarge: the request or answer is above a limit.
	ErrTooLarge = errors.New("too large")
	// ErrFull: the disk, or a quota of the database, is full.
	ErrFull = errors.New("database full")
	// ErrReadOnly: the database cannot be written.
	ErrReadOnly = errors.New("database is read-only")
	// ErrClosed: the engine is closed.
	ErrClosed = errors.New("the store is closed")
)

// Outcome says what became of statements whose execution failed.
type Outcome uint8

// The outcomes. Unknown is the zero value, so that an error nobody classified
// is taken for the worst.
const (
	Unknown Outcome = iota
	NotApplied
	Applied
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case NotApplied:
		return ErrNotApplied.Error()
	case Applied:
		return ErrApplied.Error()
	}
	return ErrOutcomeUnknown.Error()
}

func (o Outcome) sentinel() error {
	switch o {
	case NotApplied:
		return ErrNotApplied
	case Applied:
		return ErrApplied
	}
	return ErrOutcomeUnknown
}

// Error is the error type of engines. It matches, by errors.Is, the sentinel of
// its Outcome, its Reason, and whatever Err wraps. It never contains
// credentials.
type Error struct {
	// Op is what was being done: "exec", "query", "define", "ping", "connect".
	Op string
	// Outcome is what became of the statements.
	Outcome Outcome
	// Reason is one of this package's reason sentinels, or nil.
	Reason error
	// Err is the underlying error, or nil.
	Err error
}

// Error returns the operation, the cause and, where it matters, the outcome.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Reason != nil {
		b.WriteString(": ")
		b.WriteString(e.Reason.Error())
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	if e.Outcome != NotApplied {
		b.WriteString(" (")
		b.WriteString(e.Outcome.String())
		b.WriteString(")")
	}
	return b.String()
}

// Unwrap returns the sentinel of the outcome, the reason, and the cause.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 3)
	errs = append(errs, e.Outcome.sentinel())
	if e.Reason != nil {
		errs = append(errs, e.Reason)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// OutcomeOf returns what err says about the statements it is about. An error
// that no engine classified is Unknown; a nil error is Applied.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Applied
	case errors.Is(err, ErrOutcomeUnknown):
		return Unknown
	case errors.Is(err, ErrApplied):
		return Applied
	case errors.Is(err, ErrNotApplied):
		return NotApplied
	}
	return Unknown
}

// StatementError says that the database refused one statement of a list, by a
// constraint, a syntax error, a missing table. It comes inside an [*Error] with
// outcome NotApplied.
type StatementError struct {
	// Index is the position of the statement in the list.
	Index int
	// Message is the database's own text.
	Message string
}

// Error returns the position and the database's text.
func (e *StatementError) Error() string {
	return fmt.Sprintf("statement %d: %s", e.Index, e.Message)
}
