package actor

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/quorate/quorate/batcher"
	"github.com/quorate/quorate/store"
)

// readKey tells reads of one execution apart.
type readKey struct {
	kind      readKind
	id, event string
}

type readKind uint8

const (
	kindLoad readKind = iota
	kindLoadForEvent
	kindIsProcessed
)

// read is a future that waits for a read of package store.
type read[T any] struct {
	Future[T]
	of func(*store.Read) T
}

func (r *read[T]) deliver(value *store.Read, err error) {
	var v T
	if err == nil {
		v = r.of(value)
	}
	r.resolve(v, err)
}

func loadedExecution(r *store.Read) *store.Execution { return r.Loaded().Execution }
func loaded(r *store.Read) store.Loaded              { return r.Loaded() }
func processed(r *store.Read) bool                   { return r.Loaded().Processed }

func newReadLane(s *store.Store, cfg *config) (*lane[readKey, *store.Read], error) {
	return newLane(batcher.Config[*readOp[readKey, *store.Read]]{
		MaxItems:        cfg.maxBatch,
		MaxPending:      cfg.maxPending,
		MaxPendingBytes: cfg.maxPendingBytes,
		InFlight:        orDefault(cfg.readInFlight, s.Traits().Readers),
		Limit:           s.TimeLimit(),
	}, func(ctx context.Context, ops []*readOp[readKey, *store.Read], report func(int, error)) {
		reads := make([]*store.Read, len(ops))
		for i, op := range ops {
			reads[i] = op.value
		}
		fetchSplit(ctx, s, reads, 0, report)
	})
}

// fetchSplit sends reads in one request, and in two if the answer is too large for
// one. The reads of a lane need not be of one state.
func fetchSplit(ctx context.Context, s *store.Store, reads []*store.Read, first int, report func(int, error)) {
	tooLarge := false
	s.Fetch(ctx, reads, func(i int, err error) {
		if len(reads) > 1 && errors.Is(err, store.ErrTooLarge) {
			tooLarge = true
			return
		}
		report(first+i, err)
	})
	if tooLarge {
		half := len(reads) / 2
		fetchSplit(ctx, s, reads[:half], first, report)
		fetchSplit(ctx, s, reads[half:], first+half, report)
	}
}

func submitRead[T any](ctx context.Context, s *Store, key readKey, of func(*store.Read) T, r *store.Read, err error) *Future[T] {
	w := &read[T]{of: of}
	if err != nil {
		var zero T
		w.resolve(zero, err)
		return &w.Future
	}
	submitInto(ctx, s, key, w, r, s.try)
	return &w.Future
}

// submitInto queues a read for a waiter that is there already.
func submitInto[T any](ctx context.Context, s *Store, key readKey, w *read[T], r *store.Read, try bool) {
	s.reads.submit(ctx, key, try, w, r, len(key.id)+len(key.event)+64)
}

// Load returns the future of an execution. Loads that wait together travel in
// one request, and loads of the same execution share its row; each caller gets a
// copy of its own. A load sees every commit that was acknowledged before it
// began. It blocks only while the store is full, until ctx ends. The future's
// errors are those of [store.Store.Load], and [store.ErrOverloaded].
func (s *Store) Load(ctx context.Context, id string) *Future[*store.Execution] {
	r, err := s.st.PrepareLoad(id)
	return submitRead(ctx, s, readKey{kind: kindLoad, id: id}, loadedExecution, r, err)
}

// LoadForEvent returns the future of an execution and of whether it has
// processed an event, both from one state: see [store.Store.LoadForEvent] and
// [Store.Load].
func (s *Store) LoadForEvent(ctx context.Context, id, event string) *Future[store.Loaded] {
	r, err := s.st.PrepareLoadForEvent(id, event)
	return submitRead(ctx, s, readKey{kind: kindLoadForEvent, id: id, event: event}, loaded, r, err)
}

// IsProcessed returns the future of whether an execution has processed an event:
// see [store.Store.IsProcessed] and [Store.Load].
func (s *Store) IsProcessed(ctx context.Context, id, event string) *Future[bool] {
	r, err := s.st.PrepareIsProcessed(id, event)
	return submitRead(ctx, s, readKey{kind: kindIsProcessed, id: id, event: event}, processed, r, err)
}

// scanValue is a scan that was or will be run.
type scanValue struct {
	run    func(context.Context) (any, error)
	result any
}

// scan is a future that waits for a scan.
type scan[T any] struct {
	Future[T]
	clone func(T) T
}

func (w *scan[T]) deliver(value *scanValue, err error) {
	var v T
	if value != nil {
		if result, ok := value.result.(T); ok {
			v = w.clone(result)
		}
	}
	w.resolve(v, err)
}

// newScanLane returns the lane of reads over many rows. Each is a request of its
// own, so that a long one does not hold up the loads.
func newScanLane(s *store.Store, cfg *config) (*lane[string, *scanValue], error) {
	return newLane(batcher.Config[*readOp[string, *scanValue]]{
		MaxItems:        1,
		MaxPending:      cfg.maxPending,
		MaxPendingBytes: cfg.maxPendingBytes,
		InFlight:        orDefault(cfg.readInFlight, s.Traits().Readers),
		Limit:           s.TimeLimit(),
	}, func(ctx context.Context, ops []*readOp[string, *scanValue], report func(int, error)) {
		for i, op := range ops {
			result, err := op.value.run(ctx)
			op.value.result = result
			report(i, err)
		}
	})
}

func submitScan[T any](ctx context.Context, s *Store, key string, clone func(T) T, run func(context.Context) (T, error)) *Future[T] {
	w := &scan[T]{clone: clone}
	value := &scanValue{run: func(ctx context.Context) (any, error) { return run(ctx) }}
	s.scans.submit(ctx, key, s.try, w, value, len(key)+64)
	return &w.Future
}

// List returns the future of a page of summaries: see [store.Store.List]. Equal
// queries that wait together share one request.
func (s *Store) List(ctx context.Context, q store.ListQuery) *Future[store.Page] {
	key := "list\x00" + q.DefinitionID + "\x00" + q.Cursor + "\x00" + strconv.FormatBool(q.RootsOnly) + strconv.Itoa(q.Limit) + q.Consistency.String()
	for _, st := range q.Status {
		key += "\x00" + string(st)
	}
	q.Status = slices.Clone(q.Status)
	return submitScan(ctx, s, key, func(p store.Page) store.Page {
		p.Items = slices.Clone(p.Items)
		return p
	}, func(ctx context.Context) (store.Page, error) { return s.st.List(ctx, q) })
}

// PendingOutbox returns the future of the oldest outbox entries: see
// [store.Store.PendingOutbox].
func (s *Store) PendingOutbox(ctx context.Context, limit int) *Future[[]store.OutboxEntry] {
	return submitScan(ctx, s, "outbox\x00"+strconv.Itoa(limit), slices.Clone[[]store.OutboxEntry],
		func(ctx context.Context) ([]store.OutboxEntry, error) { return s.st.PendingOutbox(ctx, limit) })
}

// PendingSpawns returns the future of the oldest children to create: see
// [store.Store.PendingSpawns].
func (s *Store) PendingSpawns(ctx context.Context, limit int) *Future[[]store.SpawnEntry] {
	return submitScan(ctx, s, "spawns\x00"+strconv.Itoa(limit), slices.Clone[[]store.SpawnEntry],
		func(ctx context.Context) ([]store.SpawnEntry, error) { return s.st.PendingSpawns(ctx, limit) })
}

// DueTimers returns the future of the timers that are due: see
// [store.Store.DueTimers].
func (s *Store) DueTimers(ctx context.Context, now float64, limit int) *Future[[]store.Timer] {
	key := "timers\x00" + strconv.FormatFloat(now, 'g', -1, 64) + "\x00" + strconv.Itoa(limit)
	return submitScan(ctx, s, key, slices.Clone[[]store.Timer],
		func(ctx context.Context) ([]store.Timer, error) { return s.st.DueTimers(ctx, now, limit) })
}

// ReadTrace returns the future of an execution's trace: see
// [store.Store.ReadTrace].
func (s *Store) ReadTrace(ctx context.Context, id string) *Future[[]store.TraceStep] {
	return submitScan(ctx, s, "trace\x00"+id, slices.Clone[[]store.TraceStep],
		func(ctx context.Context) ([]store.TraceStep, error) { return s.st.ReadTrace(ctx, id) })
}
