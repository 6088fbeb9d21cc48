package main

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/store"
)

// The definitions that the fleet's executions run.
const (
	defOrder    = "fleet.order"
	defShipment = "fleet.shipment"
	defAccount  = "fleet.account"
)

// Ids. An order's execution has the order's id.
func shipmentID(order string) string   { return "shipment/" + order }
func accountID(merchant string) string { return "account/" + merchant }

// message is an event on its way to an execution.
type message struct {
	target string
	event  event
	effect effect // what became of it, once it is settled
}

// effect tells what an event did, for the report.
type effect struct {
	duplicate  bool // it was in the ledger already
	committed  bool
	deferred   bool  // put aside until its turn
	late       int64 // events that had no effect, it or ones that waited for it
	reinstated bool  // an order that had expired was paid in time after all
}

// step is the whole logic of the fleet: what an event means to an execution, nil
// if there is none of that id yet. It is a pure function, without a clock: the
// same state and event always give the same commit, so that redoing it after a
// conflict or a crash is safe. It returns nil if nothing is to be done, not even
// to be remembered.
func step(e *store.Execution, m *message) (*store.Commit, effect, error) {
	switch m.event.Kind {
	case kindPlaced, kindItemAdded, kindPaid, kindCancelled, kindTimeout, kindShipped:
		return stepOrder(e, m)
	case kindCreate, kindDispatch:
		return stepShipment(e, m)
	case kindPayment:
		return stepAccount(e, m)
	}
	return nil, effect{}, fmt.Errorf("event %q for %q has kind %q, which the fleet does not know", m.event.ID, m.target, m.event.Kind)
}

// begin returns a new execution, for an event that creates one.
func begin(m *message, definition string) *store.Execution {
	e := store.NewExecution(definition)
	e.ID = m.target
	e.CreatedAt = store.EpochSeconds(m.event.At)
	return e
}

// finishCommit completes a commit: the new state in the context, the event in
// the ledger, a step in the trace.
func finishCommit(c *store.Commit, m *message, before, after string, state any) error {
	e := c.Execution
	object, err := store.NewObject(state)
	if err != nil {
		return fmt.Errorf("encode the state of %q: %w", e.ID, err)
	}
	trace, err := store.NewObject(struct {
		Event string    `json:"event"`
		Kind  string    `json:"kind"`
		At    time.Time `json:"at"`
		From  string    `json:"from"`
		To    string    `json:"to"`
	}{m.event.ID, m.event.Kind, m.event.At, before, after})
	if err != nil {
		return fmt.Errorf("encode the trace of %q: %w", e.ID, err)
	}
	e.Context, e.ActivePath = object, after
	e.ProcessedEvents++
	e.UpdatedAt = max(e.UpdatedAt, store.EpochSeconds(m.event.At))
	if e.Status.Finished() {
		e.FinishedAt = e.UpdatedAt
	} else {
		e.FinishedAt = 0
	}
	c.ProcessedEvent, c.Trace = m.event.ID, &trace
	return nil
}

// emit puts an event for another execution into the commit. Its id follows from
// what it says, so that a commit made again emits the same event.
func emit(c *store.Commit, target string, ev event) error {
	data, err := store.NewObject(ev)
	if err != nil {
		return fmt.Errorf("encode event %q: %w", ev.ID, err)
	}
	c.Emits = append(c.Emits, store.Emit{Target: target, Event: store.Event{
		ID: ev.ID, Kind: ev.Kind, CreatedTime: ev.At, Data: data,
	}})
	return nil
}

// noExecution is for events that need an execution that is not there. It cannot
// happen unless somebody else wrote to the database.
func noExecution(m *message) error {
	return fmt.Errorf("event %q is for %q, and there is no such execution", m.event.ID, m.target)
}
