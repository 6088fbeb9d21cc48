package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// Progress is how far a rule has come in a log. A rule is any consumer that keeps
// its position in the transactions in which it reacts; its name is free.
type Progress struct {
	// Cursor is the position of the last event it has evaluated: what to give to
	// [Tx.Read].
	Cursor int64 `json:"cursor"`
	// Generation grows whenever the rule starts over.
	Generation int64 `json:"generation"`
	// Definition is a hash of the rule as it was.
	Definition string `json:"definition"`
	// Deadlines are times to come, by scope key.
	Deadlines map[string]time.Time `json:"deadlines,omitempty"`
	// SilentThrough is the position up to which nothing is recorded.
	SilentThrough int64 `json:"silent_through,omitempty"`

	body string
}

// RuleProgress is the progress of one rule.
type RuleProgress struct {
	Rule string
	Progress
}

func decodeProgress(body string) (Progress, error) {
	p := Progress{body: body}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		return p, fmt.Errorf("stored progress: %w", err)
	}
	return p, nil
}

// Progress returns a rule's progress, and whether there is any.
func (t *Tx) Progress(ctx context.Context, rule string) (Progress, bool, error) {
	if err := t.usable(); err != nil {
		return Progress{}, false, err
	}
	if err := checkName("rule", rule); err != nil {
		return Progress{}, false, err
	}
	if p, ok := t.progress.get(rule); ok {
		return p, true, nil
	}
	if t.base.position == 0 {
		return Progress{}, false, nil
	}
	results, err := t.read(ctx, selectOf("SELECT position AS position,body AS body FROM quorate_ws_progress WHERE "+ofWorkspace+" AND rule=?3", args(t.ref, engine.Text(rule))))
	if err != nil {
		return Progress{}, false, err
	}
	r := rows{res: &results[0]}
	if !r.next() {
		t.progress.learn(rule, 0)
		return Progress{}, false, nil
	}
	position, body := r.int("position"), r.text("body")
	if r.err != nil {
		return Progress{}, false, t.broken(r.err)
	}
	t.progress.learn(rule, position)
	p, err := decodeProgress(body)
	return p, err == nil, t.broken(err)
}

// SaveProgress stores a rule's progress. The first time gives it its place in the
// order of creation. A negative cursor is [ErrInvalid].
func (t *Tx) SaveProgress(ctx context.Context, rule string, p Progress) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := checkName("rule", rule); err != nil {
		return err
	}
	if p.Cursor < 0 {
		return &store.InvalidError{Field: "Progress.Cursor", Reason: "is negative"}
	}
	body, err := marshal(p)
	if err != nil {
		return &store.InvalidError{Field: "Progress", Reason: "cannot be encoded: " + err.Error()}
	}
	if err := checkDocument("Progress", body); err != nil {
		return err
	}
	if p, err = decodeProgress(string(body)); err != nil {
		return err
	}
	position, err := place(t, &t.progress, rule, func() error { _, _, err := t.Progress(ctx, rule); return err })
	if err != nil {
		return err
	}
	t.progress.put(rule, p, position)
	return nil
}

// place returns the position of a record that is about to be saved: the one it has,
// which look finds out, or the next.
func place[T any](t *Tx, o *overlay[T], key string, look func() error) (int64, error) {
	if p, own := o.own[key]; own {
		return p.position, nil
	}
	if _, known := o.known[key]; !known {
		if err := look(); err != nil {
			return 0, err
		}
	}
	if position := o.known[key]; position > 0 {
		return position, nil
	}
	return t.next(), nil
}

// Progress returns the progress of all rules, in the order in which they were
// first saved. It blocks for one linearizable read.
func (s *Store) Progress(ctx context.Context, ref Ref) ([]RuleProgress, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	results, err := s.query(ctx, engine.Linearizable, selectOf("SELECT rule AS rule,body AS body FROM quorate_ws_progress WHERE "+ofWorkspace+" ORDER BY position", args(ref)))
	if err != nil {
		return nil, fmt.Errorf("read progress of workspace %v: %w", ref, err)
	}
	r := rows{res: &results[0]}
	var out []RuleProgress
	for r.next() {
		rule, body := r.text("rule"), r.text("body")
		if r.err != nil {
			break
		}
		p, err := decodeProgress(body)
		if err != nil {
			return nil, err
		}
		out = append(out, RuleProgress{rule, p})
	}
	return out, r.err
}
