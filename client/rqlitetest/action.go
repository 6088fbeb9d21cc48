package rqlitetest

import (
	"bytes"
	"net/http"
	"strings"
	"time"
)

// Action is what a fault does to a request. The functions of this package make
// them; [Action.Before] and [Action.After] add delays to any of them.
type Action struct {
	name   string
	early  bool                // acts before the body is read
	only   func(*Request) bool // requests it can act on; nil for all
	before time.Duration       // waits before the request is served
	after  time.Duration       // waits after, before the answer
	block  bool                // waits until the fault is removed, then serves
	skip   bool                // does not serve the request
	end    ending

	instead func(*Request) *Response // an answer in place of the true one; nil passes on
	serve   bool                     // serves the request although instead answers it
	edit    func(*Response)          // changes the true answer
	results func([]result) []result  // changes the results of the true answer
	fail    map[int]string           // statements that fail, by their index
	times   int                      // how often writes are applied; 0 stands for 1
	keep    int                      // bytes left of an answer that is cut
}

// ending is how an exchange ends.
type ending uint8

const (
	endAnswer ending = iota
	endReset         // the connection is reset, nothing answered
	endClose         // the connection is closed, nothing answered
	endCut           // the answer stops in the middle and the connection closes
	endHang          // nothing more is heard until the fault is removed
)

// String returns the action's name, as the log shows it.
func (a Action) String() string { return a.name }

// Before returns the action with a delay before the request is served, so before
// a write is applied. A client that gives up meanwhile does not stop it.
func (a Action) Before(d time.Duration) Action {
	a.before += d
	return a
}

// After returns the action with a delay between serving the request, so applying
// a write, and the answer or whatever comes in its place.
func (a Action) After(d time.Duration) Action {
	a.after += d
	return a
}

// Slow serves requests as usual, only late: before is waited before they are
// served and after between that and the answer.
func Slow(before, after time.Duration) Action {
	return Action{name: "slow", before: before, after: after}
}

// Func calls f, which may answer in the server's place: nil lets the request
// pass on. f runs before the request is served and may block.
func Func(f func(*Request) *Response) Action { return Action{name: "func", instead: f} }

// Edit serves requests as usual and lets f change the answer.
func Edit(f func(*Response)) Action { return Action{name: "edit", edit: f} }

// Respond answers with this status, content type and body and nothing else, as
// a proxy in front of the node would. The request is not served.
func Respond(status int, contentType, body string) Action {
	return Action{name: "respond", skip: true, instead: func(*Request) *Response {
		h := make(http.Header)
		if contentType != "" {
			h.Set("Content-Type", contentType)
		}
		return &Response{Status: status, Header: h, Body: []byte(body), foreign: true}
	}}
}

// HTML answers with status 200 and an HTML page, as a captive portal does.
func HTML() Action {
	a := Respond(http.StatusOK, "text/html; charset=utf-8", "<!DOCTYPE html><html><body><h1>Welcome</h1></body></html>\n")
	a.name = "html"
	return a
}

// HugeBody answers with status 200 and a JSON string of size bytes.
func HugeBody(size int) Action {
	return Action{name: "huge body", skip: true, instead: func(*Request) *Response {
		body := bytes.Repeat([]byte{'x'}, max(size, 2))
		body[0], body[len(body)-1] = '"', '"'
		return &Response{Header: jsonHeader(), Body: body}
	}}
}

// NoLeader answers as a node that knows of no leader: 503 "leader not found", and
// 500 if the request asks for a redirect. The request is not served.
func NoLeader() Action {
	return Action{name: "no leader", skip: true, instead: func(r *Request) *Response {
		if r.Has("redirect") {
			return textError(http.StatusInternalServerError, errLeaderNotFound.Error())
		}
		return textError(http.StatusServiceUnavailable, errLeaderNotFound.Error())
	}}
}

// RedirectTo answers 301 to the same path and query under another base URL, such
// as that of a node or of a host outside the cluster, whether or not a redirect
// was asked for. The request is not served.
func RedirectTo(base string) Action {
	return Action{name: "redirect", skip: true, instead: func(r *Request) *Response { return redirect(r, base) }}
}

// RedirectNext answers 301 to the next node, so that a client that follows goes
// round in circles. The request is not served.
func RedirectNext() Action {
	return Action{name: "redirect to the next node", skip: true, instead: func(r *Request) *Response {
		nodes := r.Node.cluster.nodes
		return redirect(r, nodes[(r.Node.number+1)%len(nodes)].URL())
	}}
}

// ErrorUnapplied answers 200 with the text as top-level error; the request is not served.
func ErrorUnapplied(text string) Action {
	return Action{name: "error, not applied", skip: true, instead: topLevel(text)}
}

// ErrorApplied serves the request, then answers 200 with the text as top-level error.
func ErrorApplied(text string) Action {
	return Action{name: "error, applied", instead: topLevel(text), serve: true}
}

func topLevel(text string) func(*Request) *Response {
	return func(r *Request) *Response {
		e := envelope{err: text}
		body, _ := e.encode(encoding{pretty: r.Has("pretty")}) // holds nothing unencodable
		return &Response{Header: jsonHeader(), Body: body}
	}
}

// Unauthorized answers 401 with an empty body. The request is not served.
func Unauthorized() Action {
	return Action{name: "unauthorized", skip: true, instead: func(*Request) *Response {
		return &Response{Status: http.StatusUnauthorized, Header: http.Header{
			"Content-Type":     {jsonType},
			"Www-Authenticate": {`Basic realm="rqlite"`},
		}}
	}}
}

// FewerResults serves the request and leaves the last n results out.
func FewerResults(n int) Action {
	return Action{name: "fewer results", results: func(r []result) []result { return r[:max(0, len(r)-n)] }}
}

// MoreResults serves the request and adds n results nobody asked for.
func MoreResults(n int) Action {
	return Action{name: "more results", results: func(r []result) []result {
		for range n {
			r = append(r, result{shape: shapeCounters, affected: 1})
		}
		return r
	}}
}

// FailStatement serves the request but makes the statement with this index fail
// with the text instead of running it; in a transaction that rolls back all of them.
func FailStatement(index int, text string) Action {
	return Action{name: "statement fails", fail: map[int]string{index: text}}
}

// LoseReturning serves the request but answers statements with a RETURNING clause
// without their rows, as when no row matched.
func LoseReturning() Action {
	return Action{name: "returning rows lost", results: func(r []result) []result {
		for i := range r {
			if r[i].shape == shapeRows {
				r[i].values = nil
			}
		}
		return r
	}}
}

// ApplyTwice applies a write twice, as a follower does that sends it on to the
// leader again; the second outcome is answered.
func ApplyTwice() Action { return Action{name: "applied twice", times: 2} }

// Reset resets the connection before the request is served.
func Reset() Action { return Action{name: "reset", skip: true, end: endReset} }

// ResetUnread resets the connection before the request's body is read.
func ResetUnread() Action {
	return Action{name: "reset before the body", early: true, skip: true, end: endReset}
}

// ResetApplied serves the request, then resets the connection without an answer.
func ResetApplied() Action { return Action{name: "reset after applying", end: endReset} }

// CloseApplied serves the request, then closes the connection in order but
// without an answer: clients see an EOF.
func CloseApplied() Action { return Action{name: "closed after applying", end: endClose} }

// CutAnswer serves the request and sends the first keep bytes of the answer's
// body, or half of it if keep is negative, then closes the connection.
func CutAnswer(keep int) Action { return Action{name: "answer cut", end: endCut, keep: keep} }

// Hang never serves nor answers the request. The connection is reset when the
// fault is removed or the cluster closed.
func Hang() Action { return Action{name: "hang", skip: true, end: endHang} }

// HangApplied serves the request but never answers. The connection is reset when
// the fault is removed or the cluster closed.
func HangApplied() Action { return Action{name: "hang after applying", end: endHang} }

// Block holds requests back until the fault is removed, then serves them as usual.
func Block() Action { return Action{name: "block", block: true} }

// QueueFull holds back queued writes (those with the parameter queue) until the
// fault is removed, as a node does whose write queue is full.
func QueueFull() Action {
	return Action{name: "queue full", block: true, only: func(r *Request) bool { return r.Has("queue") }}
}

// The texts of top-level errors a client has to expect. The first group says
// that a write was not applied by the node that answered; after the others it
// may have been, see [ErrorUnapplied] and [ErrorApplied].
const (
	TextNotLeader         = "not leader"
	TextTransfer          = "leadership transfer in progress"
	TextStoreNotOpen      = "store not open"
	TextStoreNotReady     = "store not ready"
	TextEnqueueTimeout    = "timed out enqueuing operation"
	TextStaleRead         = "stale read"
	TextLeadershipLost    = "leadership lost while committing log"
	TextShutdown          = "raft is already shutdown"
	TextConnectionRefused = "dial tcp 127.0.0.1:4002: connect: connection refused"
	TextConnectionReset   = "read protobuf length: read tcp 127.0.0.1:40001->127.0.0.1:4002: read: connection reset by peer"
	TextForwardTimeout    = "read protobuf length: read tcp 127.0.0.1:40001->127.0.0.1:4002: i/o timeout"
	TextForwardEOF        = "read protobuf length: EOF"
)

const jsonType = "application/json; charset=utf-8"

func jsonHeader() http.Header { return http.Header{"Content-Type": {jsonType}} }

// textError is an error answered in plain text.
func textError(status int, text string) *Response {
	return &Response{Status: status, Header: http.Header{
		"Content-Type":           {"text/plain; charset=utf-8"},
		"X-Content-Type-Options": {"nosniff"},
	}, Body: []byte(text + "\n")}
}

func redirect(r *Request, base string) *Response {
	target := strings.TrimSuffix(base, "/") + r.Path
	if r.Query != "" {
		target += "?" + r.Query
	}
	h := jsonHeader()
	h.Set("Location", target)
	return &Response{Status: http.StatusMovedPermanently, Header: h}
}
