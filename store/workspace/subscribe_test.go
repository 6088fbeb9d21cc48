package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/workspace"
)

// counting counts what passes to an engine, and can fail its queries.
type counting struct {
	engine.Engine
	queries, execs atomic.Int64
	fail           atomic.Pointer[error]
}

func (c *counting) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	c.queries.Add(1)
	if err := c.fail.Load(); err != nil {
		return nil, *err
	}
	return c.Engine.Query(ctx, level, stmts)
}

func (c *counting) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	c.execs.Add(1)
	return c.Engine.Exec(ctx, stmts)
}

// TestEL03_SlowConsumerHoldsUpNobody blocks one consumer while a hundred MiB of
// events, or a tenth of that, pass another.
func TestEL03_SlowConsumerHoldsUpNobody(t *testing.T) {
	n := 100_000
	if raceEnabled || testing.Short() {
		n = 10_000
	}
	s := openStore(t, openEngine(t, tempDB(t)))
	body := []byte(`{"type":"blob:stored","data":"` + strings.Repeat("x", 1000) + `"}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	consume := func(each func(e workspace.Envelope)) (done chan struct{}) {
		done = make(chan struct{})
		go func() {
			defer close(done)
			seq := int64(0)
			for e, err := range s.Subscribe(ctx, ref, 0) {
				if err != nil {
					t.Error(err)
					return
				}
				if seq++; e.Seq != seq || e.ID != name("e", int(seq-1)) {
					t.Errorf("got %s at %d, want %d", e.ID, e.Seq, seq)
					return
				}
				if each(e); seq == int64(n) {
					return
				}
			}
		}()
		return done
	}
	release := make(chan struct{})
	slow := consume(func(workspace.Envelope) { <-release })
	before := heap()
	fast := consume(func(workspace.Envelope) {})
	const batch = 500
	for from := 0; from < n; from += batch {
		entries := make([]workspace.Entry, batch)
		for i := range entries {
			entries[i] = workspace.Entry{ID: name("e", from+i), Actor: workspace.System("test"), Event: body}
		}
		if _, err := s.Append(ctx, ref, entries...); err != nil {
			t.Fatal(err)
		}
	}
	<-fast // it is through, while the other has not moved
	if grown := heap() - before; grown > int64(n)*640 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	close(release)
	<-slow
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestEL06_OrderIsThatOfPositions has writers with clocks five minutes apart append
// in turn, many at equal times.
func TestEL06_OrderIsThatOfPositions(t *testing.T) {
	eng := openEngine(t, "")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var ticks atomic.Int64
	clock := func(skew time.Duration) workspace.Option {
		return workspace.WithClock(func() time.Time { return start.Add(skew + time.Duration(ticks.Load()/50)*time.Second) })
	}
	stores := []*workspace.Store{openStore(t, eng, clock(0)), openStore(t, eng, clock(-5*time.Minute)), openStore(t, eng, clock(5*time.Minute))}
	const n = 1000
	for i := range n {
		ticks.Add(1)
		s := stores[i%3]
		if i%2 == 0 {
			appendTo(t, s, ref, name("e", i))
		} else {
			must(t, transact(t.Context(), s, ref, nil, name("e", i)))
		}
	}
	log := denseLog(t, stores[0], ref)
	if len(log) != n {
		t.Fatalf("%d events, want %d", len(log), n)
	}
	for i, e := range log {
		if e.ID != name("e", i) {
			t.Fatalf("event %d is %s", e.Seq, e.ID)
		}
	}
	i := 0
	for e, err := range stores[1].Subscribe(t.Context(), ref, 0) {
		must(t, err)
		if e.ID != log[i].ID {
			t.Fatalf("the subscription shows %s at %d", e.ID, e.Seq)
		}
		if i++; i == n {
			break
		}
	}
	var paged []workspace.Envelope
	for len(paged) < n {
		page, err := stores[2].Read(t.Context(), ref, workspace.After(int64(len(paged))), workspace.First(7))
		must(t, err)
		paged = append(paged, page...)
	}
	if paged[n-1].ID != log[n-1].ID {
		t.Error("paging shows another order")
	}
}

// TestEL07_NoWakeUpIsLostAndIdlingIsCheap has 500 subscribers wait for events that
// another store appends, at random moments, and then for nothing.
func TestEL07_NoWakeUpIsLostAndIdlingIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const poll = 500 * time.Millisecond
		n, rounds := 500, 20
		if raceEnabled {
			n, rounds = 100, 5
		}
		eng := &counting{Engine: openEngine(t, "")}
		s := openStore(t, eng, workspace.WithPollInterval(poll))
		writer := openStore(t, eng)
		refs := make([]workspace.Ref, n)
		for i := range refs {
			refs[i] = workspace.Ref{Tenant: "t", Workspace: name("w", i)}
		}
		ctx, cancel := context.WithCancel(t.Context())
		type sight struct {
			which int
			seq   int64
			at    time.Time
		}
		seen := make(chan sight, n)
		var wg sync.WaitGroup
		for i, ref := range refs {
			wg.Go(func() {
				for e, err := range s.Subscribe(ctx, ref, 0) {
					if err != nil {
						return
					}
					seen <- sight{i, e.Seq, time.Now()}
				}
			})
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for round := range rounds {
			sent := make([]time.Time, n)
			for _, i := range rng.Perm(n) {
				<-time.After(time.Duration(rng.IntN(2000)) * time.Microsecond)
				sent[i] = time.Now()
				appendTo(t, writer, refs[i], name("e", round))
			}
			for range n {
				got := <-seen
				if got.seq != int64(round+1) {
					t.Fatalf("round %d: subscriber %d saw event %d", round, got.which, got.seq)
				}
				if took := got.at.Sub(sent[got.which]); took > poll+poll/10 {
					t.Errorf("round %d: subscriber %d saw it after %v", round, got.which, took)
				}
			}
		}
		synctest.Wait()
		polls, queries := s.Counters().Polls, eng.queries.Load()
		<-time.After(60 * time.Second)
		synctest.Wait()
		polled, made := s.Counters().Polls-polls, eng.queries.Load()-queries
		if polled > 121 || made != int64(polled) {
			t.Errorf("%d polls and %d queries in 60 s of silence, want one query each 0.5 s", polled, made)
		}
		cancel()
		wg.Wait()
		<-time.After(time.Second)
		synctest.Wait()
		polls = s.Counters().Polls
		<-time.After(10 * time.Second)
		if s.Counters().Polls != polls {
			t.Error("it polls, and nobody waits")
		}
	})
}

// TestLocalAppendsAreSeenAtOnce appends through the store that is subscribed to.
func TestLocalAppendsAreSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, openEngine(t, ""), workspace.WithPollInterval(time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan int64)
		go func() {
			defer close(seen)
			for e, err := range s.Subscribe(ctx, ref, 0) {
				if err != nil {
					return
				}
				seen <- e.Seq
			}
		}()
		start := time.Now()
		for i := range 20 {
			synctest.Wait()
			if i%2 == 0 {
				appendTo(t, s, ref, name("e", i))
			} else {
				must(t, transact(t.Context(), s, ref, nil, name("e", i)))
			}
			if seq := <-seen; seq != int64(i+1) {
				t.Fatalf("saw %d, want %d", seq, i+1)
			}
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("it took %v", took)
		}
		cancel()
		<-seen
		_ = s.Close() // ends the poller, which sleeps for an hour
	})
}

// TestSubscriptionRidesOutAnOutage fails every query for a while, and then for good.
func TestSubscriptionRidesOutAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := &counting{Engine: openEngine(t, "")}
		s, writer := openStore(t, eng, workspace.WithPollInterval(time.Second)), openStore(t, eng)
		seen, ended := make(chan int64), make(chan error, 1)
		go func() {
			for e, err := range s.Subscribe(t.Context(), ref, 0) {
				if err != nil {
					ended <- err
					return
				}
				seen <- e.Seq
			}
		}()
		appendTo(t, writer, ref, "a")
		if seq := <-seen; seq != 1 {
			t.Fatalf("saw %d", seq)
		}
		var outage error = &engine.Error{Op: "query", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable}
		eng.fail.Store(&outage)
		<-time.After(time.Minute)
		appendTo(t, writer, ref, "b")
		queries := eng.queries.Load()
		<-time.After(time.Minute)
		if made := eng.queries.Load() - queries; made > 61 {
			t.Errorf("%d queries in a minute of outage", made)
		}
		eng.fail.Store(nil)
		if seq := <-seen; seq != 2 {
			t.Fatalf("saw %d", seq)
		}
		final := errors.New("for good")
		eng.fail.Store(&final)
		if err := <-ended; !errors.Is(err, final) {
			t.Errorf("ended with %v", err)
		}
	})
}

// TestTurnsPassOnWhenCallersLeave has callers leave the line at random.
func TestTurnsPassOnWhenCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, openEngine(t, ""))
		rng := rand.New(rand.NewPCG(3, 4))
		var wg sync.WaitGroup
		var done, left atomic.Int64
		for i := range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(100))*time.Millisecond)
			wg.Go(func() {
				defer cancel()
				err := s.Transact(ctx, ref, func(ctx context.Context, tx *workspace.Tx) error {
					<-time.After(time.Millisecond)
					_, err := tx.Append(ctx, entry(fmt.Sprint(i)))
					return err
				})
				switch {
				case err == nil:
					done.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					left.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(denseLog(t, s, ref)); int64(n) != done.Load() || done.Load()+left.Load() != 200 || left.Load() == 0 {
			t.Errorf("%d events, %d done, %d left", n, done.Load(), left.Load())
		}
		if n := s.Waiting(ref); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

// notifying is an engine whose writes wake listeners.
type notifying struct {
	engine.Engine
	mu     sync.Mutex
	wake   func()
	listen chan struct{} // one for each call of Listen
}

const notification = "SELECT 'notification' AS channel"

func (e *notifying) Notification(string) engine.Statement { return engine.Statement{SQL: notification} }

func (e *notifying) Listen(ctx context.Context, _ string, wake func()) error {
	e.mu.Lock()
	e.wake = wake
	e.mu.Unlock()
	wake()
	e.listen <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (e *notifying) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	res, err := e.Engine.Exec(ctx, stmts)
	if len(stmts) > 0 && stmts[len(stmts)-1].SQL == notification {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.wake != nil {
			e.wake()
		}
	}
	return res, err
}

// TestNotificationsSparePolling has another store's events seen long before the next
// poll, where the engine notifies.
func TestNotificationsSparePolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := &notifying{Engine: openEngine(t, ""), listen: make(chan struct{}, 1)}
		s := openStore(t, eng, workspace.WithNotifications(), workspace.WithPollInterval(time.Minute))
		writer := openStore(t, eng, workspace.WithNotifications())
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan int64)
		go func() {
			defer close(seen)
			for e, err := range s.Subscribe(ctx, ref, 0) {
				if err != nil {
					return
				}
				seen <- e.Seq
			}
		}()
		<-eng.listen
		for i := range 10 {
			<-time.After(10 * time.Second)
			sent := time.Now()
			if i%2 == 0 {
				appendTo(t, writer, ref, name("e", i))
			} else {
				must(t, transact(t.Context(), writer, ref, nil, name("e", i)))
			}
			if seq := <-seen; seq != int64(i+1) {
				t.Fatalf("saw %d, want %d", seq, i+1)
			}
			if took := time.Since(sent); took > 2*time.Second {
				t.Errorf("event %d was seen after %v", i+1, took)
			}
		}
		if polls := s.Counters().Polls; polls > 15 {
			t.Errorf("%d polls for 10 events", polls)
		}
		cancel()
		<-seen
		_ = s.Close()
	})
}

// deaf is an engine that nobody can listen to.
type deaf struct {
	engine.Engine
	tries atomic.Int64
}

func (*deaf) Notification(string) engine.Statement { return engine.Statement{SQL: notification} }

func (e *deaf) Listen(context.Context, string, func()) error {
	e.tries.Add(1)
	return &engine.Error{Op: "listen", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable}
}

func TestListeningThatIsRefusedIsTriedEverMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := &deaf{Engine: openEngine(t, "")}
		s := openStore(t, eng, workspace.WithNotifications())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		for _, err := range s.Subscribe(ctx, ref, 0) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if n := eng.tries.Load(); n < 10 || n > 20 {
			t.Errorf("%d tries in 10 minutes", n)
		}
		_ = s.Close()
	})
}

// shaky is a notifying engine whose queries fail now and then.
type shaky struct {
	*notifying
	failures atomic.Int64 // of the next queries
}

func (e *shaky) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	if e.failures.Add(-1) >= 0 {
		return nil, &engine.Error{Op: "query", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable}
	}
	return e.notifying.Query(ctx, level, stmts)
}

// TestEL07_ANotificationIsNotLostToAFailure has the database fail when the
// subscription looks for what it was told of.
func TestEL07_ANotificationIsNotLostToAFailure(t *testing.T) {
	for _, failures := range []int64{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			eng := &shaky{notifying: &notifying{Engine: openEngine(t, ""), listen: make(chan struct{}, 1)}}
			s := openStore(t, eng, workspace.WithNotifications(), workspace.WithPollInterval(time.Hour))
			writer := openStore(t, eng.notifying, workspace.WithNotifications())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-eng.listen
				<-time.After(time.Minute)
				eng.failures.Store(failures)
				appendTo(t, writer, ref, "a")
			}()
			began := time.Now()
			for e, err := range s.Subscribe(ctx, ref, 0) {
				must(t, err)
				if took := time.Since(began); e.ID != "a" || took > 2*time.Minute {
					t.Errorf("with %d failures %q was seen after %v", failures, e.ID, took)
				}
				break
			}
			_ = s.Close()
		})
	}
}
