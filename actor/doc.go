// Package actor is the asynchronous store: callers hand it commits and loads,
// get a future for each at once, and never wait for the database unless they ask
// to.
//
// Behind it, two lanes gather what is handed in. Commits of different executions
// that wait together are merged into one transaction, and each still gets its
// own verdict; loads that wait together share one request. An idle store sends
// at once; under load, batches form behind the request in flight. There is no fixed
// linger; only behind a batch of several, the next one may wait for those who come
// back, for a quarter of the time that the last one took and 5 ms at most.
//
//	eng, err := sqlite.Open("fleet.db")
//	st, err := store.Open(ctx, eng)
//	s, err := actor.New(st)
//
//	future := s.Commit(ctx, &store.Commit{Execution: e})
//	... // do something else
//	done, err := future.Await(ctx)
//
// What a future promises:
//
//   - It resolves exactly once and always, at the latest when the store's time
//     limit passes (30 s by default), counted from when there was room for it, a moment
//     later for what is in flight.
//   - A commit that resolved without an error is durable and was applied once,
//     with everything that belonged to it.
//   - A commit that resolved with an error that matches
//     [store.ErrOutcomeUnknown] may have been applied; with any other error it
//     was not and never will be.
//
// Callers that would rather select on sending than call a method use
// [Store.Mailbox].
package actor
