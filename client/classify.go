package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// failure says why one attempt at a request failed and what follows from it.
type failure struct {
	// outcome is what became of a write. Whoever reports the failure of a read
	// says NotApplied, since a read changes nothing.
	outcome engine.Outcome
	// reason is one of package engine's reasons, or nil.
	reason error
	// err is the cause. It never holds credentials.
	err error
	// transient says that the same request may well succeed later, perhaps at
	// another node. A write is sent again only if it was surely not applied.
	transient bool
	// noAnswer says that the node was not reached or did not answer, as opposed
	// to having answered with an error.
	noAnswer bool
	// redirect is where the node says that its leader is, if it says so.
	redirect string
}

// retryable reports whether the client itself may send the request again.
func (f *failure) retryable(write bool) bool {
	return f.transient && (!write || f.outcome == engine.NotApplied)
}

// toError turns the failure into the error for the caller.
func (f *failure) toError(op string, write bool) *engine.Error {
	e := &engine.Error{Op: op, Outcome: f.outcome, Reason: f.reason, Err: f.err}
	if !write {
		e.Outcome = engine.NotApplied
	}
	if e.Reason == engine.ErrNoLeader {
		e.Reason = engine.ErrUnavailable
		e.Err = fmt.Errorf("%w: %w", engine.ErrNoLeader, f.err)
	}
	return e
}

// ServerError is a text with which a server refused a request as a whole.
type ServerError struct {
	// Status is the HTTP status code; 200 if the text came in a regular answer.
	Status int
	// Message is the server's text, shortened. It may be empty.
	Message string
}

// Error returns the status, unless it is 200, and the text.
func (e *ServerError) Error() string {
	switch {
	case e.Status == http.StatusOK:
		return "server: " + e.Message
	case e.Message == "":
		return fmt.Sprintf("server: status %d", e.Status)
	}
	return fmt.Sprintf("server: status %d: %s", e.Status, e.Message)
}

// rule is one line of the tables below.
type rule struct {
	match     func(text, pattern string) bool
	pattern   string
	outcome   engine.Outcome
	reason    error
	transient bool
}

func is(text, pattern string) bool     { return text == pattern }
func begins(text, pattern string) bool { return strings.HasPrefix(text, pattern) }
func ends(text, pattern string) bool   { return strings.HasSuffix(text, pattern) }

// full matches what a node says that cannot store a log entry on its full disk.
// It steps down then, and nothing was given to the other nodes.
func full(text, pattern string) bool {
	return strings.HasPrefix(text, pattern) && strings.Contains(text, "no space left on device")
}

func find(rules []rule, text string) (rule, bool) {
	for _, r := range rules {
		if r.match(text, r.pattern) {
			return r, true
		}
	}
	return rule{}, false
}

// topRules classify the top-level error of an answer with status 200, given by
// the node that was asked: the client never has a follower forward its writes.
// They were observed on rqlite 10 under faults. A text that is not listed leaves
// a write's outcome unknown.
var topRules = []rule{
	{is, "not leader", engine.NotApplied, engine.ErrNoLeader, true},
	{is, "leader not found", engine.NotApplied, engine.ErrNoLeader, true},
	{is, "leadership transfer in progress", engine.NotApplied, engine.ErrNoLeader, true},
	{is, "store not open", engine.NotApplied, engine.ErrUnavailable, true},
	{is, "store not ready", engine.NotApplied, engine.ErrUnavailable, true},
	{is, "timed out enqueuing operation", engine.NotApplied, engine.ErrUnavailable, true},
	{is, "stale read", engine.NotApplied, engine.ErrUnavailable, true},
	{is, "unauthorized", engine.NotApplied, engine.ErrUnauthorized, false},
	{is, "cannot start a transaction within a transaction", engine.NotApplied, engine.ErrUnavailable, false},
	// A deferred foreign key fails when the transaction ends, so no statement
	// is to blame.
	{is, "FOREIGN KEY constraint failed", engine.NotApplied, nil, false},
	{begins, "disallowed pragma", engine.NotApplied, nil, false},
	{full, "unable to store logs within log store", engine.NotApplied, engine.ErrFull, false},
	{begins, "unable to store logs within log store", engine.NotApplied, engine.ErrUnavailable, true},

	{is, "leadership lost while committing log", engine.Unknown, engine.ErrUnavailable, true},
	{is, "raft is already shutdown", engine.Unknown, engine.ErrUnavailable, true},
	{is, "snapshot restored while committing log", engine.Unknown, engine.ErrUnavailable, true},
	{ends, "timeout waiting for fsm", engine.Unknown, engine.ErrUnavailable, true},
	{begins, "read protobuf length: ", engine.Unknown, engine.ErrUnavailable, true},
	{begins, "read tcp ", engine.Unknown, engine.ErrUnavailable, true},
	{begins, "write tcp ", engine.Unknown, engine.ErrUnavailable, true},
	{begins, "dial tcp ", engine.Unknown, engine.ErrUnavailable, true},
	// Somebody's list ended the transaction; what came after was applied.
	{is, "cannot commit - no transaction is active", engine.Unknown, engine.ErrProtocol, false},
}

// classifyTop classifies the top-level error of an answer with status 200.
func classifyTop(text string) *failure {
	f := &failure{err: &ServerError{Status: http.StatusOK, Message: excerpt([]byte(text))}}
	if r, ok := find(topRules, text); ok {
		f.outcome, f.reason, f.transient = r.outcome, r.reason, r.transient
	}
	return f
}

// nodeRules are statement errors that are the node's fault and not the
// statement's. The statements are in the Raft log by then and the other nodes
// may well apply them, so the outcome of a write is unknown.
var nodeRules = []rule{
	{is, "database or disk is full", engine.Unknown, engine.ErrFull, false},
	{begins, "disk I/O error", engine.Unknown, engine.ErrUnavailable, false},
	{is, "attempt to write a readonly database", engine.Unknown, engine.ErrReadOnly, false},
	{begins, "database is locked", engine.Unknown, engine.ErrUnavailable, true},
	{begins, "database table is locked", engine.Unknown, engine.ErrUnavailable, true},
	{is, "database disk image is malformed", engine.Unknown, engine.ErrUnavailable, false},
	{is, "out of memory", engine.Unknown, engine.ErrUnavailable, false},
	{is, "interrupted", engine.Unknown, engine.ErrUnavailable, true},
	{is, "query timeout", engine.Unknown, engine.ErrUnavailable, false},
	{is, "execute timeout", engine.Unknown, engine.ErrUnavailable, false},
}

// classifyStatement classifies the error of one statement. With undone, the
// server takes back the whole list when one statement fails; otherwise the
// outcome of a write is unknown.
func classifyStatement(index int, text string, undone bool) *failure {
	f := &failure{outcome: engine.NotApplied, err: &engine.StatementError{Index: index, Message: text}}
	if r, ok := find(nodeRules, text); ok {
		f.outcome, f.reason, f.transient = r.outcome, r.reason, r.transient
		f.err = fmt.Errorf("statement %d: %w", index, &ServerError{Status: http.StatusOK, Message: text})
		return f
	}
	if !undone {
		f.outcome = engine.Unknown
	}
	return f
}

// lostResults is how a server says that it could not put results into JSON,
// because of an infinite real, for example. By then they have been applied.
const lostResults = "json: error calling MarshalJSON"

// classifyStatus classifies an answer by its status. It returns nil if the
// status is 200. Whole says that results can be lost only after the whole list
// was applied.
func classifyStatus(status int, location string, body []byte, whole bool) *failure {
	if status == http.StatusOK {
		return nil
	}
	text := strings.TrimSpace(string(clipBody(body)))
	f := &failure{outcome: engine.Unknown, err: &ServerError{Status: status, Message: excerpt(body)}}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		f.outcome, f.reason = engine.NotApplied, engine.ErrUnauthorized
	case status == http.StatusMovedPermanently, status == http.StatusFound,
		status == http.StatusTemporaryRedirect, status == http.StatusPermanentRedirect:
		f.outcome, f.reason, f.redirect = engine.NotApplied, engine.ErrNoLeader, location
		f.transient = location != ""
		if location == "" {
			f.reason = engine.ErrProtocol
		}
	case status >= 300 && status < 400:
		f.outcome, f.reason = engine.NotApplied, engine.ErrProtocol
	case status == http.StatusBadRequest && strings.Contains(text, "HTTP request to an HTTPS server"):
		f.outcome, f.reason = engine.NotApplied, engine.ErrInsecure
	case status == http.StatusRequestTimeout, status == 499:
		// A server or proxy that got tired of waiting, perhaps for the answer.
		f.reason, f.transient = engine.ErrUnavailable, true
	case status == http.StatusTooManyRequests:
		f.outcome, f.reason, f.transient = engine.NotApplied, engine.ErrUnavailable, true
	case status == http.StatusRequestEntityTooLarge, status == http.StatusRequestHeaderFieldsTooLarge,
		status == http.StatusRequestURITooLong:
		f.outcome, f.reason = engine.NotApplied, engine.ErrTooLarge
	case status >= 400 && status < 500:
		f.outcome, f.reason = engine.NotApplied, engine.ErrProtocol
	case text == "leader not found", text == "leader address: leader not found":
		// 503, or 500 when the request asks for a redirect.
		f.outcome, f.reason, f.transient = engine.NotApplied, engine.ErrNoLeader, true
	case status == http.StatusInternalServerError && strings.HasPrefix(text, "SQL rewrite"):
		f.outcome, f.reason = engine.NotApplied, engine.ErrProtocol
	case status == http.StatusInternalServerError && strings.HasPrefix(text, lostResults):
		f.reason = engine.ErrProtocol
		if whole {
			f.outcome = engine.Applied
		}
	case status == http.StatusInternalServerError:
		// Seen at followers whose leader has just gone, too: they cannot ask it
		// for its address. A read may go on.
		f.reason, f.transient = engine.ErrUnavailable, true
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		f.reason, f.transient = engine.ErrUnavailable, true
	default:
		f.reason = engine.ErrProtocol
	}
	return f
}

// classifyTransport classifies an exchange that gave no complete answer. Sent
// says that the server may have got the whole request; fresh that the connection
// was new.
func classifyTransport(err error, sent, fresh bool) *failure {
	f := &failure{outcome: engine.NotApplied, reason: engine.ErrUnavailable, err: err, transient: true, noAnswer: true}
	if sent {
		f.outcome = engine.Unknown
	}
	var dial *dialError
	switch {
	case errors.As(err, &dial):
		f.outcome = engine.NotApplied
		if dial.insecure {
			f.reason, f.transient = engine.ErrInsecure, false
		}
	case isTLSAlert(err) && fresh:
		// With TLS 1.3 a server's refusal of the client's certificate arrives
		// after the client has finished its handshake and sent the request.
		f.outcome, f.reason, f.transient = engine.NotApplied, engine.ErrInsecure, false
	case errors.Is(err, engine.ErrTooLarge):
		f.reason, f.transient, f.noAnswer = engine.ErrTooLarge, false, false
	case errors.Is(err, engine.ErrClosed):
		f.reason, f.transient = engine.ErrClosed, false
	}
	return f
}

// isTLSAlert reports whether the peer ended the connection by a TLS alert.
func isTLSAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// isHandshakeRefusal reports whether a TLS handshake failed because one side
// does not trust or understand the other, rather than because of the network.
func isHandshakeRefusal(err error) bool {
	if isTLSAlert(err) {
		return true
	}
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op != "local error",
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	}
	return true
}

const maxExcerpt = 200

func clipBody(body []byte) []byte { return body[:min(len(body), 4096)] }

// excerpt returns the beginning of a body for an error message, on one line.
func excerpt(body []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(clipBody(body)), "?")), " ")
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	if len(s) > maxExcerpt {
		s = strings.ToValidUTF8(s[:maxExcerpt], "") + "..."
	}
	return s
}
