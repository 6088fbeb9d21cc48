package workspace_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
	"github.com/quorate/quorate/store/workspace"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(childEnv); task != "" {
		os.Exit(child(task))
	}
	goleak.VerifyTestMain(m)
}

var ref = workspace.Ref{Tenant: "t", Workspace: "w"}

// openEngine opens a database file, or one in memory if path is empty, that closes
// with the test.
func openEngine(t testing.TB, path string) *sqlite.Engine {
	t.Helper()
	if path == "" {
		path = ":memory:"
	}
	eng, err := sqlite.Open(path, sqlite.WithDurability(sqlite.Normal))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	return eng
}

func openStore(t testing.TB, eng engine.Engine, opts ...workspace.Option) *workspace.Store {
	t.Helper()
	s, err := workspace.Open(t.Context(), eng, append([]workspace.Option{
		workspace.WithPollInterval(10 * time.Millisecond), workspace.WithLogger(slog.New(slog.DiscardHandler)),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func tempDB(t testing.TB) string { return filepath.Join(t.TempDir(), "test.db") }

func entry(id string) workspace.Entry {
	return workspace.Entry{ID: id, Actor: workspace.System("test"), Event: []byte(`{"type":"note:taken"}`)}
}

// name numbers ids so that they sort.
func name(prefix string, i int) string { return fmt.Sprintf("%s%05d", prefix, i) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%T: %v", err, err)
	}
}

func appendTo(t testing.TB, s *workspace.Store, ref workspace.Ref, ids ...string) []workspace.Envelope {
	t.Helper()
	entries := make([]workspace.Entry, len(ids))
	for i, id := range ids {
		entries[i] = entry(id)
	}
	out, err := s.Append(t.Context(), ref, entries...)
	must(t, err)
	return out
}

// denseLog fails unless the log has no gaps, and returns it.
func denseLog(t testing.TB, s *workspace.Store, ref workspace.Ref) []workspace.Envelope {
	t.Helper()
	log, err := s.Read(t.Context(), ref)
	must(t, err)
	for i, e := range log {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d is numbered %d", i+1, e.Seq)
		}
		if i > 0 && e.TS.Before(log[i-1].TS) {
			t.Errorf("event %d is older than the one before it", e.Seq)
		}
	}
	return log
}

// transact appends ids in a transaction, and fails it with err if that is not nil.
func transact(ctx context.Context, s *workspace.Store, ref workspace.Ref, err error, ids ...string) error {
	return s.Transact(ctx, ref, func(ctx context.Context, tx *workspace.Tx) error {
		for _, id := range ids {
			if _, err := tx.Append(ctx, entry(id)); err != nil {
				return err
			}
		}
		return err
	})
}
