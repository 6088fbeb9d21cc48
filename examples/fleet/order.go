package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/store"
)

// The states of an order.
const (
	orderNew       = "new" // known only from events that wait for the first one
	orderPlaced    = "placed"
	orderExpired   = "expired" // its timer fired before it was paid
	orderPaid      = "paid"
	orderShipped   = "shipped"
	orderCancelled = "cancelled"
)

// paymentTimer is the path of an order's timer, timeoutEvent the id of the event
// that it fires.
const (
	paymentTimer = "payment"
	timeoutEvent = "timer/payment"
)

// orderState is the context of an order's execution.
type orderState struct {
	State      string    `json:"state"`
	NextSeq    int64     `json:"next_seq"` // of the event whose turn it is
	Merchant   string    `json:"merchant,omitempty"`
	Deadline   time.Time `json:"deadline,omitzero"` // for the payment
	Items      int64     `json:"items"`
	TotalCents int64     `json:"total_cents"`
	Late       int64     `json:"late"` // events that had no effect
}

func stepOrder(e *store.Execution, m *message) (*store.Commit, effect, error) {
	o := orderState{State: orderNew, NextSeq: 1}
	if e == nil {
		if m.event.Seq == 0 {
			return nil, effect{}, noExecution(m)
		}
		e = begin(m, defOrder)
	} else if err := e.Context.Decode(&o); err != nil {
		return nil, effect{}, fmt.Errorf("order %q: %w", e.ID, err)
	}
	c := &store.Commit{Execution: e}
	before := o.State
	var eff effect
	var err error
	switch {
	case m.event.Kind == kindTimeout:
		if o.State != orderPlaced {
			return nil, effect{}, nil // paid or cancelled meanwhile
		}
		o.State = orderExpired
		c.Timers = append(c.Timers, store.CancelTimer(paymentTimer))
	case m.event.Kind == kindShipped:
		err = o.shipped(c, m.event, &eff)
	case m.event.Seq > o.NextSeq:
		eff.deferred = true
		err = e.Deferred.Append(m.event)
	case m.event.Seq < o.NextSeq:
		o.Late++
		eff.late++
	default:
		if err = o.apply(c, m.event, &eff); err == nil {
			err = o.applyDeferred(c, &eff)
		}
	}
	if err != nil {
		return nil, effect{}, fmt.Errorf("order %q: %w", e.ID, err)
	}
	e.Status, e.Outcome = o.status()
	if err := finishCommit(c, m, before, o.State, o); err != nil {
		return nil, effect{}, err
	}
	return c, eff, nil
}

// apply lets the event whose turn it is take effect.
func (o *orderState) apply(c *store.Commit, ev event, eff *effect) error {
	o.NextSeq++
	switch {
	case ev.Kind == kindPlaced && o.State == orderNew:
		o.State, o.Merchant, o.Deadline = orderPlaced, ev.Merchant, ev.deadline()
		c.Timers = append(c.Timers, store.Schedule(paymentTimer, o.Deadline))
		return nil
	case o.State != orderPlaced && o.State != orderExpired, // it is decided already
		ev.Kind == kindPlaced,
		ev.At.After(o.Deadline): // its time was up, whether the timer has fired or will
		o.Late++
		eff.late++
		return nil
	}
	switch ev.Kind {
	case kindItemAdded:
		o.Items += ev.Qty
		o.TotalCents += ev.Qty * ev.PriceCents
	case kindCancelled:
		o.State = orderCancelled
		c.Timers = append(c.Timers, store.CancelTimer(paymentTimer))
	case kindPaid:
		eff.reinstated = o.State == orderExpired
		o.State = orderPaid
		c.Timers = append(c.Timers, store.CancelTimer(paymentTimer))
		return o.ship(c, ev)
	}
	return nil
}

// applyDeferred lets events take effect that waited for the one before.
func (o *orderState) applyDeferred(c *store.Commit, eff *effect) error {
	e := c.Execution
	if e.Deferred.Len() == 0 {
		return nil
	}
	var waiting []event
	if err := e.Deferred.Decode(&waiting); err != nil {
		return err
	}
	for {
		i := slices.IndexFunc(waiting, func(ev event) bool { return ev.Seq == o.NextSeq })
		if i < 0 {
			break
		}
		if err := o.apply(c, waiting[i], eff); err != nil {
			return err
		}
		waiting = slices.Delete(waiting, i, i+1)
	}
	// Another event may have had the turn that one of these waited for.
	rest := slices.DeleteFunc(waiting, func(ev event) bool { return ev.Seq < o.NextSeq })
	missed := int64(len(waiting) - len(rest))
	o.Late += missed
	eff.late += missed
	text, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	e.Deferred, err = store.ParseList(string(text))
	return err
}

// ship hands a paid order over: a child for the shipment, the money to the
// merchant's account.
func (o *orderState) ship(c *store.Commit, paid event) error {
	e := c.Execution
	child := shipmentID(e.ID)
	start, err := store.NewObject(event{
		ID: "create/" + child, Kind: kindCreate, Order: e.ID, At: paid.At, Items: o.Items,
	})
	if err != nil {
		return err
	}
	c.Spawns = append(c.Spawns, store.Spawn{ChildID: child, RootPath: orderPaid, Context: start})
	if err := e.SetChild(child, store.Child{RootPath: orderPaid, Submachine: defShipment}); err != nil {
		return err
	}
	return emit(c, accountID(o.Merchant), event{
		ID: "payment/" + e.ID, Kind: kindPayment, Order: e.ID, At: paid.At,
		Merchant: o.Merchant, AmountCents: o.TotalCents,
	})
}

// shipped takes the shipment's report.
func (o *orderState) shipped(c *store.Commit, ev event, eff *effect) error {
	if o.State != orderPaid {
		o.Late++
		eff.late++
		return nil
	}
	o.State = orderShipped
	e := c.Execution
	child, _, err := e.Child(shipmentID(e.ID))
	if err != nil {
		return err
	}
	child.Finished, child.Outcome = true, shipmentDelivered
	if err := child.Result.Set("parcels", ev.Parcels); err != nil {
		return err
	}
	return e.SetChild(shipmentID(e.ID), child)
}

// status is what the order's state means for its execution.
func (o *orderState) status() (store.Status, string) {
	switch o.State {
	case orderPlaced, orderPaid:
		return store.StatusRunning, ""
	case orderExpired, orderCancelled:
		return store.StatusCancelled, o.State
	case orderShipped:
		return store.StatusDone, o.State
	}
	return store.StatusPending, ""
}
