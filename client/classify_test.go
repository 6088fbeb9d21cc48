package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/quorate/quorate/store/engine"
)

// verdict is what a table of this file expects of a failure.
type verdict struct {
	outcome engine.Outcome
	reason  error
	resend  bool // a write
	reread  bool // a read
}

func verdictOf(f *failure) verdict {
	return verdict{f.outcome, f.reason, f.retryable(true), f.retryable(false)}
}

const (
	unknown    = engine.Unknown
	notApplied = engine.NotApplied
	applied    = engine.Applied
)

// CL-02.
func TestTopLevelErrorsAreClassified(t *testing.T) {
	for text, want := range map[string]verdict{
		"not leader":                                      {notApplied, engine.ErrNoLeader, true, true},
		"leadership transfer in progress":                 {notApplied, engine.ErrNoLeader, true, true},
		"store not open":                                  {notApplied, engine.ErrUnavailable, true, true},
		"store not ready":                                 {notApplied, engine.ErrUnavailable, true, true},
		"timed out enqueuing operation":                   {notApplied, engine.ErrUnavailable, true, true},
		"stale read":                                      {notApplied, engine.ErrUnavailable, true, true},
		"disallowed pragma":                               {notApplied, nil, false, false},
		"FOREIGN KEY constraint failed":                   {notApplied, nil, false, false},
		"cannot start a transaction within a transaction": {notApplied, engine.ErrUnavailable, false, false},
		`unable to store logs within log store, err: "write x/raft.db: no space left on device"`: {notApplied, engine.ErrFull, false, false},
		`unable to store logs within log store, err: "input/output error"`:                       {notApplied, engine.ErrUnavailable, true, true},

		"leadership lost while committing log":                                  {unknown, engine.ErrUnavailable, false, true},
		"raft is already shutdown":                                              {unknown, engine.ErrUnavailable, false, true},
		"snapshot restored while committing log":                                {unknown, engine.ErrUnavailable, false, true},
		"index 5: timeout waiting for fsm":                                      {unknown, engine.ErrUnavailable, false, true},
		"read protobuf length: EOF":                                             {unknown, engine.ErrUnavailable, false, true},
		"read protobuf length: read tcp 10.0.0.1:1->10.0.0.2:4002: i/o timeout": {unknown, engine.ErrUnavailable, false, true},
		"write tcp 10.0.0.1:1->10.0.0.2:4002: write: broken pipe":               {unknown, engine.ErrUnavailable, false, true},
		"dial tcp 127.0.0.1:4002: connect: connection refused":                  {unknown, engine.ErrUnavailable, false, true},
		"cannot commit - no transaction is active":                              {unknown, engine.ErrProtocol, false, false},
		"":                                     {unknown, nil, false, false},
		"a text that nobody has seen":          {unknown, nil, false, false},
		"not leader but with something behind": {unknown, nil, false, false},
		"write x: no space left on device":     {unknown, nil, false, false},
	} {
		if got := verdictOf(classifyTop(text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// CL-02.
func TestStatusesAreClassified(t *testing.T) {
	const marshal = "json: error calling MarshalJSON for type *http.DBResults: json: unsupported value: +Inf\n"
	for _, c := range []struct {
		status   int
		body     string
		location string
		whole    bool
		want     verdict
	}{
		{400, "invalid JSON body\n", "", true, verdict{notApplied, engine.ErrProtocol, false, false}},
		{400, "Client sent an HTTP request to an HTTPS server.\n", "", true, verdict{notApplied, engine.ErrInsecure, false, false}},
		{401, "", "", true, verdict{notApplied, engine.ErrUnauthorized, false, false}},
		{403, "", "", true, verdict{notApplied, engine.ErrUnauthorized, false, false}},
		{404, "", "", true, verdict{notApplied, engine.ErrProtocol, false, false}},
		{405, "", "", true, verdict{notApplied, engine.ErrProtocol, false, false}},
		{408, "queue wait timeout\n", "", true, verdict{unknown, engine.ErrUnavailable, false, true}},
		{413, "", "", true, verdict{notApplied, engine.ErrTooLarge, false, false}},
		{431, "", "", true, verdict{notApplied, engine.ErrTooLarge, false, false}},
		{429, "", "", true, verdict{notApplied, engine.ErrUnavailable, true, true}},
		{301, "", "http://10.0.0.2:4001/db/execute", true, verdict{notApplied, engine.ErrNoLeader, true, true}},
		{307, "", "http://10.0.0.2:4001/db/execute", true, verdict{notApplied, engine.ErrNoLeader, true, true}},
		{301, "", "", true, verdict{notApplied, engine.ErrProtocol, false, false}},
		{303, "", "http://10.0.0.2:4001/login", true, verdict{notApplied, engine.ErrProtocol, false, false}},
		{503, "leader not found\n", "", true, verdict{notApplied, engine.ErrNoLeader, true, true}},
		{500, "leader not found\n", "", true, verdict{notApplied, engine.ErrNoLeader, true, true}},
		{500, "leader address: leader not found\n", "", true, verdict{notApplied, engine.ErrNoLeader, true, true}},
		{500, "SQL rewrite: panic during SQL processing: x\n", "", true, verdict{notApplied, engine.ErrProtocol, false, false}},
		{500, marshal, "", true, verdict{applied, engine.ErrProtocol, false, false}},
		{500, marshal, "", false, verdict{unknown, engine.ErrProtocol, false, false}},
		{500, "something else\n", "", true, verdict{unknown, engine.ErrUnavailable, false, true}},
		{502, "<html>bad gateway</html>", "", true, verdict{unknown, engine.ErrUnavailable, false, true}},
		{503, "no healthy upstream", "", true, verdict{unknown, engine.ErrUnavailable, false, true}},
		{504, "", "", true, verdict{unknown, engine.ErrUnavailable, false, true}},
		{204, "", "", true, verdict{unknown, engine.ErrProtocol, false, false}},
		{599, "", "", true, verdict{unknown, engine.ErrProtocol, false, false}},
	} {
		f := classifyStatus(c.status, c.location, []byte(c.body), c.whole)
		if f == nil {
			t.Errorf("%d %q: no failure", c.status, c.body)
			continue
		}
		if got := verdictOf(f); got != c.want {
			t.Errorf("%d %q: %+v, want %+v", c.status, c.body, got, c.want)
		}
	}
	if f := classifyStatus(200, "", nil, true); f != nil {
		t.Errorf("200: %+v", f)
	}
}

func TestStatementErrorsAreClassified(t *testing.T) {
	for _, c := range []struct {
		text   string
		undone bool
		want   verdict
		names  bool // a *engine.StatementError
	}{
		{"UNIQUE constraint failed: t.id", true, verdict{notApplied, nil, false, false}, true},
		{"no such table: t", true, verdict{notApplied, nil, false, false}, true},
		{"UNIQUE constraint failed: t.id", false, verdict{unknown, nil, false, false}, true},
		// The statement is in the log, and other nodes may have more room.
		{"database or disk is full", true, verdict{unknown, engine.ErrFull, false, false}, false},
		{"attempt to write a readonly database", true, verdict{unknown, engine.ErrReadOnly, false, false}, false},
		{"database is locked", true, verdict{unknown, engine.ErrUnavailable, false, true}, false},
	} {
		f := classifyStatement(3, c.text, c.undone)
		if got := verdictOf(f); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.text, got, c.want)
		}
		var se *engine.StatementError
		if errors.As(f.err, &se) != c.names || (c.names && se.Index != 3) {
			t.Errorf("%q: %v", c.text, f.err)
		}
	}
}

func TestTransportFailuresAreClassified(t *testing.T) {
	alert := &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}
	for _, c := range []struct {
		name        string
		err         error
		sent, fresh bool
		want        verdict
	}{
		{"refused", &dialError{err: syscall.ECONNREFUSED}, false, false, verdict{notApplied, engine.ErrUnavailable, true, true}},
		{"untrusted", &dialError{err: errors.New("x509"), insecure: true}, false, false, verdict{notApplied, engine.ErrInsecure, false, false}},
		{"reset before it was sent", syscall.ECONNRESET, false, false, verdict{notApplied, engine.ErrUnavailable, true, true}},
		{"reset after it was sent", syscall.ECONNRESET, true, false, verdict{unknown, engine.ErrUnavailable, false, true}},
		{"no answer", io.EOF, true, true, verdict{unknown, engine.ErrUnavailable, false, true}},
		{"client certificate refused", alert, true, true, verdict{notApplied, engine.ErrInsecure, false, false}},
		{"alert in later use", alert, true, false, verdict{unknown, engine.ErrUnavailable, false, true}},
		{"answer too large", fmt.Errorf("x: %w", engine.ErrTooLarge), true, false, verdict{unknown, engine.ErrTooLarge, false, false}},
		{"closed", engine.ErrClosed, true, false, verdict{unknown, engine.ErrClosed, false, false}},
	} {
		if got := verdictOf(classifyTransport(c.err, c.sent, c.fresh)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestHandshakeFailuresAreToldFromNetworkFailures(t *testing.T) {
	for _, c := range []struct {
		err     error
		refusal bool
	}{
		{errors.New("x509: certificate signed by unknown authority"), true},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, true},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, false},
		{io.EOF, false},
		{io.ErrUnexpectedEOF, false},
		{context.DeadlineExceeded, false},
	} {
		if got := isHandshakeRefusal(c.err); got != c.refusal {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// Each error of an engine is of exactly one kind.
func TestErrorsHaveOneKind(t *testing.T) {
	kinds := []error{engine.ErrNotApplied, engine.ErrApplied, engine.ErrOutcomeUnknown}
	for _, o := range []engine.Outcome{unknown, notApplied, applied} {
		for _, write := range []bool{true, false} {
			f := &failure{outcome: o, reason: engine.ErrNoLeader, err: io.EOF}
			err := error(f.toError("exec", write))
			n := 0
			for _, k := range kinds {
				if errors.Is(err, k) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%v, write %v: %d kinds", o, write, n)
			}
			if !write && !errors.Is(err, engine.ErrNotApplied) {
				t.Errorf("read with outcome %v: %v", o, err)
			}
			if !errors.Is(err, engine.ErrNoLeader) || !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, io.EOF) {
				t.Errorf("%v loses a reason or its cause", err)
			}
		}
	}
}

func TestExcerptIsShortAndPlain(t *testing.T) {
	got := excerpt([]byte("<html>\n\t<b>\x1b[31m" + strings.Repeat("é", 500) + "\xff"))
	if len(got) > maxExcerpt+3 || strings.ContainsAny(got, "\n\t\x1b") || !utf8.ValidString(got) || !strings.HasPrefix(got, "<html> <b>") {
		t.Errorf("excerpt: %q", got)
	}
}
