// Package coordination lets processes agree on who does what, through the database
// that they share anyway: locks with fencing tokens, read-write locks, leader
// election, schedules whose ticks are each won once, a cache, and rate limiters.
//
//	p, err := coordination.Open(ctx, eng)
//	defer p.Close(context.Background()) // waits for releases under way
//	lock, err := p.Lock("invoices", coordination.LockOptions{KeepAlive: true})
//	held, err := lock.Acquire(ctx)
//	defer held.Release(ctx)
//	work(held.Context(), held.Token())
//
// One [Provider] on an engine serves any number of them. Each operation is one list
// of statements, atomic and decided inside its SQL, so the same code runs on SQLite,
// rqlite and PostgreSQL. Operations that meet go in one request, and all leases that
// a process keeps alive are renewed in one.
//
// # Time
//
// Whatever ends is live iff now < deadline. The database judges by the engine's clock
// ([engine.Now]): processes on one SQLite file share their host's, those on one
// PostgreSQL the server's. On rqlite each process's own clock counts, so leases must
// be far longer than clocks differ: 15 s for clocks that NTP keeps is plenty. Where
// that is too much to ask, or clocks may be set, [WithoutSharedClock] trusts none.
//
// A holder itself goes by the monotonic clock of its process, from the moment before
// its request was sent: so it is the first to know that its lease has ended. It is
// told by a context; what it has written in the moment before is the fencing token's
// business. A process cannot know that it was stopped until it goes on, so whatever
// must never be written twice has to check the token; a row that keeps the largest
// token seen is enough. (The monotonic clock of Linux stands still while the whole
// machine sleeps: after that, too, the token decides.)
//
// # Lost answers
//
// A request without an answer may have been carried out. Acquiring and renewing are
// sent again with the same random token, which is harmless, and what a caller that
// has left may have got is given back in the background; a request that arrives even
// later than that holds nothing for longer than one lease. A release is sent again
// too; whether the first one worked is then read from the row, which remembers who
// released it last, so that the answer is true.
//
// What must not be done twice is not sent twice: a [Limiter]'s charge, a value for a
// [Cache]. The claim of a [Schedule] is, and carries a random number by which it
// finds out whether it had won.
//
// # Names
//
// A name has 1 to 200 bytes of A-Z a-z 0-9 . _ : / - and begins with a letter or
// digit. Rows of locks are kept for ever, since their tokens must only grow: do not
// make up names without end.
package coordination
