package client_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

// brokenPipe is a connection whose writes fail after the first two, which are
// the client's part of a TLS 1.3 handshake. What the server says after these is
// read only when a write has failed.
type brokenPipe struct {
	net.Conn
	writes atomic.Int32
	once   sync.Once
	failed chan struct{} // closed when a write has failed, or with the connection
	then   func(net.Conn)
}

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.writes.Add(1) <= 2 {
		return b.Conn.Write(p)
	}
	b.then(b.Conn)
	b.once.Do(func() { close(b.failed) })
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
}

func (b *brokenPipe) Read(p []byte) (int, error) {
	if b.writes.Load() >= 2 {
		<-b.failed
	}
	return b.Conn.Read(p)
}

func (b *brokenPipe) Close() error {
	b.once.Do(func() { close(b.failed) })
	return b.Conn.Close()
}

// A refused client certificate is a failure of trust even if the request met the
// closed connection before the server's alert was read; and only then.
func TestAlertBehindABrokenPipe(t *testing.T) {
	for _, c := range []struct {
		name        string
		certificate bool
		then        func(net.Conn)
		reason      error
		took        time.Duration
	}{
		{"refused", false, func(net.Conn) {}, engine.ErrInsecure, 0},
		{"gone", true, func(c net.Conn) { c.Close() }, engine.ErrUnavailable, 0},
		{"no end", true, func(net.Conn) {}, engine.ErrUnavailable, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.MutualTLS())
				cfg := cluster.TLSConfig()
				if !c.certificate {
					cfg.Certificates = nil
				}
				var broken atomic.Int32
				dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
					raw, err := cluster.DialContext(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					return &brokenPipe{Conn: raw, failed: make(chan struct{}), then: func(raw net.Conn) { broken.Add(1); c.then(raw) }}, nil
				}
				began := time.Now()
				e, err := client.Open(within(t, time.Minute), cluster.URLs()[:1], client.WithTLS(cfg), client.WithDialContext(dial), client.WithConnectRetry(1, time.Hour))
				if err == nil {
					e.Close()
					t.Fatal("opened")
				}
				wantKinds(t, err, engine.ErrNotApplied, c.reason)
				if c.reason != engine.ErrUnavailable && errors.Is(err, engine.ErrUnavailable) {
					t.Errorf("%v", err)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				if broken.Load() == 0 {
					t.Error("no write met a broken pipe")
				}
			})
		})
	}
}
