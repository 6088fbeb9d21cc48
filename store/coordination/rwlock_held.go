package coordination

import (
	"context"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// ReadHeld is the handle of a read lock. Its methods are safe for concurrent use.
type ReadHeld struct {
	hold
	generation int64
}

// Name returns the lock's name.
func (h *ReadHeld) Name() string { return h.name }

// Generation returns the fencing token of the latest writer before this reader, 0 if
// there was none: what is read under the lock is of this generation.
func (h *ReadHeld) Generation() int64 { return h.generation }

// WriteHeld is the handle of a write lock. Its methods are safe for concurrent use.
type WriteHeld struct {
	hold
	l          *RWLock
	generation int64
	poisoned   bool
}

// Name returns the lock's name.
func (h *WriteHeld) Name() string { return h.name }

// Token returns the fencing token: see [Held.Token]. It is the generation that those
// who read after this writer will see.
func (h *WriteHeld) Token() int64 { return h.generation }

// Poisoned reports that the writer before this one did not release the lock before
// its lease ended, so what the lock protects may be half-written.
func (h *WriteHeld) Poisoned() bool { return h.poisoned }

// Downgrade turns the write lock into a read lock, without a moment at which another
// writer could get in. The write handle is over at once, before anything is sent, and
// the read handle takes its place. It blocks until the answer is there or ctx ends,
// and sends the request again if the answer is lost, for at most the provider's time
// limit.
//
// [ErrLost] means that the write lock was lost before. After an error that is
// [engine.ErrNotApplied] the write lock has not been given up in the database:
// call Downgrade again, or Release. After one that is [engine.ErrOutcomeUnknown]
// everything is given back in the background.
func (h *WriteHeld) Downgrade(ctx context.Context) (*ReadHeld, error) {
	h.mu.Lock()
	if h.over != nil {
		defer h.mu.Unlock()
		return nil, h.fail("downgrade", h.over)
	}
	h.leaving = true
	h.mu.Unlock()
	h.cancel(ErrNotHeld)
	h.p.keepNoMore(&h.hold)

	read := h.l.newRead(h.token)
	read.generation = h.generation
	sent, rows, err := h.downgrade(ctx)
	switch {
	case err != nil && engine.OutcomeOf(err) == engine.NotApplied:
		return nil, h.fail("downgrade", err)
	case err != nil:
		read.abandon(unused)
		h.end(ErrNotHeld)
		return nil, h.fail("downgrade", err)
	case rows == 0:
		h.end(ErrLost)
		return nil, h.fail("downgrade", ErrLost)
	}
	if _, err := read.start(sent); err != nil {
		read.abandon(unused)
		h.end(ErrLost)
		return nil, h.fail("downgrade", err)
	}
	// The object goes on as a reader's.
	h.l.mu.Lock()
	h.l.mode = rwReading
	h.l.mu.Unlock()
	h.mu.Lock()
	h.isFreed = true
	h.endLocked(ErrNotHeld)
	h.p.callHead(h.l.queue(rwReading))
	if h.l.opts.KeepAlive {
		h.p.keep(&read.hold, sent)
	}
	return read, nil
}

// downgrade sends the request until there is a definite answer, and returns when
// the answered one was sent.
func (h *WriteHeld) downgrade(ctx context.Context) (sent time.Time, rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.p.limit)
	defer cancel()
	for unknown := error(nil); ; {
		sent = time.Now()
		res, err := h.p.submit(ctx, h.name, []engine.Statement{
			h.p.rwLock(h.name), // sent again, the next one may find nothing to lock
			rwStatement(rwReleaseWriteSQL, h.name, h.token, h.p.judge()),
			h.p.rwTaking(rwDowngradedSQL, h.name, h.token, h.lease),
		}, false)
		if err == nil {
			return sent, res[2].RowsAffected, nil
		}
		if engine.OutcomeOf(err) != engine.NotApplied {
			unknown = err
		} else if unknown == nil {
			return sent, 0, err
		}
		if !retry.Sleep(ctx, jittered(resendPause, 0.5)) {
			return sent, 0, unknown
		}
	}
}
