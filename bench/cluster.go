package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlited"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

// cluster is the rqlite cluster of a run.
type cluster struct {
	urls []string // with credentials, if any
	http *http.Client
}

// openRqlite connects to the cluster at -url, or else starts one: of real nodes
// if there is an rqlited binary, otherwise in this process.
func openRqlite(ctx context.Context, cfg *config) (*backend, error) {
	b := &backend{engine: "rqlite", close: func() error { return nil }}
	c := &cluster{http: &http.Client{Timeout: 10 * time.Second}}
	b.cluster = c
	bin, real := rqlited.Find()
	switch {
	case cfg.url != "":
		c.urls = splitURLs(cfg.url)
		b.server = fmt.Sprintf("rqlite at -url (%d given)", len(c.urls))
	case real:
		nodes, err := rqlited.Start(ctx, rqlited.Options{Binary: bin, Nodes: 3})
		if err != nil {
			return nil, err
		}
		c.urls, b.close = nodes.URLs(), nodes.Close
		b.server = "real rqlite, 3 nodes started on this machine"
	default:
		nodes, err := rqlitetest.New(rqlitetest.Nodes(3), rqlitetest.LogLimit(1))
		if err != nil {
			return nil, err
		}
		c.urls, b.close = nodes.URLs(), func() error { nodes.Close(); return nil }
		b.server = "rqlitetest, 3 simulated nodes in this process (set " + rqlited.EnvBinary + " to the path of rqlited for a real cluster)"
	}
	if v, err := c.version(ctx); err == nil {
		b.server += ", version " + v
	}
	b.logLength = c.logLength
	b.open = func(ctx context.Context, pool int) (engine.Engine, error) {
		var opts []client.Option
		if pool > 0 {
			opts = append(opts, client.WithMaxConns(pool))
		}
		return client.Open(ctx, c.urls, opts...)
	}
	return b, nil
}

// splitURLs takes a comma-separated list, whose elements may lack the scheme and
// credentials of the first one.
func splitURLs(list string) []string {
	urls := strings.Split(list, ",")
	scheme, rest, ok := strings.Cut(urls[0], "://")
	if !ok {
		scheme, rest = "http", urls[0]
		urls[0] = "http://" + urls[0]
	}
	user := ""
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user = rest[:at+1]
	}
	for i, u := range urls {
		if u = strings.TrimRight(strings.TrimSpace(u), "/"); !strings.Contains(u, "://") {
			u = scheme + "://" + user + u
		}
		urls[i] = u
	}
	return urls
}

// nodeStatus is the part of a node's status that matters here.
type nodeStatus struct {
	Build struct{ Version string }
	Store struct {
		Raft struct {
			State        string
			LastLogIndex json.Number `json:"last_log_index"`
		}
	}
}

// get fetches JSON from a node.
func (c *cluster) get(ctx context.Context, base, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return withoutURL(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status of a node: HTTP %d", resp.StatusCode)
	}
	return json.Unmarshal(body, v)
}

// withoutURL takes the URL, which may hold credentials, out of an HTTP error.
func withoutURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

func (c *cluster) version(ctx context.Context) (string, error) {
	var s nodeStatus
	err := c.get(ctx, c.urls[0], "/status", &s)
	if err == nil && s.Build.Version == "" {
		err = errors.New("the node does not tell its version")
	}
	return s.Build.Version, err
}

// logLength returns the leader's last index in the Raft log.
func (c *cluster) logLength(ctx context.Context) (uint64, error) {
	_, s, err := c.leader(ctx)
	if err != nil {
		return 0, err
	}
	n, err := s.Store.Raft.LastLogIndex.Int64()
	return uint64(n), err
}

// leader returns the URL and status of the node that leads.
func (c *cluster) leader(ctx context.Context) (string, *nodeStatus, error) {
	var errs []error
	for _, u := range c.urls {
		var s nodeStatus
		if err := c.get(ctx, u, "/status", &s); err != nil {
			errs = append(errs, err)
			continue
		}
		if s.Store.Raft.State == "Leader" {
			return u, &s, nil
		}
	}
	return "", nil, errors.Join(append(errs, errors.New("none of the given nodes leads"))...)
}
