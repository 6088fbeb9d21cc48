package coordination

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
)

func (f *fixture) rwlock(o RWLockOptions) *RWLock { f.Helper(); return f.rwlockOf(f.p, o) }

func (f *fixture) rwlockOf(p *Provider, o RWLockOptions) *RWLock {
	f.Helper()
	l, err := p.RWLock("doc", o)
	if err != nil {
		f.Fatal(err)
	}
	return l
}

func (f *fixture) read(l *RWLock) *ReadHeld {
	f.Helper()
	h, err := l.AcquireRead(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return h
}

func (f *fixture) write(l *RWLock) *WriteHeld {
	f.Helper()
	h, err := l.AcquireWrite(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return h
}

func (f *fixture) state(want RWState) {
	f.Helper()
	got, err := f.rwlock(RWLockOptions{}).State(f.ctx)
	f.ok(err)
	if got != want {
		f.Errorf("state %+v, want %+v", got, want)
	}
}

func TestReadersShareAndWritersDoNot(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.state(RWState{})
		o := RWLockOptions{}
		a, b := f.read(f.rwlock(o)), f.read(f.rwlock(o))
		if a.Generation() != 0 || b.Generation() != 0 {
			t.Errorf("generations %d and %d before any writer", a.Generation(), b.Generation())
		}
		f.state(RWState{Readers: 2})
		_, err := f.rwlock(o).TryAcquireWrite(f.ctx)
		f.is(err, ErrWouldBlock)
		f.state(RWState{Readers: 2}) // a try leaves no intent
		f.ok(a.Release(f.ctx))
		f.ok(b.Release(f.ctx))
		f.is(b.Release(f.ctx), ErrNotHeld)
		w := f.write(f.rwlock(o))
		if w.Token() != 1 || w.Poisoned() {
			t.Errorf("token %d, poisoned %v", w.Token(), w.Poisoned())
		}
		f.state(RWState{Generation: 1, Writing: true})
		_, err = f.rwlock(o).TryAcquireRead(f.ctx)
		f.is(err, ErrWouldBlock)
		_, err = f.rwlock(o).TryAcquireWrite(f.ctx)
		f.is(err, ErrWouldBlock)
		f.ok(w.Renew(f.ctx))
		f.ok(w.Release(f.ctx))
		f.is(w.Renew(f.ctx), ErrNotHeld)
		r := f.read(f.rwlock(o))
		if r.Generation() != 1 {
			t.Errorf("generation %d after the first writer", r.Generation())
		}
		f.ok(r.Renew(f.ctx))
		f.ok(r.Release(f.ctx))
		if w = f.write(f.rwlock(o)); w.Token() != 2 || w.Poisoned() {
			t.Errorf("token %d, poisoned %v", w.Token(), w.Poisoned())
		}
		f.ok(w.Release(f.ctx))
	})
}

func TestWaitingWriterKeepsNewReadersOut(t *testing.T) {
	inBubble(t, func(f *fixture) {
		o := RWLockOptions{Lease: 9 * time.Second}
		r := f.read(f.rwlock(o))
		got := make(chan *WriteHeld)
		go func() { got <- f.write(f.rwlock(o)) }()
		synctest.Wait()
		f.state(RWState{Readers: 1, WaitingWriters: 1})
		for range 10 { // beyond the lease of the intent: it is renewed
			_, err := f.rwlock(o).TryAcquireRead(f.ctx)
			f.is(err, ErrWouldBlock)
			f.ok(r.Renew(f.ctx)) // one that is in stays in
			after(2 * time.Second)
		}
		f.ok(r.Release(f.ctx))
		w := <-got
		f.state(RWState{Generation: 1, Writing: true})
		f.ok(w.Release(f.ctx))
		f.state(RWState{Generation: 1})
	})
}

func TestWriterThatGivesUpLetsReadersIn(t *testing.T) {
	inBubble(t, func(f *fixture) {
		o := RWLockOptions{}
		r := f.read(f.rwlock(o))
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		l := f.rwlock(o)
		_, err := l.AcquireWrite(ctx)
		f.is(err, ErrTimeout)
		synctest.Wait()
		f.state(RWState{Readers: 1})
		f.read(f.rwlock(o))
		f.ok(r.Release(f.ctx))
	})
}

func TestRWLockIsNotReentrant(t *testing.T) {
	inBubble(t, func(f *fixture) {
		l := f.rwlock(RWLockOptions{})
		r := f.read(l)
		f.tap.spoil(nil)
		_, err := l.AcquireRead(f.ctx)
		f.is(err, ErrReentrant)
		_, err = l.AcquireWrite(f.ctx)
		f.is(err, ErrUpgrade)
		_, err = l.TryAcquireWrite(f.ctx)
		f.is(err, ErrUpgrade)
		if n := f.tap.writes(); n != 0 {
			t.Errorf("%d requests", n)
		}
		f.ok(r.Release(f.ctx))
		w := f.write(l)
		_, err = l.AcquireRead(f.ctx)
		f.is(err, ErrReentrant)
		_, err = l.AcquireWrite(f.ctx)
		f.is(err, ErrReentrant)
		f.ok(w.Release(f.ctx))
	})
}

func TestExpiredWriterPoisonsTheNext(t *testing.T) {
	inBubble(t, func(f *fixture) {
		o := RWLockOptions{Lease: time.Second}
		w := f.write(f.rwlock(o))
		other := f.write(f.rwlock(o)) // waits until the lease has ended
		if !other.Poisoned() || other.Token() != 2 {
			t.Errorf("poisoned %v, token %d", other.Poisoned(), other.Token())
		}
		f.is(w.Renew(f.ctx), ErrLost)
		f.is(w.Release(f.ctx), ErrLost)
		f.ok(other.Renew(f.ctx))
		f.ok(other.Release(f.ctx))
		w = f.write(f.rwlock(o))
		if w.Poisoned() {
			t.Error("poisoned after a release")
		}
		// A reader in between changes nothing, and the writer cannot come back.
		r := f.read(f.rwlock(o))
		f.ok(r.Release(f.ctx))
		f.is(w.Renew(f.ctx), ErrLost)
		if w = f.write(f.rwlock(o)); !w.Poisoned() {
			t.Error("not poisoned")
		}
	})
}

// A writer's renewal that was delayed beyond its lease finds that a reader has come.
func TestWriterDoesNotComeBackBehindAReader(t *testing.T) {
	inBubble(t, func(f *fixture) {
		o := RWLockOptions{Lease: time.Second}
		w := f.write(f.rwlock(o))
		late := w.renewal()
		if !f.p.noSharedClock {
			late.Args[2] = engine.Int(time.Now().UnixMicro()) // by the clock of when it was sent
		}
		r := f.read(f.rwlock(o))
		res, err := f.tap.Engine.Exec(f.ctx, []engine.Statement{late})
		f.ok(err)
		if res[0].RowsAffected != 0 {
			t.Error("the writer came back while there is a reader")
		}
		f.ok(r.Release(f.ctx))
	})
}

func TestPoisonSurvivesALostAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		o := RWLockOptions{Lease: time.Second}
		f.write(f.rwlock(o))
		after(time.Second)
		lost := false
		f.tap.lose = func() bool { // the answer to the request that is granted
			_, _, generation := f.rwrow()
			lose := generation == 2 && !lost
			lost = lost || lose
			return lose
		}
		if w := f.write(f.rwlock(o)); !w.Poisoned() || w.Token() != 2 {
			t.Errorf("poisoned %v, token %d", w.Poisoned(), w.Token())
		}
		if !lost {
			t.Error("no answer was lost")
		}
	})
}

// A writer that learns too late that it was renewed has stopped in the middle: the
// lease given back then is not one that was released.
func TestRenewalOfAWriterAnsweredTooLatePoisons(t *testing.T) {
	inBubble(t, func(f *fixture) {
		w := f.write(f.rwlock(RWLockOptions{Lease: time.Second}))
		after(500 * time.Millisecond)
		slow := make(chan struct{})
		f.tap.fault = func(int) (error, bool) { <-slow; return nil, true }
		time.AfterFunc(500*time.Millisecond, func() { f.tap.spoil(nil); close(slow) })
		f.is(w.Renew(f.ctx), ErrLost)
		began := time.Now()
		if w = f.write(f.rwlock(RWLockOptions{})); !w.Poisoned() || w.Token() != 2 {
			t.Errorf("poisoned %v, token %d", w.Poisoned(), w.Token())
		}
		if waited := time.Since(began); waited >= time.Second {
			t.Errorf("the next writer waited %v, though nobody had the lock", waited)
		}
	})
}

func TestPoisonSurvivesAWriterThatNeverKnewOfIt(t *testing.T) {
	inBubble(t, func(f *fixture) {
		o := RWLockOptions{Lease: time.Second}
		f.write(f.rwlock(o))
		after(time.Second)
		if f.p.noSharedClock {
			w := f.rwlock(o)
			for range 2 { // until the row was seen for a whole lease
				_, err := w.TryAcquireWrite(f.ctx)
				f.is(err, ErrWouldBlock)
				after(time.Second / 2)
			}
		}
		ctx, cancel := context.WithCancel(f.ctx)
		f.tap.lose = func() bool { // it is granted, and nobody is there any longer
			_, _, generation := f.rwrow()
			if generation == 2 {
				cancel()
			}
			return generation == 2
		}
		_, err := f.rwlock(o).AcquireWrite(ctx)
		f.is(err, context.Canceled)
		synctest.Wait() // until it is given back
		f.tap.lose = nil
		if w := f.write(f.rwlock(o)); !w.Poisoned() || w.Token() != 3 {
			t.Errorf("poisoned %v, token %d", w.Poisoned(), w.Token())
		}
	})
}

func (f *fixture) rwrow() (writer string, deadline, generation int64) {
	f.Helper()
	res, err := f.tap.Engine.Query(context.WithoutCancel(f.ctx), engine.Linearizable, []engine.Statement{{
		SQL: "SELECT writer,deadline_us,generation FROM quorate_rwlocks WHERE name='doc'"}})
	if err != nil || res[0].Len() != 1 {
		f.Fatal(res, err)
	}
	r := res[0].Row(0)
	writer, _ = r[0].Text()
	deadline, _ = r[1].Int()
	generation, _ = r[2].Int()
	return writer, deadline, generation
}

func TestExpiredReaderBlocksNobody(t *testing.T) {
	inBubble(t, func(f *fixture) {
		o := RWLockOptions{Lease: time.Second}
		r := f.read(f.rwlock(o))
		w := f.write(f.rwlock(o))
		if r.Valid() || w.Poisoned() {
			t.Errorf("reader valid %v, writer poisoned %v", r.Valid(), w.Poisoned())
		}
		f.is(r.Release(f.ctx), ErrLost)
		f.ok(w.Release(f.ctx))
		f.state(RWState{Generation: 1})
	})
}

func TestRWLeasesEndAtTheirExactDeadline(t *testing.T) {
	var clock atomic.Int64
	bubble(t, func(f *fixture) {
		o := RWLockOptions{Lease: time.Second}
		r := f.read(f.rwlock(o))
		clock.Store(999_999)
		_, err := f.rwlock(o).TryAcquireWrite(f.ctx)
		f.is(err, ErrWouldBlock)
		clock.Store(1_000_000)
		w, err := f.rwlock(o).TryAcquireWrite(f.ctx)
		f.ok(err)
		f.is(r.Renew(f.ctx), ErrLost)
		clock.Store(1_999_999)
		_, err = f.rwlock(o).TryAcquireRead(f.ctx)
		f.is(err, ErrWouldBlock)
		clock.Store(2_000_000)
		f.is(w.Renew(f.ctx), ErrLost)
		r, err = f.rwlock(o).TryAcquireRead(f.ctx)
		f.ok(err)

		// The intent of a writer that died.
		f.foreign("INSERT INTO quorate_rwlock_holders VALUES('doc','i','dead',1,1000000,3000000,0)")
		clock.Store(2_999_999)
		_, err = f.rwlock(o).TryAcquireRead(f.ctx)
		f.is(err, ErrWouldBlock)
		clock.Store(3_000_000)
		_, err = f.rwlock(o).TryAcquireRead(f.ctx)
		f.ok(err)
		f.is(r.Release(f.ctx), ErrLost)
	}, func(p *Provider) error { p.clock = clock.Load; return nil })
}

func TestDowngradeLeavesNoGap(t *testing.T) {
	inBubble(t, func(f *fixture) {
		for name, fault := range map[string]func(int) (error, bool){"answered": nil, "answer lost": lostOnce} {
			o := RWLockOptions{KeepAlive: true}
			l := f.rwlock(o)
			w := f.write(l)
			f.tap.spoil(fault)
			r, err := w.Downgrade(f.ctx)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if w.Valid() || !r.Valid() || r.Generation() != w.Token() {
				t.Errorf("%s: writer valid %v, reader valid %v of generation %d, want %d", name, w.Valid(), r.Valid(), r.Generation(), w.Token())
			}
			f.is(w.Release(f.ctx), ErrNotHeld)
			_, err = w.Downgrade(f.ctx)
			f.is(err, ErrNotHeld)
			f.state(RWState{Generation: w.Token(), Readers: 1})
			_, err = l.AcquireWrite(f.ctx)
			f.is(err, ErrUpgrade)
			after(5 * time.Minute)
			if !r.Valid() {
				t.Errorf("%s: the reader is not kept alive", name)
			}
			f.ok(r.Release(f.ctx))
			f.ok(f.write(l).Release(f.ctx))
		}
	})
}

func TestDowngradeThatFails(t *testing.T) {
	inBubble(t, func(f *fixture) {
		l := f.rwlock(RWLockOptions{})
		w := f.write(l)
		f.tap.spoil(down)
		_, err := w.Downgrade(f.ctx)
		f.is(err, engine.ErrNotApplied)
		f.tap.spoil(nil)
		r, err := w.Downgrade(f.ctx)
		f.ok(err)
		f.ok(r.Release(f.ctx))

		w = f.write(l)
		f.tap.spoil(func(int) (error, bool) { return errLost, true })
		_, err = w.Downgrade(f.ctx)
		f.is(err, engine.ErrOutcomeUnknown)
		f.tap.spoil(nil)
		after(time.Second)
		f.state(RWState{Generation: 2}) // all is given back
		w = f.write(l)
		f.foreign("UPDATE quorate_rwlocks SET deadline_us=0")
		_, err = w.Downgrade(f.ctx)
		f.is(err, ErrLost)
		f.state(RWState{Generation: 3})
	})
}

func TestLostAnswersOfRWLocks(t *testing.T) {
	inBubble(t, func(f *fixture) {
		l := f.rwlock(RWLockOptions{})
		f.tap.spoil(lostOnce)
		r := f.read(l)
		f.state(RWState{Readers: 1})
		f.tap.spoil(lostOnce)
		f.ok(r.Release(f.ctx))
		f.state(RWState{})
		f.tap.spoil(lostOnce)
		w := f.write(l)
		if w.Token() != 1 {
			t.Errorf("token %d", w.Token())
		}
		f.state(RWState{Generation: 1, Writing: true})
		f.tap.spoil(lostOnce)
		f.ok(w.Release(f.ctx))
		f.state(RWState{Generation: 1})
	})
}

// A request that arrives after its caller has given up takes nothing.
func TestLateRequestOfAWriterThatGaveUp(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var late []engine.Statement
		f.tap.spoil(func(n int) (error, bool) {
			if n == 0 {
				f.tap.mu.Lock()
				late = f.tap.execs[0]
				f.tap.mu.Unlock()
				return errLost, false
			}
			return nil, true
		})
		ctx, cancel := context.WithTimeout(f.ctx, time.Millisecond)
		defer cancel()
		if _, err := f.rwlock(RWLockOptions{}).AcquireWrite(ctx); !errors.Is(err, ErrTimeout) {
			t.Fatal(err)
		}
		synctest.Wait()
		_, err := f.tap.Engine.Exec(f.ctx, late)
		f.ok(err)
		f.state(RWState{})
	})
}
