// Command chaoscoord lets several processes fight for locks, a leadership and the
// ticks of a schedule, and proves that they never have them together.
//
// Each process is a real one. At random it is stopped (SIGSTOP) for longer than its
// leases and goes on later, believing whatever it believes, or is killed for good and
// replaced. Who holds a lock writes, with its fencing token, to a row that refuses a
// token smaller than one it has seen; now and then it writes although it knows that
// its lease has ended. Everything is recorded with times of the one clock that all
// processes of a machine share, and judged in the end:
//
//   - no handle is valid at a moment at which a later one has been granted already;
//   - tokens grow in the order in which they were granted, and none is given twice;
//   - the writes that were accepted, in the order of the database, have tokens that
//     never decrease, and each that was acknowledged is there;
//   - no write is refused whose holder is valid when it learns of it;
//   - each tick of the schedule is won once.
//
// The database is a SQLite file, or with RQLITED naming a binary a cluster of three
// real nodes, whose leader is killed again and again:
//
//	go run ./bench/chaoscoord -duration 1m -seed 7
//	RQLITED=/path/to/rqlited go run ./bench/chaoscoord -duration 10m -no-shared-clock
//
// The exit status is 0 if nothing was violated, 1 if something was, and 2 if the run
// itself failed.
package main
