package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/batcher"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// slow answers reads after a time, unless their context ends.
func slow(d time.Duration) func(context.Context, *request) error {
	return func(ctx context.Context, r *request) error {
		if r.exec {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return interrupted(ctx, r)
		}
	}
}

// Loads that share a request leave it one by one.
func TestSharedLoadOutlivesItsFirstCaller(t *testing.T) {
	for _, leaver := range []int{0, 1, 25} {
		t.Run(fmt.Sprint("leaver=", leaver), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				s := newStore(t, f)
				create(t, s, "a")
				f.setScript(slow(200 * time.Millisecond))
				start := time.Now()
				var loads []*Future[*store.Execution]
				var leave context.CancelFunc
				for i := range 50 {
					ctx := t.Context()
					if i == leaver {
						ctx, leave = context.WithTimeout(ctx, 10*time.Millisecond)
						defer leave()
					}
					loads = append(loads, s.Load(ctx, "a"))
				}
				err := wantErr(t, loads[leaver], context.DeadlineExceeded, engine.ErrNotApplied)
				if d := time.Since(start); d != 10*time.Millisecond {
					t.Errorf("%v after %v", err, d)
				}
				for i, l := range loads {
					if i != leaver {
						if e := await(t, l); e != nil && e.Version != 1 {
							t.Errorf("version %d", e.Version)
						}
					}
				}
				if n := f.count("load"); n > 2 {
					t.Errorf("%d requests", n)
				}
				mustClose(t, s)
			})
		})
	}
}

func TestLoadEveryoneLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		create(t, s, "a", "b")
		g := newGate()
		f.setScript(g.hold)
		sentCtx, leaveSent := context.WithCancelCause(t.Context())
		first := s.Load(sentCtx, "a")
		first.Done()
		synctest.Wait() // sent
		ctx, leave := context.WithCancelCause(t.Context())
		var queued []*Future[*store.Execution]
		for range 10 {
			l := s.Load(ctx, "a")
			l.Done() // somebody looks
			queued = append(queued, l)
		}
		if n := s.Stats().Reads; n.Queued != 1 || n.InFlight != 1 {
			t.Fatalf("%+v", n)
		}
		cause := errors.New("shutting down")
		leave(cause)
		synctest.Wait()
		leaveSent(cause)
		synctest.Wait()
		for _, l := range append(queued, first) {
			wantErr(t, l, context.Canceled, cause, engine.ErrNotApplied)
		}
		// The request in flight was cancelled, the one in the queue withdrawn.
		if n := s.Stats().Reads; n.Queued != 0 || n.InFlight != 0 || n.Dropped != 1 {
			t.Errorf("%+v", n)
		}
		log := f.log()
		if r := log[len(log)-1]; f.count("load") != 1 || r.ctx.Err() == nil {
			t.Errorf("%d requests, the last one's context: %v", f.count("load"), r.ctx.Err())
		}

		// Others do not join what was given up.
		late := s.Load(t.Context(), "a")
		synctest.Wait()
		g.open()
		if e := await(t, late); e.Version != 1 {
			t.Errorf("version %d", e.Version)
		}
		mustClose(t, s)
	})
}

// A request lives as long as somebody waits for any of its reads.
func TestRequestLivesForItsLastWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		create(t, s, "a", "b", "c")
		g := newGate()
		f.setScript(g.hold)
		s.Load(t.Context(), "c")
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		a, b := s.Load(ctx, "a"), s.Load(t.Context(), "b")
		g.one(t)
		synctest.Wait()
		if n := s.Stats().Reads.InFlight; n != 2 {
			t.Fatalf("%d in flight", n)
		}
		leave()
		wantErr(t, a, context.Canceled)
		synctest.Wait()
		if !pending(b) {
			t.Fatal("the other load was given up too")
		}
		g.open()
		await(t, b)
		mustClose(t, s)
	})
}

// Everybody may have left between queue and flight.
func TestDesertedReadIsNotSent(t *testing.T) {
	s := newStore(t, newFake())
	l := s.reads
	w := &read[*store.Execution]{of: loadedExecution}
	op := &readOp[readKey, *store.Read]{waiters: []waiter[*store.Read]{w, w}}
	op.ticket.Item = op
	l.joined = 1
	l.flush(t.Context(), []*batcher.Ticket[*readOp[readKey, *store.Read]]{&op.ticket}, nil)
	if l.joined != 0 || !op.sealed {
		t.Errorf("%d joined on the books", l.joined)
	}
	mustClose(t, s)
}

func TestLoadsOfOneIDShareARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		e := execution("a")
		if err := e.Context.Set("n", 1); err != nil {
			t.Fatal(err)
		}
		await(t, s.Save(t.Context(), e))
		create(t, s, "b")
		g := newGate()
		f.setScript(g.hold)
		s.Load(t.Context(), "b")
		synctest.Wait()
		var loads []*Future[*store.Execution]
		for range 30 {
			loads = append(loads, s.Load(t.Context(), "a"))
		}
		forEvent := s.LoadForEvent(t.Context(), "a", "e") // another question
		g.open()
		got := make([]*store.Execution, len(loads))
		for i, l := range loads {
			got[i] = await(t, l)
		}
		await(t, forEvent)
		log := f.log()
		if r := log[len(log)-1]; r.kinds["load"] != 1 || r.kinds["load for event"] != 1 || f.count("load") != 2 {
			t.Errorf("request of %v", r.kinds)
		}
		// Everybody has a copy.
		if err := got[0].Context.Set("n", 2); err != nil {
			t.Fatal(err)
		}
		got[0].Status = store.StatusFailed
		got[0].Version = 99
		for _, e := range got[1:] {
			if e.Context.Raw() != `{"n":1}` || e.Status != store.StatusPending || e.Version != 1 {
				t.Errorf("another caller's copy changed: %+v", e)
			}
		}
		mustClose(t, s)
	})
}

// Those who join are bounded too: beyond that, a load needs room of its own.
func TestJoiningIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := held()
		s := newStore(t, f, WithMaxPending(3, 1<<20))
		s.Load(t.Context(), "x")
		synctest.Wait()
		var loads []*Future[*store.Execution]
		for range 20 {
			loads = append(loads, s.Try().Load(t.Context(), "a"))
		}
		overloaded := 0
		for _, l := range loads {
			if _, err, ok := l.Poll(); ok {
				checkErr(t, err, store.ErrOverloaded)
				overloaded++
			}
		}
		if overloaded != 15 { // two have room, three join
			t.Errorf("%d of 20 refused", overloaded)
		}
		g.open()
		synctest.Wait()
		for _, l := range loads {
			if pending(l) {
				t.Error("a load is pending")
			}
		}
		s.reads.mu.Lock()
		if s.reads.joined != 0 {
			t.Errorf("%d joined on the books", s.reads.joined)
		}
		s.reads.mu.Unlock()
		mustClose(t, s)
	})
}

// A load never returns what was read before it began.
func TestLoadJoinsNothingInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		create(t, s, "a")
		g := newGate()
		f.setScript(func(ctx context.Context, r *request) error {
			if r.exec {
				return nil
			}
			r.apply() // it has read
			return g.hold(ctx, r)
		})
		l1 := s.Load(t.Context(), "a")
		synctest.Wait()
		next := execution("a")
		next.Version = 1
		await(t, s.Save(t.Context(), next))
		l2 := s.Load(t.Context(), "a")
		g.one(t)
		if e := await(t, l1); e.Version != 1 {
			t.Errorf("L1: version %d", e.Version)
		}
		l3 := s.Load(t.Context(), "a")
		g.open()
		if v2, v3 := await(t, l2).Version, await(t, l3).Version; v2 != 2 || v3 != 2 {
			t.Errorf("L2: version %d, L3: version %d", v2, v3)
		}
		mustClose(t, s)
	})
}

// Many loads and commits at once: whatever was acknowledged before a load began
// is seen by it.
func TestLoadsSeeAcknowledgedCommits(t *testing.T) {
	s := newStore(t, newFake(), WithInFlight(2, 4))
	create(t, s, "a")
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := int64(1)
	latest := func() int64 { mu.Lock(); defer mu.Unlock(); return acknowledged }
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		e := await(t, s.Load(t.Context(), "a"))
		for range 300 {
			c := await(t, s.Save(t.Context(), e))
			mu.Lock()
			acknowledged = c.Version
			mu.Unlock()
			e = c.Execution()
		}
	})
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				floor := latest()
				if e := await(t, s.Load(t.Context(), "a")); e.Version < floor {
					t.Errorf("read version %d after %d was acknowledged", e.Version, floor)
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, s)
}

func TestPanicAndGoexitInSharedLoad(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("boom") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				s := newStore(t, f)
				create(t, s, "a", "b")
				f.setScript(func(ctx context.Context, r *request) error {
					pass(time.Millisecond)
					if slices.Contains(r.ids, "a") {
						end()
					}
					return nil
				})
				s.Load(t.Context(), "b")
				synctest.Wait()
				var loads []*Future[*store.Execution]
				for range 20 {
					loads = append(loads, s.Load(t.Context(), "a"))
				}
				for _, l := range loads {
					err := wantErr(t, l, engine.ErrNotApplied)
					var p *PanicError
					if !errors.As(err, &p) || (p.Value == nil) != (name == "goexit") || p.Error() == "" {
						t.Errorf("error %v", err)
					}
				}
				f.setScript(nil)
				if e := await(t, s.Load(t.Context(), "a")); e.Version != 1 {
					t.Errorf("version %d", e.Version)
				}
				mustClose(t, s)
			})
		})
	}
}

// Data that is not an execution fails its own loads and none beside them.
func TestInvalidRowFailsAlone(t *testing.T) {
	f := newFake()
	s := newStore(t, f)
	create(t, s, ids("e", 50)...)
	f.mu.Lock()
	f.rows["e-7"] = fakeRow{version: 1, data: `{"id":"e-7","definition_id":[]`}
	f.mu.Unlock()
	var loads []*Future[*store.Execution]
	for _, id := range ids("e", 50) {
		loads = append(loads, s.Load(t.Context(), id))
	}
	for i, l := range loads {
		if i == 7 {
			err := wantErr(t, l, store.ErrInvalidData)
			var bad *store.InvalidDataError
			if !errors.As(err, &bad) || bad.ID != "e-7" {
				t.Errorf("error %v", err)
			}
		} else if e := await(t, l); e.Version != 1 {
			t.Errorf("version %d", e.Version)
		}
	}
	mustClose(t, s)
}

func TestReadsAnswer(t *testing.T) {
	f := newFake()
	s := newStore(t, f)
	ctx := t.Context()
	await(t, s.Commit(ctx, &store.Commit{Execution: execution("a"), ProcessedEvent: "e1"}))
	if l := await(t, s.LoadForEvent(ctx, "a", "e1")); l.Execution == nil || !l.Processed {
		t.Errorf("%+v", l)
	}
	if l := await(t, s.LoadForEvent(ctx, "a", "e2")); l.Execution == nil || l.Processed {
		t.Errorf("%+v", l)
	}
	if l := await(t, s.LoadForEvent(ctx, "b", "e1")); l.Execution != nil || l.Processed {
		t.Errorf("%+v", l)
	}
	if !await(t, s.IsProcessed(ctx, "a", "e1")) || await(t, s.IsProcessed(ctx, "a", "e2")) {
		t.Error("IsProcessed")
	}
	wantErr(t, s.Load(ctx, "b"), store.ErrNotFound)
	wantErr(t, s.Load(ctx, ""), store.ErrInvalid)
	wantErr(t, s.LoadForEvent(ctx, "a", ""), store.ErrInvalid)
	wantErr(t, s.IsProcessed(ctx, "", "e"), store.ErrInvalid)
	wantErr(t, s.List(ctx, store.ListQuery{Limit: -1}), store.ErrInvalid)
	wantErr(t, s.PendingOutbox(ctx, 0), store.ErrInvalid)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	wantErr(t, s.Load(ended, "a"), context.Canceled, engine.ErrNotApplied)
	wantErr(t, s.List(ended, store.ListQuery{}), context.Canceled)
	mustClose(t, s)
}

// Equal scans that wait share a request; each caller has a slice of its own.
func TestScansCoalesceBeforeTheyAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := held()
		s := newStore(t, f)
		ev := func(i int64) []engine.Value {
			return []engine.Value{engine.Int(i), engine.Text("a"), engine.Text(fmt.Sprintf(`{"id":"%d","kind":"k","data":{}}`, i))}
		}
		f.outbox = [][]engine.Value{ev(1), ev(2)}
		first := s.PendingOutbox(t.Context(), 10)
		synctest.Wait()
		second, third := s.PendingOutbox(t.Context(), 10), s.PendingOutbox(t.Context(), 10)
		other := s.PendingOutbox(t.Context(), 11)
		g.open()
		a, b, c := await(t, first), await(t, second), await(t, third)
		await(t, other)
		if n := f.count("outbox"); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		b[0].Seq, b[1].Target = 99, "z"
		for _, l := range [][]store.OutboxEntry{a, c} {
			if len(l) != 2 || l[0].Seq != 1 || l[1].Target != "a" {
				t.Errorf("%+v", l)
			}
		}

		before := f.count("list")
		for range 2 {
			s.List(t.Context(), store.ListQuery{})
		}
		for _, q := range []store.ListQuery{
			{}, {Limit: 5}, {RootsOnly: true}, {DefinitionID: "d"}, {Consistency: store.Weak},
			{Status: []store.Status{store.StatusDone}}, {Status: []store.Status{store.StatusDone, store.StatusFailed}},
		} {
			if p := await(t, s.List(t.Context(), q)); len(p.Items) != 0 {
				t.Errorf("%+v", p)
			}
		}
		if n := f.count("list") - before; n < 7 || n > 9 {
			t.Errorf("%d requests", n)
		}
		await(t, s.PendingSpawns(t.Context(), 1))
		await(t, s.DueTimers(t.Context(), 12.5, 1))
		await(t, s.ReadTrace(t.Context(), "a"))
		mustClose(t, s)
	})
}

// A scan that meets bad data yields what came before it, and the error.
func TestScanWithValueAndError(t *testing.T) {
	f := newFake()
	s := newStore(t, f)
	f.outbox = [][]engine.Value{
		{engine.Int(1), engine.Null(), engine.Text(`{"id":"1","kind":"k","data":{}}`)},
		{engine.Int(2), engine.Null(), engine.Text(`not an event`)},
	}
	for range 2 {
		l, err := s.PendingOutbox(t.Context(), 5).Await(t.Context())
		checkErr(t, err, store.ErrInvalidData)
		if len(l) != 1 || l[0].Seq != 1 {
			t.Errorf("%+v", l)
		}
	}
	mustClose(t, s)
}

func TestPanicInScan(t *testing.T) {
	f := newFake()
	s := newStore(t, f)
	f.setScript(func(context.Context, *request) error { panic("boom") })
	var p *PanicError
	if err := wantErr(t, s.PendingSpawns(t.Context(), 5), engine.ErrNotApplied); !errors.As(err, &p) || p.Value != "boom" {
		t.Errorf("error %v", err)
	}
	f.setScript(nil)
	await(t, s.PendingSpawns(t.Context(), 5))
	mustClose(t, s)
}

// Reads on a dead engine fail at the time limit, and their requests end, so that
// the lane works again as soon as the engine does.
func TestReadTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := held()
		st := openSync(t, f, store.WithTimeLimit(5*time.Second))
		s, err := New(st)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		flying := s.Load(t.Context(), "a")
		synctest.Wait()
		queued := s.Load(t.Context(), "b")
		scan, scan2 := s.PendingOutbox(t.Context(), 1), s.PendingOutbox(t.Context(), 2)
		for _, l := range []*Future[*store.Execution]{flying, queued} {
			wantErr(t, l, store.ErrUnavailable, context.DeadlineExceeded, engine.ErrNotApplied)
		}
		for _, l := range []*Future[[]store.OutboxEntry]{scan, scan2} {
			wantErr(t, l, store.ErrUnavailable, context.DeadlineExceeded, engine.ErrNotApplied)
		}
		if d := time.Since(start); d != 5250*time.Millisecond {
			t.Errorf("after %v", d)
		}
		synctest.Wait()
		if s := s.Stats(); s.Reads.InFlight+s.Scans.InFlight != 0 {
			t.Errorf("dead requests still occupy the lanes: %+v", s)
		}
		g.open()
		wantErr(t, s.Load(t.Context(), "a"), store.ErrNotFound)
		mustClose(t, s)
	})
}

// Leaving an overdue read changes nothing more.
func TestLeaveAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		st := openSync(t, f, store.WithTimeLimit(time.Second))
		s, err := New(st)
		if err != nil {
			t.Fatal(err)
		}
		g := newGate()
		f.setScript(func(ctx context.Context, r *request) error {
			<-g.ch // deaf to its context
			return interrupted(ctx, r)
		})
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		a := s.Load(t.Context(), "a")
		synctest.Wait()
		b, c := s.Load(ctx, "b"), s.Load(ctx, "b")
		pass(2 * time.Second)
		wantErr(t, a, store.ErrUnavailable)
		wantErr(t, b, context.DeadlineExceeded)
		wantErr(t, c, context.DeadlineExceeded)
		g.open()
		mustClose(t, s)
		if s.reads.joined != 0 {
			t.Errorf("%d joined on the books", s.reads.joined)
		}
	})
}
