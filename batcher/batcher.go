package batcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Errors of submission and of items that leave unsent. Test with errors.Is.
var (
	// ErrFull: TrySubmit found no room.
	ErrFull = errors.New("batcher: full")
	// ErrClosed: the batcher is closed, or was closed before the item was sent.
	ErrClosed = errors.New("batcher: closed")
	// ErrExpired: the item's time limit passed before it was sent.
	ErrExpired = errors.New("batcher: time limit passed")
)

// Config sets up a [Batcher]. Zero fields take the defaults named with them.
type Config[T any] struct {
	// MaxItems bounds the items of a batch. Default 512.
	MaxItems int

	// MaxBytes bounds the summed sizes of a batch. An item above it travels
	// alone. Default 1 MiB.
	MaxBytes int

	// MaxPending bounds the items admitted and not yet done, queued and in
	// flight together. Default 16,384.
	MaxPending int

	// MaxPendingBytes bounds their summed sizes. An item above it is admitted
	// when nothing else is pending. Default 256 MiB.
	MaxPendingBytes int

	// InFlight is the number of batches that may be flushed at the same time.
	// Default 1.
	InFlight int

	// Limit is the time an item may take from submission to the end of its
	// flush. A queued item that exceeds it is given to Drop with ErrExpired, one
	// in flight, a moment later (a tenth of Limit, 250 ms at most), to Overdue. Default: no limit.
	Limit time.Duration

	// Flush handles a batch. It is called on a worker goroutine, never with an
	// empty batch, and the items count as in flight until it returns. The
	// context ends, with the cause ErrClosed, when Close gives up; Flush must
	// then return soon, since Close waits for it. The slice is reused after the
	// call. Required.
	Flush func(ctx context.Context, batch []*Ticket[T])

	// Drop is told of each admitted item that leaves unsent: with ErrExpired,
	// with ErrClosed, or with the error given to Withdraw. It runs without locks
	// held and must not call Close, which waits for it. May be nil.
	Drop func(t *Ticket[T], err error)

	// Overdue is told once of each item whose Limit passed while it was in
	// flight. The flush goes on. It runs without locks held and must not call
	// Close, which waits for it. It may run beside the flush. May be nil.
	Overdue func(t *Ticket[T])

	// Panicked is told when Flush panics, with the recovered value, or ends its
	// goroutine by runtime.Goexit, with a nil value. The batcher goes on with
	// the next batch. If it is nil, a panic of Flush is not recovered.
	Panicked func(batch []*Ticket[T], value any)
}

// Ticket carries one item through the batcher. Embed it in the item's own
// struct to save an allocation. Set the exported fields before submission and
// leave them alone until the item is done. A ticket is submitted once.
type Ticket[T any] struct {
	// Item is the caller's.
	Item T
	// Key orders items: see the package comment. Empty means no order.
	Key string
	// Size is the item's weight in bytes, not negative.
	Size int
	// Crowded is set by submission: the batcher was more than half full. Whoever
	// can leave should then be watched, to make room at once.
	Crowded bool

	state    state
	overdue  bool
	deadline time.Time

	readyPrev, readyNext *Ticket[T] // the queue of items that may be sent
	keyPrev, keyNext     *Ticket[T] // the items of one key, oldest first
	ageNext, agePrev     *Ticket[T] // all pending items, oldest first
}

type state uint8

const (
	fresh    state = iota
	blocked        // an older item of its key is pending
	ready          // may be sent
	inFlight       // given to Flush
	flushed        // done
	dropped        // left unsent
)

// Batcher is described in the package comment. Its methods are safe for
// concurrent use.
type Batcher[T any] struct {
	cfg   Config[T]
	ctx   context.Context // for Flush; ends when Close gives up
	abort context.CancelCauseFunc

	mu      sync.Mutex
	queue   readyQueue[T]
	keys    map[string]*Ticket[T] // the youngest pending item of each key
	age     ageList[T]
	adm     admission
	closed  bool
	idle    chan struct{} // closed when nothing is pending; made by Close
	telling int           // calls of Drop or Overdue under way
	stats   Stats

	flights []*flight[T]
	flying  int           // items in flight
	between int           // workers between two batches, which keep their slot
	resting []*flight[T]  // whose workers have nothing to do
	quit    chan struct{} // closed when everything is done; ends the workers
	over    bool          // quit is closed

	gathering gathering
	gatherers []*flight[T] // whose workers gather

	usual     time.Duration // how long flights take, smoothed
	gateTimer *time.Timer
	gateArmed bool

	timer *time.Timer // for Limit
	armed bool
}

// Stats is a snapshot of a batcher.
type Stats struct {
	// Queued is the number of admitted items that were not sent yet.
	Queued int
	// InFlight is the number of items in batches that are being flushed.
	InFlight int
	// PendingBytes is the summed size of both.
	PendingBytes int
	// Flights is the number of batches being flushed.
	Flights int
	// Waiting is the number of callers blocked in Submit for want of room.
	Waiting int

	// Items, Batches and Bytes count what was given to Flush since the start.
	Items, Batches, Bytes uint64
	// Largest is the item count of the largest batch so far.
	Largest int
	// Rejected counts submissions that found no room or gave up waiting for it.
	Rejected uint64
	// Dropped counts items that were admitted and left unsent: expired,
	// withdrawn, or queued when Close gave up.
	Dropped uint64
}

// New returns a batcher. It fails if cfg has no Flush or a negative bound.
func New[T any](cfg Config[T]) (*Batcher[T], error) {
	if cfg.Flush == nil {
		return nil, errors.New("batcher: no Flush")
	}
	for _, f := range []struct {
		name string
		v    *int
		def  int
	}{
		{"MaxItems", &cfg.MaxItems, 512},
		{"MaxBytes", &cfg.MaxBytes, 1 << 20},
		{"MaxPending", &cfg.MaxPending, 16384},
		{"MaxPendingBytes", &cfg.MaxPendingBytes, 256 << 20},
		{"InFlight", &cfg.InFlight, 1},
	} {
		if *f.v < 0 {
			return nil, fmt.Errorf("batcher: %s is negative", f.name)
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	if cfg.Limit < 0 {
		return nil, errors.New("batcher: Limit is negative")
	}
	b := &Batcher[T]{
		cfg:  cfg,
		keys: make(map[string]*Ticket[T]),
		adm:  admission{maxItems: cfg.MaxPending, maxBytes: cfg.MaxPendingBytes},
	}
	b.quit = make(chan struct{})
	b.ctx, b.abort = context.WithCancelCause(context.Background())
	return b, nil
}

// Submit admits t, waiting for room until ctx ends. It returns nil once the
// item is queued, the context's error and cause wrapped if ctx ended first, or
// ErrClosed.
// When it returns an error the item is not in the batcher and never will be.
func (b *Batcher[T]) Submit(ctx context.Context, t *Ticket[T]) error {
	if ctx.Err() != nil {
		return notAdmitted(ctx)
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	if !b.adm.tryAcquire(t.Size) {
		w := b.adm.enqueue(t.Size)
		b.mu.Unlock()
		select {
		case <-w.granted:
			b.mu.Lock()
		case <-ctx.Done():
			b.mu.Lock()
			if !w.settled {
				b.adm.abandon(w)
				b.stats.Rejected++
				b.mu.Unlock()
				return notAdmitted(ctx)
			}
			// Room came at the same moment: take it, the caller's context is
			// watched for the queue by its owner.
		}
		if w.refused {
			b.mu.Unlock()
			return ErrClosed
		}
		if b.closed {
			// Room came just before Close did, which does not wait for those who
			// have not used theirs.
			b.adm.release(t.Size)
			b.mu.Unlock()
			return ErrClosed
		}
	}
	b.insert(t)
	return nil
}

// notAdmitted returns an error that matches both the Err and the Cause of a
// context.
func notAdmitted(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("batcher: not admitted: %w", cause)
	}
	return fmt.Errorf("batcher: not admitted: %w: %w", err, cause)
}

// TrySubmit admits t if there is room now. It never blocks. It returns nil,
// ErrFull or ErrClosed.
func (b *Batcher[T]) TrySubmit(t *Ticket[T]) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	if !b.adm.tryAcquire(t.Size) {
		b.stats.Rejected++
		b.mu.Unlock()
		return ErrFull
	}
	b.insert(t)
	return nil
}

// insert queues an admitted item. It is called with the lock held and releases
// it.
func (b *Batcher[T]) insert(t *Ticket[T]) {
	if t.state != fresh || t.Size < 0 {
		b.adm.release(t.Size)
		b.mu.Unlock()
		if t.Size < 0 {
			panic("batcher: ticket of negative size")
		}
		panic("batcher: ticket submitted twice")
	}
	b.age.push(t)
	t.Crowded = b.adm.crowded()
	if b.cfg.Limit > 0 {
		t.deadline = time.Now().Add(b.cfg.Limit)
		b.arm(t.deadline)
	}
	if t.Key == "" {
		b.makeReady(t)
	} else if last := b.keys[t.Key]; last == nil {
		b.keys[t.Key] = t
		b.makeReady(t)
	} else {
		t.state = blocked
		t.keyPrev, last.keyNext = last, t
		b.keys[t.Key] = t
	}
	b.gathered()
	b.startWorkers()
	b.mu.Unlock()
}

func (b *Batcher[T]) makeReady(t *Ticket[T]) {
	t.state = ready
	b.queue.push(t)
}

// Withdraw takes t back if it was not sent yet, and gives it to Drop with err. It
// returns true if t is not in a batch and never will be: it was withdrawn now, or
// has left the queue unsent before and Drop is told, or was told, of that. It
// returns false if t was given to Flush. t must have been submitted.
func (b *Batcher[T]) Withdraw(t *Ticket[T], err error) bool {
	b.mu.Lock()
	if t.state != ready && t.state != blocked {
		unsent := t.state == dropped
		b.mu.Unlock()
		return unsent
	}
	b.telling++
	b.drop(t)
	b.startWorkers()
	b.mu.Unlock()

	if b.cfg.Drop != nil {
		b.cfg.Drop(t, err)
	}
	b.told()
	return true
}

// drop takes an item off the books that leaves unsent. Drop is told by whoever
// calls it.
func (b *Batcher[T]) drop(t *Ticket[T]) {
	b.remove(t)
	t.state = dropped
	b.stats.Dropped++
}

// remove unlinks an item that leaves the queue unsent or is done, and lets the
// next item of its key come forward.
func (b *Batcher[T]) remove(t *Ticket[T]) {
	if t.state == ready {
		b.queue.remove(t)
	}
	if t.Key != "" {
		prev, next := t.keyPrev, t.keyNext
		t.keyPrev, t.keyNext = nil, nil
		if prev != nil {
			prev.keyNext = next
		}
		switch {
		case next != nil:
			next.keyPrev = prev
			if prev == nil {
				b.makeReady(next)
			}
		case prev != nil:
			b.keys[t.Key] = prev
		default:
			delete(b.keys, t.Key)
		}
	}
	b.age.remove(t)
	t.state = flushed
	b.adm.release(t.Size)
	b.checkIdle()
}

// Stats returns a snapshot of the counters.
func (b *Batcher[T]) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Queued = b.age.len - b.flying
	s.InFlight = b.flying
	s.Flights = len(b.flights)
	s.PendingBytes = b.adm.bytes
	s.Waiting = b.adm.waiting()
	return s
}
