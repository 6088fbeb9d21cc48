package postgres

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/quorate/quorate/store/engine"
)

// Each way in which the answer to a transaction can fail says what became of it.
func TestFailuresOfATransactionAreClassified(t *testing.T) {
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	type script func(m *exchange) (out []pgproto3.BackendMessage, cut bool)
	fails := func(n int, severity, code string, cut bool) script {
		return func(m *exchange) ([]pgproto3.BackendMessage, bool) {
			out := append(results(m, n), says(severity, code))
			if !cut {
				out = append(out, ready)
			}
			return out, cut
		}
	}
	for name, c := range map[string]struct {
		script  script
		outcome engine.Outcome
		reason  error
		index   int // of a refused statement, -1 for none
		again   bool
	}{
		"cut before any answer":              {func(*exchange) ([]pgproto3.BackendMessage, bool) { return nil, true }, engine.Unknown, engine.ErrUnavailable, -1, false},
		"cut after some answers":             {func(m *exchange) ([]pgproto3.BackendMessage, bool) { return results(m, 1), true }, engine.Unknown, engine.ErrUnavailable, -1, false},
		"cut after all answers, not the end": {func(m *exchange) ([]pgproto3.BackendMessage, bool) { return results(m, 2), true }, engine.Unknown, engine.ErrUnavailable, -1, false},
		"nonsense": {func(m *exchange) ([]pgproto3.BackendMessage, bool) {
			return []pgproto3.BackendMessage{&pgproto3.CopyDone{}}, false
		}, engine.Unknown, engine.ErrUnavailable, -1, false},
		"first statement refused":          {fails(0, "ERROR", "23505", false), engine.NotApplied, nil, 0, false},
		"second statement refused":         {fails(1, "ERROR", "42P01", false), engine.NotApplied, nil, 1, false},
		"the end refused":                  {fails(2, "ERROR", "23503", false), engine.NotApplied, nil, 1, false},
		"a limit":                          {fails(1, "ERROR", "54000", false), engine.NotApplied, engine.ErrTooLarge, 1, false},
		"no privilege":                     {fails(1, "ERROR", "42501", false), engine.NotApplied, engine.ErrUnauthorized, 1, false},
		"disk full":                        {fails(1, "ERROR", "53100", false), engine.NotApplied, engine.ErrFull, -1, false},
		"read-only":                        {fails(0, "ERROR", "25006", false), engine.NotApplied, engine.ErrReadOnly, -1, false},
		"cancelled by somebody":            {fails(1, "ERROR", "57014", false), engine.NotApplied, engine.ErrUnavailable, -1, false},
		"ended by force after the last":    {fails(2, "FATAL", "57P01", true), engine.Unknown, engine.ErrUnavailable, -1, false},
		"ended by force in the middle":     {fails(1, "FATAL", "57P01", true), engine.NotApplied, engine.ErrUnavailable, -1, true},
		"deadlock":                         {fails(1, "ERROR", "40P01", false), engine.NotApplied, engine.ErrUnavailable, -1, true},
		"serialization failure at the end": {fails(2, "ERROR", "40001", false), engine.NotApplied, engine.ErrUnavailable, -1, true},
		"lock timeout":                     {fails(0, "ERROR", "55P03", false), engine.NotApplied, engine.ErrUnavailable, -1, true},
		"a lost prepared statement":        {fails(0, "ERROR", "26000", false), engine.NotApplied, engine.ErrUnavailable, -1, true},
		"a plan that no longer fits": {func(m *exchange) ([]pgproto3.BackendMessage, bool) {
			e := says("ERROR", "0A000")
			e.Message = "cached plan must not change result type"
			return []pgproto3.BackendMessage{e, ready}, false
		}, engine.NotApplied, engine.ErrUnavailable, -1, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			sent := 0
			s.answer = func(m *exchange) ([]pgproto3.BackendMessage, bool) {
				if m.executes != 2 {
					return nil, false
				}
				if sent++; sent == 1 {
					return c.script(m)
				}
				return nil, false
			}
			e, err := s.open()
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			_, err = e.Exec(t.Context(), []engine.Statement{put("a", 1), put("b", 2)})
			if c.again {
				// It was surely not applied, and another attempt makes sense.
				if err != nil || sent != 2 {
					t.Errorf("%v after %d attempts, want success at the second", err, sent)
				}
				return
			}
			if engine.OutcomeOf(err) != c.outcome || err == nil || c.reason != nil && !errors.Is(err, c.reason) || sent != 1 {
				t.Errorf("got %v after %d attempts, want %v, %v", err, sent, c.outcome, c.reason)
			}
			var refused *engine.StatementError
			if errors.As(err, &refused) != (c.index >= 0) || refused != nil && refused.Index != c.index {
				t.Errorf("got %v, want statement %d refused", err, c.index)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the password is in %v", err)
			}
			// The engine goes on to work.
			if _, err := e.Exec(t.Context(), []engine.Statement{put("a", 1), put("b", 2)}); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// What is lost before the transaction is sent was not applied, and is tried again.
func TestAConnectionLostBeforeTheTransactionWasSentIsReplaced(t *testing.T) {
	s := newServer(t)
	cuts := 2
	s.answer = func(m *exchange) ([]pgproto3.BackendMessage, bool) {
		if m.executes == 0 && cuts > 0 {
			cuts--
			return nil, true
		}
		return nil, false
	}
	e, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	exec(t, e, put("a", 1))
	if s.sessions != 3 || cuts != 0 {
		t.Errorf("%d sessions, %d cuts left", s.sessions, cuts)
	}
}

func TestACommitWhoseAnswerIsLostIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		out  []pgproto3.BackendMessage
		cut  bool
		want engine.Outcome
	}{
		"cut":     {nil, true, engine.Unknown},
		"force":   {[]pgproto3.BackendMessage{says("FATAL", "57P01")}, true, engine.Unknown},
		"refused": {[]pgproto3.BackendMessage{says("ERROR", "23503"), &pgproto3.ReadyForQuery{TxStatus: 'I'}}, false, engine.NotApplied},
	} {
		s := newServer(t)
		committing := false
		s.answer = func(m *exchange) ([]pgproto3.BackendMessage, bool) {
			if committing && m.executes > 0 {
				return c.out, c.cut
			}
			return nil, false
		}
		e, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		tx, err := e.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), []engine.Statement{put("a", 1)}); err != nil {
			t.Fatal(err)
		}
		committing = true
		if err := tx.Commit(t.Context()); err == nil || engine.OutcomeOf(err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		tx.Rollback()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// breaking is a connection that, when it is told to, fails after it has passed on all
// but the last of what is written.
type breaking struct {
	net.Conn
	now *bool
}

func (c breaking) Write(b []byte) (int, error) {
	if !*c.now {
		return c.Conn.Write(b)
	}
	n, _ := c.Conn.Write(b[:len(b)-1])
	_ = c.Conn.Close()
	return n, net.ErrClosed
}

// TestACommitThatWasWrittenInPartIsUnknown breaks the connection between a COMMIT
// and the message that asks for its answer.
func TestACommitThatWasWrittenInPartIsUnknown(t *testing.T) {
	s := newServer(t)
	now := false
	e, err := s.open(WithUnpreparedStatements(), WithDialContext(func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		s.wg.Go(func() {
			defer func() { _ = there.Close() }()
			s.serve(there)
		})
		return breaking{here, &now}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	tx, err := e.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now = true
	if err := tx.Commit(t.Context()); engine.OutcomeOf(err) != engine.Unknown {
		t.Errorf("got %v, want unknown", err)
	}
}

func TestWhatTheServerSaysToANewSessionIsClassified(t *testing.T) {
	for name, c := range map[string]struct {
		answer []pgproto3.BackendMessage
		want   error
		final  bool
	}{
		"wrong password": {[]pgproto3.BackendMessage{says("FATAL", "28P01")}, engine.ErrUnauthorized, true},
		"no entry":       {[]pgproto3.BackendMessage{says("FATAL", "28000")}, engine.ErrUnauthorized, true},
		"no database":    {[]pgproto3.BackendMessage{says("FATAL", "3D000")}, engine.ErrNotApplied, true},
		"starting":       {[]pgproto3.BackendMessage{says("FATAL", "57P03")}, engine.ErrUnavailable, false},
		"too many":       {[]pgproto3.BackendMessage{says("FATAL", "53300")}, engine.ErrUnavailable, false},
		"a standby":      {session("in_hot_standby", "on"), engine.ErrReadOnly, true},
		"old":            {session("server_version", "9.6.24"), engine.ErrProtocol, true},
		"latin":          {session("server_encoding", "LATIN1"), engine.ErrProtocol, true},
		"old strings":    {session("standard_conforming_strings", "off"), engine.ErrProtocol, true},
	} {
		s := newServer(t)
		tries := 0
		s.start = func(map[string]string) []pgproto3.BackendMessage {
			if tries++; c.final || tries < 3 {
				return c.answer
			}
			return nil
		}
		e, err := s.open()
		if !c.final {
			if err != nil || tries != 3 {
				t.Errorf("%s: %v after %d tries, want success at the third", name, err, tries)
			} else if err := e.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, c.want) || tries != 1 {
			t.Errorf("%s: %v after %d tries, want %v at the first", name, err, tries, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is in %v", name, err)
		}
	}
}

// A server that stops while we prove who we are has not refused us.
func TestASessionThatIsCutShortIsTriedAgain(t *testing.T) {
	for cause, want := range map[error]error{
		io.ErrUnexpectedEOF:             engine.ErrUnavailable,
		io.EOF:                          engine.ErrUnavailable,
		syscall.ECONNRESET:              engine.ErrUnavailable,
		os.ErrDeadlineExceeded:          engine.ErrUnavailable,
		context.DeadlineExceeded:        engine.ErrUnavailable,
		errors.New("nonce is not ours"): engine.ErrUnauthorized,
	} {
		f := unreachable(t.Context(), fmt.Errorf("failed SASL auth: %w", cause))
		if f.reason != want || (f.again == patiently) != (want == engine.ErrUnavailable) {
			t.Errorf("%v: reason %v, again %v, want %v", cause, f.reason, f.again, want)
		}
	}
	if f := unreachable(t.Context(), fmt.Errorf("tls error: %w", io.EOF)); f.reason != engine.ErrUnavailable {
		t.Errorf("a handshake that is cut short: %v", f.reason)
	}
	if f := unreachable(t.Context(), errors.New("server refused TLS connection")); f.reason != engine.ErrInsecure || f.again != never {
		t.Errorf("a server without TLS: %v", f.reason)
	}
}

// session is a welcome with one setting changed.
func session(name, value string) []pgproto3.BackendMessage {
	out := []pgproto3.BackendMessage{&pgproto3.AuthenticationOk{}}
	for k, v := range map[string]string{"server_version": "15.0", "server_encoding": "UTF8", "standard_conforming_strings": "on", "in_hot_standby": "off"} {
		if k == name {
			v = value
		}
		out = append(out, &pgproto3.ParameterStatus{Name: k, Value: v})
	}
	return append(out, &pgproto3.BackendKeyData{SecretKey: []byte{0, 0, 0, 1}}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
}

func TestAServerThatStaysAwayIsUnavailableAfterTheLimit(t *testing.T) {
	dial := WithDialContext(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") })
	_, err := Open(t.Context(), "postgres://u:secret@localhost/db", dial, WithRetryLimit(30*time.Millisecond))
	if !errors.Is(err, engine.ErrUnavailable) || engine.OutcomeOf(err) != engine.NotApplied || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, "postgres://u:secret@localhost/db", dial); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAPoolerThatRefusesSettingsGetsNoPreparedStatements(t *testing.T) {
	s := newServer(t)
	s.start = func(params map[string]string) []pgproto3.BackendMessage {
		if params["options"] != "" {
			return []pgproto3.BackendMessage{says("FATAL", "08P01")}
		}
		return nil
	}
	prepared := 0
	s.answer = func(m *exchange) ([]pgproto3.BackendMessage, bool) {
		for _, p := range m.parses {
			if p.Name != "" {
				prepared++
			}
		}
		return nil, false
	}
	e, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	exec(t, e, put("a", 1))
	exec(t, e, put("a", 1))
	if prepared != 0 || !e.unprepared.Load() {
		t.Errorf("%d statements were prepared", prepared)
	}
}

func TestThereIsNoFallbackFromTLS(t *testing.T) {
	for _, mode := range []string{"prefer", "allow"} {
		if _, err := Open(t.Context(), "postgres://u:secret@example.com/db?sslmode="+mode); !errors.Is(err, engine.ErrInsecure) {
			t.Errorf("%s: got %v", mode, err)
		}
		if _, err := Open(t.Context(), "host=example.com password=secret sslmode = "+mode); !errors.Is(err, engine.ErrInsecure) {
			t.Errorf("%s in a list: got %v", mode, err)
		}
	}
	for target, secure := range map[string]bool{
		"postgres://u@example.com/db": true, "host=example.com user=u dbname=d": true, "postgres://u@example.com/db?sslmode=disable": false, "postgres://u@example.com/db?sslmode=require": true,
		"postgres://u@localhost/db": false, "postgres://u@127.0.0.1/db": false, "postgres://u@[::1]/db": false, "host=/run/postgresql user=u": false, "postgres://u@localhost,example.com/db": true,
		"postgres://u@localhost/db?sslmode=verify-full": true, "host=localhost sslmode = verify-full": true, "host=localhost sslmode='require'": true,
		"host=example.com password='a sslmode=require'": true, "host=example.com password='a sslmode=disable'": true,
	} {
		o, err := newOptions(nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := configure(target, o)
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		for _, c := range append([]bool{cfg.TLSConfig != nil}, fallbacks(cfg)...) {
			if c != secure {
				t.Errorf("%s: TLS %t, want %t", target, c, secure)
			}
		}
	}
	// A server that does not speak TLS is refused.
	dial := WithDialContext(func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			b := make([]byte, 8)
			if _, err := there.Read(b); err == nil {
				_, _ = there.Write([]byte("N"))
			}
		}()
		return here, nil
	})
	if _, err := Open(t.Context(), "postgres://u:secret@example.com/db", dial); !errors.Is(err, engine.ErrInsecure) {
		t.Errorf("got %v, want no connection without TLS", err)
	}
	if !isTLS(fmt.Errorf("wrapped: %w", x509.UnknownAuthorityError{})) {
		t.Error("a certificate of nobody's is no failure of trust")
	}
}

func TestBadInputIsRefusedBeforeItIsSent(t *testing.T) {
	for _, target := range []string{"postgres://u:secret@h:port/db", "postgres://%zz", "nonsense secret"} {
		if _, err := Open(t.Context(), target); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", target, err)
		}
	}
	for _, o := range []Option{nil, WithMaxConns(0), WithMaxLifetime(0), WithRetryLimit(-1), WithTLS(nil), WithLogger(nil), WithDialContext(nil)} {
		if _, err := Open(t.Context(), "postgres://localhost/db", o); err == nil {
			t.Error("an invalid option was taken")
		}
	}
	s := newServer(t)
	e, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for what, bad := range map[string]engine.Statement{
		"BEGIN": st("/* */ begin"), "COMMIT": st("COMMIT AND CHAIN"), "ROLLBACK": st("ROLLBACK"), "NUL": st("INSERT INTO t(k) VALUES(?)", "a\x00b"), "UTF-8": st("INSERT INTO t(k) VALUES(?)", "\xff"), "too few": st("INSERT INTO t(k) VALUES(?)"), "too many": st("SELECT 1", 1),
	} {
		var refused *engine.StatementError
		if _, err := e.Exec(t.Context(), []engine.Statement{put("a", 1), bad}); !errors.As(err, &refused) || refused.Index != 1 || engine.OutcomeOf(err) != engine.NotApplied {
			t.Errorf("%s: got %v, want statement 1 refused", what, err)
		}
	}
}
