package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

const (
	oddUser     = "us:er"
	oddPassword = "p@ss/w%rd#;"
)

// wantNoSecret checks that no form of the password is in a text.
func wantNoSecret(t *testing.T, what, text string) {
	t.Helper()
	for _, form := range []string{
		oddPassword, url.QueryEscape(oddPassword), url.PathEscape(oddPassword), url.UserPassword("u", oddPassword).String()[2:],
		base64.StdEncoding.EncodeToString([]byte(oddPassword)), base64.StdEncoding.EncodeToString([]byte(oddUser + ":" + oddPassword)),
		base64.StdEncoding.EncodeToString([]byte("user:" + oddPassword)), fmt.Sprintf("%q", oddPassword),
	} {
		if strings.Contains(text, form) {
			t.Errorf("%s gives the password away: %s", what, text)
		}
	}
}

// syncBuffer is a bytes.Buffer for a logger that goroutines share.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func withAuth(raw, user, password string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// CL-19.
func TestSpecialCharactersInCredentials(t *testing.T) {
	for name, opened := range map[string]func(base string) (*client.Engine, error){
		"in the URL": func(base string) (*client.Engine, error) {
			return openOn(t, []string{withAuth(base, oddUser, oddPassword)})
		},
		"by option": func(base string) (*client.Engine, error) {
			return openOn(t, []string{base}, client.WithBasicAuth(oddUser, oddPassword))
		},
		"option wins": func(base string) (*client.Engine, error) {
			return openOn(t, []string{withAuth(base, "other", "one")}, client.WithBasicAuth(oddUser, oddPassword))
		},
	} {
		want := "Basic " + base64.StdEncoding.EncodeToString([]byte(oddUser+":"+oddPassword))
		s := newScript(t, func(w http.ResponseWriter, r logged) {
			if r.auth != want {
				w.WriteHeader(401)
				return
			}
			io.WriteString(w, oneResult)
		})
		e, err := opened(s.URL + "/base")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			wantNoSecret(t, verb, fmt.Sprintf(verb, e))
		}
	}
}

// CL-19: every kind of failure, and the log, with a password that would show.
func TestPasswordIsNeverShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.BasicAuth("user", oddPassword))
		var log syncBuffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		urls := []string{withAuth(c.URL(0), "user", oddPassword), c.URL(1), c.URL(2)}
		e, err := client.Open(t.Context(), urls, client.WithDialContext(c.DialContext), client.WithLogger(logger))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Define(t.Context(), []string{schema}); err != nil {
			t.Fatal(err)
		}
		echo := fmt.Sprintf("cannot pass on %s / %s / %s", oddPassword, url.QueryEscape(oddPassword),
			base64.StdEncoding.EncodeToString([]byte("user:"+oddPassword)))
		failures := 0
		check := func(err error) {
			t.Helper()
			if err == nil {
				t.Error("no failure")
				return
			}
			failures++
			wantNoSecret(t, "error", fmt.Sprintf("%v %+v %#v", err, err, err))
		}
		for _, a := range []rqlitetest.Action{
			rqlitetest.Respond(400, "text/plain", echo), rqlitetest.Respond(502, "text/plain", echo),
			rqlitetest.ErrorApplied(echo), rqlitetest.Unauthorized(), rqlitetest.ResetApplied(),
			rqlitetest.HTML(), rqlitetest.RedirectTo("http://u:" + url.QueryEscape(oddPassword) + "@elsewhere.test:1"),
			rqlitetest.RedirectTo("http://\x7f" + oddPassword), rqlitetest.RedirectNext(),
		} {
			fault := c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, a)
			_, err := e.Exec(t.Context(), count("a"))
			check(err)
			check(e.Define(within(t, time.Second), []string{schema}))
			_, err = e.Gorqlite().WriteOneContext(within(t, time.Second), "INSERT INTO t (id) VALUES ('x')")
			check(err)
			fault.Remove()
		}
		c.Node(0).Stop()
		c.Node(1).Stop()
		_, err = e.Exec(within(t, time.Second), count("a"))
		check(err)
		check(e.Ping(t.Context()))
		if failures < 20 || log.String() == "" {
			t.Errorf("%d failures, log %q", failures, log.String())
		}
		wantNoSecret(t, "log", log.String())
	})
}

// CL-19: bad addresses are refused at once, and not repeated.
func TestUnusableURLsAreRefused(t *testing.T) {
	for _, urls := range [][]string{
		{}, {""}, {"  ,  "},
		{"http://u:" + oddPassword + "@host:4001"},
		{withAuth("http://host:4001", "u", oddPassword) + "\x01"},
		{"http://u:" + url.QueryEscape(oddPassword) + "@ho\x00st"},
		{"ftp://u:" + url.QueryEscape(oddPassword) + "@host"},
		{"http://u:" + url.QueryEscape(oddPassword) + "@"},
		{"http://u:" + url.QueryEscape(oddPassword) + "@host?level=none"},
		{withAuth("http://host1", "u", oddPassword), withAuth("http://host2", "u", "other")},
	} {
		e, err := client.Open(within(t, time.Minute), urls)
		if err == nil {
			e.Close()
			t.Errorf("%q: accepted", urls)
			continue
		}
		wantKinds(t, err, engine.ErrNotApplied, client.ErrInvalidURL)
		wantNoSecret(t, "error", err.Error())
	}
	for _, opt := range []client.Option{
		nil, client.WithTLS(nil), client.WithLogger(nil), client.WithDialContext(nil), client.WithMaxConns(0), client.WithAttemptTimeout(0),
		client.WithMaxResponse(0), client.WithConnectRetry(0, 1), client.WithRateLimit(0, 1), client.WithRateLimit(1, 0),
		client.WithBasicAuth("u", "line\nbreak"),
	} {
		if e, err := client.Open(t.Context(), []string{"http://127.0.0.1:1"}, opt); err == nil {
			e.Close()
			t.Error("a bad option was accepted")
		} else if strings.Contains(err.Error(), "line") {
			t.Errorf("%v", err)
		}
	}
}

// CL-19: wrong credentials and failures of trust end the opening in one try.
func TestOpenEndsAtOnceOnPermanentFailures(t *testing.T) {
	quick := func(t *testing.T, reason error, urls []string, opts ...client.Option) {
		t.Helper()
		// A second try would come too late.
		opts = append(opts, client.WithConnectRetry(2, time.Hour))
		e, err := client.Open(within(t, time.Minute), urls, opts...)
		if err == nil {
			e.Close()
			t.Fatal("opened")
		}
		wantKinds(t, err, engine.ErrNotApplied, reason)
		if errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
	t.Run("wrong password", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.BasicAuth("u", "right"))
			quick(t, engine.ErrUnauthorized, c.URLs(), client.WithDialContext(c.DialContext), client.WithBasicAuth("u", oddPassword))
			quick(t, engine.ErrUnauthorized, c.URLs(), client.WithDialContext(c.DialContext))
		})
	})
	t.Run("unknown authority", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.TLS())
			quick(t, engine.ErrInsecure, c.URLs(), client.WithDialContext(c.DialContext), client.WithTLS(&tls.Config{RootCAs: x509.NewCertPool()}))
			if n := requests(c, rqlitetest.KindAny); n != 0 {
				t.Errorf("%d requests over untrusted TLS", n)
			}
		})
	})
	t.Run("expired certificate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.TLS())
			cfg := c.TLSConfig()
			cfg.Time = func() time.Time { return time.Now().AddDate(5000, 0, 0) }
			quick(t, engine.ErrInsecure, c.URLs(), client.WithDialContext(c.DialContext), client.WithTLS(cfg))
		})
	})
	t.Run("no client certificate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork(), rqlitetest.MutualTLS())
			cfg := c.TLSConfig()
			cfg.Certificates = nil
			quick(t, engine.ErrInsecure, c.URLs(), client.WithDialContext(c.DialContext), client.WithTLS(cfg))
		})
	})
	t.Run("HTTP to an HTTPS port", func(t *testing.T) {
		// As Go's server answers; it resets the connection then, so the text may
		// be lost on the way.
		s := newScript(t, func(w http.ResponseWriter, _ logged) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, "Client sent an HTTP request to an HTTPS server.\n")
		})
		quick(t, engine.ErrInsecure, []string{s.URL})
	})
	t.Run("status without its body", func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, _ logged) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusBadRequest)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		quick(t, engine.ErrProtocol, []string{s.URL})
	})
	t.Run("HTTPS to an HTTP port", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		defer s.Close()
		quick(t, engine.ErrInsecure, []string{strings.Replace(s.URL, "http", "https", 1)})
	})
	t.Run("not rqlite", func(t *testing.T) {
		for _, h := range []http.HandlerFunc{
			http.NotFound,
			func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>welcome</html>") },
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://login.invalid/", http.StatusFound)
			},
		} {
			s := httptest.NewServer(h)
			quick(t, engine.ErrProtocol, []string{s.URL})
			s.Close()
		}
	})
}

func TestMutualTLSWorks(t *testing.T) {
	inBubble(t, func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine) {
		c.Elect(1)
		if _, err := e.Exec(within(t, 5*time.Second), count("a")); err != nil {
			t.Error(err)
		}
	}, rqlitetest.MutualTLS())
}

// A worker may start before its cluster.
func TestOpenWaitsForTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork())
		for _, n := range c.Nodes() {
			n.Stop()
		}
		time.AfterFunc(5*time.Second, func() {
			for _, n := range c.Nodes() {
				n.Restart()
			}
			c.LoseLeader(0)
		})
		time.AfterFunc(10*time.Second, func() { c.Elect(1) })
		began := time.Now()
		e, err := client.Open(t.Context(), c.URLs(), client.WithDialContext(c.DialContext))
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
		if d := time.Since(began); d > 11*time.Second {
			t.Errorf("opened after %v", d)
		}

		// It gives up after its tries, or with the context.
		c.LoseLeader(0)
		began = time.Now()
		_, err = client.Open(t.Context(), c.URLs(), client.WithDialContext(c.DialContext), client.WithConnectRetry(3, 2*time.Second))
		wantKinds(t, err, engine.ErrNotApplied, engine.ErrUnavailable, engine.ErrNoLeader)
		if d := time.Since(began); d < 4*time.Second || d > 6*time.Second {
			t.Errorf("gave up after %v", d)
		}
		for _, n := range c.Nodes() {
			n.Stop()
		}
		began = time.Now()
		_, err = client.Open(within(t, 2500*time.Millisecond), c.URLs(), client.WithDialContext(c.DialContext))
		wantKinds(t, err, engine.ErrNotApplied, engine.ErrUnavailable, context.DeadlineExceeded)
		if d := time.Since(began); d != 2500*time.Millisecond {
			t.Errorf("gave up after %v", d)
		}
	})
}
