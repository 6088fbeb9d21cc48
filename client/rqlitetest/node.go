package rqlitetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Node is one node of a [Cluster]. All methods are safe for concurrent use.
type Node struct {
	cluster  *Cluster
	number   int
	id       string
	addr     string // of the HTTP API, host:port
	raftAddr string
	queue    *writeQueue

	frozen   holdSlot // the process is stopped: all its traffic waits
	deaf     holdSlot // new connections are never established
	mute     atomic.Bool
	accepted atomic.Int64

	connMu sync.Mutex
	conns  map[*serverConn]struct{}

	serverMu sync.Mutex // orders start and halt
	server   *http.Server
	serving  chan struct{} // closed when the server has ended

	// The rest is guarded by the cluster's mu.
	auth       credentials
	up         bool
	paused     bool
	isolated   bool
	stale      bool          // was replaced as leader and has not noticed
	stopped    chan struct{} // closed while the node is down
	leads      bool          // takes itself for the leader
	view       *Node         // the leader it knows of
	term       uint64
	strongTerm uint64    // the last term it led in which a strong read went through
	contact    time.Time // when it last heard of the leader; zero while in touch
	copy       *replica  // nil while it is up to date
}

type credentials struct {
	on             bool
	user, password string
}

// ID returns the node's name, such as "node1".
func (n *Node) ID() string { return n.id }

// Addr returns the address of the HTTP API, host:port. It outlives restarts.
func (n *Node) Addr() string { return n.addr }

// RaftAddr returns the address the nodes know each other by. Nothing listens there.
func (n *Node) RaftAddr() string { return n.raftAddr }

// URL returns the base URL of the HTTP API.
func (n *Node) URL() string {
	if n.cluster.tls != nil {
		return "https://" + n.addr
	}
	return "http://" + n.addr
}

// String returns the node's ID.
func (n *Node) String() string { return n.id }

// IsLeader reports whether the node takes itself for the leader, rightly or not.
func (n *Node) IsLeader() bool {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.leads
}

// Accepted returns the number of connections the node has accepted so far.
func (n *Node) Accepted() int { return int(n.accepted.Load()) }

// OpenConns returns the number of connections open now.
func (n *Node) OpenConns() int {
	n.connMu.Lock()
	defer n.connMu.Unlock()
	return len(n.conns)
}

// SetAuth changes the credentials of this node alone. Requests it forwards are
// then refused by a leader that has others, and the other way round.
func (n *Node) SetAuth(user, password string) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.auth = credentials{on: true, user: user, password: password}
}

func (n *Node) authorized(user, password string) bool {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return !n.auth.on || n.auth.user == user && n.auth.password == password
}

// Stop ends the node as a killed process does: its connections are reset, its
// address refuses new ones. A leader is replaced after the election timeout if a
// majority is left. What was being committed is committed or not, as it happens.
func (n *Node) Stop() {
	c := n.cluster
	c.mu.Lock()
	if !n.up {
		c.mu.Unlock()
		return
	}
	n.up, n.paused, n.leads, n.stale = false, false, false, false
	close(n.stopped)
	n.dropCopy()
	c.reconcile()
	c.mu.Unlock()
	n.halt()
}

// Restart starts a stopped node again, or stops and starts a running one. It
// comes back as a follower, up to date, in touch with the others, and with its old
// address; connections from before are dead. On loopback it panics if another
// process has taken the address meanwhile.
func (n *Node) Restart() {
	n.Stop()
	select {
	case <-n.cluster.done:
		return
	default:
	}
	if err := n.listen(); err != nil {
		panic(fmt.Sprintf("rqlitetest: restarting %s: %v", n.id, err))
	}
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	n.strongTerm = 0
	c.reconcile()
}

// Pause stops the node as SIGSTOP does: connections stay open, new ones are
// accepted, nothing is read or answered until [Node.Resume]. A leader is replaced
// after the election timeout if a majority is left.
func (n *Node) Pause() {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if !n.up || n.paused {
		return
	}
	n.paused = true
	n.frozen.put()
	if n.leads && n.copy == nil {
		n.copy = &replica{keep: -1} // its state stays as it is
		n.copy.automatic = true
	}
	c.reconcile()
}

// Resume lets a paused node go on, as a follower if another was elected
// meanwhile, up to date with the cluster.
func (n *Node) Resume() { n.ResumeStale(0) }

// ResumeStale is [Node.Resume], but for the time of window a leader that was
// replaced has not noticed: it answers weak reads from the state it had when it
// was paused, and writes with "leadership lost while committing log".
func (n *Node) ResumeStale(window time.Duration) {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if !n.paused {
		return
	}
	n.paused = false
	if n.leads && c.leader != n && window > 0 {
		n.stale = true
		stopped := n.stopped
		time.AfterFunc(window, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if n.stale && n.stopped == stopped {
				n.stale = false
				n.catchUp()
				c.reconcile()
			}
		})
	} else {
		n.catchUp()
	}
	c.reconcile()
	n.frozen.take()
}

// Isolate cuts the node off from the others; clients still reach it. A leader
// keeps the lead for its lease. It ends with [Node.Rejoin].
func (n *Node) Isolate() {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.isolated || !n.up {
		return
	}
	n.isolated = true
	n.contact = time.Now()
	if n.copy == nil {
		n.copy = &replica{keep: -1, automatic: true}
	}
	if n.leads {
		term := n.term
		time.AfterFunc(c.opts.leaderLease, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if n.isolated && n.leads && n.term == term {
				n.leads, n.view = false, nil
				c.bump()
			}
		})
	}
	c.reconcile()
}

// Rejoin ends [Node.Isolate]; the node catches up at once.
func (n *Node) Rejoin() {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if !n.isolated {
		return
	}
	n.isolated = false
	n.catchUp()
	c.reconcile()
}

// Silence makes the connections that are open now fall silent: requests on them
// are neither read nor answered, answers under way stay undelivered. New
// connections work. The bytes are not lost, [Node.Heal] delivers them.
func (n *Node) Silence() {
	n.connMu.Lock()
	defer n.connMu.Unlock()
	for c := range n.conns {
		c.silent.put()
	}
}

// BlackHole is [Node.Silence] for the open connections and all new ones, which
// are accepted and never answered.
func (n *Node) BlackHole() {
	n.mute.Store(true)
	n.Silence()
}

// DropDials makes [Cluster.DialContext] hang for new connections to the node,
// as a firewall that drops packets does. Open connections go on. It ends with
// [Node.Heal].
func (n *Node) DropDials() { n.deaf.put() }

// Heal ends [Node.Silence], [Node.BlackHole] and [Node.DropDials].
func (n *Node) Heal() {
	n.mute.Store(false)
	n.deaf.take()
	n.connMu.Lock()
	defer n.connMu.Unlock()
	for c := range n.conns {
		c.silent.take()
	}
}

// CloseIdle closes the idle connections now, as a server with an idle timeout does.
func (n *Node) CloseIdle() int {
	var idle []*serverConn
	n.connMu.Lock()
	for c := range n.conns {
		if c.idle.Load() {
			idle = append(idle, c)
		}
	}
	n.connMu.Unlock()
	for _, c := range idle {
		c.Close()
	}
	return len(idle)
}

// DoomIdle makes each connection that is idle now close just as the next request
// on it arrives, the request unread: the race of a client's write with the
// server's idle timeout. It returns their number.
func (n *Node) DoomIdle() int {
	n.connMu.Lock()
	defer n.connMu.Unlock()
	count := 0
	for c := range n.conns {
		if c.idle.Load() {
			c.doomed.Store(true)
			count++
		}
	}
	return count
}

// ResetConns resets all open connections.
func (n *Node) ResetConns() {
	for _, c := range n.openConns() {
		c.reset()
	}
}

func (n *Node) openConns() []*serverConn {
	n.connMu.Lock()
	defer n.connMu.Unlock()
	list := make([]*serverConn, 0, len(n.conns))
	for c := range n.conns {
		list = append(list, c)
	}
	return list
}

func (n *Node) adopt(c *serverConn) {
	n.accepted.Add(1)
	c.idle.Store(true)
	n.connMu.Lock()
	defer n.connMu.Unlock()
	if n.mute.Load() {
		c.silent.put()
	}
	n.conns[c] = struct{}{}
}

func (n *Node) forget(c *serverConn) {
	n.connMu.Lock()
	defer n.connMu.Unlock()
	delete(n.conns, c)
}

type connKey struct{}

// listen opens the node's address and serves it.
func (n *Node) listen() error {
	n.serverMu.Lock()
	defer n.serverMu.Unlock()
	if n.server != nil {
		return nil // restarted by somebody else meanwhile
	}
	var (
		l   net.Listener
		err error
	)
	if c := n.cluster; c.memory != nil {
		l, err = c.memory.listen(n.addr)
	} else {
		addr := n.addr
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		if l, err = net.Listen("tcp", addr); err == nil && n.addr == "" {
			n.addr = l.Addr().String()
			n.raftAddr = fmt.Sprintf("127.0.0.1:%d", 1+n.number)
		}
	}
	if err != nil {
		return fmt.Errorf("listening for %s: %w", n.id, err)
	}
	n.server = &http.Server{
		Handler:   http.HandlerFunc(n.serveHTTP),
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: n.cluster.tls.server(),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, asServerConn(c))
		},
		ConnState: func(c net.Conn, s http.ConnState) {
			if sc := asServerConn(c); sc != nil {
				sc.idle.Store(s == http.StateIdle)
			}
		},
	}
	n.serving = make(chan struct{})
	srv, serving := n.server, n.serving
	n.cluster.work.Go(func() {
		defer close(serving)
		tracked := &trackingListener{Listener: l, node: n}
		if n.cluster.tls != nil {
			_ = srv.ServeTLS(tracked, "", "") // always http.ErrServerClosed or the listener's end
		} else {
			_ = srv.Serve(tracked)
		}
	})
	c := n.cluster
	c.mu.Lock()
	n.up, n.paused, n.isolated, n.stale, n.leads, n.view = true, false, false, false, false, nil
	n.stopped = make(chan struct{})
	c.mu.Unlock()
	return nil
}

// halt resets all connections and ends the server.
func (n *Node) halt() {
	n.serverMu.Lock()
	defer n.serverMu.Unlock()
	if n.server == nil {
		return
	}
	for _, c := range n.openConns() {
		c.reset()
	}
	if err := n.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		n.cluster.log.note(n, "closing the server: "+err.Error())
	}
	<-n.serving
	for _, c := range n.openConns() { // accepted while the server closed
		c.reset()
	}
	n.server = nil
	n.frozen.take()
	n.deaf.take()
	n.mute.Store(false)
}
