package store

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// fakeEngine is an engine whose answers are the test's. It records what it gets.
type fakeEngine struct {
	traits engine.Traits
	exec   func(n int, stmts []engine.Statement) ([]engine.Result, error)
	query  func(n int, stmts []engine.Statement) ([]engine.Result, error)
	define func(n int, ddl []string) error

	mu                      sync.Mutex
	execs, queries, defines int
}

var errFake = errors.New("a fake error")

func (e *fakeEngine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: err}
	}
	e.mu.Lock()
	e.execs++
	n := e.execs
	e.mu.Unlock()
	return e.exec(n, stmts)
}

func (e *fakeEngine) Query(ctx context.Context, _ engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, &engine.Error{Op: "query", Outcome: engine.NotApplied, Err: err}
	}
	e.mu.Lock()
	e.queries++
	n := e.queries
	e.mu.Unlock()
	return e.query(n, stmts)
}

func (e *fakeEngine) Define(_ context.Context, ddl []string) error {
	e.mu.Lock()
	e.defines++
	n := e.defines
	e.mu.Unlock()
	return e.define(n, ddl)
}

func (e *fakeEngine) Ping(context.Context) error { return nil }
func (e *fakeEngine) Traits() engine.Traits      { return e.traits }
func (e *fakeEngine) Close() error               { return nil }

// fakeTraits are those of an engine behind a network.
var fakeTraits = engine.Traits{Name: "fake", MaxParams: 32766, RowsPerStatement: 64, MaxBatchBytes: 1 << 20, Writers: 1, Readers: 1}

// fakeStore is a store on an engine, without looking at its schema. It counts on
// rivals, so its batches tell who won.
func fakeStore(eng *fakeEngine) *Store {
	s := &Store{eng: eng, traits: eng.traits, limit: 30 * time.Second, traceMax: 200, retries: 3, log: slog.New(slog.DiscardHandler)}
	s.limits, _ = Limits{}.withDefaults()
	s.rivals.wait.Store(math.MaxInt32)
	return s
}

// fakeWrites prepares commits of new executions of these ids.
func fakeWrites(t *testing.T, s *Store, ids ...string) []*Write {
	t.Helper()
	writes := make([]*Write, len(ids))
	for i, id := range ids {
		x := NewExecution("d")
		x.ID = id
		var err error
		if writes[i], err = s.PrepareCommit(&Commit{Execution: x, Emits: []Emit{{Event: Event{ID: "event-" + id}}}}); err != nil {
			t.Fatal(err)
		}
	}
	return writes
}

// fakeApply applies writes and returns the verdict of each, which must come
// exactly once.
func fakeApply(t *testing.T, ctx context.Context, s *Store, writes []*Write) []error {
	t.Helper()
	errs, told := make([]error, len(writes)), make([]int, len(writes))
	s.Apply(ctx, writes, func(i int, err error) { errs[i], told[i] = err, told[i]+1 })
	for i, n := range told {
		if n != 1 {
			t.Errorf("write %d was reported %d times", i, n)
		}
	}
	return errs
}

// returned answers a request whose upserts return these ids.
func returned(stmts []engine.Statement, ids ...string) []engine.Result {
	results := make([]engine.Result, len(stmts))
	for i, st := range stmts {
		if strings.Contains(st.SQL, "INSERT INTO executions") {
			if !st.Returning {
				results[i].RowsAffected = int64(len(ids))
				continue
			}
			results[i].Columns = []string{"id"}
			for _, id := range ids {
				results[i].Values = append(results[i].Values, engine.Text(id))
			}
		}
	}
	return results
}

// rowsOf answers a look at versions and tokens.
func rowsOf(columns []string, values ...engine.Value) []engine.Result {
	return []engine.Result{{Columns: columns, Values: values}}
}

var peekColumns = []string{"id", "version", "token"}

func fakeUnknown() error {
	return &engine.Error{Op: "exec", Outcome: engine.Unknown, Reason: engine.ErrUnavailable, Err: errFake}
}

func fakeRefusal(reason error) error {
	return &engine.Error{Op: "exec", Outcome: engine.NotApplied, Reason: reason, Err: errFake}
}
