package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// Tick is the last tick of a schedule.
type Tick struct {
	Schedule string
	// At is when it was due, in UTC and microseconds.
	At time.Time
}

// Schedule returns the time of a schedule's last tick, in UTC, and whether there
// was one.
func (t *Tx) Schedule(ctx context.Context, name string) (time.Time, bool, error) {
	if err := t.usable(); err != nil {
		return time.Time{}, false, err
	}
	if err := checkName("name", name); err != nil {
		return time.Time{}, false, err
	}
	if at, ok := t.schedules.get(name); ok {
		return instant(at), true, nil
	}
	if t.base.position == 0 {
		return time.Time{}, false, nil
	}
	results, err := t.read(ctx, selectOf("SELECT position AS position,ticked_at AS ticked_at FROM quorate_ws_schedules WHERE "+ofWorkspace+" AND name=?3", args(t.ref, engine.Text(name))))
	if err != nil {
		return time.Time{}, false, err
	}
	r := rows{res: &results[0]}
	if !r.next() {
		t.schedules.learn(name, 0)
		return time.Time{}, false, nil
	}
	position, at := r.int("position"), r.int("ticked_at")
	t.schedules.learn(name, position)
	return instant(at), r.err == nil, t.broken(r.err)
}

// SaveSchedule stores the time of a schedule's last tick.
func (t *Tx) SaveSchedule(ctx context.Context, name string, at time.Time) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := checkName("name", name); err != nil {
		return err
	}
	if at.IsZero() {
		return &store.InvalidError{Field: "time", Reason: "is zero"}
	}
	position, err := place(t, &t.schedules, name, func() error { _, _, err := t.Schedule(ctx, name); return err })
	if err != nil {
		return err
	}
	t.schedules.put(name, micros(at), position)
	return nil
}

// Schedules returns the last ticks of a workspace's schedules, in the order in
// which they were first saved. It blocks for one linearizable read.
func (s *Store) Schedules(ctx context.Context, ref Ref) ([]Tick, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	results, err := s.query(ctx, engine.Linearizable, selectOf("SELECT name AS name,ticked_at AS ticked_at FROM quorate_ws_schedules WHERE "+ofWorkspace+" ORDER BY position", args(ref)))
	if err != nil {
		return nil, fmt.Errorf("read schedules of workspace %v: %w", ref, err)
	}
	r := rows{res: &results[0]}
	var out []Tick
	for r.next() {
		out = append(out, Tick{r.text("name"), instant(r.int("ticked_at"))})
	}
	return out, r.err
}
