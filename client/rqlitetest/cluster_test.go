package rqlitetest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a request and returns the status and the body.
func post(t testing.TB, c *http.Client, url, body string) (int, string) {
	t.Helper()
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatalf("POST %s: %v", url, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("POST %s: reading the answer: %v", url, err)
	}
	return resp.StatusCode, string(b)
}

// client returns a client that is closed with the test.
func client(t testing.TB, c *Cluster) *http.Client {
	cl := c.Client()
	t.Cleanup(cl.CloseIdleConnections)
	return cl
}

// both runs a test on loopback and in a bubble on the in-memory network.
func both(t *testing.T, f func(t *testing.T, opts ...Option), opts ...Option) {
	t.Run("loopback", func(t *testing.T) { f(t, opts...) })
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, append(opts, InMemoryNetwork())...) })
	})
}

func TestWriteAndRead(t *testing.T) {
	both(t, func(t *testing.T, opts ...Option) {
		c := Start(t, opts...)
		cl := client(t, c)
		for i, step := range []struct{ url, body, want string }{
			{c.URL(0) + "/db/execute", `["CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)"]`, `{"results":[{}]}`},
			{c.URL(0) + "/db/execute", `[["INSERT INTO t(v) VALUES(?)","a"]]`, `{"results":[{"last_insert_id":1,"rows_affected":1}]}`},
			{c.URL(1) + "/db/execute", `[["INSERT INTO t(v) VALUES(?) RETURNING id","b"]]`, `{"results":[{"columns":["id"],"types":["integer"],"values":[[2]]}]}`},
			{c.URL(2) + "/db/query?level=none", `["SELECT * FROM t"]`, `{"results":[{"columns":["id","v"],"types":["integer","text"],"values":[[1,"a"],[2,"b"]]}]}`},
		} {
			status, got := post(t, cl, step.url, step.body)
			if status != 200 || got != step.want {
				t.Fatalf("step %d: got %d %s, want %s", i, status, got, step.want)
			}
		}
	})
}
