package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quorate/quorate/store/engine"
)

const (
	// connectTimeout bounds TCP connect and TLS handshake together.
	connectTimeout = 5 * time.Second

	// idleTimeout is below the 30 s after which servers and middle boxes
	// commonly drop idle connections, so that the client is first.
	idleTimeout = 25 * time.Second
)

// userTimeout is how long sent data may stay unconfirmed by the peer's kernel.
const userTimeout = 4 * time.Second

// dialFunc opens a network connection.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// dialError marks a failure before a connection was usable: nothing was sent.
type dialError struct {
	err      error
	insecure bool
}

func (e *dialError) Error() string {
	if e.insecure {
		return "TLS handshake: " + e.err.Error()
	}
	return "connect: " + e.err.Error()
}

func (e *dialError) Unwrap() error { return e.err }

// pool owns the connections to all nodes. It wraps one http.Transport, counts
// bytes, and can close every connection for good.
type pool struct {
	http  *http.Transport
	dial  dialFunc
	tls   *tls.Config
	stats *counters

	base context.Context // ends with the pool

	mu     sync.Mutex
	closed bool
	open   map[*conn]struct{}
}

func newPool(base context.Context, o *options, stats *counters) *pool {
	p := &pool{
		dial:  o.dial,
		tls:   o.tls.Clone(),
		stats: stats,
		base:  base,
		open:  make(map[*conn]struct{}),
	}
	if p.dial == nil {
		d := &net.Dialer{
			KeepAliveConfig: net.KeepAliveConfig{
				// Notices within about 11 s that an idle connection's path is gone.
				Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
			},
			Control: func(_, _ string, raw syscall.RawConn) error {
				// A system that does not know the option works without it.
				_ = setUserTimeout(raw, userTimeout)
				return nil
			},
		}
		p.dial = d.DialContext
	}
	if p.tls == nil {
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	// One request at a time per connection: what one connection does says
	// something about one request only.
	p.tls.NextProtos = []string{"http/1.1"}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	p.http = &http.Transport{
		DialContext:         p.dialPlain,
		DialTLSContext:      p.dialTLS,
		Protocols:           protocols,
		MaxConnsPerHost:     o.maxConns,
		MaxIdleConnsPerHost: o.maxConns,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true, // rqlite compresses nothing
		WriteBufferSize:     64 << 10,
		ReadBufferSize:      64 << 10,
	}
	return p
}

func (p *pool) dialPlain(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := p.dialContext(ctx)
	defer cancel()
	c, err := p.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (p *pool) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := p.dialContext(ctx)
	defer cancel()
	raw, err := p.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	cfg := p.tls
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	c := tls.Client(raw, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, &dialError{err: err, insecure: isHandshakeRefusal(err)}
	}
	return newTLSConn(c), nil
}

// dialContext returns a context for dialing that ends with the pool, too.
func (p *pool) dialContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	stop := context.AfterFunc(p.base, cancel)
	return ctx, func() { stop(); cancel() }
}

func (p *pool) connect(ctx context.Context, network, addr string) (*conn, error) {
	raw, err := p.dial(ctx, network, addr)
	if err != nil {
		return nil, &dialError{err: err}
	}
	c := &conn{Conn: raw, pool: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		raw.Close()
		return nil, &dialError{err: engine.ErrClosed}
	}
	p.open[c] = struct{}{}
	p.stats.connections.Add(1)
	p.stats.open.Add(1)
	return c, nil
}

// dropIdle closes the connections that no request uses. It is called when a node
// did not answer: the path to it may be gone for all of them.
func (p *pool) dropIdle() { p.http.CloseIdleConnections() }

// close closes all connections, used or not.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	conns := make([]*conn, 0, len(p.open))
	for c := range p.open {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	p.http.CloseIdleConnections()
	for _, c := range conns {
		c.Close()
	}
}

// conn is a network connection that knows what became of the bytes written to
// it.
type conn struct {
	net.Conn
	pool *pool

	// offered counts the bytes given to the operating system, or about to be. If
	// it did not change since a request got the connection, nothing was sent.
	offered atomic.Int64

	// cut says that a write failed. Then the end of the request that was being
	// written did not leave, and without its last byte its body is no JSON.
	cut atomic.Bool
}

func (c *conn) Write(b []byte) (int, error) {
	c.offered.Add(int64(len(b)))
	n, err := c.Conn.Write(b)
	if n < len(b) {
		c.cut.Store(true)
	}
	c.pool.stats.bytesSent.Add(uint64(n))
	return n, err
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.pool.stats.bytesReceived.Add(uint64(n))
	return n, err
}

func (c *conn) Close() error {
	c.pool.mu.Lock()
	if _, ok := c.pool.open[c]; ok {
		delete(c.pool.open, c)
		c.pool.stats.open.Add(-1)
	}
	c.pool.mu.Unlock()
	err := c.Conn.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// connOf finds the conn under a connection that the pool has handed out.
func connOf(c net.Conn) *conn {
	if t, ok := c.(*tlsConn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}
