package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

const schema = `CREATE TABLE IF NOT EXISTS t (id TEXT PRIMARY KEY, n INTEGER NOT NULL DEFAULT 0)`

// inBubble runs a test with fake time against a cluster on an in-memory network.
// The engine has the schema already.
func inBubble(t *testing.T, test func(t *testing.T, c *rqlitetest.Cluster, e *client.Engine), opts ...rqlitetest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := rqlitetest.Start(t, append([]rqlitetest.Option{rqlitetest.InMemoryNetwork()}, opts...)...)
		e := open(t, c)
		if err := e.Define(t.Context(), []string{schema}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // what the opening asked of nodes that did not matter any more
		c.ResetLog()
		test(t, c, e)
	})
}

// open opens an engine on the cluster and closes it when the test ends.
func open(t *testing.T, c *rqlitetest.Cluster, opts ...client.Option) *client.Engine {
	t.Helper()
	if cfg := c.TLSConfig(); cfg != nil {
		opts = append([]client.Option{client.WithTLS(cfg)}, opts...)
	}
	e, err := client.Open(t.Context(), c.URLs(), append(opts, client.WithDialContext(c.DialContext))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// insert is a write that fails if it is applied twice.
func insert(id string) []engine.Statement {
	return []engine.Statement{{SQL: `INSERT INTO t (id, n) VALUES (?, 1)`, Args: []engine.Value{engine.Text(id)}}}
}

// count is a write that shows how often it was applied.
func count(id string) []engine.Statement {
	return []engine.Statement{{SQL: `INSERT INTO t (id, n) VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET n = n + 1`, Args: []engine.Value{engine.Text(id)}}}
}

var selectOne = []engine.Statement{{SQL: `SELECT 1`}}

// applied returns how often count(id) was applied, asked past the client.
func applied(t *testing.T, c *rqlitetest.Cluster, id string) int64 {
	t.Helper()
	rows, err := c.SQL(context.Background(), `SELECT n FROM t WHERE id = ?`, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		return 0
	}
	return rows[0][0].(int64)
}

// within returns a context with a time limit, released with the test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// wantKinds checks that err matches all of want and is of one kind only.
func wantKinds(t *testing.T, err error, want ...error) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v", want)
		return
	}
	kinds := 0
	for _, k := range []error{engine.ErrNotApplied, engine.ErrApplied, engine.ErrOutcomeUnknown} {
		if errors.Is(err, k) {
			kinds++
		}
	}
	if kinds != 1 {
		t.Errorf("%d kinds in %v", kinds, err)
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("error %q is not %q", err, w)
		}
	}
}

// requests returns how many requests of these kinds the nodes saw.
func requests(c *rqlitetest.Cluster, kinds rqlitetest.Kind) int { return len(c.LogOf(kinds)) }

// describe renders a log for a failed test.
func describe(entries []rqlitetest.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "\n%v %s %s %s?%s -> %d %s %s", e.At.Format("05.000"), e.Node, e.Method, e.Path, e.Query, e.Status, e.Outcome, e.Fault)
	}
	return b.String()
}
