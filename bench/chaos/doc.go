// Command chaos proves the store correct while its cluster fails.
//
// It runs several independent clients of one rqlite cluster, as many processes
// would, and lets a crowd of callers commit and load through them while leaders
// are killed, paused, stopped and cut off, requests are lost and answers torn.
// Everything that was asked and answered is recorded, and then judged by three
// witnesses that know nothing of each other:
//
//   - the history of each execution must be linearizable, by porcupine;
//   - the rows of the database, read with plain SQL, must be those of the
//     acknowledged commits: each once, with exactly its side writes, each built
//     on the one before, and nothing of any commit that was refused;
//   - every future must have resolved within the store's time limit, and a
//     caller that is alone with its execution must never see a conflict.
//
// Without an rqlited binary the cluster is simulated in this process; with
// RQLITED naming one, three real nodes are started on this machine, and real
// signals are sent to them:
//
//	go run ./bench/chaos -duration 1m -seed 7
//	RQLITED=/path/to/rqlited go run ./bench/chaos -duration 10m -callers 256
//
// The exit status is 0 if nothing was violated, 1 if something was, and 2 if the
// run itself failed. What failed is written to the directory -out: the history as
// JSON and as a page that draws it.
package main
