// Package sqlite is Quorate's embedded engine: a SQLite database in a file that
// any number of processes of one host share, or in memory.
//
// # Connections
//
// An [Engine] has one connection that writes, a few that read beside it, and one
// that checkpoints. The file is in WAL mode, so that reads never wait for a
// write, nor a write for reads. Every write transaction begins with BEGIN
// IMMEDIATE: it waits for the file at its start, where waiting is possible, and
// never has to give up half-way because somebody else committed in between.
// The wait honours the caller's context and the busy timeout; what comes out
// beyond either is a typed error, never SQLite's raw "database is locked".
//
// [Engine.Begin] opens an interactive transaction on the connection that writes.
// It holds that connection until it ends, so other writes wait.
//
// # What an error means
//
// A context that ends during a transaction interrupts the statement that runs.
// The transaction is then rolled back, and the error says that nothing was
// applied. COMMIT itself is never interrupted: once it has begun, the answer is
// what it did. Only an I/O error of COMMIT leaves the outcome unknown, since
// the commit may have reached the log although syncing it failed. A connection
// whose state is in doubt is closed and replaced.
//
// # Checkpoints
//
// SQLite by default moves the log into the database inside the COMMIT that made
// the log long, which makes one commit in many pay for the others. Here a
// goroutine with a connection of its own does it: passively, beside readers and
// the writer. Under a write load that never pauses a passive checkpoint always
// leaves a remainder, and the log would grow without bound; so beyond 8 MiB
// the goroutine keeps the writer out for the short time that the remainder takes
// and the queries under way need to end, after which the log starts again at its
// beginning. The log file thus stays below 64 MiB, unless one transaction alone is
// larger, a query takes longer than the writer waits for it (0.1 s with a log of
// 8 MiB, more with a longer one, 1 s at most), or another program keeps a read
// transaction open. Attempts in vain become rarer as the log grows.
//
// # Why github.com/ncruces/go-sqlite3
//
// It is SQLite itself, translated to Go: no cgo, so Quorate builds and
// cross-compiles with the Go tool alone. It brings three small modules, a
// current SQLite, locks that are compatible with other SQLite programs on the
// same file, and an in-memory file system that several connections share. Its
// connection API is used here directly, without database/sql, which would put a
// pool between a transaction and its connection: interrupts by context, a busy
// handler of our own, extended result codes, and prepared statements that stay
// with their connection.
package sqlite
