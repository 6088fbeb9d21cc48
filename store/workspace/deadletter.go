package workspace

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// DeadLetter is an event that a rule could not evaluate.
type DeadLetter struct {
	Rule  string `json:"rule"`
	Seq   int64  `json:"seq"`
	Error string `json:"error"`

	body string
}

// DeadLetter adds to the list of dead letters. It does not block.
func (t *Tx) DeadLetter(letters ...DeadLetter) error {
	if err := t.usable(); err != nil {
		return err
	}
	for i := range letters {
		d := letters[i]
		if err := checkName("DeadLetter.Rule", d.Rule); err != nil {
			return err
		}
		body, err := marshal(d)
		if err != nil {
			return &store.InvalidError{Field: "DeadLetter", Reason: "cannot be encoded"}
		}
		d.body = string(body)
		t.deadLetters = append(t.deadLetters, positioned[DeadLetter]{d, t.next()})
	}
	return nil
}

// DeadLetters returns the dead letters of a workspace, the oldest first, those of
// one rule if rule is not empty. It blocks for one linearizable read.
func (s *Store) DeadLetters(ctx context.Context, ref Ref, rule string) ([]DeadLetter, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	sql, a := "SELECT body AS body FROM quorate_ws_dead_letters WHERE "+ofWorkspace, args(ref)
	if rule != "" {
		if err := checkName("rule", rule); err != nil {
			return nil, err
		}
		sql += " AND rule=" + param(&a, engine.Text(rule))
	}
	results, err := s.query(ctx, engine.Linearizable, selectOf(sql+" ORDER BY position", a))
	if err != nil {
		return nil, fmt.Errorf("read dead letters of workspace %v: %w", ref, err)
	}
	r := rows{res: &results[0]}
	var out []DeadLetter
	for r.next() {
		var d DeadLetter
		r.document("body", &d)
		out = append(out, d)
	}
	return out, r.err
}
