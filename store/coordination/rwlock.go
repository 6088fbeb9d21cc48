package coordination

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// RWLockOptions set up an [RWLock]. The fields mean what they do in [LockOptions].
type RWLockOptions struct {
	// Lease is how long a lock is held without being renewed. A writer that waits
	// keeps new readers out; if it dies, for as long. Default 60 s.
	Lease time.Duration
	// Retry is the pause of a waiting call between looks. Default 100 ms.
	Retry time.Duration
	// Jitter is the share by which it varies. Default 0.1; negative means none.
	Jitter float64
	// KeepAlive renews the lease in the background.
	KeepAlive bool
}

// RWLock is a named lock that many readers or one writer hold. While a writer waits
// no new reader gets in, so that readers who come and go cannot keep it out for
// ever; among writers there is no order. A read lock cannot become a write lock, but
// a write lock can become a read lock without a gap: [WriteHeld.Downgrade]. Like a
// [Lock] it is not reentrant, and one object holds, or waits for, one thing at a
// time. It is safe for concurrent use. See [Provider.RWLock].
type RWLock struct {
	p    *Provider
	name string
	opts LockOptions

	mu   sync.Mutex
	mode rwMode
	seen rwWatch // whose it is to use who has set mode
}

type rwMode uint8

const (
	rwIdle rwMode = iota
	rwReading
	rwWriting
)

// RWLock returns a read-write lock. Nothing is sent. The error is [ErrInvalidName]
// (see [NameError]) or [ErrInvalid].
func (p *Provider) RWLock(name string, opts RWLockOptions) (*RWLock, error) {
	if err := checkName("read-write lock", name); err != nil {
		return nil, err
	}
	o := LockOptions{Lease: opts.Lease, Retry: opts.Retry, Jitter: opts.Jitter, KeepAlive: opts.KeepAlive}
	if err := o.complete("RWLockOptions"); err != nil {
		return nil, err
	}
	return &RWLock{p: p, name: name, opts: o}, nil
}

// Name returns the lock's name.
func (l *RWLock) Name() string { return l.name }

// enter notes that the object is in use.
func (l *RWLock) enter(mode rwMode) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mode == rwIdle:
		l.mode = mode
		return nil
	case l.mode == rwReading && mode == rwWriting:
		return ErrUpgrade
	}
	return ErrReentrant
}

func (l *RWLock) leave() {
	l.mu.Lock()
	l.mode = rwIdle
	l.mu.Unlock()
	l.p.callHead(l.queue(rwWriting))
	l.p.callHead(l.queue(rwReading))
}

func (l *RWLock) queue(mode rwMode) string {
	if mode == rwWriting {
		return "write lock " + l.name
	}
	return "read lock " + l.name
}

// AcquireRead takes a read lock, and waits for it until ctx ends: until no writer
// has or waits for the lock. It waits and fails as [Lock.Acquire] does.
func (l *RWLock) AcquireRead(ctx context.Context) (*ReadHeld, error) { return l.acquireRead(ctx, true) }

// TryAcquireRead takes a read lock if no writer has or waits for the lock. It fails
// as [Lock.TryAcquire] does.
func (l *RWLock) TryAcquireRead(ctx context.Context) (*ReadHeld, error) {
	return l.acquireRead(ctx, false)
}

// AcquireWrite takes the write lock, and waits for it until ctx ends: until there is
// neither a reader nor a writer. While it waits no new reader gets in; if it gives
// up, it lets them in again. It waits and fails as [Lock.Acquire] does; if this
// object has a read lock, with [ErrUpgrade].
func (l *RWLock) AcquireWrite(ctx context.Context) (*WriteHeld, error) {
	return l.acquireWrite(ctx, true)
}

// TryAcquireWrite takes the write lock if there is neither a reader nor a writer. It
// keeps nobody out if it fails, as [Lock.TryAcquire] does or with [ErrUpgrade].
func (l *RWLock) TryAcquireWrite(ctx context.Context) (*WriteHeld, error) {
	return l.acquireWrite(ctx, false)
}

func (l *RWLock) acquireRead(ctx context.Context, wait bool) (*ReadHeld, error) {
	h := l.newRead(newToken())
	err := l.acquire(ctx, rwReading, &h.hold, wait, func(list []engine.Statement) ([]engine.Statement, func([]engine.Result) bool) {
		read := l.p.rwTaking(rwReadSQL, l.name, h.token, h.lease)
		read.Returning = true
		list = append(list, read)
		return list, func(res []engine.Result) bool {
			got := &res[len(list)-1]
			if got.Len() == 0 {
				return false
			}
			h.generation, _ = got.Row(0)[0].Int()
			return true
		}
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (l *RWLock) acquireWrite(ctx context.Context, wait bool) (*WriteHeld, error) {
	h := &WriteHeld{l: l}
	h.hold = l.newHold("write lock", newToken())
	h.renewal = func() engine.Statement { return l.p.rwRenewal(rwRenewWriteSQL, l.name, h.token, h.lease) }
	h.vacating = func(why leaving) []engine.Statement {
		switch why {
		case unused:
			return l.p.rwAbandon(rwUnusedWriteSQL, l.name, h.token, h.lease)
		case lapsed:
			return []engine.Statement{rwStatement(rwLapseWriteSQL, l.name, h.token, l.p.judge())}
		}
		return []engine.Statement{rwStatement(rwReleaseWriteSQL, l.name, h.token, l.p.judge())}
	}
	h.vacated = func(ctx context.Context) (bool, error) {
		rows, err := l.p.rwLook(ctx, l.name)
		switch {
		case err != nil:
			return false, err
		case rows.released == h.token:
			return true, nil
		case rows.writer == h.token:
			return false, nil
		}
		return false, errUntold
	}
	err := l.acquire(ctx, rwWriting, &h.hold, wait, func(list []engine.Statement) ([]engine.Statement, func([]engine.Result) bool) {
		write := l.p.rwTaking(rwWriteSQL, l.name, h.token, h.lease)
		write.Returning = true
		list = append(list, write)
		at := len(list) - 1
		if wait {
			list = append(list, rwStatement(rwIntentDoneSQL, l.name, h.token), l.p.rwTaking(rwIntentSQL, l.name, h.token, h.lease))
		}
		return list, func(res []engine.Result) bool {
			if res[at].Len() == 0 {
				return false
			}
			row := res[at].Row(0)
			h.generation, _ = row[0].Int()
			h.poisoned = isOne(row[1])
			return true
		}
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (l *RWLock) newHold(kind, token string) hold {
	return hold{p: l.p, kind: kind, name: l.name, token: token, lease: l.opts.Lease, freed: l.leave}
}

func (l *RWLock) newRead(token string) *ReadHeld {
	h := &ReadHeld{hold: l.newHold("read lock", token)}
	h.renewal = func() engine.Statement { return l.p.rwRenewal(rwRenewReadSQL, l.name, token, h.lease) }
	h.vacating = func(why leaving) []engine.Statement {
		if why != released {
			return l.p.rwAbandon(rwReleaseWriteSQL, l.name, token, h.lease)
		}
		return []engine.Statement{l.p.rwRenewal(rwReleaseReadSQL, l.name, token, h.lease)}
	}
	h.vacated = func(ctx context.Context) (bool, error) {
		rows, err := l.p.rwLook(ctx, l.name)
		if err != nil {
			return false, err
		}
		for _, r := range rows.holders {
			if r.token == token {
				return r.kind == kindGone, nil
			}
		}
		return false, errUntold
	}
	return h
}

// acquire contends for h. ask returns the list to send, which begins with the one
// given, and what reads its verdict.
func (l *RWLock) acquire(ctx context.Context, mode rwMode, h *hold, wait bool, ask func(list []engine.Statement) ([]engine.Statement, func([]engine.Result) bool)) error {
	if err := l.enter(mode); err != nil {
		return h.fail("acquire", err)
	}
	w := &l.seen
	w.stale, w.dead = never, nil
	var sent time.Time
	c := contender{
		p: l.p, queue: l.queue(mode), retry: l.opts.Retry, jitter: l.opts.Jitter, withdraw: func() { h.abandon(unused) },
		together: mode == rwReading, leaves: mode == rwWriting && wait,
		try: func(ctx context.Context) (bool, error) {
			sent = time.Now()
			list, verdict := ask(w.expire(l))
			res, err := l.p.submit(ctx, l.name, list, false)
			if err != nil || !verdict(res) {
				return false, err
			}
			return h.start(sent)
		},
		look: func(ctx context.Context) (bool, error) {
			rows, err := l.p.rwLook(ctx, l.name)
			if err != nil {
				return false, err
			}
			// A waiting writer has to renew its intent, too.
			return w.ready(rows, mode, l.p.noSharedClock) || mode == rwWriting && time.Since(sent) >= h.lease/renewShare, nil
		},
	}
	if err := c.contend(ctx, wait, l.p.noSharedClock); err != nil {
		l.leave()
		return h.fail("acquire", err)
	}
	if l.opts.KeepAlive {
		l.p.keep(h, sent)
	}
	return nil
}

// rwWatch is what an object has seen of the others without a shared clock: since
// when each row is as it is, and which rows have been so for a whole lease.
type rwWatch struct {
	writer  watched
	holders map[[2]string]*watched
	stale   int64 // the writer's version, or never
	dead    []rwHolder
}

// ready reports whether trying makes sense now.
func (w *rwWatch) ready(rows *rwRows, mode rwMode, noSharedClock bool) bool {
	w.stale, w.dead = never, nil
	free := !rows.writing
	if noSharedClock && rows.writing && w.writer.unchanged(rows.version, rows.lease) {
		w.stale, free = rows.version, true
	}
	seen := w.holders
	w.holders = make(map[[2]string]*watched, len(rows.holders))
	for _, h := range rows.holders {
		live := h.live
		if noSharedClock {
			key := [2]string{h.kind, h.token}
			s := seen[key]
			if s == nil {
				s = new(watched)
			}
			w.holders[key] = s
			if s.unchanged(h.version, h.lease) {
				w.dead, live = append(w.dead, h), false
			}
		}
		if live && (h.kind == kindReader && mode == rwWriting || h.kind == kindIntent && mode == rwReading) {
			free = false
		}
	}
	return free
}

// expire returns the statements that end what is over.
func (w *rwWatch) expire(l *RWLock) []engine.Statement {
	p, name := l.p, engine.Text(l.name)
	list := []engine.Statement{
		{SQL: rwExpireSQL, Args: []engine.Value{name, p.judge(), engine.Int(w.stale)}},
		{SQL: rwReapSQL, Args: []engine.Value{name, p.judge(), p.now(0)}},
	}
	for _, h := range w.dead {
		list = append(list, engine.Statement{SQL: rwReapOneSQL, Args: []engine.Value{
			name, engine.Text(h.kind), engine.Text(h.token), engine.Int(h.version),
		}})
	}
	return list
}

// RWState is a picture of a read-write lock: see [RWLock.State].
type RWState struct {
	// Generation is the fencing token of the latest writer, 0 if there was none.
	Generation int64
	// Writing tells whether there is a writer.
	Writing bool
	// Readers and WaitingWriters are how many there are.
	Readers, WaitingWriters int
}

// State returns how the lock is at this moment, by one linearizable read. A name that
// nobody has used gives the zero value. Without a shared clock a holder that died
// counts until somebody has taken over. Errors are those of the engine.
func (l *RWLock) State(ctx context.Context) (RWState, error) {
	var rows *rwRows
	err := l.p.usable()
	if err == nil {
		rows, err = l.p.rwLook(ctx, l.name)
	}
	if err != nil {
		return RWState{}, &Error{"look at read-write lock", l.name, err}
	}
	s := RWState{Generation: rows.generation, Writing: rows.writing}
	for _, h := range rows.holders {
		switch {
		case !h.live:
		case h.kind == kindReader:
			s.Readers++
		case h.kind == kindIntent:
			s.WaitingWriters++
		}
	}
	return s, nil
}
