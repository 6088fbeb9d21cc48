package main

import (
	"fmt"

	"github.com/quorate/quorate/store"
)

// accountOpen is the one state of an account.
const accountOpen = "open"

// accountState is the context of a merchant's account, to which many orders
// send their payments.
type accountState struct {
	State      string `json:"state"`
	Payments   int64  `json:"payments"`
	TotalCents int64  `json:"total_cents"`
}

// stepAccount books a payment. Adding is not idempotent: an event that took
// effect twice would show in the sum for ever.
func stepAccount(e *store.Execution, m *message) (*store.Commit, effect, error) {
	a := accountState{State: accountOpen}
	before := a.State
	if e == nil {
		e, before = begin(m, defAccount), ""
		e.Status = store.StatusRunning
	} else if err := e.Context.Decode(&a); err != nil {
		return nil, effect{}, fmt.Errorf("account %q: %w", e.ID, err)
	}
	a.Payments++
	a.TotalCents += m.event.AmountCents
	c := &store.Commit{Execution: e}
	return c, effect{}, finishCommit(c, m, before, a.State, a)
}
