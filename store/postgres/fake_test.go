package postgres

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// server is a PostgreSQL that does nothing but talk, by a script.
type server struct {
	t testing.TB
	// start answers the start of a session, nil for a welcome.
	start func(params map[string]string) []pgproto3.BackendMessage
	// answer answers one message up to its Sync: what to send, and whether to cut
	// the connection then. nil is for the default.
	answer func(m *exchange) (out []pgproto3.BackendMessage, cut bool)

	mu       sync.Mutex
	sessions int
	cancels  int
	wg       sync.WaitGroup
}

// exchange is what came in before one Sync.
type exchange struct {
	parses   []*pgproto3.Parse
	executes int
	binds    []string // names of the prepared statements
}

func newServer(t testing.TB) *server {
	s := &server{t: t}
	t.Cleanup(s.wg.Wait)
	return s
}

// open opens an engine on the server.
func (s *server) open(opts ...Option) (*Engine, error) {
	dial := WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		s.wg.Go(func() {
			defer func() { _ = there.Close() }()
			s.serve(there)
		})
		return here, nil
	})
	return Open(s.t.Context(), "postgres://user:secret@localhost/db", append([]Option{dial}, opts...)...)
}

func (s *server) serve(conn net.Conn) {
	b := pgproto3.NewBackend(conn, conn)
	first, err := b.ReceiveStartupMessage()
	if err != nil {
		return
	}
	start, ok := first.(*pgproto3.StartupMessage)
	if !ok {
		s.mu.Lock()
		s.cancels++
		s.mu.Unlock()
		return
	}
	s.mu.Lock()
	s.sessions++
	s.mu.Unlock()
	welcome := []pgproto3.BackendMessage{
		&pgproto3.AuthenticationOk{},
		&pgproto3.ParameterStatus{Name: "server_version", Value: "15.0"}, &pgproto3.ParameterStatus{Name: "server_encoding", Value: "UTF8"},
		&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"}, &pgproto3.ParameterStatus{Name: "in_hot_standby", Value: "off"},
		&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 2}}, &pgproto3.ReadyForQuery{TxStatus: 'I'},
	}
	if s.start != nil {
		if own := s.start(start.Parameters); own != nil {
			welcome = own
		}
	}
	if s.send(b, welcome) != nil {
		return
	}
	m := &exchange{}
	for {
		msg, err := b.Receive()
		if err != nil {
			return
		}
		switch msg := msg.(type) {
		case *pgproto3.Parse:
			p := *msg
			p.ParameterOIDs = append([]uint32(nil), msg.ParameterOIDs...)
			m.parses = append(m.parses, &p)
		case *pgproto3.Bind:
			m.binds = append(m.binds, msg.PreparedStatement)
		case *pgproto3.Execute:
			m.executes++
		case *pgproto3.Sync:
			out, cut := usual(m), false
			if s.answer != nil {
				if own, c := s.answer(m); own != nil || c {
					out, cut = own, c
				}
			}
			if s.send(b, out) != nil || cut {
				return
			}
			m = &exchange{}
		case *pgproto3.Query:
			if s.send(b, []pgproto3.BackendMessage{&pgproto3.CommandComplete{CommandTag: []byte("OK")}, &pgproto3.ReadyForQuery{TxStatus: 'I'}}) != nil {
				return
			}
		case *pgproto3.Terminate:
			return
		}
	}
}

func (s *server) send(b *pgproto3.Backend, out []pgproto3.BackendMessage) error {
	for _, m := range out {
		b.Send(m)
	}
	return b.Flush()
}

// usual answers as if all went well: it prepares, or runs, what was asked for.
func usual(m *exchange) []pgproto3.BackendMessage {
	if m.executes > 0 {
		return append(results(m, m.executes), &pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
	var out []pgproto3.BackendMessage
	for _, p := range m.parses {
		out = append(out, &pgproto3.ParseComplete{}, &pgproto3.ParameterDescription{ParameterOIDs: p.ParameterOIDs}, &pgproto3.NoData{})
	}
	return append(out, &pgproto3.ReadyForQuery{TxStatus: 'I'})
}

// results are the answers to the first n statements.
func results(m *exchange, n int) (out []pgproto3.BackendMessage) {
	for range n {
		if len(m.parses) > 0 {
			out = append(out, &pgproto3.ParseComplete{})
		}
		out = append(out, &pgproto3.BindComplete{}, &pgproto3.NoData{}, &pgproto3.CommandComplete{CommandTag: []byte("UPDATE 1")})
	}
	return out
}

func says(severity, code string) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: "scripted"}
}

func fallbacks(cfg *pgconn.Config) (secure []bool) {
	for _, f := range cfg.Fallbacks {
		secure = append(secure, f.TLSConfig != nil)
	}
	return secure
}
