package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stopAfter closes stop after some transactions.
type stopAfter struct {
	engine.Engine
	left int // SQLite is given one transaction at a time
	stop context.CancelFunc
}

func (e *stopAfter) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if e.left--; e.left == 0 {
		e.stop()
	}
	return e.Engine.Exec(ctx, stmts)
}

// TestDrain: what was taken before the signal is committed after it.
func TestDrain(t *testing.T) {
	stop, signal := context.WithCancel(t.Context())
	defer signal()
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), &stopAfter{eng, 3, signal})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	r, err := serve(stop, st, time.Minute)
	// The mailbox may have had one in hand that the full store had no room for.
	if err != nil || r.committed == 0 || r.failed+r.unknown != 0 || r.unsent > 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	page, err := st.List(t.Context(), store.ListQuery{Limit: r.committed + 1})
	if err != nil || len(page.Items) != r.committed {
		t.Errorf("%d were committed, %d are there (%v)", r.committed, len(page.Items), err)
	}
}

// TestDeadline: a database that does not answer cannot hold up the end, and the
// report accounts for all that was taken.
func TestDeadline(t *testing.T) {
	cluster := rqlitetest.Start(t, rqlitetest.Nodes(1))
	eng, err := client.Open(t.Context(), cluster.URLs())
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), eng)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	stop, signal := context.WithCancel(t.Context())
	defer signal()
	cluster.Inject(rqlitetest.Match{
		Kind: rqlitetest.KindExecute | rqlitetest.KindRequest,
		If:   func(*rqlitetest.Request) bool { signal(); return true },
	}, rqlitetest.Hang())
	r, err := serve(stop, st, 50*time.Millisecond)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the time was up", err)
	}
	if r.committed+r.failed != 0 || r.unknown == 0 {
		t.Errorf("%+v", r)
	}
	cluster.ClearFaults()
}
