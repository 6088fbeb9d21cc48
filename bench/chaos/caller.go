package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// caller is one of the crowd. Half of what it does is to executions that others
// want too, half to one of its own.
type caller struct {
	r      *run
	p      *process
	number int
	rng    *rand.Rand
	mine   *own
}

// own is an execution that only one caller works on. Since its commits are
// built on what that caller was told, it never meets a conflict; unless the
// outcome of one is unknown, which then may take effect later.
type own struct {
	exec  int32
	h     *history
	state *store.Execution // as last acknowledged
	base  mark
	spent bool // no more commits: one is unknown
}

func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		if c.rng.IntN(2) == 0 {
			c.contend()
		} else {
			c.work()
		}
		if c.r.cfg.think > 0 {
			pause(ctx, time.Duration(c.rng.Int64N(int64(2*c.r.cfg.think))))
		}
	}
	if c.mine != nil {
		c.r.retire(c.mine.h)
	}
}

// context returns the context of one call, which sometimes ends early.
func (c *caller) context() (context.Context, context.CancelFunc) {
	if c.rng.Float64() >= c.r.cfg.impatient {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), time.Duration(1+c.rng.Int64N(60))*time.Millisecond)
}

// contend loads an execution that others want too and commits on what it found.
func (c *caller) contend() {
	slot := c.r.hot.pick(c.rng)
	ops := make([]operation, 0, 4)
	e, base, op, ok := c.read(slot.exec, slot.h.id, slot.latest.Load())
	if ok {
		ops = append(ops, op)
		if c.rng.IntN(8) > 0 {
			depth := 1
			if c.rng.IntN(5) == 0 {
				depth = 2 + c.rng.IntN(3)
			}
			steps := c.commit(slot.exec, e, base, depth)
			slot.latest.Store(steps[len(steps)-1].op.Commit)
			for i := range steps {
				ops = append(ops, steps[i].op)
			}
		}
	}
	if slot.h.end(ops...) {
		c.r.checker.add(slot.h)
	}
}

// work goes on with the caller's own execution.
func (c *caller) work() {
	m := c.mine
	if m == nil || m.spent || m.h.len() >= c.r.cfg.idOps/8 {
		if m != nil {
			c.r.retire(m.h)
		}
		exec, id := c.r.journal.execution("own")
		m = &own{exec: exec, h: &history{id: id}, state: newExecution(id)}
		c.mine = m
	}
	m.h.begin()
	var ops []operation
	defer func() { m.h.end(ops...) }()
	if m.base.Version > 0 && c.rng.IntN(6) == 0 {
		e, base, op, ok := c.read(m.exec, m.h.id, m.base.Commit)
		if !ok {
			return
		}
		if ops = append(ops, op); base != m.base {
			c.r.bad.add(kindAnswer, "execution %s, which only one caller works on: loaded %s, acknowledged was %s", m.h.id, base, m.base)
			m.spent = true
			return
		}
		m.state = e
	}
	depth := 1
	if c.rng.IntN(3) == 0 {
		depth = 2 + c.rng.IntN(4)
	}
	for _, s := range c.commit(m.exec, m.state.Clone(), m.base, depth) {
		ops = append(ops, s.op)
		switch {
		case s.op.Verdict == verdictOK:
			m.state, m.base = s.state, mark{s.op.Base.Version + 1, s.op.Commit}
		case s.op.Verdict == verdictUnknown:
			m.spent = true
		case s.op.Verdict == verdictConflict && !m.spent && s.op.Base == m.base:
			c.r.bad.add(kindOneself, "execution %s, which only one caller works on: %s: %v", m.h.id, s.op.String(), s.err)
			m.spent = true
		}
	}
}

func newExecution(id string) *store.Execution {
	e := store.NewExecution("chaos")
	e.ID = id
	return e
}

// read loads an execution, sometimes together with the question whether it has
// processed the event of a commit. It returns false if the load failed.
func (c *caller) read(exec int32, id string, commit int64) (*store.Execution, mark, operation, bool) {
	ctx, cancel := c.context()
	defer cancel()
	op := operation{Caller: c.number, Call: c.r.clock.tick()}
	var (
		e         *store.Execution
		processed bool
		err       error
	)
	ask := commit > 0 && c.rng.IntN(3) == 0
	if ask {
		var l store.Loaded
		l, err = await(c.r, "load for event", c.p.async.LoadForEvent(ctx, id, processedID(commit)))
		e, processed = l.Execution, l.Processed
	} else if e, err = await(c.r, "load", c.p.async.Load(ctx, id)); errors.Is(err, store.ErrNotFound) {
		e, err = nil, nil
	}
	op.Return = c.r.clock.tick()
	c.r.tally.load(err)
	if err != nil {
		if errors.Is(err, store.ErrInvalidData) {
			c.r.bad.add(kindAnswer, "load of %s: %v", id, err)
		}
		c.backOff()
		return nil, mark{}, op, false
	}
	if op.Verdict = verdictOK; e == nil {
		e = newExecution(id)
	} else if op.Found, err = markOf(e); err != nil {
		c.r.bad.add(kindAnswer, "load of %s: %v", id, err)
		return nil, mark{}, op, false
	}
	if ask {
		c.r.journal.looked(lookup{exec: exec, commit: commit, seen: op.Found, processed: processed})
	}
	return e, op.Found, op, true
}

// step is one commit of a chain and what came of it.
type step struct {
	op     operation
	ref    store.CommitRef
	sides  sides
	future *actor.CommitFuture
	cancel context.CancelFunc
	state  *store.Execution // if it was acknowledged
	err    error
}

// commit asks for a chain of commits, each built on the one before without
// waiting for it, and then waits for all.
func (c *caller) commit(exec int32, e *store.Execution, base mark, depth int) []step {
	steps := make([]step, 0, depth)
	for range depth {
		s := c.sides()
		n := c.r.journal.begin(exec, base, s)
		commit, err := build(e, n, s)
		if err != nil {
			panic(err) // a number always fits into a state that was loaded
		}
		ctx, cancel := c.context()
		st := step{op: operation{Caller: c.number, Commit: n, Base: base, Call: c.r.clock.tick()}, sides: s, cancel: cancel}
		st.future = c.p.async.Commit(ctx, commit)
		st.ref = st.future.Ref()
		steps = append(steps, st)
		if e = st.future.Next(); e == nil {
			break
		}
		base = mark{base.Version + 1, n}
	}
	for i := range steps {
		c.settle(&steps[i])
	}
	if steps[len(steps)-1].op.Verdict == verdictRefused {
		c.backOff()
	}
	return steps
}

// sides chooses the side writes of a commit.
func (c *caller) sides() sides {
	var s sides
	for _, choice := range [...]struct {
		percent int
		side    sides
	}{
		{30, sideSecondEmit}, {90, sideProcessed}, {35, sideTimerA}, {35, sideTimerB},
		{15, sideCancelA}, {15, sideCancelB}, {20, sideSpawn}, {30, sideTrace},
	} {
		if c.rng.IntN(100) < choice.percent {
			s |= choice.side
		}
	}
	return s
}

// settle waits for a commit and enters what came of it.
func (c *caller) settle(s *step) {
	r := c.r
	done, err := await(r, "commit", s.future)
	s.cancel()
	s.op.Return = r.clock.tick()
	s.err = err
	s.op.Verdict, s.op.Found = classify(err)
	switch s.op.Verdict {
	case verdictOK:
		r.gaps.ack(time.Now())
		s.state = done.Execution()
		if done.ID != s.ref.ID || done.Version != s.op.Base.Version+1 || done.Token != s.ref.Token ||
			done.Outbox.Len != 0 && done.Outbox.Len != s.sides.emits() {
			r.bad.add(kindAnswer, "%s answered version %d of %s with %d events", s.op.String(), done.Version, done.ID, done.Outbox.Len)
		}
		if done.Outbox.Len > 0 && c.rng.IntN(5) == 0 {
			select {
			case c.p.acks <- ack{commit: s.op.Commit, seq: done.Outbox.At(0)}:
			default: // the acknowledgements are behind; there are enough of them
			}
		}
	case verdictConflict:
		var ce *store.ConflictError
		if !errors.As(err, &ce) || ce.ID != s.ref.ID || ce.Expected != s.op.Base.Version {
			r.bad.add(kindAnswer, "%s: the conflict is about something else: %v", s.op.String(), err)
		}
	case verdictUnknown:
		var ue *store.UnknownError
		if errors.As(err, &ue) && ue.Ref != s.ref {
			r.bad.add(kindAnswer, "%s: the error is about another commit: %v", s.op.String(), err)
		}
	}
	r.journal.end(s.op.Commit, s.op.Verdict, s.ref)
	r.tally.commit(s.op.Verdict, err)
}

// classify reads what became of a commit out of its error, as a caller of the
// library has to.
func classify(err error) (verdict, mark) {
	var ce *store.ConflictError
	switch {
	case err == nil:
		return verdictOK, mark{}
	case errors.Is(err, store.ErrOutcomeUnknown), errors.Is(err, actor.ErrStillPending), errors.Is(err, engine.ErrApplied):
		return verdictUnknown, mark{}
	case errors.As(err, &ce):
		return verdictConflict, mark{Version: max(ce.Found, 0)}
	case errors.Is(err, store.ErrConflict):
		return verdictConflict, mark{Version: unseen}
	}
	return verdictRefused, mark{}
}

// backOff keeps a caller from asking a store in trouble again at once.
func (c *caller) backOff() {
	pause(context.Background(), time.Duration(5+c.rng.Int64N(20))*time.Millisecond)
}

// await waits for a future, a while longer than it may take at most.
func await[T any](r *run, what string, f actor.Awaitable[T]) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.limit+r.cfg.slack)
	defer cancel()
	v, err := f.Await(ctx)
	if errors.Is(err, actor.ErrStillPending) {
		r.bad.add(kindHung, "a %s had no result %v after the store's time limit of %v", what, r.cfg.slack, r.cfg.limit)
	}
	return v, err
}

// ack is an event to acknowledge: the first of a commit, by the number that the
// commit was told.
type ack struct {
	commit, seq int64
}

// acknowledge acknowledges events until the channel is closed. If a commit was
// told a wrong number, somebody else's event goes missing.
func (r *run) acknowledge(p *process) {
	for a := range p.acks {
		batch := []ack{a}
		for more := true; more && len(batch) < 64; {
			select {
			case a, ok := <-p.acks:
				if more = ok; ok {
					batch = append(batch, a)
				}
			default:
				more = false
			}
		}
		seqs := make([]int64, len(batch))
		for i := range batch {
			seqs[i] = batch[i].seq
		}
		_, err := await(r, "acknowledgement", p.async.AckOutbox(context.Background(), seqs...))
		v, _ := classify(err)
		for i := range batch {
			r.journal.ack(batch[i].commit, v)
		}
		r.tally.acks.Add(int64(len(batch)))
	}
}
