package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/postgres/postgrestest"
)

// doubling sends each transaction on two connections at once, as a proxy may that
// gives up too early, and returns one of the answers, or none.
type doubling struct {
	engine.Engine
	n atomic.Uint64
}

func (e *doubling) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	n := e.n.Add(1)
	if n%3 != 0 {
		return e.Engine.Exec(ctx, stmts)
	}
	var results [2][]engine.Result
	var errs [2]error
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i], errs[i] = e.Engine.Exec(ctx, stmts) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if n%9 == 0 {
		return nil, &engine.Error{Op: "exec", Outcome: engine.Unknown, Err: errors.New("by the test")}
	}
	return results[n%2], nil
}

// Transactions interleave here, and all the same of two commits for one version
// exactly one wins, and what a loser, or a second send of a winner, brought along
// is nowhere.
func TestPostgresInterleavedCommitsLeaveNothingOfALoser(t *testing.T) {
	const (
		workers = 8
		rounds  = 60
		ids     = 12
		batch   = 5
	)
	url := postgrestest.Schema(t)
	eng := openPostgres(t, url)
	var stores []*store.Store
	for range 2 {
		st, err := store.Open(t.Context(), &doubling{Engine: openPostgres(t, url)}, store.WithLogger(slog.New(slog.DiscardHandler)), store.WithTraceMax(0))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		stores = append(stores, st)
	}
	t.Cleanup(func() { _ = eng.Close() })
	deadlocks := count(t, eng, "SELECT deadlocks AS n FROM pg_stat_database WHERE datname=current_database()")

	var won, lost, unknown, created, steps atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			st := stores[w%2]
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for round := range rounds {
				var writes []*store.Write
				for i, n := range rnd.Perm(ids)[:batch] {
					// Every few rounds there are new executions to fight for.
					id := fmt.Sprintf("x-%d-%d", round/10, n)
					x, err := st.Load(t.Context(), id)
					if errors.Is(err, store.ErrNotFound) {
						x = store.NewExecution("d")
						x.ID = id
					} else if err != nil {
						t.Error(err)
						return
					}
					var write *store.Write
					switch {
					case i == batch-1 && x.Version > 0 && round%3 == 0:
						write, err = st.PrepareAppendTrace(id, store.Object{})
					case i == batch-2 && x.Version > 0 && round%4 == 0:
						write, err = st.PrepareDeleteTimer(store.Timer{ExecutionID: id, Path: "/t", FireAt: float64(round)})
					default:
						mark := fmt.Sprint(w, "-", round, "-", i)
						write, err = st.PrepareCommit(&store.Commit{
							Execution: x, ProcessedEvent: mark, Emits: []store.Emit{{Event: store.Event{ID: mark + "a"}}, {Event: store.Event{ID: mark + "b"}}},
							Timers: []store.TimerOp{{Path: "/t", FireAt: float64(round)}, store.CancelTimer("/u")}, Spawns: []store.Spawn{{ChildID: mark}}, Trace: &store.Object{},
						})
					}
					if err != nil {
						t.Error(err)
						return
					}
					writes = append(writes, write)
				}
				bases := make([]bool, len(writes))
				st.Apply(t.Context(), writes, func(i int, err error) {
					switch {
					case err == nil && writes[i].IsCommit():
						won.Add(1)
						if writes[i].Committed().Version == 1 {
							created.Add(1)
						}
					case err == nil:
						steps.Add(1)
					case errors.Is(err, store.ErrConflict):
						lost.Add(1)
					case errors.Is(err, store.ErrOutcomeUnknown):
						unknown.Add(1) // an answer was lost, and others have gone on since
					default:
						t.Errorf("worker %d: %v", w, err)
					}
					if bases[i] {
						t.Errorf("write %d was reported twice", i)
					}
					bases[i] = true
				})
			}
		})
	}
	wg.Wait()
	// Each version was made by one commit, which left its own and nothing else.
	commits := count(t, eng, "SELECT sum(version)::bigint AS n FROM executions")
	if commits < won.Load() || commits > won.Load()+unknown.Load() {
		t.Errorf("%d commits in the database, %d acknowledged and %d unknown", commits, won.Load(), unknown.Load())
	}
	for sql, want := range map[string]int64{
		"SELECT count(*) AS n FROM outbox":                                                                       2 * commits,
		"SELECT count(DISTINCT event) AS n FROM outbox":                                                          2 * commits,
		"SELECT count(*) AS n FROM processed_events":                                                             commits,
		"SELECT count(*) AS n FROM spawns":                                                                       commits,
		"SELECT count(DISTINCT child_id) AS n FROM spawns":                                                       commits,
		"SELECT count(*) AS n FROM trace WHERE token IS NULL":                                                    commits,
		"SELECT count(*) AS n FROM (SELECT execution_id FROM trace GROUP BY 1 HAVING max(idx)+1<>count(*)) gaps": 0,
	} {
		if got := count(t, eng, sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
	if lost.Load() == 0 || created.Load() < ids || steps.Load() == 0 {
		t.Errorf("%d lost, %d created, %d steps and timers: not contended enough to tell", lost.Load(), created.Load(), steps.Load())
	}
	t.Logf("%d commits won, %d lost, %d unknown, %d deadlocks in the database meanwhile", won.Load(), lost.Load(), unknown.Load(),
		count(t, eng, "SELECT deadlocks AS n FROM pg_stat_database WHERE datname=current_database()")-deadlocks)
}

func count(t *testing.T, eng engine.Engine, sql string) int64 {
	t.Helper()
	res, err := eng.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: sql}})
	if err != nil {
		t.Fatal(err)
	}
	n, _ := res[0].Row(0)[0].Int()
	return n
}
