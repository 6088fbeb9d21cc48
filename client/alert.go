package client

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// alertWait bounds the wait for the reason of a failed write. The reader of a
// connection that the peer has ended gets its end at once.
const alertWait = time.Second

// tlsConn is a TLS connection whose failed writes tell why the server ended it.
//
// With TLS 1.3 the client has finished its handshake before the server has seen
// the client's certificate (RFC 8446, figure 1). A server that refuses it sends an
// alert and closes, so the first write may fail, with a broken pipe, while the
// alert waits to be read.
type tlsConn struct {
	*tls.Conn

	// heard says that a read has given data: the server accepted the client.
	heard atomic.Bool

	once  sync.Once
	ended chan struct{} // closed when a read has failed
	alert error         // the alert that it gave, or nil; valid when ended is closed
}

func newTLSConn(c *tls.Conn) *tlsConn {
	return &tlsConn{Conn: c, ended: make(chan struct{})}
}

func (c *tlsConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	if err != nil {
		c.once.Do(func() {
			if isTLSAlert(err) {
				c.alert = err
			}
			close(c.ended)
		})
	}
	return n, err
}

// Write writes b. It relies on a reader, which http.Transport has at work on
// every connection from the beginning.
func (c *tlsConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || c.heard.Load() {
		return n, err
	}
	timer := time.NewTimer(alertWait)
	defer timer.Stop()
	select {
	case <-c.ended:
		if c.alert != nil {
			err = c.alert
		}
	case <-timer.C:
	}
	return n, err
}

var _ net.Conn = (*tlsConn)(nil)
