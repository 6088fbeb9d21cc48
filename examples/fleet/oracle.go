package main

import (
	"fmt"
	"time"
)

// oracle knows from the input alone, without a store and without concurrency,
// how every order must end. It is the second opinion that the verification
// compares the database with, so it shares no logic with the state machine.
type oracle struct {
	orders map[string]*orderEvents
	// distinct counts the different events of the input.
	distinct int64
}

// orderEvents are the different events of an order.
type orderEvents struct {
	bySeq map[int64]event
	ids   map[string]int64 // id -> seq
}

func newOracle() *oracle { return &oracle{orders: make(map[string]*orderEvents)} }

// add takes an event of the input. An event may come any number of times, but it
// must say the same each time: where two lines contradict each other, the first
// counts and the other is an error.
func (o *oracle) add(ev event) error {
	l := o.orders[ev.Order]
	if l == nil {
		l = &orderEvents{bySeq: make(map[int64]event), ids: make(map[string]int64)}
		o.orders[ev.Order] = l
	}
	if was, ok := l.bySeq[ev.Seq]; ok {
		if was == ev {
			return nil
		}
		if was.ID == ev.ID {
			return fmt.Errorf("event %s contradicts an earlier line with the same id", ev.ID)
		}
		return fmt.Errorf("event %s has the seq of event %s of the same order", ev.ID, was.ID)
	}
	if _, ok := l.ids[ev.ID]; ok {
		return fmt.Errorf("event %s contradicts an earlier line with the same id", ev.ID)
	}
	l.bySeq[ev.Seq] = ev
	l.ids[ev.ID] = ev.Seq
	o.distinct++
	return nil
}

// outcome is how an order must look in the end.
type outcome struct {
	status     string
	state      string
	merchant   string
	items      int64
	totalCents int64
	late       int64
	nextSeq    int64
	deferred   int64
}

// expect plays an order's events in the order of their seq, up to the first that
// is missing.
func (l *orderEvents) expect() outcome {
	x := outcome{status: "PENDING", state: "new", nextSeq: 1}
	var placed event
	open := false // placed, and neither paid nor cancelled
	for ; ; x.nextSeq++ {
		ev, ok := l.bySeq[x.nextSeq]
		if !ok {
			break
		}
		if ev.Kind == kindPlaced && x.state == "new" {
			placed, open = ev, true
			x.status, x.state, x.merchant = "CANCELLED", "expired", ev.Merchant // unless more follows
			continue
		}
		inTime := open && ev.At.Sub(placed.At) <= time.Duration(placed.PayWithinMS)*time.Millisecond
		if !inTime || ev.Kind == kindPlaced {
			x.late++
			continue
		}
		switch ev.Kind {
		case kindItemAdded:
			x.items += ev.Qty
			x.totalCents += ev.Qty * ev.PriceCents
		case kindPaid:
			open = false
			x.status, x.state = "DONE", "shipped"
		case kindCancelled:
			open = false
			x.status, x.state = "CANCELLED", "cancelled"
		}
	}
	x.deferred = int64(len(l.bySeq)) - (x.nextSeq - 1)
	return x
}
