package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// A caller builds commit on commit without waiting; they are applied in order.
func TestPipelinedCommits(t *testing.T) {
	s := newStore(t, newFake(), WithInFlight(4, 1))
	var wg sync.WaitGroup
	for _, id := range ids("e", 20) {
		wg.Go(func() {
			var fs []*CommitFuture
			e := execution(id)
			for i := range 50 {
				if err := e.Context.Set("n", i); err != nil {
					t.Error(err)
				}
				f := s.Save(t.Context(), e)
				fs = append(fs, f)
				e = f.Next()
			}
			all, err := AwaitAll(t.Context(), fs...)
			if err != nil {
				t.Error(err)
			}
			for i, c := range all {
				if c.Version != int64(i+1) || c.ID != id || c.Ref() != fs[i].Ref() {
					t.Errorf("commit %d: %+v", i, c)
				}
			}
			loaded := await(t, s.Load(t.Context(), id))
			if loaded.Version != 50 || loaded.Context.Raw() != `{"n":49}` {
				t.Errorf("loaded version %d, %s", loaded.Version, loaded.Context.Raw())
			}
		})
	}
	wg.Wait()
	mustClose(t, s)
}

// When a stranger wins, everything that was built on the loser loses too, and
// the stranger's state stands.
func TestSuccessorsOfALoserLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		create(t, s, "a")
		mine := await(t, s.Load(t.Context(), "a"))
		stranger := await(t, s.Load(t.Context(), "a"))
		g := newGate()
		f.setScript(g.hold)
		create1 := s.Save(t.Context(), execution("b")) // keeps the engine busy
		synctest.Wait()
		first := s.Save(t.Context(), mine)
		second := s.Save(t.Context(), first.Next())
		third := s.Save(t.Context(), second.Next())
		other := s.Save(t.Context(), execution("c"))
		f.setScript(nil)
		stranger.Status = store.StatusRunning
		if _, err := s.Sync().Save(t.Context(), stranger); err != nil {
			t.Fatal(err)
		}
		won := f.row("a")
		g.open()
		await(t, create1)
		for i, c := range []*CommitFuture{first, second, third} {
			err := wantErr(t, c, store.ErrConflict)
			var conflict *store.ConflictError
			if !errors.As(err, &conflict) || conflict.Expected != int64(i+1) || conflict.Found != 2 {
				t.Errorf("commit %d: %v", i, err)
			}
		}
		await(t, other)
		if f.row("a") != won {
			t.Error("the stranger's state was replaced")
		}
		mustClose(t, s)
	})
}

// A successor of a commit that was withdrawn loses as well.
func TestSuccessorOfAWithdrawnCommitLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		create(t, s, "a", "b")
		g := newGate()
		f.setScript(g.hold)
		s.Load(t.Context(), "b")
		a := execution("a")
		a.Version = 1
		busy := s.Save(t.Context(), execution("c"))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		first := s.Save(ctx, a)
		second := s.Save(t.Context(), first.Next())
		cancel()
		wantErr(t, first, context.Canceled, engine.ErrNotApplied)
		g.open()
		await(t, busy)
		wantErr(t, second, store.ErrConflict)
		if v := f.row("a").version; v != 1 {
			t.Errorf("version %d", v)
		}
		mustClose(t, s)
	})
}

// What the caller changes after the call is not seen.
func TestCallerReusesItsBuffers(t *testing.T) {
	f := newFake()
	s := newStore(t, f)
	e, c := execution(""), &store.Commit{}
	payload := map[string]any{}
	raw := []byte(`{"id":"ev-0000","kind":"k","data":{}}`)
	event := new(store.Event)
	var fs []*CommitFuture
	for i := range 1000 {
		e.ID = fmt.Sprintf("e-%d", i)
		payload["n"] = i
		if err := e.Context.Set("payload", payload); err != nil {
			t.Fatal(err)
		}
		copy(raw[10:], fmt.Sprintf("%04d", i))
		if err := event.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		c.Execution = e
		c.Emits = append(c.Emits[:0], store.Emit{Event: *event})
		fs = append(fs, s.Commit(t.Context(), c))
		e.ID, c.Emits[0].Target, payload["n"] = "overwritten", "overwritten", "overwritten"
		clear(raw[10:14])
	}
	if _, err := AwaitAll(t.Context(), fs...); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		l := await(t, s.Load(t.Context(), fmt.Sprintf("e-%d", i)))
		if want := fmt.Sprintf(`{"payload":{"n":%d}}`, i); l.Context.Raw() != want {
			t.Fatalf("stored %s, want %s", l.Context.Raw(), want)
		}
	}
	emitted := 0
	for _, r := range f.log() {
		for _, stmt := range r.stmts {
			if kindOf(stmt) != "emit" {
				continue
			}
			for _, row := range rowsOf(stmt) {
				if want := fmt.Sprintf(`{"id":"ev-%04d","kind":"k","data":{}}`, emitted); text(row["event"]) != want || !row["target"].IsNull() {
					t.Fatalf("emitted %v for %v, want %s", row["event"], row["target"], want)
				}
				emitted++
			}
		}
	}
	if emitted != 1000 {
		t.Errorf("%d emits", emitted)
	}
	mustClose(t, s)
}

// A request that hangs holds up its own executions and no others.
func TestHungCommitHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.traits.Writers = 3
		s := newStore(t, f)
		f.setScript(func(ctx context.Context, r *request) error {
			for _, id := range r.ids {
				if id == "slow" {
					pass(3 * time.Second)
					return nil
				}
			}
			pass(5 * time.Millisecond)
			return nil
		})
		start := time.Now()
		slow1 := s.Save(t.Context(), execution("slow"))
		slow2 := s.Save(t.Context(), slow1.Next())
		var wg sync.WaitGroup
		for w := range 50 {
			wg.Go(func() {
				for i := range 10 {
					began := time.Now()
					await(t, s.Save(t.Context(), execution(fmt.Sprintf("e-%d-%d", w, i))))
					if d := time.Since(began); d > 500*time.Millisecond {
						t.Errorf("a commit took %v", d)
					}
				}
			})
		}
		wg.Wait()
		if !pending(&slow1.Future) {
			t.Errorf("the slow one was done after %v", time.Since(start))
		}
		if v1, v2 := await(t, slow1).Version, await(t, slow2).Version; v1 != 1 || v2 != 2 {
			t.Errorf("versions %d, %d", v1, v2)
		}
		mustClose(t, s)
	})
}

func TestCancelWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := held()
		s := newStore(t, f)
		busy := s.Save(t.Context(), execution("busy"))
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		queued, stays := s.Save(ctx, execution("a")), s.Save(t.Context(), execution("b"))
		ack := s.AckOutbox(ctx, 1)
		cause := errors.New("changed my mind")
		cancel(cause)
		wantErr(t, queued, cause, context.Canceled, engine.ErrNotApplied)
		wantErr(t, ack, cause, context.Canceled, engine.ErrNotApplied)
		g.open()
		await(t, busy)
		await(t, stays)
		if v := f.versions(); len(v) != 2 || v["a"] != 0 || f.count("ack outbox") != 0 {
			t.Errorf("sent what was withdrawn: %v", v)
		}
		mustClose(t, s)
	})
}

func TestCancelInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := held()
		s := newStore(t, f)
		busy := s.Save(t.Context(), execution("busy"))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		leaves, stays := s.Save(ctx, execution("a")), s.Save(t.Context(), execution("b"))
		ack := s.AckOutbox(ctx, 1)
		g.one(t)
		synctest.Wait()
		if n := s.Stats().Writes.InFlight; n != 3 {
			t.Fatalf("%d in flight", n)
		}
		cancel()
		err := wantErr(t, leaves, store.ErrOutcomeUnknown, context.Canceled)
		var unknown *store.UnknownError
		if !errors.As(err, &unknown) || unknown.Ref != leaves.Ref() || unknown.Ref.Token == "" {
			t.Errorf("error %#v", err)
		}
		wantErr(t, ack, store.ErrOutcomeUnknown, context.Canceled)
		synctest.Wait()
		if !pending(&stays.Future) {
			t.Error("the others' request was cut short")
		}
		g.open()
		await(t, busy)
		await(t, stays)
		// The truth can be asked for.
		if r, err := s.Sync().Resolve(t.Context(), unknown.Ref); err != nil || r != store.ResolutionCommitted {
			t.Errorf("Resolve: %v, %v", r, err)
		}
		mustClose(t, s)
	})
}

func TestEndedContextSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("too late")
		cancel(cause)
		for _, face := range []*Store{s, s.Try()} {
			wantErr(t, face.Save(ctx, execution("a")), cause, context.Canceled, engine.ErrNotApplied)
			wantErr(t, face.AckOutbox(ctx, 1), cause, context.Canceled, engine.ErrNotApplied)
			wantErr(t, face.Load(ctx, "a"), cause, context.Canceled, engine.ErrNotApplied)
		}
		synctest.Wait()
		if n := len(f.log()); n != 0 {
			t.Errorf("%d requests", n)
		}
		mustClose(t, s)
	})
}

// On a dead engine every future resolves at the store's time limit.
func TestWriteTimeLimit(t *testing.T) {
	for name, hang := range map[string]func(ctx context.Context, r *request) error{
		"obedient": func(ctx context.Context, r *request) error { <-ctx.Done(); return interrupted(ctx, r) },
		"refusing": func(ctx context.Context, r *request) error {
			return &engine.Error{Op: "exec", Outcome: engine.Unknown, Reason: engine.ErrUnavailable}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				s := newStore(t, f, WithMaxBatch(10))
				f.setScript(hang)
				start := time.Now()
				first := s.Save(t.Context(), execution("first"))
				synctest.Wait()
				var fs []*CommitFuture
				for _, id := range ids("e", 500) {
					fs = append(fs, s.Save(t.Context(), execution(id)))
				}
				ack := s.AckOutbox(t.Context(), 1)
				wantErr(t, first, store.ErrOutcomeUnknown)
				for _, c := range fs {
					wantErr(t, c, store.ErrUnavailable, context.DeadlineExceeded, engine.ErrNotApplied)
				}
				wantErr(t, ack, store.ErrUnavailable, context.DeadlineExceeded, engine.ErrNotApplied)
				if d := time.Since(start); d != 30*time.Second {
					t.Errorf("after %v", d)
				}
				f.setScript(nil)
				synctest.Wait()
				if n := s.Stats().Writes; n.Queued+n.InFlight != 0 {
					t.Errorf("%+v", n)
				}
				await(t, s.Save(t.Context(), execution("again")))
				mustClose(t, s)
			})
		})
	}
}

// An engine that is deaf to its context holds its request, but no future.
func TestDeafEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		g := newGate()
		f.setScript(func(_ context.Context, r *request) error { <-g.ch; return nil })
		c, ack := s.Save(t.Context(), execution("a")), s.DeleteTimer(t.Context(), store.Timer{ExecutionID: "b", Path: "p"})
		l := s.Load(t.Context(), "a")
		start := time.Now()
		synctest.Wait()
		wantErr(t, c, store.ErrOutcomeUnknown, context.DeadlineExceeded)
		wantErr(t, ack, context.DeadlineExceeded)
		wantErr(t, l, store.ErrUnavailable, context.DeadlineExceeded)
		if d := time.Since(start); d != 30250*time.Millisecond {
			t.Errorf("after %v", d)
		}
		g.open()
		mustClose(t, s)
	})
}

// Each outcome an engine reports reaches the future as what it is.
func TestOutcomes(t *testing.T) {
	statement := &engine.StatementError{Index: 0, Message: "constraint failed"}
	for name, test := range map[string]struct {
		script func(ctx context.Context, r *request) error
		want   []error // nil if the commit is won
	}{
		"not applied": {
			func(context.Context, *request) error {
				return &engine.Error{Op: "exec", Outcome: engine.NotApplied, Reason: engine.ErrNoLeader}
			},
			[]error{engine.ErrNotApplied, engine.ErrNoLeader},
		},
		"refused statement": {
			func(context.Context, *request) error {
				return &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: statement}
			},
			[]error{engine.ErrNotApplied, statement},
		},
		"applied, results lost, found by asking again": {lose(engine.Applied, true), nil},
		"unknown and applied":                          {lose(engine.Unknown, true), nil},
		"unknown and not applied":                      {lose(engine.Unknown, false), nil},
		"answered after the time limit": {
			func(ctx context.Context, r *request) error {
				if r.exec {
					r.apply()
					<-ctx.Done()
					return interrupted(ctx, r)
				}
				return nil
			},
			[]error{store.ErrOutcomeUnknown, context.DeadlineExceeded},
		},
		"panic":  {func(context.Context, *request) error { panic("boom") }, []error{store.ErrOutcomeUnknown}},
		"goexit": {func(context.Context, *request) error { runtime.Goexit(); return nil }, []error{store.ErrOutcomeUnknown}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				s := newStore(t, f)
				f.setScript(test.script)
				c := s.Save(t.Context(), execution("a"))
				if test.want == nil {
					if v := await(t, c).Version; v != 1 || f.row("a").version != 1 {
						t.Errorf("version %d, stored %d", v, f.row("a").version)
					}
				} else {
					wantErr(t, c, test.want...)
				}
				f.setScript(nil)
				await(t, s.Save(t.Context(), execution("b"))) // life goes on
				mustClose(t, s)
			})
		})
	}
}

// lose loses the first answer.
func lose(o engine.Outcome, applied bool) func(context.Context, *request) error {
	n := 0
	return func(ctx context.Context, r *request) error {
		if n++; n > 1 {
			return nil
		}
		if applied {
			r.apply()
		}
		return &engine.Error{Op: "exec", Outcome: o, Err: errors.New("connection reset")}
	}
}

// The first write of an execution lands although its answer is lost; the handle
// goes on.
func TestLostFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		f.setScript(lose(engine.Unknown, true))
		c := await(t, s.Save(t.Context(), execution("a")))
		for v := int64(2); v <= 4; v++ {
			if c = await(t, s.Save(t.Context(), c.Execution())); c.Version != v {
				t.Errorf("version %d, want %d", c.Version, v)
			}
		}
		if n := s.Stats().Outcomes; n.Conflicts != 0 || n.Recovered != 1 {
			t.Errorf("%+v", n)
		}
		mustClose(t, s)
	})
}

// A write that the database refuses fails alone, once.
func TestPoisonFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		f.setScript(func(_ context.Context, r *request) error {
			pass(time.Millisecond)
			for _, id := range r.ids {
				if id == "e-33" {
					return &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: &engine.StatementError{Message: "too bad"}}
				}
			}
			return nil
		})
		busy := s.Save(t.Context(), execution("busy"))
		synctest.Wait()
		var fs []*CommitFuture
		for _, id := range ids("e", 64) {
			fs = append(fs, s.Save(t.Context(), execution(id)))
		}
		await(t, busy)
		for i, c := range fs {
			if i == 33 {
				wantErr(t, c, engine.ErrNotApplied)
			} else {
				await(t, c)
			}
		}
		alone := 0
		for _, r := range f.log() {
			if len(r.ids) == 1 && r.ids[0] == "e-33" {
				alone++
			}
		}
		if alone != 1 {
			t.Errorf("the refused write was tried %d times by itself", alone)
		}
		mustClose(t, s)
	})
}

// Writes beside commits travel in the commits' requests, and those of an
// execution keep their order with its commits.
func TestWritesShareRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := held()
		s := newStore(t, f)
		busy := s.Save(t.Context(), execution("busy"))
		synctest.Wait()
		ctx := t.Context()
		var commits []*CommitFuture
		var others []*DoneFuture
		step := store.Object{}
		for i, id := range ids("e", 10) {
			commits = append(commits, s.Save(ctx, execution(id)))
			others = append(others,
				s.AckOutbox(ctx, int64(i), int64(i+100)),
				s.AckSpawn(ctx, int64(i)),
				s.DeleteTimer(ctx, store.Timer{ExecutionID: fmt.Sprint("timer-", i), Path: "p", FireAt: 1}),
				s.AppendTrace(ctx, fmt.Sprint("trace-", i), step),
			)
		}
		// In order, hence in requests of their own.
		others = append(others, s.AppendTrace(ctx, "e-0", step), s.DeleteTimer(ctx, store.Timer{ExecutionID: "e-0", Path: "p", FireAt: 1}))
		next := s.Save(ctx, commits[0].Next())
		g.open()
		await(t, busy)
		if _, err := AwaitAll(ctx, append(commits, next)...); err != nil {
			t.Error(err)
		}
		if _, err := AwaitAll(ctx, others...); err != nil {
			t.Error(err)
		}
		log := f.log()
		if len(log) != 5 {
			t.Fatalf("%d requests, want 5", len(log))
		}
		want := map[string]int{"commit": 10, "ack outbox": 20, "ack spawn": 10, "delete timer": 10, "append trace": 10}
		for kind, n := range want {
			if log[1].kinds[kind] != n {
				t.Errorf("second request: %d rows of %q, want %d", log[1].kinds[kind], kind, n)
			}
		}
		if log[2].kinds["append trace"] != 1 || log[3].kinds["delete timer"] != 1 || log[4].kinds["commit"] != 1 {
			t.Errorf("requests after it: %v, %v, %v", log[2].kinds, log[3].kinds, log[4].kinds)
		}
		mustClose(t, s)
	})
}

func TestWritesBesideCommitsRefuse(t *testing.T) {
	s := newStore(t, newFake())
	ctx := t.Context()
	await(t, s.AckOutbox(ctx))
	await(t, s.AckSpawn(ctx))
	wantErr(t, s.DeleteTimer(ctx, store.Timer{}), store.ErrInvalid)
	wantErr(t, s.AppendTrace(ctx, "", store.Object{}), store.ErrInvalid)
	mustClose(t, s)
}

func TestUpdate(t *testing.T) {
	f := newFake()
	s := newStore(t, f)
	create(t, s, "a")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				_, err := s.Update(t.Context(), "a", func(c *store.Commit) error {
					var n int
					if _, err := c.Execution.Context.Get("n", &n); err != nil {
						return err
					}
					return c.Execution.Context.Set("n", n+1)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if e := await(t, s.Load(t.Context(), "a")); e.Context.Raw() != `{"n":20}` {
		t.Errorf("%s at version %d", e.Context.Raw(), e.Version)
	}
	if _, err := s.Update(t.Context(), "none", func(*store.Commit) error { return nil }); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Update: %v", err)
	}
	mustClose(t, s)
}

// The end of its context ends an update at once, and it tells what became of the
// commit.
func TestUpdateIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(t, f)
		create(t, s, "a")
		g := newGate()
		f.setScript(func(ctx context.Context, r *request) error {
			if !r.exec {
				return nil
			}
			return g.hold(ctx, r)
		})
		nothing := func(*store.Commit) error { return nil }
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Update(ctx, "a", nothing) // its commit is in flight
		checkErr(t, err, store.ErrOutcomeUnknown, context.DeadlineExceeded)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Update(ctx, "a", nothing) // its commit waits behind that
		checkErr(t, err, engine.ErrNotApplied, context.DeadlineExceeded)
		f.setScript(g.hold)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Update(ctx, "a", nothing) // it cannot even load
		checkErr(t, err, engine.ErrNotApplied, context.DeadlineExceeded)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("after %v", d)
		}
		g.open()
		mustClose(t, s)
	})
}

func TestOptions(t *testing.T) {
	st := openSync(t, newFake())
	for name, opt := range map[string]Option{
		"batch":    WithMaxBatch(0),
		"pending":  WithMaxPending(0, 1),
		"bytes":    WithMaxPending(1, 0),
		"writes":   WithInFlight(0, 1),
		"reads":    WithInFlight(1, -1),
		"all of 2": WithMaxPending(-1, -1),
	} {
		if s, err := New(st, opt); s != nil || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}

	bad := newFake()
	bad.traits.MaxBatchBytes = -1
	if s, err := New(openSync(t, bad)); s != nil || err == nil {
		t.Errorf("engine with impossible traits: %v", err)
	}

	synctest.Test(t, func(t *testing.T) {
		f, g := held()
		s := newStore(t, f, WithMaxBatch(7), WithInFlight(3, 2))
		for _, id := range ids("e", 100) {
			s.Save(t.Context(), execution(id))
			s.Load(t.Context(), id)
		}
		synctest.Wait()
		if n := s.Stats(); n.Writes.Flights != 3 || n.Reads.Flights != 2 {
			t.Errorf("%+v", n)
		}
		g.open()
		mustClose(t, s)
		for _, r := range f.log() {
			if len(r.ids) > 7 {
				t.Errorf("request of %d", len(r.ids))
			}
		}
		if s.Sync() == nil || s.Stats().Writes.Items != 100 {
			t.Errorf("%+v", s.Stats())
		}
	})
}

// An engine that gives up at the time limit with a definite answer is believed:
// nothing was sent, so nothing is unknown.
func TestDefiniteRefusalAtTheTimeLimit(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			s := newStore(t, f)
			f.setScript(func(ctx context.Context, _ *request) error {
				<-ctx.Done()
				return &engine.Error{Op: "exec", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable, Err: ctx.Err()}
			})
			c := s.Save(t.Context(), execution("a"))
			wantErr(t, c, store.ErrUnavailable, engine.ErrNotApplied, context.DeadlineExceeded)
			mustClose(t, s)
		})
	}
}

func TestNilArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := New(nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("New(nil): %v", err)
		}
		if _, err := store.Open(t.Context(), nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("store.Open(nil): %v", err)
		}
		s := newStore(t, newFake())
		wantErr(t, s.Commit(t.Context(), nil), store.ErrInvalid)
		if _, err := s.Sync().Commit(t.Context(), nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Commit(nil): %v", err)
		}
		mustClose(t, s)
	})
}
