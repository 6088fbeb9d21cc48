package rqlitetest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Cluster is a set of nodes that share one database and answer over HTTP as
// rqlite does. All methods are safe for concurrent use.
type Cluster struct {
	opts    options
	nodes   []*Node
	memory  *memNetwork // nil on loopback
	tls     *authority  // nil without TLS
	faults  *faultTable
	log     *requestLog
	started time.Time
	done    chan struct{} // closed by Close
	work    sync.WaitGroup
	closing sync.Once

	// mu makes the cluster's state one: who leads, who lives, and the database.
	// What commits does so under it, after checking who leads, so the order of
	// commits is total and no write slips through a change of leader. It is held
	// for CPU work only, never while waiting.
	mu      sync.Mutex
	db      *database
	leader  *Node // of the current term, dead or alive; nil while there is none
	term    uint64
	index   uint64 // of the last log entry
	epoch   uint64 // counts changes of state, to void older timers
	timer   *time.Timer
	manual  bool          // no election until gapEnd or Elect
	gapEnd  time.Time     // when LoseLeader's gap ends; zero for never
	deposed *Node         // who lost the lead then
	changed chan struct{} // closed at the next change of state
	latency struct{ write, read time.Duration }
}

var errClosed = errors.New("rqlitetest: cluster is closed")

// Start runs a cluster for a test and closes it when the test ends. It fails the
// test if it cannot. The first node leads. In a testing/synctest bubble call it
// inside the bubble, with [InMemoryNetwork].
func Start(tb testing.TB, opts ...Option) *Cluster {
	tb.Helper()
	c, err := New(opts...)
	if err != nil {
		tb.Fatalf("starting an rqlite test cluster: %v", err)
	}
	tb.Cleanup(c.Close)
	return c
}

// New runs a cluster outside a test; the caller closes it. It returns an error
// for options that make no sense and when an address cannot be had.
func New(opts ...Option) (*Cluster, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Cluster{
		opts:    o,
		faults:  newFaultTable(o.seed),
		log:     newRequestLog(o.logLimit),
		started: time.Now(),
		done:    make(chan struct{}),
		changed: make(chan struct{}),
		term:    2,
		index:   uint64(2 + o.nodes),
	}
	c.latency.write, c.latency.read = o.writeLatency, o.readLatency
	if o.memory {
		c.memory = newMemNetwork()
	}
	var err error
	if c.db, err = openDatabase(o.foreignKeys); err != nil {
		return nil, fmt.Errorf("rqlitetest: %w", err)
	}
	for i := range o.nodes {
		n := &Node{cluster: c, number: i, id: fmt.Sprintf("node%d", i+1), conns: make(map[*serverConn]struct{})}
		n.auth = credentials{on: o.auth, user: o.user, password: o.password}
		n.queue = newWriteQueue(n)
		c.nodes = append(c.nodes, n)
		if c.memory != nil {
			n.addr = fmt.Sprintf("%s.rqlite.test:4001", n.id)
			n.raftAddr = fmt.Sprintf("%s.rqlite.test:4002", n.id)
		}
	}
	if err = c.startTLS(); err == nil {
		for _, n := range c.nodes {
			if err = n.listen(); err != nil {
				break
			}
		}
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("rqlitetest: %w", err)
	}
	c.mu.Lock()
	c.install(c.nodes[0])
	c.mu.Unlock()
	return c, nil
}

// Close stops all nodes, ends every connection and waits for what the cluster
// still runs. Requests that hang are cut off. It may be called more than once.
func (c *Cluster) Close() {
	c.closing.Do(func() {
		c.mu.Lock()
		close(c.done)
		if c.timer != nil {
			c.timer.Stop()
		}
		c.epoch++
		c.mu.Unlock()
		for _, n := range c.nodes {
			n.halt()
		}
		c.work.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, n := range c.nodes {
			n.dropCopy()
		}
		c.db.close()
	})
}

// Len returns the number of nodes.
func (c *Cluster) Len() int { return len(c.nodes) }

// Node returns the node with number i, counting from 0. Its ID is "node<i+1>".
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Nodes returns all nodes.
func (c *Cluster) Nodes() []*Node { return append([]*Node(nil), c.nodes...) }

// URL returns the base URL of node i, such as http://127.0.0.1:40001.
func (c *Cluster) URL(i int) string { return c.nodes[i].URL() }

// URLs returns the base URLs of all nodes.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		urls[i] = n.URL()
	}
	return urls
}

// Leader returns the node that leads now, or nil while there is none: a leader
// that is stopped, paused or cut off is none.
func (c *Cluster) Leader() *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader != nil && c.leader.live() {
		return c.leader
	}
	return nil
}

// WaitLeader waits until a node leads and returns it, or the context's error.
func (c *Cluster) WaitLeader(ctx context.Context) (*Node, error) {
	var n *Node
	ok := c.lockWhen(ctx.Done(), func() bool {
		n = c.leader
		return n != nil && n.live() && c.quorum()
	})
	if !ok {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("waiting for a leader: %w", err)
		}
		return nil, errClosed
	}
	c.mu.Unlock()
	return n, nil
}

// DialContext connects to a node by its address. It fits http.Transport and works
// on both networks. It honours ctx while a node drops connection attempts.
func (c *Cluster) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	for _, n := range c.nodes {
		if n.Addr() != addr {
			continue
		}
		for {
			h := n.deaf.p.Load()
			if h == nil {
				break
			}
			select {
			case <-h.lifted:
			case <-ctx.Done():
				return nil, &net.OpError{Op: "dial", Net: network, Addr: memAddr(addr), Err: ctx.Err()}
			case <-c.done:
				return nil, errClosed
			}
		}
	}
	if c.memory != nil {
		if host, _, err := net.SplitHostPort(addr); err != nil || !c.known(addr) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
		}
		return c.memory.dial(ctx, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

func (c *Cluster) known(addr string) bool {
	for _, n := range c.nodes {
		if n.addr == addr {
			return true
		}
	}
	return false
}

// Transport returns a new HTTP transport that reaches the cluster: with
// [Cluster.DialContext] and, under [TLS], the client's certificates.
func (c *Cluster) Transport() *http.Transport {
	t := &http.Transport{DialContext: c.DialContext, MaxIdleConnsPerHost: 64}
	if c.tls != nil {
		t.TLSClientConfig = c.TLSConfig()
		t.ForceAttemptHTTP2 = true
	}
	return t
}

// Client returns a new HTTP client that reaches the cluster and reports
// redirects instead of following them. Close its idle connections when done.
func (c *Cluster) Client() *http.Client {
	return &http.Client{
		Transport:     c.Transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// TLSConfig returns a client's configuration that trusts the cluster and, under
// [MutualTLS], carries a client certificate. It is nil without TLS.
func (c *Cluster) TLSConfig() *tls.Config {
	if c.tls == nil {
		return nil
	}
	return c.tls.client()
}

// SetAuth changes the credentials on all nodes, at once for all requests.
func (c *Cluster) SetAuth(user, password string) {
	for _, n := range c.nodes {
		n.SetAuth(user, password)
	}
}

// SetLatency changes what [Latency] set.
func (c *Cluster) SetLatency(write, read time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency.write, c.latency.read = write, read
}

// Inject adds a fault: requests that match meet the action instead of being
// served as usual. Faults are tried in the order they were added and the first
// that matches is the one that happens.
func (c *Cluster) Inject(match Match, action Action) *Fault { return c.faults.add(match, action) }

// ClearFaults removes all faults added by [Cluster.Inject] and lets go of
// requests that hang in one.
func (c *Cluster) ClearFaults() { c.faults.clear() }

// Log returns a copy of the request log, oldest first.
func (c *Cluster) Log() []Entry { return c.log.entries(nil) }

// LogOf returns the log's requests of these kinds, oldest first.
func (c *Cluster) LogOf(kinds Kind) []Entry {
	return c.log.entries(func(e *Entry) bool { return e.Kind&kinds != 0 })
}

// ResetLog empties the request log.
func (c *Cluster) ResetLog() { c.log.reset() }

// Index returns the number of the last log entry: one entry is added by each
// request that writes or reads with level strong.
func (c *Cluster) Index() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index
}

// enter counts work that Close waits for, unless the cluster is closed already.
func (c *Cluster) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done:
		return false
	default:
	}
	c.work.Add(1)
	return true
}

// lockWhen waits until cond holds and returns true with mu held. It returns
// false, without mu, when stop or the cluster is closed first. cond runs under mu.
func (c *Cluster) lockWhen(stop <-chan struct{}, cond func() bool) bool {
	c.mu.Lock()
	for !cond() {
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-stop:
			return false
		case <-c.done:
			return false
		}
		c.mu.Lock()
	}
	return true
}

// bump tells those who wait that the state has changed. The caller holds mu.
func (c *Cluster) bump() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// sleep waits for d and reports false if the cluster is closed first.
func (c *Cluster) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.done:
		return false
	}
}
