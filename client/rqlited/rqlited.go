// Package rqlited starts real rqlite clusters on this machine, for tests and
// benchmarks. It needs an rqlited binary, which it finds but never builds or
// downloads: see [Find].
//
//	bin := rqlited.Require(t) // skips the test, saying how to enable it
//	c, err := rqlited.Start(ctx, rqlited.Options{Binary: bin, Nodes: 3})
//	defer c.Close()
//	c.Kill(0) // and see what the code under test makes of it
//
// The nodes listen on loopback addresses only. On Linux they end with the
// process that started them, even if that process is killed.
package rqlited

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// EnvBinary names the environment variable that holds the path of the binary.
const EnvBinary = "RQLITED"

// ErrNotFound is returned by [Start] when there is no rqlited binary.
var ErrNotFound = errors.New("rqlited: no binary on PATH or in " + EnvBinary)

// Find returns the path of the rqlited binary: the one that the environment
// variable RQLITED names, else the one on PATH. If RQLITED is set but names no
// executable file, the answer is false.
func Find() (path string, ok bool) {
	name := os.Getenv(EnvBinary)
	if name == "" {
		name = "rqlited"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", false
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", false
	}
	return path, true
}

// TB is the part of testing.TB that [Require] uses.
type TB interface {
	Helper()
	Skip(args ...any)
}

// Require returns the path of the rqlited binary, or skips the test with a line
// that says how to enable it.
func Require(tb TB) string {
	tb.Helper()
	path, ok := Find()
	if !ok {
		tb.Skip("skipped: no rqlited on PATH or in RQLITED; set RQLITED=/path/to/rqlited to run this against a real cluster")
	}
	return path
}

// Options say what [Start] starts. The zero value is a cluster of three nodes.
type Options struct {
	// Binary is the path of rqlited; empty means what Find finds.
	Binary string

	// Nodes is the number of nodes; zero means 3.
	Nodes int

	// Dir is where the nodes keep their data and logs. Empty means a temporary
	// directory that Close removes. A directory given here stays.
	Dir string

	// ExtraArgs are passed to every node, after the arguments that Start sets
	// itself and before the data directory.
	ExtraArgs []string

	// Username and Password are used by Start, Leader and Restart to ask the
	// nodes how they are, if ExtraArgs has -auth. The user needs the permissions
	// ready and status.
	Username, Password string

	// TLS, if set, says that the nodes serve HTTPS (ExtraArgs has -http-cert and
	// -http-key); it is what Start, Leader and Restart connect with.
	TLS *tls.Config
}

// Cluster is a running rqlite cluster. Its methods are safe for concurrent use.
// Nodes are named by their position, from zero.
type Cluster struct {
	opts   Options
	dir    string
	remove bool
	nodes  []*node
	probe  *http.Client

	mu     sync.Mutex
	closed bool
}

// Start starts a cluster and waits until every node is ready and one leads, or
// ctx ends; then nothing is left running. The error holds the end of the first
// failed node's log.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Nodes == 0 {
		opts.Nodes = 3
	}
	if opts.Nodes < 0 {
		return nil, fmt.Errorf("rqlited: %d nodes", opts.Nodes)
	}
	if opts.Binary == "" {
		path, ok := Find()
		if !ok {
			return nil, ErrNotFound
		}
		opts.Binary = path
	}
	opts.ExtraArgs = slices.Clone(opts.ExtraArgs)
	c := &Cluster{opts: opts, dir: opts.Dir}
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "rqlited-")
		if err != nil {
			return nil, fmt.Errorf("rqlited: %w", err)
		}
		c.dir, c.remove = dir, true
	}
	c.probe = newProbeClient(opts.TLS)
	if err := c.boot(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// boot starts all nodes and waits for them.
func (c *Cluster) boot(ctx context.Context) error {
	ports, err := freePorts(2 * c.opts.Nodes)
	if err != nil {
		return fmt.Errorf("rqlited: %w", err)
	}
	var raft []string
	for i := range c.opts.Nodes {
		n := &node{
			id:   "n" + strconv.Itoa(i+1),
			http: "127.0.0.1:" + strconv.Itoa(ports[2*i]),
			raft: "127.0.0.1:" + strconv.Itoa(ports[2*i+1]),
		}
		n.dir = filepath.Join(c.dir, n.id)
		n.log = filepath.Join(c.dir, n.id+".log")
		raft = append(raft, n.raft)
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		n.args = []string{"-node-id", n.id, "-http-addr", n.http, "-raft-addr", n.raft}
		if len(c.nodes) > 1 {
			// All nodes look for each other, so the order of start is free.
			n.args = append(n.args,
				"-bootstrap-expect", strconv.Itoa(len(c.nodes)),
				"-join", strings.Join(raft, ","))
		}
		n.args = append(n.args, c.opts.ExtraArgs...)
		n.args = append(n.args, n.dir)
		if err := n.start(c.opts.Binary); err != nil {
			return err
		}
	}
	for i := range c.nodes {
		if err := c.awaitReady(ctx, i); err != nil {
			return err
		}
	}
	_, err = c.Leader(ctx)
	return err
}

// Len returns the number of nodes, running or not.
func (c *Cluster) Len() int { return len(c.nodes) }

// URLs returns the base URL of each node, running or not, without credentials.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.nodes))
	for i := range c.nodes {
		urls[i] = c.url(i)
	}
	return urls
}

// Leader returns the position of the node that leads. It waits until one does,
// or ctx ends. Right after a pause the old leader may still think that it
// leads; the node with the newest Raft term wins.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	for {
		if i, ok := c.findLeader(ctx); ok {
			return i, nil
		}
		if err := wait(ctx, pollInterval); err != nil {
			return -1, fmt.Errorf("rqlited: waiting for a leader: %w", err)
		}
	}
}

// Kill ends node i at once (SIGKILL) and waits until the process is gone.
// Killing a node that does not run does nothing.
func (c *Cluster) Kill(i int) error { return c.nodes[i].kill() }

// Stop asks node i to end (SIGTERM) and waits until the process is gone. A
// leader hands leadership over first. If it takes longer than 20 seconds the
// node is killed and an error returned.
func (c *Cluster) Stop(i int) error { return c.nodes[i].terminate(20 * time.Second) }

// Pause freezes node i (SIGSTOP): the kernel still accepts connections for it,
// and nothing answers.
func (c *Cluster) Pause(i int) error { return c.nodes[i].pause() }

// Resume lets a paused node i go on (SIGCONT).
func (c *Cluster) Resume(i int) error { return c.nodes[i].resume() }

// Restart starts node i again, on the same addresses and data, and waits until
// it is ready or ctx ends. A node that runs is stopped first.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	if err := c.Stop(i); err != nil {
		return err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errors.New("rqlited: cluster is closed")
	}
	err := c.nodes[i].start(c.opts.Binary)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.awaitReady(ctx, i)
}

// Logs returns what node i has printed so far.
func (c *Cluster) Logs(i int) string {
	b, err := os.ReadFile(c.nodes[i].log)
	if err != nil {
		return ""
	}
	return string(b)
}

// Close kills all nodes and removes their data, unless Options.Dir was given.
// Closing twice is no error.
func (c *Cluster) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.kill())
	}
	c.probe.CloseIdleConnections()
	if c.remove {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}
