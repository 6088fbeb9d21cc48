// Package batcher groups independent items into batches that form behind the
// batch in flight.
//
// Items go in one by one, each with a key and a size. Batches come out, bounded
// by items and bytes, and at most a set number of them are being flushed at any
// time. The rules:
//
//   - An idle batcher sends at once. There is no fixed linger: while a batch is in
//     flight the next one gathers. Another one goes beside it only if it is full
//     or holds about as many items, so that a free slot does not make small
//     batches. Behind a batch of several a worker may wait a moment for those who
//     come back: a quarter of the flight's time, and 5 ms, at most. A batch in flight
//     that takes much longer than usual holds up nothing.
//   - Items of one key are flushed in the order they were submitted. A batch
//     holds at most one item of a key, and a key is never in two batches at
//     once. Items of other keys do not wait for it. Items with an empty key have
//     no order.
//   - Admission comes before insertion: an item enters only when both the count
//     and the bytes of everything admitted and not yet done leave room for it.
//     [Batcher.Submit] waits for room, [Batcher.TrySubmit] does not.
//   - Every item that was admitted leaves in exactly one way: in a batch given
//     to Flush, or through Drop (it expired, was withdrawn, or the batcher was
//     closed before it was sent).
//
// The batcher knows nothing of what the items are. The first item starts
// a worker, which flushes batch after batch; there are as many workers as batches
// in flight. Those that have nothing to do rest, and end when Close is done.
package batcher
