package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/store"
)

// op is a sort of operation that is measured.
type op string

const (
	opCommit       op = "commit"
	opCommitFull   op = "commit-full"
	opLoad         op = "load"
	opLoadForEvent op = "load-for-event"
	opMixed        op = "mixed"
	// opPrepared is a commit that was validated and encoded before the clock
	// started.
	opPrepared op = "commit-prepared"
)

var opAbout = []struct {
	name  op
	about string
}{
	{opCommit, "compare-and-swap of an execution's state, nothing beside it"},
	{opCommitFull, "the same with 2 outbox entries, an entry in the dedupe ledger, a timer, a spawn and a trace step"},
	{opLoad, "linearizable read of an execution"},
	{opLoadForEvent, "linearizable read of an execution and of whether it has processed an event"},
	{opMixed, "one step of a worker: load for an event, commit with 1 outbox entry and the dedupe entry, acknowledge the entry"},
	{opPrepared, "commit that was encoded before the clock started (null engine only)"},
}

func (o op) about() string {
	for _, a := range opAbout {
		if a.name == o {
			return a.about
		}
	}
	return ""
}

// writes reports whether the op changes executions.
func (o op) writes() bool { return o != opLoad && o != opLoadForEvent }

// reads reports whether the op reads executions.
func (o op) reads() bool { return o == opLoad || o == opLoadForEvent || o == opMixed }

// step does one operation, or a batch of them, and returns how many they were
// and how long each took as its caller saw it. Making up the next operation, and
// what a caller does with the answer, is not in that time, but it is part of the
// throughput.
type step func(ctx context.Context) (n int, took time.Duration, err error)

// face is the part of the store's API that is measured. [*store.Store] has it as
// it is, the actor by waiting for each future.
type face interface {
	Commit(ctx context.Context, c *store.Commit) (store.Committed, error)
	Load(ctx context.Context, id string) (*store.Execution, error)
	LoadForEvent(ctx context.Context, id, event string) (store.Loaded, error)
	AckOutbox(ctx context.Context, seqs ...int64) error
	Update(ctx context.Context, id string, fn func(*store.Commit) error) (store.Committed, error)
}

// worker is one caller of a store: a closed loop over its executions.
type worker struct {
	face   face
	data   *dataset
	execs  []*store.Execution // its own, unless the run is contended
	ids    []string
	at     int
	events *eventIDs
	pick   func(n int) int // which execution is next; nil for one after the other
	commit store.Commit
}

func (w *worker) next() int {
	if w.pick != nil {
		return w.pick(len(w.execs))
	}
	k := w.at
	if w.at++; w.at == len(w.execs) {
		w.at = 0
	}
	return k
}

// step returns the worker's loop body for an op.
func (w *worker) step(o op, contended bool) step {
	switch {
	case o == opLoad:
		return w.load
	case o == opLoadForEvent:
		return w.loadForEvent
	case o == opMixed:
		return w.mixed
	case contended:
		return func(ctx context.Context) (int, time.Duration, error) { return w.update(ctx, o == opCommitFull) }
	default:
		return func(ctx context.Context) (int, time.Duration, error) { return w.commitOne(ctx, o == opCommitFull) }
	}
}

// commitOne commits the next execution and takes the state it left for the next
// time.
func (w *worker) commitOne(ctx context.Context, full bool) (int, time.Duration, error) {
	k := w.next()
	w.commit.Execution = w.execs[k]
	w.commit.Execution.ProcessedEvents++
	if full {
		w.fill(&w.commit)
	}
	start := time.Now()
	done, err := w.face.Commit(ctx, &w.commit)
	took := time.Since(start)
	if err != nil {
		return 0, 0, err
	}
	w.execs[k] = done.Execution()
	return 1, took, nil
}

// update is a commit on an execution that others commit to as well: load, commit,
// and once more if another came in between.
func (w *worker) update(ctx context.Context, full bool) (int, time.Duration, error) {
	id := w.ids[w.next()]
	start := time.Now()
	_, err := w.face.Update(ctx, id, func(c *store.Commit) error {
		c.Execution.ProcessedEvents++
		if full {
			w.fill(c)
		}
		return nil
	})
	return 1, time.Since(start), err
}

// fill adds everything that a commit can carry.
func (w *worker) fill(c *store.Commit) {
	c.ProcessedEvent = w.events.id()
	c.Emits = append(c.Emits[:0], w.emit(), w.emit())
	c.Timers = append(c.Timers[:0], store.TimerOp{Path: "/step/timeout", FireAt: fireAt})
	c.Spawns = append(c.Spawns[:0], store.Spawn{ChildID: w.events.id(), RootPath: "/child", Context: w.data.child})
	c.Trace = &w.data.trace
}

// fireAt is far away: no timer of a run is ever due.
const fireAt = 4102444800

// eventTime is when all events were made.
var eventTime = time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.UTC)

func (w *worker) emit() store.Emit {
	return store.Emit{
		Target: w.ids[w.at],
		Event:  store.Event{ID: w.events.id(), Kind: "charge", CreatedTime: eventTime, Data: w.data.eventData},
	}
}

func (w *worker) load(ctx context.Context) (int, time.Duration, error) {
	id := w.ids[w.next()]
	start := time.Now()
	e, err := w.face.Load(ctx, id)
	took := time.Since(start)
	if err == nil && e.ID != id {
		err = fmt.Errorf("load of %s returned %s", id, e.ID)
	}
	return 1, took, err
}

func (w *worker) loadForEvent(ctx context.Context) (int, time.Duration, error) {
	id, event := w.ids[w.next()], w.events.id()
	start := time.Now()
	l, err := w.face.LoadForEvent(ctx, id, event)
	took := time.Since(start)
	if err == nil && (l.Execution == nil || l.Processed) {
		err = fmt.Errorf("load of %s for a new event: execution there %t, event processed %t", id, l.Execution != nil, l.Processed)
	}
	return 1, took, err
}

// mixed is one step of a worker of a fleet.
func (w *worker) mixed(ctx context.Context) (int, time.Duration, error) {
	k := w.next()
	event, emit := w.events.id(), w.emit()
	start := time.Now()
	l, err := w.face.LoadForEvent(ctx, w.ids[k], event)
	if err != nil {
		return 0, 0, err
	}
	if l.Execution == nil || l.Processed {
		return 0, 0, fmt.Errorf("load of %s for a new event: execution there %t, event processed %t", w.ids[k], l.Execution != nil, l.Processed)
	}
	c := &w.commit
	c.Execution, c.ProcessedEvent, c.Emits = l.Execution, event, append(c.Emits[:0], emit)
	c.Execution.ProcessedEvents++
	done, err := w.face.Commit(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	if done.Outbox.Len != 1 {
		return 0, 0, fmt.Errorf("commit of %s returned %d outbox numbers, want 1", w.ids[k], done.Outbox.Len)
	}
	if err := w.face.AckOutbox(ctx, done.Outbox.First); err != nil {
		return 0, 0, err
	}
	took := time.Since(start)
	w.execs[k] = done.Execution()
	return 1, took, nil
}

// share returns the part of n things that belongs to one of several callers.
func share(n, caller, callers int) (lo, hi int) {
	return n * caller / callers, n * (caller + 1) / callers
}

func parseOps(list, engine string) ([]op, error) {
	var ops []op
	for _, name := range splitList(list) {
		o := op(name)
		switch {
		case o.about() == "":
			return nil, usageError{fmt.Sprintf("-op %q is none of commit, commit-full, load, load-for-event, mixed, commit-prepared", name)}
		case o == opPrepared && engine != "null":
			return nil, usageError{"-op commit-prepared needs -engine null: another database would find the commits out of date"}
		case !slices.Contains(ops, o):
			ops = append(ops, o)
		}
	}
	return ops, nil
}
