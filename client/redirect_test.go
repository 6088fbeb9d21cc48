package client_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

// script is an HTTP server that logs its requests and answers by a function.
type script struct {
	*httptest.Server
	mu  sync.Mutex
	log []logged
}

type logged struct {
	method, path, query, auth string
	body                      []byte
}

func newScript(t *testing.T, answer func(w http.ResponseWriter, r logged)) *script {
	t.Helper()
	s := new(script)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l := logged{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), body}
		s.mu.Lock()
		s.log = append(s.log, l)
		s.mu.Unlock()
		w.Header().Set("X-Rqlite-Version", "v10.2.7")
		answer(w, l)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *script) requests() []logged {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]logged(nil), s.log...)
}

// writes returns the requests that are not questions of the client's own.
func (s *script) writes() []logged {
	return slices.DeleteFunc(s.requests(), func(r logged) bool { return !strings.HasSuffix(r.path, "/db/execute") })
}

func (s *script) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

func redirectTo(w http.ResponseWriter, status int, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(status)
}

const oneResult = `{"results":[{"rows_affected":1}]}`

// openOn opens an engine on plain servers.
func openOn(t *testing.T, urls []string, opts ...client.Option) (*client.Engine, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := client.Open(ctx, urls, opts...)
	if err == nil {
		t.Cleanup(func() { e.Close() })
	}
	return e, err
}

// CL-08.
func TestRedirectKeepsMethodBodyAndParameters(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		location func(leader string) string
		prefix   string
	}{
		"without parameters":   {301, func(l string) string { return l + "/db/execute" }, ""},
		"with its own":         {307, func(l string) string { return l + "/db/execute?redirect&level=none&queue" }, ""},
		"behind a path prefix": {301, func(l string) string { return l + "/some/where/db/execute?redirect" }, "/some/where"},
	} {
		t.Run(name, func(t *testing.T) {
			var moved atomic.Bool // from the first node to the second
			var first, leader *script
			leader = newScript(t, func(w http.ResponseWriter, r logged) {
				if !moved.Load() {
					redirectTo(w, 301, first.URL+"/db/query")
					return
				}
				if !strings.HasPrefix(r.path, c.prefix+"/db/") {
					w.WriteHeader(404)
					return
				}
				io.WriteString(w, oneResult)
			})
			first = newScript(t, func(w http.ResponseWriter, r logged) {
				if moved.Load() {
					redirectTo(w, c.status, c.location(leader.URL))
					return
				}
				io.WriteString(w, oneResult)
			})
			e, err := openOn(t, []string{first.URL, leader.URL}, client.WithBasicAuth("u", "p"))
			if err != nil {
				t.Fatal(err)
			}
			moved.Store(true)
			first.reset()
			leader.reset()
			if _, err := e.Exec(t.Context(), insert("a")); err != nil {
				t.Fatal(err)
			}
			from, to := first.writes(), leader.writes()
			if len(from) != 1 || len(to) != 1 {
				t.Fatalf("%d and %d requests", len(from), len(to))
			}
			got := to[0]
			if got.method != "POST" || got.path != c.prefix+"/db/execute" || got.query != "transaction&redirect" || !bytes.Contains(got.body, []byte("INSERT INTO t")) || got.auth == "" {
				t.Errorf("the leader got %+v", got)
			}
		})
	}
}

// CL-08.
func TestRedirectLoopEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		for name, a := range map[string]rqlitetest.Action{
			"itself": rqlitetest.RedirectTo(c.Leader().URL()),
			"circle": rqlitetest.RedirectNext(),
		} {
			c.ResetLog()
			fault := c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, a)
			_, err := e.Exec(t.Context(), insert("a"))
			fault.Remove()
			wantKinds(t, err, engine.ErrNotApplied, engine.ErrProtocol)
			if n := requests(c, rqlitetest.KindAny); n > 40 {
				t.Errorf("%s: %d requests%s", name, n, describe(c.Log()))
			}
		}
		if _, err := e.Exec(within(t, time.Second), insert("a")); err != nil {
			t.Error(err)
		}
	})
}

// CL-08: no request, and so no credentials, go to a host that nobody configured.
func TestRedirectToUnknownHostIsNotFollowed(t *testing.T) {
	stranger := newScript(t, func(w http.ResponseWriter, r logged) { io.WriteString(w, oneResult) })
	lost := make(chan struct{})
	node := newScript(t, func(w http.ResponseWriter, r logged) {
		select {
		case <-lost:
		default:
			io.WriteString(w, oneResult)
			return
		}
		if r.path == "/nodes" {
			io.WriteString(w, `{"n1":{"api_addr":"http://127.0.0.1:1","reachable":true,"leader":true}}`)
			return
		}
		redirectTo(w, 301, stranger.URL+r.path)
	})
	e, err := openOn(t, []string{node.URL}, client.WithBasicAuth("u", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	close(lost)
	_, err = e.Exec(t.Context(), insert("a"))
	wantKinds(t, err, engine.ErrNotApplied, engine.ErrProtocol)
	if n := len(stranger.requests()); n != 0 {
		t.Errorf("the stranger got %d requests", n)
	}
}

// A node that a known node lists may be the leader.
func TestRedirectToListedNodeIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, _ *client.Engine) {
		follower := c.Node(2)
		e, err := client.Open(t.Context(), []string{follower.URL()}, client.WithDialContext(c.DialContext))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if _, err := e.Exec(t.Context(), count("a")); err != nil {
			t.Fatal(err)
		}
		for _, r := range c.LogOf(rqlitetest.KindExecute) {
			if r.Node != c.Leader().ID() {
				t.Errorf("a write went to %s", r.Node)
			}
		}
		if n := applied(t, c, "a"); n != 1 {
			t.Errorf("applied %d times", n)
		}
		// With the first node gone the others are known by now.
		follower.Stop()
		c.Leader().Stop()
		follower.Restart()
		if _, err := e.Exec(within(t, 10*time.Second), count("a")); err != nil {
			t.Error(err)
		}
	})
}

// CL-08, CL-19: no answer makes the client leave TLS.
func TestRedirectNeverLeavesTLS(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		plain := "http://" + c.Node(1).Addr()
		c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, rqlitetest.RedirectTo(plain))
		_, err := e.Exec(t.Context(), insert("a"))
		wantKinds(t, err, engine.ErrNotApplied, engine.ErrProtocol, client.ErrInvalidURL)
	}, rqlitetest.TLS())
}

// A URL with a path is a cluster behind a proxy.
func TestBasePathIsKept(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r logged) { io.WriteString(w, oneResult) })
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path, u.User = "/base/path/", url.UserPassword("u", "p")
	e, err := openOn(t, []string{u.String()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Exec(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.requests() {
		if !strings.HasPrefix(r.path, "/base/path/") {
			t.Errorf("request to %s", r.path)
		}
	}
}
