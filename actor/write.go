package actor

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/batcher"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// CommitFuture is the future of a commit.
type CommitFuture struct {
	Future[store.Committed]
	w *store.Write
}

// Next returns the execution as it will be once the commit is won, to build the
// next commit on without waiting. If the commit loses, whatever is built on it
// loses too. It returns nil if the commit was invalid.
func (f *CommitFuture) Next() *store.Execution {
	if f.w == nil {
		return nil
	}
	return f.w.Next()
}

// Ref returns the commit's identity, by which [store.Store.Resolve] can ask what
// became of it. It is zero if the commit was invalid.
func (f *CommitFuture) Ref() store.CommitRef {
	if f.w == nil {
		return store.CommitRef{}
	}
	return f.w.Ref()
}

// DoneFuture is the future of a write that has no result but its success.
type DoneFuture = Future[struct{}]

// writeOp is a write on its way through the write lane, with its future.
type writeOp struct {
	ticket batcher.Ticket[*writeOp]
	lane   *batcher.Batcher[*writeOp]
	commit CommitFuture
	plain  *DoneFuture // instead of commit, for writes beside commits
}

func newWriteOp(w *store.Write) *writeOp {
	op := &writeOp{}
	op.commit.w = w
	op.ticket.Item, op.ticket.Key, op.ticket.Size = op, w.Key(), w.Size()
	if !w.IsCommit() {
		op.plain = &DoneFuture{}
	}
	return op
}

func (op *writeOp) write() *store.Write { return op.commit.w }

func (op *writeOp) name() string {
	if op.plain != nil {
		return "write"
	}
	return "commit"
}

// finish resolves the future with the verdict.
func (op *writeOp) finish(err error) {
	if op.plain != nil {
		op.plain.resolve(struct{}{}, err)
		return
	}
	if err != nil {
		op.commit.resolve(store.Committed{}, err)
		return
	}
	op.commit.resolve(op.commit.w.Committed(), nil)
}

// finishUnknown resolves the future of a write that is in flight and that its
// caller, or its time, has left.
func (op *writeOp) finishUnknown(cause error) {
	if op.plain != nil {
		op.finish(&engine.Error{Op: op.name(), Outcome: engine.Unknown, Err: cause})
		return
	}
	op.finish(&store.UnknownError{Ref: op.commit.w.Ref(), Err: cause})
}

func (op *writeOp) govern(ctx context.Context) {
	if op.plain != nil {
		op.plain.govern(ctx, op)
		return
	}
	op.commit.govern(ctx, op)
}

func (op *writeOp) watch() {
	if op.plain != nil {
		op.plain.watch()
		return
	}
	op.commit.watch()
}

// left withdraws the write if it was not sent, and else resolves it as unknown.
func (op *writeOp) left(ctx context.Context) {
	err := ended(ctx)
	if !op.lane.Withdraw(&op.ticket, withdrawn(err)) {
		op.finishUnknown(err)
	}
}

// stale returns an error if the write's context has ended unnoticed.
func (op *writeOp) stale() error {
	var ctx context.Context
	if op.plain != nil {
		ctx = op.plain.governor()
	} else {
		ctx = op.commit.governor()
	}
	if ctx == nil || ctx.Err() == nil {
		return nil
	}
	return withdrawn(ended(ctx))
}

func withdrawn(err error) error { return fmt.Errorf("withdrawn: %w", err) }

// newWriteLane returns the batcher of all writes: commits, and the
// acknowledgements, timer removals and trace steps that travel with them.
func newWriteLane(s *store.Store, cfg *config) (*batcher.Batcher[*writeOp], error) {
	traits := s.Traits()
	var b *batcher.Batcher[*writeOp]
	var err error
	b, err = batcher.New(batcher.Config[*writeOp]{
		MaxItems:        cfg.maxBatch,
		MaxBytes:        traits.MaxBatchBytes,
		MaxPending:      cfg.maxPending,
		MaxPendingBytes: cfg.maxPendingBytes,
		InFlight:        orDefault(cfg.writeInFlight, traits.Writers),
		Limit:           s.TimeLimit(),
		Flush: func(ctx context.Context, batch []*batcher.Ticket[*writeOp]) {
			ops := make([]*writeOp, 0, len(batch))
			writes := make([]*store.Write, 0, len(batch))
			for _, t := range batch {
				op := t.Item
				if err := op.stale(); err != nil {
					op.finish(unsent(op.name(), err))
					continue
				}
				ops, writes = append(ops, op), append(writes, op.write())
			}
			landing := false
			s.Apply(ctx, writes, func(i int, err error) {
				if !landing {
					landing = true
					b.Landing(batch)
				}
				if err != nil && engine.OutcomeOf(err) == engine.NotApplied && errors.Is(context.Cause(ctx), batcher.ErrClosed) {
					err = unsent(ops[i].name(), batcher.ErrClosed)
				}
				ops[i].finish(err)
			})
		},
		Drop:    func(t *batcher.Ticket[*writeOp], err error) { t.Item.finish(unsent(t.Item.name(), err)) },
		Overdue: func(t *batcher.Ticket[*writeOp]) { t.Item.finishUnknown(errWriteOverdue) },
		Panicked: func(batch []*batcher.Ticket[*writeOp], v any) {
			for _, t := range batch {
				t.Item.finishUnknown(&PanicError{Value: v})
			}
		},
	})
	return b, err
}

// submit queues a write. The caller's context governs admission, queue and
// flight: when it ends, a write that was not sent is withdrawn, and one that was
// sent resolves as unknown at once, while its batch goes on for the others.
func (s *Store) submit(ctx context.Context, op *writeOp, try bool) {
	op.lane = s.writes
	var err error
	switch {
	case ctx.Err() != nil:
		err = ended(ctx)
	case try:
		err = s.writes.TrySubmit(&op.ticket)
	default:
		err = s.writes.Submit(ctx, &op.ticket)
	}
	if err != nil {
		op.finish(unsent(op.name(), err))
		return
	}
	op.govern(ctx)
	if op.ticket.Crowded {
		op.watch()
	}
}

// Commit stores one step of an execution, all of it or nothing, and returns the
// future of the verdict at once. It blocks only while the store is full, until
// ctx ends; a store made by [Store.Try] does not block even then. The commit is
// encoded before Commit returns: what the caller changes later is not seen.
//
// Commits of one execution are applied in the order in which one goroutine
// submits them. The future's errors are those of [store.Store.Commit], and
// [store.ErrOverloaded].
//
// ctx governs the commit until it is settled. When it ends before the commit was
// sent, the commit is withdrawn and was not applied; after that, the future
// resolves at once with [store.ErrOutcomeUnknown]. To stop waiting without that,
// give the context to Await instead.
func (s *Store) Commit(ctx context.Context, c *store.Commit) *CommitFuture {
	w, err := s.st.PrepareCommit(c)
	if err != nil {
		f := &CommitFuture{}
		f.resolve(store.Committed{}, err)
		return f
	}
	op := newWriteOp(w)
	s.submit(ctx, op, s.try)
	return &op.commit
}

// Save commits an execution with nothing beside its state: see [Store.Commit].
func (s *Store) Save(ctx context.Context, e *store.Execution) *CommitFuture {
	return s.Commit(ctx, &store.Commit{Execution: e})
}

// plain queues a write beside commits.
func (s *Store) plain(ctx context.Context, w *store.Write, err error) *DoneFuture {
	if err != nil || w == nil {
		f := &DoneFuture{}
		f.resolve(struct{}{}, err)
		return f
	}
	op := newWriteOp(w)
	s.submit(ctx, op, s.try)
	return op.plain
}

// AckOutbox removes outbox entries that were delivered: see
// [store.Store.AckOutbox]. Acknowledgements travel with the commits of their
// time.
func (s *Store) AckOutbox(ctx context.Context, seqs ...int64) *DoneFuture {
	if len(seqs) == 0 {
		return s.plain(ctx, nil, nil)
	}
	w, err := s.st.PrepareAckOutbox(seqs...)
	return s.plain(ctx, w, err)
}

// AckSpawn removes spawns that were carried out: see [store.Store.AckSpawn].
func (s *Store) AckSpawn(ctx context.Context, seqs ...int64) *DoneFuture {
	if len(seqs) == 0 {
		return s.plain(ctx, nil, nil)
	}
	w, err := s.st.PrepareAckSpawn(seqs...)
	return s.plain(ctx, w, err)
}

// DeleteTimer removes a timer that has fired, if it was not scheduled anew: see
// [store.Store.DeleteTimer]. It keeps its order with the execution's commits.
func (s *Store) DeleteTimer(ctx context.Context, t store.Timer) *DoneFuture {
	w, err := s.st.PrepareDeleteTimer(t)
	return s.plain(ctx, w, err)
}

// AppendTrace adds a step to an execution's trace: see
// [store.Store.AppendTrace]. It keeps its order with the execution's commits.
func (s *Store) AppendTrace(ctx context.Context, id string, step store.Object) *DoneFuture {
	w, err := s.st.PrepareAppendTrace(id, step)
	return s.plain(ctx, w, err)
}

// Update loads an execution, lets fn prepare a commit, and commits, again if
// another commit came in between: see [store.Store.Update]. It blocks until that
// is settled or ctx ends.
func (s *Store) Update(ctx context.Context, id string, fn func(*store.Commit) error) (store.Committed, error) {
	return store.Update(ctx, updater{s}, id, fn)
}

// updater offers the asynchronous store to the update loop of package store.
type updater struct{ s *Store }

// Futures resolve as soon as the context of their operation ends, and tell what
// became of it; so the waits need no context of their own.

func (u updater) Load(ctx context.Context, id string) (*store.Execution, error) {
	return u.s.Load(ctx, id).Await(context.Background())
}

func (u updater) Commit(ctx context.Context, c *store.Commit) (store.Committed, error) {
	return u.s.Commit(ctx, c).Await(context.Background())
}

func (u updater) UpdateAttempts() int { return u.s.st.UpdateAttempts() }
