package storetest

import (
	"context"
	"testing"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
)

// face is one way to use a store. The promises are the same for all.
type face interface {
	Commit(ctx context.Context, c *store.Commit) (store.Committed, error)
	Save(ctx context.Context, e *store.Execution) (store.Committed, error)
	Update(ctx context.Context, id string, fn func(*store.Commit) error) (store.Committed, error)
	AckOutbox(ctx context.Context, seqs ...int64) error
	AckSpawn(ctx context.Context, seqs ...int64) error
	DeleteTimer(ctx context.Context, t store.Timer) error
	AppendTrace(ctx context.Context, id string, step store.Object) error

	Load(ctx context.Context, id string) (*store.Execution, error)
	LoadForEvent(ctx context.Context, id, event string) (store.Loaded, error)
	IsProcessed(ctx context.Context, id, event string) (bool, error)
	List(ctx context.Context, q store.ListQuery) (store.Page, error)
	PendingOutbox(ctx context.Context, limit int) ([]store.OutboxEntry, error)
	PendingSpawns(ctx context.Context, limit int) ([]store.SpawnEntry, error)
	DueTimers(ctx context.Context, now float64, limit int) ([]store.Timer, error)
	ReadTrace(ctx context.Context, id string) ([]store.TraceStep, error)

	// start begins a commit; the pending one can be built upon before it is
	// settled.
	start(ctx context.Context, c *store.Commit) pending
	// together sends writes in one request.
	together(ctx context.Context, ops []op) []result
	// loads reads executions in one request.
	loads(ctx context.Context, ids []string) ([]*store.Execution, []error)

	close(ctx context.Context) error
}

// pending is a commit that was started.
type pending interface {
	Next() *store.Execution
	Ref() store.CommitRef
	// Done is closed when the commit is settled, which a synchronous one is only
	// when wait returns.
	Done() <-chan struct{}
	wait() (store.Committed, error)
}

// op is a write: exactly one of its fields is set.
type op struct {
	commit *store.Commit
	acks   []int64
	spawns []int64
	timer  *store.Timer
	trace  *step
}

type step struct {
	id    string
	entry store.Object
}

type result struct {
	done store.Committed
	err  error
}

// makeFace is a kind of face.
type makeFace struct {
	name string
	open func(t testing.TB, st *store.Store, eng *tap, ownPace bool) face
}

var faces = []makeFace{
	{"sync", func(_ testing.TB, st *store.Store, _ *tap, _ bool) face { return &syncFace{st} }},
	{"async", func(t testing.TB, st *store.Store, eng *tap, ownPace bool) face {
		// One request at a time, so that the suite can say what shares one.
		opts := []actor.Option{actor.WithInFlight(1, 1)}
		if ownPace {
			opts = nil
		}
		s, err := actor.New(st, opts...)
		if err != nil {
			t.Fatal("actor.New:", err)
		}
		return &asyncFace{s: s, tap: eng}
	}},
}

// syncFace is the synchronous store.
type syncFace struct{ *store.Store }

func (f *syncFace) close(context.Context) error { return nil }

type syncPending struct {
	*store.Write
	ctx context.Context
	st  *store.Store
	err error
}

func (f *syncFace) start(ctx context.Context, c *store.Commit) pending {
	w, err := f.PrepareCommit(c)
	return &syncPending{Write: w, ctx: ctx, st: f.Store, err: err}
}

func (p *syncPending) Done() <-chan struct{} { return nil }

func (p *syncPending) wait() (store.Committed, error) {
	if p.err != nil {
		return store.Committed{}, p.err
	}
	var err error
	p.st.Apply(p.ctx, []*store.Write{p.Write}, func(_ int, e error) { err = e })
	if err != nil {
		return store.Committed{}, err
	}
	return p.Committed(), nil
}

func (f *syncFace) together(ctx context.Context, ops []op) []result {
	out := make([]result, len(ops))
	var writes []*store.Write
	var at []int
	for i, o := range ops {
		var w *store.Write
		var err error
		switch {
		case o.commit != nil:
			w, err = f.PrepareCommit(o.commit)
		case o.acks != nil:
			w, err = f.PrepareAckOutbox(o.acks...)
		case o.spawns != nil:
			w, err = f.PrepareAckSpawn(o.spawns...)
		case o.timer != nil:
			w, err = f.PrepareDeleteTimer(*o.timer)
		case o.trace != nil:
			w, err = f.PrepareAppendTrace(o.trace.id, o.trace.entry)
		}
		if err != nil {
			out[i].err = err
			continue
		}
		writes, at = append(writes, w), append(at, i)
	}
	f.Apply(ctx, writes, func(i int, err error) {
		out[at[i]].err = err
		if err == nil && writes[i].IsCommit() {
			out[at[i]].done = writes[i].Committed()
		}
	})
	return out
}

func (f *syncFace) loads(ctx context.Context, ids []string) ([]*store.Execution, []error) {
	out, errs := make([]*store.Execution, len(ids)), make([]error, len(ids))
	var reads []*store.Read
	var at []int
	for i, id := range ids {
		r, err := f.PrepareLoad(id)
		if err != nil {
			errs[i] = err
			continue
		}
		reads, at = append(reads, r), append(at, i)
	}
	f.Fetch(ctx, reads, func(i int, err error) {
		if errs[at[i]] = err; err == nil {
			out[at[i]] = reads[i].Loaded().Execution
		}
	})
	return out, errs
}

// asyncFace is the asynchronous store, each future awaited.
type asyncFace struct {
	s   *actor.Store
	tap *tap
}

// settled waits for a future as long as it takes: a future resolves always, and
// what its context does to it is the suite's to see.
func settled[T any](f actor.Awaitable[T]) (T, error) { return f.Await(context.Background()) }

func done(f *actor.DoneFuture) error {
	_, err := settled(f)
	return err
}

func (f *asyncFace) Commit(ctx context.Context, c *store.Commit) (store.Committed, error) {
	return settled(f.s.Commit(ctx, c))
}

func (f *asyncFace) Save(ctx context.Context, e *store.Execution) (store.Committed, error) {
	return settled(f.s.Save(ctx, e))
}

func (f *asyncFace) Update(ctx context.Context, id string, fn func(*store.Commit) error) (store.Committed, error) {
	return f.s.Update(ctx, id, fn)
}

func (f *asyncFace) AckOutbox(ctx context.Context, seqs ...int64) error {
	return done(f.s.AckOutbox(ctx, seqs...))
}

func (f *asyncFace) AckSpawn(ctx context.Context, seqs ...int64) error {
	return done(f.s.AckSpawn(ctx, seqs...))
}

func (f *asyncFace) DeleteTimer(ctx context.Context, t store.Timer) error {
	return done(f.s.DeleteTimer(ctx, t))
}

func (f *asyncFace) AppendTrace(ctx context.Context, id string, entry store.Object) error {
	return done(f.s.AppendTrace(ctx, id, entry))
}

func (f *asyncFace) Load(ctx context.Context, id string) (*store.Execution, error) {
	return settled(f.s.Load(ctx, id))
}

func (f *asyncFace) LoadForEvent(ctx context.Context, id, event string) (store.Loaded, error) {
	return settled(f.s.LoadForEvent(ctx, id, event))
}

func (f *asyncFace) IsProcessed(ctx context.Context, id, event string) (bool, error) {
	return settled(f.s.IsProcessed(ctx, id, event))
}

func (f *asyncFace) List(ctx context.Context, q store.ListQuery) (store.Page, error) {
	return settled(f.s.List(ctx, q))
}

func (f *asyncFace) PendingOutbox(ctx context.Context, limit int) ([]store.OutboxEntry, error) {
	return settled(f.s.PendingOutbox(ctx, limit))
}

func (f *asyncFace) PendingSpawns(ctx context.Context, limit int) ([]store.SpawnEntry, error) {
	return settled(f.s.PendingSpawns(ctx, limit))
}

func (f *asyncFace) DueTimers(ctx context.Context, now float64, limit int) ([]store.Timer, error) {
	return settled(f.s.DueTimers(ctx, now, limit))
}

func (f *asyncFace) ReadTrace(ctx context.Context, id string) ([]store.TraceStep, error) {
	return settled(f.s.ReadTrace(ctx, id))
}

type asyncPending struct{ *actor.CommitFuture }

func (p asyncPending) wait() (store.Committed, error) { return settled(p.CommitFuture) }

func (f *asyncFace) start(ctx context.Context, c *store.Commit) pending {
	return asyncPending{f.s.Commit(ctx, c)}
}

// together puts a plug into the request lane, lets the writes gather behind it,
// and pulls it.
func (f *asyncFace) together(ctx context.Context, ops []op) []result {
	release := f.tap.holdExec()
	plug := f.s.AckOutbox(ctx, neverGiven)
	release.entered()
	waits := make([]func() result, len(ops))
	plain := func(d *actor.DoneFuture) func() result { return func() result { return result{err: done(d)} } }
	for i, o := range ops {
		switch {
		case o.commit != nil:
			p := f.s.Commit(ctx, o.commit)
			waits[i] = func() (r result) { r.done, r.err = settled(p); return r }
		case o.acks != nil:
			waits[i] = plain(f.s.AckOutbox(ctx, o.acks...))
		case o.spawns != nil:
			waits[i] = plain(f.s.AckSpawn(ctx, o.spawns...))
		case o.timer != nil:
			waits[i] = plain(f.s.DeleteTimer(ctx, *o.timer))
		case o.trace != nil:
			waits[i] = plain(f.s.AppendTrace(ctx, o.trace.id, o.trace.entry))
		}
	}
	release.pull()
	out := make([]result, len(ops))
	for i, wait := range waits {
		out[i] = wait()
	}
	if err := done(plug); err != nil {
		f.tap.complain("the write that held up the lane failed: %v", err)
	}
	return out
}

func (f *asyncFace) loads(ctx context.Context, ids []string) ([]*store.Execution, []error) {
	release := f.tap.holdQuery()
	plug := f.s.IsProcessed(ctx, "storetest-plug", "storetest-plug")
	release.entered()
	futures := make([]*actor.Future[*store.Execution], len(ids))
	for i, id := range ids {
		futures[i] = f.s.Load(ctx, id)
	}
	release.pull()
	out, errs := make([]*store.Execution, len(ids)), make([]error, len(ids))
	for i, fut := range futures {
		out[i], errs[i] = settled(fut)
	}
	if _, err := settled(plug); err != nil {
		f.tap.complain("the read that held up the lane failed: %v", err)
	}
	return out, errs
}

func (f *asyncFace) close(ctx context.Context) error {
	_, err := f.s.Close(ctx)
	return err
}

// neverGiven is a sequence number that no database ever reaches.
const neverGiven = 1 << 60
