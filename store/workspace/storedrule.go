package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// StoredRule is a version of a rule that is kept as data. History is in the log
// alone.
type StoredRule struct {
	Name string
	// Version counts from 1; a rule is saved as its next version.
	Version int64
	// Status is "active", or "archived" for a rule that lists leave out.
	Status string
	// Rule and Provenance are JSON of the application's own, whose bytes are kept.
	Rule, Provenance json.RawMessage
}

// The statuses of a stored rule.
const (
	RuleActive   = "active"
	RuleArchived = "archived"
)

const ruleColumns = "SELECT name AS name,version AS version,status AS status,rule AS rule,provenance AS provenance FROM quorate_ws_rules WHERE " + ofWorkspace

func (r *rows) storedRule() StoredRule {
	return StoredRule{Name: r.text("name"), Version: r.int("version"), Status: r.text("status"), Rule: json.RawMessage(r.text("rule")), Provenance: json.RawMessage(r.text("provenance"))}
}

func byName(a, b StoredRule) int { return strings.Compare(a.Name, b.Name) }

// StoredRule returns a stored rule, an archived one too, and whether there is one.
func (t *Tx) StoredRule(ctx context.Context, name string) (StoredRule, bool, error) {
	if err := t.usable(); err != nil {
		return StoredRule{}, false, err
	}
	if err := checkName("name", name); err != nil {
		return StoredRule{}, false, err
	}
	if r, ok := t.rules.get(name); ok {
		return r, true, nil
	}
	results, err := t.read(ctx, selectOf(ruleColumns+" AND name=?3", args(t.ref, engine.Text(name))))
	if err != nil {
		return StoredRule{}, false, err
	}
	r := rows{res: &results[0]}
	if !r.next() {
		return StoredRule{}, false, nil
	}
	rule := r.storedRule()
	return rule, r.err == nil, t.broken(r.err)
}

// StoredRules returns the active rules, by name in the order of code points.
func (t *Tx) StoredRules(ctx context.Context) ([]StoredRule, error) {
	results, err := t.read(ctx, selectOf(ruleColumns+" AND status='active'", args(t.ref)))
	if err != nil {
		return nil, err
	}
	var out []StoredRule
	r := rows{res: &results[0]}
	for r.next() {
		rule := r.storedRule()
		if _, own := t.rules.own[rule.Name]; !own {
			out = append(out, rule)
		}
	}
	if r.err != nil {
		return nil, t.broken(r.err)
	}
	for _, p := range t.rules.own {
		if p.value.Status == RuleActive {
			out = append(out, p.value)
		}
	}
	slices.SortFunc(out, byName)
	return out, nil
}

// SaveStoredRule stores a rule. Its version must be the one behind that of the
// rule which is there, archived or not, or 1: else the error is a [*VersionError].
func (t *Tx) SaveStoredRule(ctx context.Context, rule StoredRule) error {
	old, _, err := t.StoredRule(ctx, rule.Name)
	if err != nil {
		return err
	}
	if rule.Status != RuleActive && rule.Status != RuleArchived {
		return &store.InvalidError{Field: "StoredRule.Status", Reason: "is neither active nor archived"}
	}
	if rule.Provenance == nil {
		rule.Provenance = json.RawMessage("null")
	}
	for field, doc := range map[string]json.RawMessage{"StoredRule.Rule": rule.Rule, "StoredRule.Provenance": rule.Provenance} {
		if err := checkDocument(field, doc); err != nil {
			return err
		}
	}
	if rule.Version != old.Version+1 {
		return &VersionError{Rule: rule.Name, Want: old.Version + 1, Got: rule.Version}
	}
	rule.Rule, rule.Provenance = slices.Clone(rule.Rule), slices.Clone(rule.Provenance)
	t.rules.put(rule.Name, rule, 0)
	return nil
}

// StoredRules returns the active rules of a workspace, by name in the order of
// code points. It blocks for one linearizable read.
func (s *Store) StoredRules(ctx context.Context, ref Ref) ([]StoredRule, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	results, err := s.query(ctx, engine.Linearizable, selectOf(ruleColumns+" AND status='active'", args(ref)))
	if err != nil {
		return nil, fmt.Errorf("read rules of workspace %v: %w", ref, err)
	}
	r := rows{res: &results[0]}
	var out []StoredRule
	for r.next() {
		out = append(out, r.storedRule())
	}
	slices.SortFunc(out, byName)
	return out, r.err
}
