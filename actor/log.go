package actor

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/batcher"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/workspace"
)

// Log is the asynchronous face of the logs of a [workspace.Store]: appends of many
// callers, to one workspace or to many, share a request, and each gets its own
// verdict. Its methods are safe for concurrent use. Make one with [NewLog].
type Log struct {
	*logCore
	try bool
}

// logCore is what a Log and its Try view share.
type logCore struct {
	ws      *workspace.Store
	appends *batcher.Batcher[*appendOp]
}

// NewLog returns an asynchronous log on top of a synchronous store, which may be
// used beside it. Close it before ws. Of the options, those about mailboxes and
// reads have no meaning. The errors are [store.ErrInvalid].
//
// One request is under way at a time unless [WithInFlight] says otherwise: so the
// appends of one goroutine to one workspace land in their order.
func NewLog(ws *workspace.Store, opts ...Option) (*Log, error) {
	if ws == nil {
		return nil, &store.InvalidError{Field: "store", Reason: "is nil"}
	}
	cfg := &config{maxBatch: 1024, maxPending: 65536, maxPendingBytes: 256 << 20}
	for _, opt := range opts {
		if err := opt(cfg); err != nil {
			return nil, err
		}
	}
	l := &logCore{ws: ws}
	var err error
	l.appends, err = batcher.New(batcher.Config[*appendOp]{
		MaxItems:        cfg.maxBatch,
		MaxBytes:        ws.Traits().MaxBatchBytes,
		MaxPending:      cfg.maxPending,
		MaxPendingBytes: cfg.maxPendingBytes,
		InFlight:        orDefault(cfg.writeInFlight, 1),
		Limit:           ws.TimeLimit(),
		Flush:           l.flush,
		Drop:            func(t *batcher.Ticket[*appendOp], err error) { t.Item.resolve(nil, unsent("append", err)) },
		Overdue:         func(t *batcher.Ticket[*appendOp]) { t.Item.finishUnknown(errWriteOverdue) },
		Panicked: func(batch []*batcher.Ticket[*appendOp], v any) {
			for _, t := range batch {
				t.Item.finishUnknown(&PanicError{Value: v})
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return &Log{logCore: l}, nil
}

// AppendFuture is the future of an append: the entries as they are in the log.
type AppendFuture = Future[[]workspace.Envelope]

// appendOp is an append on its way, with its future.
type appendOp struct {
	AppendFuture
	ticket batcher.Ticket[*appendOp]
	lane   *batcher.Batcher[*appendOp]
	a      *workspace.Append
}

// finishUnknown resolves the future of an append that is in flight and that its
// caller, or its time, has left.
func (op *appendOp) finishUnknown(cause error) {
	op.resolve(nil, &workspace.UnknownError{Ref: op.a.Ref(), Err: cause})
}

// left withdraws the append if it was not sent, and else resolves it as unknown.
func (op *appendOp) left(ctx context.Context) {
	err := ended(ctx)
	if !op.lane.Withdraw(&op.ticket, withdrawn(err)) {
		op.finishUnknown(err)
	}
}

func (l *logCore) flush(ctx context.Context, batch []*batcher.Ticket[*appendOp]) {
	ops := make([]*appendOp, 0, len(batch))
	appends := make([]*workspace.Append, 0, len(batch))
	for _, t := range batch {
		op := t.Item
		if caller := op.governor(); caller != nil && caller.Err() != nil {
			op.resolve(nil, unsent("append", withdrawn(ended(caller))))
			continue
		}
		ops, appends = append(ops, op), append(appends, op.a)
	}
	landing := false
	l.ws.Apply(ctx, appends, func(i int, err error) {
		if !landing {
			landing = true
			l.appends.Landing(batch)
		}
		if err != nil && engine.OutcomeOf(err) == engine.NotApplied && errors.Is(context.Cause(ctx), batcher.ErrClosed) {
			err = unsent("append", batcher.ErrClosed)
		}
		if err != nil {
			ops[i].resolve(nil, err)
			return
		}
		ops[i].resolve(appends[i].Envelopes(), nil)
	})
}

// Try returns a view of the log whose calls never block: where it is full, their
// future fails with [store.ErrOverloaded] at once.
func (l *Log) Try() *Log { return &Log{logCore: l.logCore, try: true} }

// Sync returns the synchronous store below.
func (l *Log) Sync() *workspace.Store { return l.ws }

// Append adds entries to the end of a log, in order and all or none, and returns
// the future of the verdict at once. It blocks only while the log is full, until
// ctx ends. The entries are encoded before Append returns. The future's errors are
// those of [workspace.Store.Append], and [store.ErrOverloaded].
//
// ctx governs the append until it is settled. When it ends before the append was
// sent, the append is withdrawn and was not applied; after that, the future
// resolves at once with [store.ErrOutcomeUnknown]. To stop waiting without that,
// give the context to Await instead.
func (l *Log) Append(ctx context.Context, ref workspace.Ref, entries ...workspace.Entry) *AppendFuture {
	op := &appendOp{}
	a, err := l.ws.PrepareAppend(ref, entries...)
	if err == nil {
		err = l.ws.Outside(ctx)
	}
	if err != nil || len(entries) == 0 {
		op.resolve(nil, err)
		return &op.AppendFuture
	}
	op.a, op.lane = a, l.appends
	op.ticket.Item, op.ticket.Size = op, a.Size()
	switch {
	case ctx.Err() != nil:
		err = ended(ctx)
	case l.try:
		err = l.appends.TrySubmit(&op.ticket)
	default:
		err = l.appends.Submit(ctx, &op.ticket)
	}
	if err != nil {
		op.resolve(nil, unsent("append", err))
		return &op.AppendFuture
	}
	op.govern(ctx, op)
	if op.ticket.Crowded {
		op.watch()
	}
	return &op.AppendFuture
}

// Close takes no more appends and waits until all that were taken are done. If ctx
// ends first, those not sent fail with [store.ErrClosed] and those in flight are
// cut short and resolve as unknown. Every future is resolved when Close returns. It
// reports what was left over, with the context's error. The synchronous store stays
// open.
func (l *Log) Close(ctx context.Context) (Leftover, error) {
	left, err := l.appends.Close(ctx)
	sum := Leftover{Unsent: left.Unsent, InFlight: left.InFlight}
	if err != nil {
		return sum, fmt.Errorf("close: %d appends unsent, %d in flight: %w", sum.Unsent, sum.InFlight, ended(ctx))
	}
	return sum, nil
}

// Stats returns a snapshot of the queue.
func (l *Log) Stats() LaneStats { return l.appends.Stats() }
