package rqlited

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	pollInterval = 25 * time.Millisecond
	probeTimeout = 2 * time.Second
)

func newProbeClient(cfg *tls.Config) *http.Client {
	return &http.Client{
		Timeout:   probeTimeout,
		Transport: &http.Transport{TLSClientConfig: cfg},
	}
}

func (c *Cluster) url(i int) string {
	scheme := "http"
	if c.opts.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + c.nodes[i].http
}

// get returns the status code and body of a GET to node i.
func (c *Cluster) get(ctx context.Context, i int, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(i)+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if c.opts.Username != "" {
		req.SetBasicAuth(c.opts.Username, c.opts.Password)
	}
	resp, err := c.probe.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, body, err
}

// awaitReady waits until node i says that it is ready. It fails early if the
// process ends.
func (c *Cluster) awaitReady(ctx context.Context, i int) error {
	n := c.nodes[i]
	for {
		code, body, err := c.get(ctx, i, "/readyz")
		switch {
		case err == nil && code == http.StatusOK:
			return nil
		case err == nil && code == http.StatusUnauthorized:
			return fmt.Errorf("rqlited: node %s refuses the credentials in Options", n.id)
		case !n.running():
			return fmt.Errorf("rqlited: node %s has ended:\n%s", n.id, n.logTail())
		}
		if waitErr := wait(ctx, pollInterval); waitErr != nil {
			if err == nil {
				err = fmt.Errorf("status %d: %s", code, body)
			}
			return fmt.Errorf("rqlited: waiting for node %s: %w", n.id, errors.Join(waitErr, err))
		}
	}
}

// findLeader asks the running nodes, all at once, so that a paused one costs
// its own time limit only when nobody else leads.
func (c *Cluster) findLeader(ctx context.Context) (int, bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	type answer struct {
		node, term int
		leads      bool
	}
	answers := make(chan answer, len(c.nodes))
	asked := 0
	for i, n := range c.nodes {
		if !n.running() {
			continue
		}
		asked++
		go func() {
			term, leads := c.raftState(ctx, i)
			answers <- answer{i, term, leads}
		}()
	}
	best := answer{node: -1}
	for range asked {
		a := <-answers
		if a.leads && a.term > best.term {
			best = a
			// One more poll interval for a node with a newer term to answer.
			time.AfterFunc(pollInterval, cancel)
		}
	}
	return best.node, best.leads
}

// raftState returns node i's Raft term and whether it says that it leads.
func (c *Cluster) raftState(ctx context.Context, i int) (term int, leads bool) {
	code, body, err := c.get(ctx, i, "/status?key=store.raft")
	if err != nil || code != http.StatusOK {
		return 0, false
	}
	// The term is a number or, in older versions, a string.
	var raft struct {
		State string
		Term  json.RawMessage
	}
	if json.Unmarshal(body, &raft) != nil {
		return 0, false
	}
	text := string(raft.Term)
	if s, err := strconv.Unquote(text); err == nil {
		text = s
	}
	term, err = strconv.Atoi(text)
	return term, err == nil && raft.State == "Leader"
}

// freePorts returns n TCP ports that nobody listens on now. They lie below the
// usual range of outgoing connections, so that a node that is down for a while
// finds its port free when it is started again.
func freePorts(n int) ([]int, error) {
	const low, high = 20000, 32000
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	ports := make([]int, 0, n)
	for range 100 * (n + 1) {
		if len(ports) == n {
			return ports, nil
		}
		port := low + rand.IntN(high-low)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		held = append(held, l)
		ports = append(ports, port)
	}
	return nil, errors.New("no free TCP ports on loopback")
}

// wait waits for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
