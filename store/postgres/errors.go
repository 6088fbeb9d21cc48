package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quorate/quorate/store/engine"
)

// failure is why an attempt failed, and whether another one makes sense.
type failure struct {
	outcome engine.Outcome
	reason  error
	err     error
	again   again
}

// again says what to do after a failure that was not applied.
type again uint8

const (
	never     again = iota
	contended       // another transaction was in the way: try again at once, a few times
	stale           // the connection or its statements were: take another one
	patiently       // the server cannot now: try again with pauses, until the context ends
)

func (f *failure) toError(op string) error {
	return &engine.Error{Op: op, Outcome: f.outcome, Reason: f.reason, Err: f.err}
}

// refused builds the failure of statement index that the server answered with an
// error.
func refused(index int, e *pgconn.PgError) *failure {
	f := &failure{outcome: engine.NotApplied, err: e}
	statement := func() *failure {
		f.err = &engine.StatementError{Index: index, Message: message(e)}
		return f
	}
	class := ""
	if len(e.Code) == 5 {
		class = e.Code[:2]
	}
	switch e.Code {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock timeout
		f.reason, f.again = engine.ErrUnavailable, contended
		return f
	case "26000", "42P05": // a pooler gave us a session without, or with, our prepared statement
		f.reason, f.again = engine.ErrUnavailable, stale
		return f
	case "25006": // read-only transaction
		f.reason = engine.ErrReadOnly
		return f
	case "53100", "53400": // disk full, a configured limit
		f.reason = engine.ErrFull
		return f
	case "57014": // cancelled; by whom, the caller knows
		f.reason = engine.ErrUnavailable
		return f
	case "28000", "28P01":
		f.reason = engine.ErrUnauthorized
		return f
	case "42501": // no privilege for this table
		f.reason = engine.ErrUnauthorized
		return statement()
	case "3D000": // there is no such database
		return f
	case "0A000":
		if strings.Contains(e.Message, "cached plan") {
			f.reason, f.again = engine.ErrUnavailable, stale
			return f
		}
	}
	switch class {
	case "08", "57", "58", "53": // connection, operator intervention, system error, resources
		f.reason, f.again = engine.ErrUnavailable, patiently
		return f
	case "54": // a limit of the program's
		f.reason = engine.ErrTooLarge
		return statement()
	}
	return statement()
}

// message is the server's text with what helps to find the cause, and its code.
func message(e *pgconn.PgError) string {
	s := e.Message
	if e.ConstraintName != "" && !strings.Contains(s, e.ConstraintName) {
		s += ", constraint " + e.ConstraintName
	}
	return s + " (SQLSTATE " + e.Code + ")"
}

// unreachable builds the failure of an attempt to connect.
func unreachable(ctx context.Context, err error) *failure {
	f := &failure{outcome: engine.NotApplied, reason: engine.ErrUnavailable, again: patiently, err: err}
	var pg *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case broke(err): // also in the middle of proving who we are, when the server stops
	case isTLS(err):
		f.reason, f.again = engine.ErrInsecure, never
	case errors.Is(err, errUnsuitable):
		f.reason, f.again = engine.ErrProtocol, never
	case errors.Is(err, errStandby):
		f.reason, f.again = engine.ErrReadOnly, never
	case errors.As(err, &pg):
		r := refused(-1, pg)
		f.reason, f.again = r.reason, r.again
		if class := pg.Code[:min(2, len(pg.Code))]; class == "28" {
			f.reason, f.again = engine.ErrUnauthorized, never
		}
	case errors.Is(err, fs.ErrPermission):
		f.again = never
	case strings.Contains(err.Error(), "SASL") || strings.Contains(err.Error(), "SCRAM") || strings.Contains(err.Error(), "authentication"):
		f.reason, f.again = engine.ErrUnauthorized, never
	}
	return f
}

// broke reports whether the other side went away or fell silent: then it has judged
// nothing.
func broke(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// isTLS reports whether a connection failed for reasons of trust.
func isTLS(err error) bool {
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &cert) || errors.As(err, &alert) || errors.As(err, &record) || errors.As(err, &authority) || errors.As(err, &host) ||
		strings.Contains(err.Error(), "tls error") || strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "server refused TLS")
}

// ended builds the failure of a call whose context ended before it had any
// effect.
func ended(ctx context.Context) *failure {
	return &failure{outcome: engine.NotApplied, err: ctx.Err()}
}

func closedFailure() *failure {
	return &failure{outcome: engine.NotApplied, reason: engine.ErrClosed}
}

var (
	errUnsuitable = errors.New("the server cannot be used")
	errStandby    = errors.New("the server is a standby")
	errLost       = errors.New("connection lost")
)

func unsuitable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUnsuitable, fmt.Sprintf(format, args...))
}

// isCode reports whether the server said so.
func isCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}
