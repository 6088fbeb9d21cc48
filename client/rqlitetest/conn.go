package rqlitetest

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// A hold stops traffic until it is lifted. Bytes wait, they are not lost: that
// is what a stopped process and a partitioned network look like to TCP.
type hold struct {
	lifted chan struct{}
	once   sync.Once
}

func newHold() *hold { return &hold{lifted: make(chan struct{})} }

func (h *hold) lift() { h.once.Do(func() { close(h.lifted) }) }

// holdSlot is a place where a hold may lie.
type holdSlot struct{ p atomic.Pointer[hold] }

// put lays a new hold, unless one lies there already.
func (s *holdSlot) put() { s.p.CompareAndSwap(nil, newHold()) }

// take lifts the hold, if any.
func (s *holdSlot) take() {
	if h := s.p.Swap(nil); h != nil {
		h.lift()
	}
}

// serverConn is the server's end of a connection, with the faults that live on
// the wire: silence, resets, and idle connections that die at the next request.
type serverConn struct {
	net.Conn
	node   *Node
	silent holdSlot    // this connection alone
	idle   atomic.Bool // between two requests
	doomed atomic.Bool // closes when the next byte of a request arrives
	closed chan struct{}
	once   sync.Once
}

// pass waits until neither the node nor the connection is held.
func (c *serverConn) pass() error {
	for {
		h := c.silent.p.Load()
		if h == nil {
			h = c.node.frozen.p.Load()
		}
		if h == nil {
			return nil
		}
		select {
		case <-h.lifted:
		case <-c.closed:
			return net.ErrClosed
		}
	}
}

func (c *serverConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if herr := c.pass(); herr != nil {
		return 0, herr
	}
	if n > 0 && c.doomed.Load() {
		c.node.cluster.log.note(c.node, "idle connection closed as the next request arrived")
		c.Close()
		return 0, io.EOF
	}
	return n, err
}

func (c *serverConn) Write(p []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *serverConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.node.forget(c)
	return c.Conn.Close()
}

// reset makes the client see "connection reset by peer".
func (c *serverConn) reset() {
	switch inner := c.Conn.(type) {
	case *memConn:
		inner.Reset()
	case *net.TCPConn:
		inner.SetLinger(0)
	}
	c.Close()
}

// asServerConn finds the serverConn under a connection of net/http.
func asServerConn(c net.Conn) *serverConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	sc, _ := c.(*serverConn)
	return sc
}

// trackingListener wraps what it accepts into serverConns.
type trackingListener struct {
	net.Listener
	node *Node
}

func (l *trackingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	sc := &serverConn{Conn: c, node: l.node, closed: make(chan struct{})}
	l.node.adopt(sc)
	return sc, nil
}
