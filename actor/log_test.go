package actor

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
	"github.com/quorate/quorate/store/workspace"
)

var logRef = workspace.Ref{Tenant: "t", Workspace: "w"}

func logEntry(id string) workspace.Entry {
	return workspace.Entry{ID: id, Actor: workspace.System("test"), Event: []byte(`{"type":"note:taken"}`)}
}

// heldEngine keeps requests back until they may go on, once it is armed.
type heldEngine struct {
	engine.Engine
	armed   bool
	in, out chan struct{}
	sizes   []int
}

func (e *heldEngine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if !e.armed {
		return e.Engine.Exec(ctx, stmts)
	}
	e.in <- struct{}{}
	<-e.out
	e.sizes = append(e.sizes, len(stmts))
	return e.Engine.Exec(context.WithoutCancel(ctx), stmts)
}

// newLog returns a log on a database in memory whose requests are held back.
func newLog(t *testing.T, opts ...Option) (*Log, *heldEngine) {
	t.Helper()
	eng, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	held := &heldEngine{Engine: eng, in: make(chan struct{}), out: make(chan struct{})}
	ws, err := workspace.Open(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	held.armed = true
	l, err := NewLog(ws, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l, held
}

func closeLog(t *testing.T, l *Log) {
	t.Helper()
	if left, err := l.Close(context.Background()); err != nil || left != (Leftover{}) {
		t.Errorf("Close: %+v, %v", left, err)
	}
}

func TestLogAppendsShareARequest(t *testing.T) {
	l, eng := newLog(t)
	futures := []*AppendFuture{l.Append(t.Context(), logRef, logEntry("first"))}
	<-eng.in
	for i := range 50 {
		futures = append(futures, l.Append(t.Context(), logRef, logEntry(fmt.Sprint(i))))
	}
	eng.out <- struct{}{}
	<-eng.in
	eng.out <- struct{}{}
	for i, f := range futures {
		if out := await(t, f); len(out) != 1 || out[0].Seq != int64(i+1) {
			t.Errorf("append %d is at %v", i, out)
		}
	}
	closeLog(t, l)
	if fmt.Sprint(eng.sizes) != "[3 52]" {
		t.Errorf("requests of %v statements, want one of 3 and one of 52", eng.sizes)
	}
}

func TestLogLeavesWhatItsCallerLeft(t *testing.T) {
	l, eng := newLog(t)
	ctx, cancel := context.WithCancel(t.Context())
	flying := l.Append(ctx, logRef, logEntry("flying"))
	<-eng.in
	queued := l.Append(ctx, logRef, logEntry("queued"))
	stays := l.Append(t.Context(), logRef, logEntry("stays"))
	cancel()
	wantErr(t, queued, context.Canceled, engine.ErrNotApplied)
	wantErr(t, flying, context.Canceled, engine.ErrOutcomeUnknown)
	eng.out <- struct{}{}
	<-eng.in
	eng.out <- struct{}{}
	if out := await(t, stays); len(out) != 1 || out[0].Seq != 2 {
		t.Errorf("what stays is at %v", out)
	}
	wantErr(t, l.Append(ctx, logRef, logEntry("late")), context.Canceled, engine.ErrNotApplied)
	closeLog(t, l)
	log, err := l.Sync().Read(t.Context(), logRef)
	if err != nil || len(log) != 2 || log[0].ID != "flying" {
		t.Errorf("the log is %v, %v", log, err)
	}
}

func TestLogThatIsFullOrClosed(t *testing.T) {
	l, eng := newLog(t, WithMaxPending(1, 1<<20))
	first := l.Append(t.Context(), logRef, logEntry("first"))
	<-eng.in
	wantErr(t, l.Try().Append(t.Context(), logRef, logEntry("second")), store.ErrOverloaded, engine.ErrNotApplied)
	wantErr(t, l.Append(t.Context(), logRef, workspace.Entry{}), store.ErrInvalid)
	eng.out <- struct{}{}
	await(t, first)
	if out := await(t, l.Append(t.Context(), logRef)); out != nil {
		t.Errorf("no entries gave %v", out)
	}
	closeLog(t, l)
	wantErr(t, l.Append(t.Context(), logRef, logEntry("late")), store.ErrClosed, engine.ErrNotApplied)
	if err := l.Sync().Transact(t.Context(), logRef, func(ctx context.Context, _ *workspace.Tx) error {
		wantErr(t, l.Append(ctx, logRef, logEntry("nested")), workspace.ErrNested)
		return nil
	}); err != nil {
		t.Error(err)
	}
	if _, err := NewLog(nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a log on nothing: %v", err)
	}
	if _, err := NewLog(l.Sync(), WithMaxBatch(0)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a batch of nothing: %v", err)
	}
}

// muteEngine never answers: a request ends with its context, with the given
// outcome.
type muteEngine struct {
	engine.Engine
	in      chan struct{}
	outcome engine.Outcome
}

func (e *muteEngine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if e.in == nil {
		return e.Engine.Exec(ctx, stmts)
	}
	e.in <- struct{}{}
	<-ctx.Done()
	return nil, &engine.Error{Op: "exec", Outcome: e.outcome, Err: ctx.Err()}
}

// TestLogThatIsCutShortSaysWhatBecameOfAppends closes a log with one append in
// flight and one queued.
func TestLogThatIsCutShortSaysWhatBecameOfAppends(t *testing.T) {
	for _, outcome := range []engine.Outcome{engine.Unknown, engine.NotApplied} {
		eng, err := sqlite.Open(":memory:")
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		mute := &muteEngine{Engine: eng, outcome: outcome}
		ws, err := workspace.Open(t.Context(), mute)
		if err != nil {
			t.Fatal(err)
		}
		mute.in = make(chan struct{})
		l, err := NewLog(ws)
		if err != nil {
			t.Fatal(err)
		}
		flying := l.Append(t.Context(), logRef, logEntry("flying"))
		<-mute.in
		queued := l.Append(t.Context(), logRef, logEntry("queued"))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		left, err := l.Close(ended)
		if left != (Leftover{Unsent: 1, InFlight: 1}) || !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %+v, %v", left, err)
		}
		wantErr(t, queued, store.ErrClosed, engine.ErrNotApplied)
		if outcome == engine.Unknown {
			wantErr(t, flying, engine.ErrOutcomeUnknown)
		} else {
			wantErr(t, flying, store.ErrClosed, engine.ErrNotApplied)
		}
	}
}
