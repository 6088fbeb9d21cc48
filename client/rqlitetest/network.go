package rqlitetest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// The in-memory network: named listeners, and connections that are pairs of
// bounded byte queues. All waiting is done on channels and timers, so a test in
// a testing/synctest bubble sees a waiting peer as durably blocked and fake time
// moves on. Mutexes guard fields only and are never held while waiting.

// pipeCapacity bounds the bytes in flight in one direction, as a socket buffer
// does: a writer whose peer does not read blocks once it is full.
const pipeCapacity = 64 << 10

// backlog bounds the connections that wait for Accept.
const backlog = 1024

type memAddr string

func (a memAddr) Network() string { return "tcp" }
func (a memAddr) String() string  { return string(a) }

// memNetwork maps the addresses of listening nodes to their listeners.
type memNetwork struct {
	mu        sync.Mutex
	listeners map[string]*memListener
	nextPort  int
}

func newMemNetwork() *memNetwork {
	return &memNetwork{listeners: make(map[string]*memListener), nextPort: 49152}
}

// listen opens addr, which must not be open already.
func (m *memNetwork) listen(addr string) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: memAddr(addr), Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &memListener{network: m, addr: memAddr(addr), queue: make(chan *memConn, backlog), closed: make(chan struct{})}
	m.listeners[addr] = l
	return l, nil
}

// dial connects to addr. An address without a listener refuses the connection.
func (m *memNetwork) dial(ctx context.Context, addr string) (net.Conn, error) {
	m.mu.Lock()
	l := m.listeners[addr]
	local := memAddr(net.JoinHostPort("client.rqlite.test", itoa(m.nextPort)))
	m.nextPort++
	m.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: memAddr(addr), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if l == nil {
		return nil, refused
	}
	client, server := newMemConns(local, l.addr)
	select {
	case <-l.closed:
		return nil, refused
	default:
	}
	select {
	case l.queue <- server:
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: memAddr(addr), Err: ctx.Err()}
	}
	select {
	case <-l.closed: // the listener may have been emptied before the send
		l.drain()
	default:
	}
	return client, nil
}

type memListener struct {
	network *memNetwork
	addr    memAddr
	queue   chan *memConn
	closed  chan struct{}
	once    sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		if l.network.listeners[string(l.addr)] == l {
			delete(l.network.listeners, string(l.addr))
		}
		l.network.mu.Unlock()
		close(l.closed)
		l.drain()
	})
	return nil
}

// drain resets the connections nobody will accept any more.
func (l *memListener) drain() {
	for {
		select {
		case c := <-l.queue:
			c.Reset()
		default:
			return
		}
	}
}

func (l *memListener) Addr() net.Addr { return l.addr }

// byteQueue is one direction of a connection.
type byteQueue struct {
	mu       sync.Mutex
	buf      []byte
	head     int           // buf[head:] is unread
	writeErr error         // what the writer gets: the reader is gone
	grace    bool          // one more write succeeds, and goes nowhere
	readErr  error         // what the reader gets once buf is empty
	wake     chan struct{} // closed at the next change; nil while nobody waits
}

// changed returns a channel that is closed at the next change. The caller holds mu.
func (q *byteQueue) changed() <-chan struct{} {
	if q.wake == nil {
		q.wake = make(chan struct{})
	}
	return q.wake
}

// signal wakes all waiters. The caller holds mu.
func (q *byteQueue) signal() {
	if q.wake != nil {
		close(q.wake)
		q.wake = nil
	}
}

func (q *byteQueue) read(p []byte, timeout, closed <-chan struct{}) (int, error) {
	for {
		select {
		case <-closed:
			return 0, net.ErrClosed
		case <-timeout:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		q.mu.Lock()
		if n := copy(p, q.buf[q.head:]); n > 0 || len(p) == 0 {
			q.head += n
			if q.head == len(q.buf) {
				q.buf, q.head = q.buf[:0], 0
			}
			q.signal()
			q.mu.Unlock()
			return n, nil
		}
		if q.readErr != nil {
			err := q.readErr
			q.mu.Unlock()
			return 0, err
		}
		wake := q.changed()
		q.mu.Unlock()
		select {
		case <-wake:
		case <-timeout:
		case <-closed:
		}
	}
}

func (q *byteQueue) write(p []byte, timeout, closed <-chan struct{}) (int, error) {
	written := 0
	for {
		select {
		case <-closed:
			return written, net.ErrClosed
		case <-timeout:
			return written, os.ErrDeadlineExceeded
		default:
		}
		q.mu.Lock()
		if q.writeErr != nil {
			err := q.writeErr
			if q.grace && written == 0 {
				q.grace, err, written = false, nil, len(p)
			}
			q.mu.Unlock()
			return written, err
		}
		if q.head > 0 && len(q.buf)+len(p) > cap(q.buf) {
			q.buf = q.buf[:copy(q.buf, q.buf[q.head:])]
			q.head = 0
		}
		if n := min(len(p), pipeCapacity-(len(q.buf)-q.head)); n > 0 {
			q.buf = append(q.buf, p[:n]...)
			p, written = p[n:], written+n
			q.signal()
		}
		if len(p) == 0 {
			q.mu.Unlock()
			return written, nil
		}
		wake := q.changed()
		q.mu.Unlock()
		select {
		case <-wake:
		case <-timeout:
		case <-closed:
		}
	}
}

// end closes the queue: the reader gets readErr after (or, when discard, instead
// of) what is buffered, the writer gets writeErr. Nil errors leave a side as it is.
func (q *byteQueue) end(readErr, writeErr error, discard bool) {
	q.mu.Lock()
	if readErr != nil && q.readErr == nil {
		q.readErr = readErr
	}
	if writeErr != nil && q.writeErr == nil {
		q.writeErr = writeErr
	}
	if discard {
		q.buf, q.head = nil, 0
	}
	q.signal()
	q.mu.Unlock()
}

func (q *byteQueue) allowOne() {
	q.mu.Lock()
	q.grace = true
	q.mu.Unlock()
}

// deadline turns the deadlines of net.Conn into a channel to select on.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	gen   uint64
	ch    chan struct{} // closed when the deadline has passed
}

func newDeadline() *deadline { return &deadline{ch: make(chan struct{})} }

func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ch
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gen++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	select {
	case <-d.ch:
		d.ch = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		close(d.ch)
		return
	}
	gen := d.gen
	d.timer = time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.gen == gen {
			close(d.ch)
		}
	})
}

// memConn is one end of an in-memory connection.
type memConn struct {
	in, out       *byteQueue
	local, remote memAddr
	readDeadline  *deadline
	writeDeadline *deadline
	closed        chan struct{}
	once          sync.Once
}

func newMemConns(client, server memAddr) (*memConn, *memConn) {
	up, down := &byteQueue{}, &byteQueue{}
	end := func(in, out *byteQueue, local, remote memAddr) *memConn {
		return &memConn{
			in: in, out: out, local: local, remote: remote,
			readDeadline: newDeadline(), writeDeadline: newDeadline(),
			closed: make(chan struct{}),
		}
	}
	return end(down, up, client, server), end(up, down, server, client)
}

func (c *memConn) fail(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

func (c *memConn) Read(p []byte) (int, error) {
	n, err := c.in.read(p, c.readDeadline.passed(), c.closed)
	return n, c.fail("read", err)
}

func (c *memConn) Write(p []byte) (int, error) {
	n, err := c.out.write(p, c.writeDeadline.passed(), c.closed)
	return n, c.fail("write", err)
}

// Close ends the connection in order: the peer still reads what was sent, then
// io.EOF. As on TCP, the peer's next write succeeds, and only later ones fail.
func (c *memConn) Close() error {
	c.shut(io.EOF, false)
	return nil
}

// Reset ends the connection at once: the peer gets "connection reset by peer"
// and loses what it has not read.
func (c *memConn) Reset() {
	c.shut(os.NewSyscallError("read", syscall.ECONNRESET), true)
}

func (c *memConn) shut(readErr error, discard bool) {
	c.once.Do(func() {
		close(c.closed)
		c.out.end(readErr, nil, discard)
		c.in.end(nil, os.NewSyscallError("write", syscall.EPIPE), true)
		if !discard {
			c.in.allowOne()
		}
		c.readDeadline.set(time.Time{})
		c.writeDeadline.set(time.Time{})
	})
}

func (c *memConn) LocalAddr() net.Addr  { return c.local }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) SetDeadline(t time.Time) error {
	c.readDeadline.set(t)
	c.writeDeadline.set(t)
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.readDeadline.set(t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.writeDeadline.set(t)
	return nil
}
