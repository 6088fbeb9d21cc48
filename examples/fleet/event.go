package main

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of events. The first four come from the input, the others are made
// by the fleet.
const (
	kindPlaced    = "placed"
	kindItemAdded = "item_added"
	kindPaid      = "paid"
	kindCancelled = "cancelled"

	kindTimeout  = "timeout"  // to an order, from the sweeper
	kindShipped  = "shipped"  // to an order, from its shipment
	kindCreate   = "create"   // to a shipment, from the spawner
	kindDispatch = "dispatch" // to a shipment, from itself
	kindPayment  = "payment"  // to a merchant's account, from an order
)

// event is one thing that happened, as a line of the input, an entry of the
// outbox or a deferred event holds it. Events are comparable.
type event struct {
	ID    string    `json:"id"`
	Order string    `json:"order"`
	Seq   int64     `json:"seq,omitempty"` // the order's n-th event, from 1
	Kind  string    `json:"type"`
	At    time.Time `json:"at"` // when it happened, in UTC

	Merchant    string `json:"merchant,omitempty"`      // placed
	PayWithinMS int64  `json:"pay_within_ms,omitempty"` // placed
	SKU         string `json:"sku,omitempty"`           // item_added
	Qty         int64  `json:"qty,omitempty"`           // item_added
	PriceCents  int64  `json:"price_cents,omitempty"`   // item_added: of one piece
	Reason      string `json:"reason,omitempty"`        // cancelled

	Items       int64 `json:"items,omitempty"`        // create
	AmountCents int64 `json:"amount_cents,omitempty"` // payment
	Parcels     int64 `json:"parcels,omitempty"`      // shipped
}

// Limits of an input event. They keep every sum within 64 bits.
const (
	maxName        = 128
	maxReason      = 1024
	maxSeq         = 1_000_000
	maxQty         = 1_000
	maxPriceCents  = 100_000_000
	maxPayWithinMS = 30 * 24 * 60 * 60 * 1000
)

var (
	minTime = time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)
	maxTime = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// check tells what is wrong with an event of the input.
func (ev *event) check() error {
	if err := checkName("id", ev.ID); err != nil {
		return err
	}
	if err := checkName("order", ev.Order); err != nil {
		return err
	}
	if ev.Seq < 1 || ev.Seq > maxSeq {
		return fmt.Errorf("seq %d is not within 1 to %d", ev.Seq, maxSeq)
	}
	if ev.At.Before(minTime) || ev.At.After(maxTime) {
		return errors.New("at is missing or not a time within the years 1970 to 2199")
	}
	if ev.Items != 0 || ev.AmountCents != 0 || ev.Parcels != 0 {
		return errors.New("items, amount_cents and parcels are not for the input")
	}
	switch ev.Kind {
	case kindPlaced:
		if err := checkName("merchant", ev.Merchant); err != nil {
			return err
		}
		if ev.PayWithinMS < 1 || ev.PayWithinMS > maxPayWithinMS {
			return fmt.Errorf("pay_within_ms %d is not within 1 to %d", ev.PayWithinMS, maxPayWithinMS)
		}
	case kindItemAdded:
		if err := checkName("sku", ev.SKU); err != nil {
			return err
		}
		if ev.Qty < 1 || ev.Qty > maxQty {
			return fmt.Errorf("qty %d is not within 1 to %d", ev.Qty, maxQty)
		}
		if ev.PriceCents < 0 || ev.PriceCents > maxPriceCents {
			return fmt.Errorf("price_cents %d is not within 0 to %d", ev.PriceCents, maxPriceCents)
		}
	case kindCancelled:
		if len(ev.Reason) > maxReason {
			return fmt.Errorf("reason is longer than %d bytes", maxReason)
		}
	case kindPaid:
	default:
		return errors.New("type is none of placed, item_added, paid, cancelled")
	}
	return nil
}

// checkName keeps names to letters, digits and a few signs. The slash stays out
// of them, so that ids made by the fleet never meet ids of the input.
func checkName(field, s string) error {
	if s == "" {
		return fmt.Errorf("%s is missing", field)
	}
	if len(s) > maxName {
		return fmt.Errorf("%s is longer than %d bytes", field, maxName)
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == ':':
		default:
			return fmt.Errorf("%s may hold letters, digits and - _ . : only", field)
		}
	}
	return nil
}

// deadline is when an order that was placed by ev must have been paid.
func (ev *event) deadline() time.Time {
	return ev.At.Add(time.Duration(ev.PayWithinMS) * time.Millisecond)
}
