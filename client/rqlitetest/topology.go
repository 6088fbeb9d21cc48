package rqlitetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"
)

// The endpoints that tell about the cluster: /nodes, /leader, /status, /readyz.

// nodeInfo is a node as the server describes it.
type nodeInfo struct {
	ID        string  `json:"id,omitempty"`
	APIAddr   string  `json:"api_addr,omitempty"`
	Addr      string  `json:"addr,omitempty"`
	Version   string  `json:"version"`
	Voter     bool    `json:"voter"`
	Reachable bool    `json:"reachable"`
	Leader    bool    `json:"leader"`
	Time      float64 `json:"time,omitempty"`
	TimeS     string  `json:"time_s,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// ping contacts another node, as far as the cluster's state lets it: a stopped
// node refuses, one that is paused or cut off does not answer.
func (n *Node) ping(ctx context.Context, other *Node) error {
	c := n.cluster
	if !c.lockWhen(ctx.Done(), func() bool {
		return !other.up || other == n || !other.paused && !other.isolated && !n.isolated
	}) {
		if ctx.Err() != nil {
			return fmt.Errorf("read protobuf length: read tcp %s->%s: i/o timeout", n.raftAddr, other.raftAddr)
		}
		return errClosed
	}
	defer c.mu.Unlock()
	if !other.up {
		return fmt.Errorf("dial tcp %s: connect: connection refused", other.raftAddr)
	}
	return nil
}

// describe contacts another node and tells what it found.
func (n *Node) describe(other, leader *Node, timeout time.Duration) nodeInfo {
	info := nodeInfo{ID: other.id, Addr: other.raftAddr, Voter: true}
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := n.ping(ctx, other); err != nil {
		info.Error = err.Error()
		if ctx.Err() != nil {
			info.Error = "timeout waiting for node to respond"
		}
		return info
	}
	took := time.Since(start)
	info.APIAddr, info.Version = other.URL(), n.cluster.opts.version
	info.Reachable, info.Leader = true, other == leader
	info.Time, info.TimeS = took.Seconds(), took.String()
	return info
}

func (n *Node) leaderView() *Node {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.view
}

func (x *exchange) json(v any) *Response {
	body, err := json.Marshal(v)
	if err != nil {
		return textError(http.StatusInternalServerError, "JSON marshal: "+err.Error())
	}
	if x.params.has("pretty") {
		body = indent(body)
	}
	return &Response{Header: jsonHeader(), Body: body}
}

func (x *exchange) nodes() *Response {
	n, c := x.node, x.node.cluster
	leader := n.leaderView()
	list := make([]nodeInfo, len(c.nodes))
	var wg sync.WaitGroup
	for i, other := range c.nodes {
		wg.Go(func() { list[i] = n.describe(other, leader, x.params.timeout()) })
	}
	wg.Wait()
	if x.params["ver"] == "2" {
		return x.json(map[string]any{"nodes": list})
	}
	byID := make(map[string]nodeInfo, len(list))
	for _, info := range list {
		byID[info.ID] = info
	}
	return x.json(byID)
}

func (x *exchange) leader() *Response {
	if x.req.Method == http.MethodPost {
		return x.stepdown()
	}
	leader := x.node.leaderView()
	if leader == nil {
		return textError(http.StatusServiceUnavailable, errLeaderNotFound.Error())
	}
	return x.json(x.node.describe(leader, leader, x.params.timeout()))
}

// stepdown moves the leadership to the node named in the body, or to any other.
func (x *exchange) stepdown() *Response {
	n, c := x.node, x.node.cluster
	var target struct {
		ID string `json:"id"`
	}
	if x.req.Header.Get("Content-Type") == "application/json" && len(x.req.Body) > 0 {
		if err := json.Unmarshal(x.req.Body, &target); err != nil {
			return textError(http.StatusBadRequest, "invalid JSON: "+err.Error())
		}
	}
	leader := n.leaderView()
	if !x.params.has("wait") && leader != n {
		return &Response{Header: jsonHeader()} // never reaches the leader
	}
	if leader == nil {
		return textError(http.StatusServiceUnavailable, errLeaderNotFound.Error())
	}
	if leader != n && x.params.has("redirect") {
		return x.redirectToLeader()
	}
	fail := func(text string) *Response {
		return textError(http.StatusInternalServerError, "stepdown: "+text)
	}
	to := -1
	for i := range c.nodes {
		if other := (leader.number + 1 + i) % len(c.nodes); target.ID == "" && other != leader.number && c.alive(other) {
			to = other
			break
		}
		if c.nodes[i].id == target.ID {
			to = i
			break
		}
	}
	switch {
	case to < 0 && target.ID != "":
		return fail("node not found in cluster")
	case to < 0:
		return fail("cannot find peer")
	case to == leader.number:
		return fail("cannot step down to the current Leader")
	case !c.Elect(to):
		return fail("failed to make TimeoutNow RPC to the target")
	}
	return &Response{Header: jsonHeader()}
}

func (c *Cluster) alive(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i].live()
}

func (x *exchange) status() *Response {
	n, c := x.node, x.node.cluster
	c.mu.Lock()
	state, leader := "Follower", map[string]any{"addr": "", "node_id": ""}
	if n.leads {
		state = "Leader"
	}
	if n.view != nil {
		leader = map[string]any{"addr": n.view.raftAddr, "node_id": n.view.id}
	}
	auth := "disabled"
	if n.auth.on {
		auth = "enabled"
	}
	peers := make([]map[string]any, len(c.nodes))
	for i, p := range c.nodes {
		peers[i] = map[string]any{"id": p.id, "addr": p.raftAddr, "suffrage": "voter"}
	}
	all := map[string]any{
		"build":      map[string]any{"version": c.opts.version, "compiler": "gc", "branch": "", "commit": "", "build_time": ""},
		"cluster":    map[string]any{"addr": n.raftAddr, "api_addr": n.addr, "https": fmt.Sprint(c.tls != nil), "timeout": "30s"},
		"extensions": map[string]any{"names": []string{}},
		"http": map[string]any{
			"bind_addr": n.addr, "auth": auth, "queue": map[string]any{"_default": n.queue.stats()},
			"tls": map[string]any{"enabled": fmt.Sprint(c.tls != nil)},
		},
		"mux":     map[string]any{"addr": n.raftAddr, "tls": "disabled"},
		"network": map[string]any{"interfaces": map[string]any{}},
		"node":    map[string]any{"start_time": c.started, "current_time": time.Now(), "uptime": time.Since(c.started).String()},
		"os":      map[string]any{"hostname": n.id},
		"runtime": map[string]any{"GOARCH": runtime.GOARCH, "GOOS": runtime.GOOS, "version": runtime.Version()},
		"store": map[string]any{
			"addr": n.raftAddr, "node_id": n.id, "leader": leader, "ready": true, "nodes": peers,
			"fsm_index": c.index, "strong_read_term": n.strongTerm,
			"raft": map[string]any{"state": state, "term": n.term, "last_log_index": c.index, "applied_index": c.index, "voter": true},
		},
	}
	c.mu.Unlock()
	if key := x.params["key"]; key != "" {
		return x.json(subtree(all, strings.Split(key, ".")))
	}
	return x.json(all)
}

// subtree follows the keys; an unknown one gives an empty object, and keys below
// a value that has none give that value.
func subtree(v any, keys []string) any {
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		if v, ok = m[k]; !ok {
			return map[string]any{}
		}
	}
	return v
}

func (x *exchange) readyz() *Response {
	n := x.node
	answer := func(status int, lines ...string) *Response {
		return &Response{
			Status: status,
			Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
			Body:   []byte(strings.Join(lines, "\n")),
		}
	}
	if x.params.has("noleader") {
		return answer(http.StatusOK, "[+]node ok")
	}
	leader := n.leaderView()
	if leader == nil {
		return textError(http.StatusInternalServerError, "leader address: leader not found")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*x.params.timeout())
	defer cancel()
	if err := n.ping(ctx, leader); err != nil {
		if errors.Is(err, errClosed) {
			return nil
		}
		return answer(http.StatusServiceUnavailable, "[+]node ok", "[+]leader not contactable: "+err.Error())
	}
	lines := []string{"[+]node ok", "[+]leader ok", "[+]store ok"}
	if x.params.has("sync") {
		lines = append(lines, "[+]sync ok")
	}
	return answer(http.StatusOK, append(lines, "[+]db ok")...)
}
