package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
)

// patience is how long a task goes on while the database cannot be reached,
// such as during the election of a leader.
const patience = 30 * time.Second

// task brings one message to its execution: load, step, commit, and again from
// the load if another commit came first. It never blocks on its own (unless the
// store is synchronous): whoever drives it waits for done, then calls advance,
// and may drive many tasks at once.
type task struct {
	f   *fleet
	msg *message

	// One of these is pending.
	load   actor.Awaitable[store.Loaded]
	commit actor.Awaitable[store.Committed]
	pause  chan struct{}

	emits   bool      // the commit puts something into the outbox
	spawns  bool      // and into the spawns
	effect  effect    // of the commit that is pending
	unknown bool      // a commit was sent whose outcome is not known
	trouble time.Time // since when the database cannot be reached
}

func (f *fleet) begin(ctx context.Context, m *message) *task {
	t := &task{f: f, msg: m}
	t.reload(ctx)
	return t
}

func (t *task) reload(ctx context.Context) {
	t.commit, t.pause = nil, nil
	t.load = t.f.db.LoadForEvent(ctx, t.msg.target, t.msg.event.ID)
}

// done is closed when advance can go on without waiting.
func (t *task) done() <-chan struct{} {
	switch {
	case t.load != nil:
		return t.load.Done()
	case t.commit != nil:
		return t.commit.Done()
	}
	return t.pause
}

// advance takes the task one step further. It returns true when the message is
// settled: its effect is durable, or it has none.
func (t *task) advance(ctx context.Context) (settled bool, err error) {
	switch {
	case t.load != nil:
		return t.loaded(ctx)
	case t.commit != nil:
		return t.committed(ctx)
	}
	t.reload(ctx)
	return false, nil
}

func (t *task) loaded(ctx context.Context) (settled bool, err error) {
	loaded, err := t.load.Await(ctx)
	t.load = nil
	if err != nil {
		return false, t.recover(ctx, err)
	}
	t.trouble = time.Time{}
	if loaded.Processed {
		// After an unknown outcome the ledger tells that the commit was applied.
		t.msg.effect = t.effect
		t.msg.effect.committed, t.msg.effect.duplicate = t.unknown, !t.unknown
		return true, nil
	}
	c, eff, err := step(loaded.Execution, t.msg)
	if err != nil {
		return false, err
	}
	if c == nil {
		t.msg.effect = effect{}
		return true, nil
	}
	eff.committed = true
	t.effect, t.emits, t.spawns = eff, len(c.Emits) > 0, len(c.Spawns) > 0
	t.commit = t.f.db.Commit(ctx, c)
	return false, nil
}

func (t *task) committed(ctx context.Context) (settled bool, err error) {
	_, err = t.commit.Await(ctx)
	t.commit = nil
	if err != nil {
		return false, t.recover(ctx, err)
	}
	t.msg.effect = t.effect
	if t.emits {
		wake(t.f.emitted)
	}
	if t.spawns {
		wake(t.f.spawns)
	}
	return true, nil
}

// recover decides what to do about an error: begin again from the load, at once
// or after a pause, or give up. Beginning again is always safe: the ledger tells
// whether the event took effect.
func (t *task) recover(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, store.ErrConflict):
		// Somebody else made progress on this execution: no need to wait.
		t.f.count.conflicts.Add(1)
		t.unknown = false
		t.reload(ctx)
		return nil
	case !passing(err):
		return err
	case errors.Is(err, store.ErrOutcomeUnknown):
		t.f.count.unknown.Add(1)
		t.unknown = true
	}
	if t.trouble.IsZero() {
		t.trouble = time.Now()
	}
	if time.Since(t.trouble) > patience {
		return fmt.Errorf("gave up after %v: %w", patience, err)
	}
	pause := make(chan struct{})
	time.AfterFunc(retryPause(), func() { close(pause) })
	t.pause = pause
	return nil
}

// passing tells whether an error is about the database as a whole and may pass,
// so that what failed should be tried again after a pause.
func passing(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOverloaded) || errors.Is(err, store.ErrOutcomeUnknown)
}

// retryPause spreads out those who try again.
func retryPause() time.Duration { return 50*time.Millisecond + rand.N(200*time.Millisecond) }
