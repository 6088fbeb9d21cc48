package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// mode is one way of doing the same work.
type mode struct {
	name    string
	about   string
	engines []string
	// lacks says why the mode cannot do an op, or returns "".
	lacks func(o op, contended bool) string
	open  func(ctx context.Context, env *environment) (target, error)
}

// target is a mode at work: its connection, and its own executions, which are in
// the database already.
type target interface {
	// steps returns the loop body of each goroutine for an op with that many
	// callers.
	steps(o op, callers int) ([]step, error)
	// traffic returns what was sent so far.
	traffic() traffic
	// verify checks that every execution is at the version that the answers
	// imply: nothing acknowledged is lost, nothing was done twice.
	verify(ctx context.Context) error
	close(ctx context.Context) error
}

// environment is what targets are made from.
type environment struct {
	cfg     *config
	backend *backend
	data    *dataset
	callers int // the most callers of the run
}

var allEngines = []string{"sqlite", "postgres", "rqlite", "null"}

func anything(op, bool) string { return "" }

func uncontended(_ op, contended bool) string {
	if contended {
		return "has no retry of its own after a lost compare-and-swap"
	}
	return ""
}

// modes lists all modes, in the order in which reports show them.
var modes = []*mode{
	{"sync-one", "the synchronous store, one caller whatever -callers says", allEngines, anything, openSync},
	{"sync", "the synchronous store, each of N callers one request at a time, engine as it comes", allEngines, anything, openSync},
	{"sync-pool", "sync with a connection for each caller: the honest baseline (same as sync where there is no pool)", allEngines, anything, openSyncPool},
	{"gorqlite", "gorqlite used directly, one request per operation, N callers, linearizable reads", []string{"rqlite"}, uncontended, openGorqlite},
	{"queued", "rqlite's queued writes with wait, one request per commit, N callers; the server tells nobody whether a compare-and-swap was won", []string{"rqlite"}, queuedLacks, openQueued},
	{"raw-batch", "a loop by hand that sends full batches with N operations outstanding, builds no futures and decodes no documents: the ceiling", []string{"sqlite", "rqlite"}, uncontended, openRaw},
	{"actor", "the asynchronous store, each of N callers awaits each future", allEngines, anything, openActor},
}

func modeNames(eng string) []string {
	var names []string
	for _, m := range modes {
		if slices.Contains(m.engines, eng) {
			names = append(names, m.name)
		}
	}
	return names
}

func parseModes(list, eng string) ([]*mode, error) {
	var out []*mode
	names := splitList(list)
	if list == "all" {
		names = modeNames(eng)
	}
	for _, name := range names {
		at := slices.IndexFunc(modes, func(m *mode) bool { return m.name == name })
		if at < 0 {
			return nil, usageError{fmt.Sprintf("-mode %q is none of %s, all", name, strings.Join(modeNames(eng), ", "))}
		}
		m := modes[at]
		if !slices.Contains(m.engines, eng) {
			return nil, usageError{fmt.Sprintf("-mode %s needs -engine %s", name, strings.Join(m.engines, " or "))}
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *mode) int { return slices.Index(modes, a) - slices.Index(modes, b) })
	return out, nil
}

// storeTarget runs ops through a face of the store.
type storeTarget struct {
	env   *environment
	conn  *connection
	face  face
	actor *actor.Store // nil for the synchronous store
	ids   []string
	execs []*store.Execution
}

func openSync(ctx context.Context, env *environment) (target, error) {
	return openStore(ctx, env, 0, false)
}

func openSyncPool(ctx context.Context, env *environment) (target, error) {
	return openStore(ctx, env, env.callers, false)
}

func openActor(ctx context.Context, env *environment) (target, error) {
	return openStore(ctx, env, 0, true)
}

func openStore(ctx context.Context, env *environment, pool int, async bool) (target, error) {
	conn, err := env.backend.connect(ctx, pool)
	if err != nil {
		return nil, err
	}
	t := &storeTarget{env: env, conn: conn, face: conn.store, ids: env.data.newIDs()}
	if async {
		if t.actor, err = conn.actor(env.cfg); err != nil {
			return nil, errors.Join(err, conn.close())
		}
		t.face = awaiting{t.actor}
	}
	if t.execs, err = populate(ctx, conn.store, env.data, t.ids); err != nil {
		return nil, errors.Join(err, t.close(ctx))
	}
	return t, nil
}

// populate creates executions and returns them as they are stored.
func populate(ctx context.Context, st *store.Store, data *dataset, ids []string) ([]*store.Execution, error) {
	execs := make([]*store.Execution, len(ids))
	for lo, hi := range chunks(len(ids), 512, data.state) {
		writes := make([]*store.Write, 0, hi-lo)
		for _, id := range ids[lo:hi] {
			w, err := st.PrepareCommit(&store.Commit{Execution: data.execution(id)})
			if err != nil {
				return nil, fmt.Errorf("creating executions: %w", err)
			}
			writes = append(writes, w)
		}
		var errs []error
		st.Apply(ctx, writes, func(i int, err error) {
			errs = append(errs, err)
			execs[lo+i] = writes[i].Next()
		})
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("creating executions: %w", err)
		}
	}
	return execs, nil
}

// chunks cuts n rows into pieces of at most limit rows and about a megabyte.
func chunks(n, limit, size int) func(yield func(lo, hi int) bool) {
	per := max(1, min(limit, (1<<20)/max(size, 1)))
	return func(yield func(lo, hi int) bool) {
		for lo := 0; lo < n; lo += per {
			if !yield(lo, min(lo+per, n)) {
				return
			}
		}
	}
}

func (t *storeTarget) steps(o op, callers int) ([]step, error) {
	cfg := t.env.cfg
	out := make([]step, callers)
	for i := range out {
		w := &worker{face: t.face, data: t.env.data, events: t.env.data.newEventIDs(), execs: t.execs, ids: t.ids}
		if cfg.contended {
			rng := rand.New(rand.NewPCG(cfg.seed, uint64(i)+1))
			w.pick = rng.IntN
		} else {
			lo, hi := share(len(t.ids), i, callers)
			w.execs, w.ids = t.execs[lo:hi], t.ids[lo:hi]
		}
		out[i] = w.step(o, cfg.contended)
	}
	return out, nil
}

func (t *storeTarget) traffic() traffic { return t.conn.counts.snapshot() }

func (t *storeTarget) verify(ctx context.Context) error {
	if t.env.cfg.contended || t.env.backend.engine == "null" {
		return nil // nobody knows the versions; nothing is stored
	}
	return verifyVersions(ctx, t.conn.eng, t.ids, func(i int) int64 { return t.execs[i].Version })
}

// verifyVersions compares the versions in the database with those expected.
func verifyVersions(ctx context.Context, eng engine.Engine, ids []string, want func(i int) int64) error {
	for lo, hi := range chunks(len(ids), 500, 0) {
		found := make(map[string]int64, hi-lo)
		args := make([]engine.Value, 0, hi-lo)
		for _, id := range ids[lo:hi] {
			args = append(args, engine.Text(id))
		}
		results, err := eng.Query(ctx, engine.Linearizable, []engine.Statement{{
			SQL:  "SELECT id AS id,version AS version FROM executions WHERE id IN (?" + strings.Repeat(",?", len(args)-1) + ")",
			Args: args,
		}})
		if err != nil {
			return fmt.Errorf("verifying: %w", err)
		}
		res := &results[0]
		for r := range res.Len() {
			id, _ := res.Row(r)[0].Bytes()
			found[id], _ = res.Row(r)[1].Int()
		}
		for i := lo; i < hi; i++ {
			if found[ids[i]] != want(i) {
				return fmt.Errorf("verifying: execution %s is at version %d, the answers implied %d", ids[i], found[ids[i]], want(i))
			}
		}
	}
	return nil
}

func (t *storeTarget) close(ctx context.Context) error {
	var err error
	if t.actor != nil {
		_, err = t.actor.Close(ctx)
	}
	return errors.Join(err, t.conn.close())
}

// awaiting is the actor as its simplest caller uses it.
type awaiting struct{ s *actor.Store }

func (a awaiting) Commit(ctx context.Context, c *store.Commit) (store.Committed, error) {
	return a.s.Commit(ctx, c).Await(ctx)
}

func (a awaiting) Load(ctx context.Context, id string) (*store.Execution, error) {
	return a.s.Load(ctx, id).Await(ctx)
}

func (a awaiting) LoadForEvent(ctx context.Context, id, event string) (store.Loaded, error) {
	return a.s.LoadForEvent(ctx, id, event).Await(ctx)
}

func (a awaiting) AckOutbox(ctx context.Context, seqs ...int64) error {
	_, err := a.s.AckOutbox(ctx, seqs...).Await(ctx)
	return err
}

func (a awaiting) Update(ctx context.Context, id string, fn func(*store.Commit) error) (store.Committed, error) {
	return a.s.Update(ctx, id, fn)
}
