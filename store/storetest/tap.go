package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

// tap sits between a store and its engine: it counts what passes, and plays the
// faults that a network between the two would.
type tap struct {
	engine.Engine
	tb testing.TB

	mu        sync.Mutex
	execs     int
	queries   int
	defines   int
	last      []engine.Statement // of Query
	faults    []fault            // each is for one Exec, in turn
	always    fault              // for the Exec calls after that, if not nil
	execHold  *hold
	queryHold *hold
}

// fault handles one Exec in place of the engine.
type fault func(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error)

// hold keeps one call back.
type hold struct {
	in, out chan struct{}
}

func newHold() *hold { return &hold{in: make(chan struct{}), out: make(chan struct{})} }

// entered waits until the call is there.
func (h *hold) entered() { <-h.in }

// pull lets the call go on.
func (h *hold) pull() { close(h.out) }

func (h *hold) wait(ctx context.Context) {
	close(h.in)
	select {
	case <-h.out:
	case <-ctx.Done():
	}
}

func (e *tap) complain(format string, args ...any) {
	e.tb.Helper()
	e.tb.Errorf(format, args...)
}

// holdExec keeps the next Exec back, which then passes uncounted and unharmed.
func (e *tap) holdExec() *hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.execHold = newHold()
	return e.execHold
}

// holdQuery is holdExec for Query.
func (e *tap) holdQuery() *hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queryHold = newHold()
	return e.queryHold
}

// play sets the faults of the next Exec calls.
func (e *tap) play(faults ...fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = faults
}

// playAlways sets the fault of all Exec calls; nil ends it.
func (e *tap) playAlways(f fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.always = f
}

// unplayed returns how many faults have not had their turn.
func (e *tap) unplayed() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.faults)
}

type traffic struct{ execs, queries, defines int }

func (e *tap) traffic() traffic {
	e.mu.Lock()
	defer e.mu.Unlock()
	return traffic{e.execs, e.queries, e.defines}
}

func (e *tap) lastQuery() []engine.Statement {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

func (e *tap) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	e.mu.Lock()
	if h := e.execHold; h != nil {
		e.execHold = nil
		e.mu.Unlock()
		h.wait(ctx)
		return e.Engine.Exec(ctx, stmts)
	}
	e.execs++
	f := e.always
	if len(e.faults) > 0 {
		f, e.faults = e.faults[0], e.faults[1:]
	}
	e.mu.Unlock()
	if f == nil {
		return e.Engine.Exec(ctx, stmts)
	}
	return f(ctx, e.Engine, stmts)
}

func (e *tap) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	e.mu.Lock()
	if h := e.queryHold; h != nil {
		e.queryHold = nil
		e.mu.Unlock()
		h.wait(ctx)
		return e.Engine.Query(ctx, level, stmts)
	}
	e.queries++
	e.last = cloneStatements(stmts)
	e.mu.Unlock()
	return e.Engine.Query(ctx, level, stmts)
}

func (e *tap) Define(ctx context.Context, ddl []string) error {
	e.mu.Lock()
	e.defines++
	e.mu.Unlock()
	return e.Engine.Define(ctx, ddl)
}

func cloneStatements(stmts []engine.Statement) []engine.Statement {
	out := slices.Clone(stmts)
	for i := range out {
		out[i].Args = slices.Clone(out[i].Args)
	}
	return out
}

// shared is an engine that several stores use and none closes.
type shared struct{ engine.Engine }

func (shared) Close() error { return nil }

var errPlayed = errors.New("fault played by the suite")

func unknown() error {
	return &engine.Error{Op: "exec", Outcome: engine.Unknown, Reason: engine.ErrUnavailable, Err: errPlayed}
}

func refused(reason error) error {
	return &engine.Error{Op: "exec", Outcome: engine.NotApplied, Reason: reason, Err: errPlayed}
}

// pass is no fault.
func pass(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
	return eng.Exec(ctx, stmts)
}

// answerLost applies the request and loses the answer.
func answerLost(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
	if _, err := eng.Exec(ctx, stmts); err != nil {
		return nil, err
	}
	return nil, unknown()
}

// requestLost does not apply the request, and nobody can tell.
func requestLost(context.Context, engine.Engine, []engine.Statement) ([]engine.Result, error) {
	return nil, unknown()
}

// resultsLost applies the request and says so, without results.
func resultsLost(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
	if _, err := eng.Exec(ctx, stmts); err != nil {
		return nil, err
	}
	return nil, &engine.Error{Op: "exec", Outcome: engine.Applied, Err: errPlayed}
}

// unavailable refuses the request for now.
func unavailable(context.Context, engine.Engine, []engine.Statement) ([]engine.Result, error) {
	return nil, refused(engine.ErrUnavailable)
}

// twiceFirst applies the request twice and returns the first answer.
func twiceFirst(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
	res, err := eng.Exec(ctx, stmts)
	if err != nil {
		return nil, err
	}
	if _, err := eng.Exec(ctx, stmts); err != nil {
		return nil, err
	}
	return res, nil
}

// twiceSecond applies the request twice and returns the second answer, as a
// node does that forwards a request again by itself.
func twiceSecond(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
	if _, err := eng.Exec(ctx, stmts); err != nil {
		return nil, err
	}
	return eng.Exec(ctx, stmts)
}

// alternate plays the faults in turn, again and again.
func alternate(faults ...fault) fault {
	var mu sync.Mutex
	turn := 0
	return func(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
		mu.Lock()
		f := faults[turn%len(faults)]
		turn++
		mu.Unlock()
		return f(ctx, eng, stmts)
	}
}

// then plays f, then calls meanwhile, and then returns what f said: what others
// do between a request and what follows it.
func then(f fault, meanwhile func()) fault {
	return func(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
		res, err := f(ctx, eng, stmts)
		meanwhile()
		return res, err
	}
}

// late is a request that stays in the network for a while.
type late struct {
	mu    sync.Mutex
	stmts []engine.Statement
}

// leave takes the request into the network.
func (l *late) leave(_ context.Context, _ engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stmts = cloneStatements(stmts)
	return nil, unknown()
}

// copy lets the request pass and keeps a copy of it in the network.
func (l *late) copy(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
	_, _ = l.leave(ctx, eng, stmts)
	return eng.Exec(ctx, stmts)
}

// arrive applies the request at last.
func (l *late) arrive(ctx context.Context, eng engine.Engine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := eng.Exec(ctx, l.stmts)
	return err
}

// before lets the late request arrive before this one.
func (l *late) before(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
	if err := l.arrive(ctx, eng); err != nil {
		return nil, err
	}
	return eng.Exec(ctx, stmts)
}

// after lets the late request arrive after this one.
func (l *late) after(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
	res, err := eng.Exec(ctx, stmts)
	if err != nil {
		return nil, err
	}
	return res, l.arrive(ctx, eng)
}

// poisonous refuses every request that binds a text that contains the word, as a
// database refuses a statement.
func poisonous(word string) fault {
	return func(ctx context.Context, eng engine.Engine, stmts []engine.Statement) ([]engine.Result, error) {
		for i, s := range stmts {
			for _, a := range s.Args {
				if text, ok := a.Text(); ok && strings.Contains(text, word) {
					return nil, &engine.Error{Op: "exec", Outcome: engine.NotApplied, Err: &engine.StatementError{Index: i, Message: "poisonous"}}
				}
			}
		}
		return eng.Exec(ctx, stmts)
	}
}
