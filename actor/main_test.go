package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newStore returns a store on an engine, without closing it at the end.
func newStore(t testing.TB, eng engine.Engine, opts ...Option) *Store {
	t.Helper()
	s, err := New(openSync(t, eng), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openSync(t testing.TB, eng engine.Engine, opts ...store.Option) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), eng, append(opts, store.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// newSQLite returns a store on an embedded database in memory, closed at the end
// of the test.
func newSQLite(t testing.TB, opts ...Option) *Store {
	t.Helper()
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t, eng, opts...)
	t.Cleanup(func() {
		mustClose(t, s)
		if err := s.Sync().Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// mustClose closes s and expects nothing to be left over.
func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if left, err := s.Close(context.Background()); err != nil || left != (Leftover{}) {
		t.Errorf("Close: %+v, %v", left, err)
	}
}

func execution(id string) *store.Execution {
	e := store.NewExecution("order")
	e.ID = id
	return e
}

func commitOf(e *store.Execution) *store.Commit { return &store.Commit{Execution: e} }

// create commits the first version of executions.
func create(t testing.TB, s *Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := s.Save(t.Context(), execution(id)).Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func await[T any](t testing.TB, f Awaitable[T]) T {
	t.Helper()
	v, err := f.Await(context.Background())
	if err != nil {
		t.Error(err)
	}
	return v
}

// wantErr awaits f and expects an error that matches all of targets. It returns
// the error.
func wantErr[T any](t testing.TB, f Awaitable[T], targets ...error) error {
	t.Helper()
	_, err := f.Await(context.Background())
	checkErr(t, err, targets...)
	return err
}

func checkErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %q (%T): want it to match %q", err, err, target)
		}
	}
	kinds := 0
	for _, kind := range []error{engine.ErrNotApplied, engine.ErrApplied, engine.ErrOutcomeUnknown} {
		if errors.Is(err, kind) {
			kinds++
		}
	}
	if kinds > 1 {
		t.Errorf("error %q is of %d kinds", err, kinds)
	}
}

func pending[T any](f *Future[T]) bool {
	_, _, ok := f.Poll()
	return !ok
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }

func ids(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}
