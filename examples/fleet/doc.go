// Fleet drives one execution per order through its life with a fleet of workers,
// from order events in JSON lines, and then proves with plain SQL that every
// event took effect exactly once.
//
//	go run ./examples/fleet                     # the sample, on a temporary SQLite file
//	go run ./examples/fleet -db fleet.db        # on a file; run it twice: nothing changes
//	go run ./examples/fleet -url http://localhost:4001 -workers 256
//	go run ./examples/fleet -postgres postgres://user:password@localhost/db
//	go run ./examples/fleet -sync               # one request per operation, to feel the difference
//	go run ./examples/fleet -generate 20000 | go run ./examples/fleet -
//
// # What happens
//
// The input holds what happened to orders (placed, item_added, paid, cancelled),
// numbered within each order by seq. It comes as the real world delivers it:
// twice, out of order, too late. The reader hands each event to a worker. The
// worker loads the order together with whether it has seen the event already,
// lets the state machine (a pure function) make the next commit, and commits it
// with the event's id: state, outbox, timers, children and trace in one step.
// Workers hold futures and never wait for one event before starting another.
//
//   - An event ahead of its turn is put aside in the order's Deferred list.
//   - A placed order has a timer for its payment; the sweeper fires it.
//   - A paid order spawns a shipment and sends the payment to its merchant's
//     account through the outbox.
//   - The shipment, an execution of its own, reports back through the outbox.
//   - The relay delivers the outbox, at least once, with effect once.
//
// # Why the result does not depend on timing
//
// Within an order, events take effect by seq, whenever they arrive. Whether a
// payment was in time is decided by the times in the data. A timer that fires
// only marks the order as expired: a payment that was made in time and arrives
// after that reinstates the order. So the final state follows from the input
// alone, and a few lines of sequential code (oracle.go) can tell it. The
// verification compares that with what is in the database, over a connection of
// its own.
//
// # Exit status
//
//	0    done and verified
//	1    something failed, or the verification found a difference
//	2    wrong flags or arguments
//	3    done and verified, but the input had lines that were skipped
//	130  interrupted; run again with the same database to go on
//
// (go run reports every status but 0 as 1; build the program to see them.)
package main
