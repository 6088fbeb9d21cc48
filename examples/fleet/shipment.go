package main

import (
	"fmt"

	"github.com/quorate/quorate/store"
)

// The states of a shipment.
const (
	shipmentPacked    = "packed"
	shipmentDelivered = "delivered"
)

// itemsPerParcel is how many pieces fit into a parcel.
const itemsPerParcel = 10

// shipmentState is the context of a shipment's execution.
type shipmentState struct {
	State   string `json:"state"`
	Order   string `json:"order"`
	Parcels int64  `json:"parcels"`
}

// stepShipment: created by the spawner, a shipment sends itself to dispatch and,
// once dispatched, reports to the order that spawned it.
func stepShipment(e *store.Execution, m *message) (*store.Commit, effect, error) {
	ev := m.event
	if ev.Kind == kindCreate {
		if e != nil {
			return nil, effect{}, nil
		}
		s := shipmentState{State: shipmentPacked, Order: ev.Order, Parcels: (ev.Items + itemsPerParcel - 1) / itemsPerParcel}
		e = begin(m, defShipment)
		e.ParentID, e.ChildID, e.RootPath, e.Status = ev.Order, m.target, orderPaid, store.StatusRunning
		c := &store.Commit{Execution: e}
		if err := emit(c, e.ID, event{ID: "dispatch/" + e.ID, Kind: kindDispatch, Order: ev.Order, At: ev.At}); err != nil {
			return nil, effect{}, err
		}
		return c, effect{}, finishCommit(c, m, "", s.State, s)
	}
	if e == nil {
		return nil, effect{}, noExecution(m)
	}
	var s shipmentState
	if err := e.Context.Decode(&s); err != nil {
		return nil, effect{}, fmt.Errorf("shipment %q: %w", e.ID, err)
	}
	if s.State != shipmentPacked {
		return nil, effect{}, nil
	}
	s.State = shipmentDelivered
	e.Status, e.Outcome = store.StatusDone, shipmentDelivered
	c := &store.Commit{Execution: e}
	if err := emit(c, s.Order, event{
		ID: "shipped/" + e.ID, Kind: kindShipped, Order: s.Order, At: ev.At, Parcels: s.Parcels,
	}); err != nil {
		return nil, effect{}, err
	}
	return c, effect{}, finishCommit(c, m, shipmentPacked, s.State, s)
}
