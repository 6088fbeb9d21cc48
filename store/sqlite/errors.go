package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/quorate/quorate/store/engine"
)

// errBusy replaces SQLite's "database is locked", which says neither who waited
// nor for how long.
type errBusy struct{ waited time.Duration }

func (e *errBusy) Error() string {
	return fmt.Sprintf("another connection kept the database file locked for %v", e.waited.Round(time.Millisecond))
}

// isBusy reports whether err says that another connection is in the way, so
// that trying again may work. PROTOCOL is SQLite's answer when it lost the race
// for a read lock too often.
func isBusy(err error) bool {
	switch codeOf(err) {
	case sqlite3.BUSY, sqlite3.LOCKED, sqlite3.PROTOCOL:
		return true
	}
	return false
}

// codeOf returns the primary result code of err, or 0 if SQLite did not make it.
func codeOf(err error) sqlite3.ErrorCode {
	var code sqlite3.ErrorCode
	if errors.As(err, &code) {
		return code
	}
	return 0
}

// reasonOf returns the reason, or nil, of a failure that SQLite reported, and
// whether the failure is the statement's own fault.
func reasonOf(err error) (reason error, ofStatement bool) {
	switch codeOf(err) {
	case sqlite3.ERROR, sqlite3.CONSTRAINT, sqlite3.MISMATCH, sqlite3.RANGE, sqlite3.AUTH, sqlite3.MISUSE, sqlite3.SCHEMA, sqlite3.ABORT:
		return nil, true
	case sqlite3.TOOBIG:
		return engine.ErrTooLarge, true
	case sqlite3.FULL:
		return engine.ErrFull, false
	case sqlite3.READONLY, sqlite3.PERM:
		return engine.ErrReadOnly, false
	case sqlite3.NOTADB, sqlite3.CORRUPT:
		return engine.ErrProtocol, false
	case sqlite3.IOERR, sqlite3.CANTOPEN:
		switch {
		case isFull(err), errors.Is(err, sqlite3.IOERR_SHMSIZE):
			return engine.ErrFull, false
		case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
			return engine.ErrReadOnly, false
		}
	}
	return engine.ErrUnavailable, false
}

// message returns SQLite's text without the library's prefix.
func message(err error) string {
	return strings.TrimPrefix(err.Error(), "sqlite3: ")
}

// failure builds the error of statement index (negative: of the transaction
// around the statements) that SQLite refused with err. Nothing was applied.
func failure(op string, index int, err error) *engine.Error {
	var own *engine.StatementError
	if errors.As(err, &own) {
		return &engine.Error{Op: op, Outcome: engine.NotApplied, Err: own}
	}
	reason, ofStatement := reasonOf(err)
	if ofStatement && index >= 0 {
		err = &engine.StatementError{Index: index, Message: message(err)}
	}
	return &engine.Error{Op: op, Outcome: engine.NotApplied, Reason: reason, Err: err}
}

// busy builds the error of an operation that waited for a locked file in vain.
func busy(op string, waited time.Duration) *engine.Error {
	return &engine.Error{Op: op, Outcome: engine.NotApplied, Reason: engine.ErrUnavailable, Err: &errBusy{waited}}
}

// closed builds the error of an operation on a closed engine.
func closed(op string) *engine.Error {
	return &engine.Error{Op: op, Outcome: engine.NotApplied, Reason: engine.ErrClosed}
}

// ended builds the error of an operation whose context ended before it had any
// effect.
func ended(op string, ctx context.Context) *engine.Error {
	return &engine.Error{Op: op, Outcome: engine.NotApplied, Err: ctx.Err()}
}

// errPanic is a panic of the SQLite library, caught before it could leave a
// lock behind. The library panics when SQLite's memory is exhausted.
type errPanic struct{ value any }

func (e *errPanic) Error() string { return fmt.Sprintf("sqlite panicked: %v", e.value) }

func (e *errPanic) outOfMemory() bool {
	err, ok := e.value.(error)
	return ok && strings.Contains(err.Error(), "out of memory")
}

// panicked builds the error of an operation that ended in a panic.
func panicked(op string, outcome engine.Outcome, value any) *engine.Error {
	err := &errPanic{value}
	reason := engine.ErrUnavailable
	if err.outOfMemory() {
		reason = engine.ErrTooLarge
	}
	return &engine.Error{Op: op, Outcome: outcome, Reason: reason, Err: err}
}
