package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// State is what a rule remembers about one scope, as JSON of the application's
// own, whose bytes are kept.
type State struct {
	// ScopeKey is any text that is not empty; by convention the canonical JSON of an
	// array of values, [] for a rule without scopes.
	ScopeKey string
	Value    json.RawMessage
}

// ruleStates are the states of one rule that a transaction wrote.
type ruleStates struct {
	cleared bool
	own     map[string]string
	order   []string
}

func (t *Tx) ruleStates(rule string) *ruleStates {
	st := t.states[rule]
	if st == nil {
		if t.states == nil {
			t.states = make(map[string]*ruleStates)
		}
		st = &ruleStates{own: make(map[string]string)}
		t.states[rule] = st
		t.stateOrder = append(t.stateOrder, rule)
	}
	return st
}

// States returns the states of a rule's scopes in the order asked for, without
// those that are missing.
func (t *Tx) States(ctx context.Context, rule string, scopeKeys ...string) ([]State, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := checkName("rule", rule); err != nil {
		return nil, err
	}
	st := t.states[rule]
	found := make(map[string]string)
	var missing []string
	for _, key := range scopeKeys {
		if err := checkName("scope key", key); err != nil {
			return nil, err
		}
		if st != nil {
			if v, ok := st.own[key]; ok {
				found[key] = v
				continue
			}
			if st.cleared {
				continue
			}
		}
		missing = append(missing, key)
	}
	if len(missing) > 0 && t.base.revision > 0 {
		if err := t.fetchStates(ctx, rule, missing, found); err != nil {
			return nil, err
		}
	}
	var out []State
	for _, key := range scopeKeys {
		if v, ok := found[key]; ok {
			out = append(out, State{key, json.RawMessage(v)})
		}
	}
	return out, nil
}

func (t *Tx) fetchStates(ctx context.Context, rule string, keys []string, found map[string]string) error {
	var stmts []engine.Statement
	for part := range slices.Chunk(keys, chunk) {
		a := args(t.ref, engine.Text(rule))
		cond := oneOf(&a, part)
		stmts = append(stmts, selectOf("SELECT scope_key AS scope_key,body AS body FROM quorate_ws_states WHERE "+ofWorkspace+" AND rule=?3 AND scope_key"+cond, a))
	}
	results, err := t.read(ctx, stmts...)
	if err != nil {
		return err
	}
	for i := range results {
		r := rows{res: &results[i]}
		for r.next() {
			found[r.text("scope_key")] = r.text("body")
		}
		if r.err != nil {
			return t.broken(r.err)
		}
	}
	return nil
}

// SaveStates stores states of a rule; those of other scopes stay. It does not
// block.
func (t *Tx) SaveStates(rule string, states ...State) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := checkName("rule", rule); err != nil {
		return err
	}
	for _, s := range states {
		if err := checkName("State.ScopeKey", s.ScopeKey); err != nil {
			return err
		}
		if err := checkDocument("State.Value", s.Value); err != nil {
			return err
		}
	}
	if len(states) == 0 {
		return nil
	}
	st := t.ruleStates(rule)
	for _, s := range states {
		if _, ok := st.own[s.ScopeKey]; !ok {
			st.order = append(st.order, s.ScopeKey)
		}
		st.own[s.ScopeKey] = string(s.Value)
	}
	return nil
}

// ClearStates deletes all states of a rule, those of this transaction too. It does
// not block.
func (t *Tx) ClearStates(rule string) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := checkName("rule", rule); err != nil {
		return err
	}
	st := t.ruleStates(rule)
	st.cleared, st.order = true, nil
	clear(st.own)
	return nil
}

// LoadState returns the state of one scope, decoded, and whether there is one.
func LoadState[T any](ctx context.Context, t *Tx, rule, scopeKey string) (T, bool, error) {
	var v T
	states, err := t.States(ctx, rule, scopeKey)
	if err != nil || len(states) == 0 {
		return v, false, err
	}
	if err := json.Unmarshal(states[0].Value, &v); err != nil {
		return v, false, fmt.Errorf("state %s of rule %q: %w", scopeKey, rule, err)
	}
	return v, true, nil
}

// SaveState stores the state of one scope, encoded as JSON.
func SaveState[T any](t *Tx, rule, scopeKey string, v T) error {
	body, err := marshal(v)
	if err != nil {
		return &store.InvalidError{Field: "state", Reason: "cannot be encoded: " + err.Error()}
	}
	return t.SaveStates(rule, State{scopeKey, body})
}
