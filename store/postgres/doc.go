// Package postgres is Quorate's engine on PostgreSQL 14 or newer.
//
// It is the only package of the module that imports github.com/jackc/pgx/v5, of
// which it uses the connection alone, not the pool and not the type system. Who
// does not import it does not link it; a module of its own would spare others a
// line in their go.sum and cost everybody a second version to keep in step.
//
// # A call is one message
//
// [Engine.Exec] sends all statements at once, and the server ends the transaction
// when it reads the end of the message. So there is one round trip for a
// transaction, and its outcome is certain but in one case: the connection broke
// after the message left. The statements are prepared, on each connection, when
// they are seen first, with the types of their arguments; a text for each number
// of rows would be too many, so the store cuts its rows into powers of two.
// 64 rows in a statement at most: with one, each row costs the server a statement's
// overhead, and with 256 nothing more is gained.
//
// Prepared statements keep their plans. One that was made when a table was small
// would read the whole of it for each row when it has grown, so the engine's
// sessions prefer indexes (enable_seqscan and others are off), and a statement is
// prepared anew after a minute. Plain SQL of your own belongs on a connection of
// your own.
//
// # Time
//
// [engine.Now] in Exec is when the transaction began, by the server's clock. A
// statement that then waited for another transaction judges with a present that
// has passed: it finds a lease that has just run out still held, and grants one a
// little shorter. Both are safe. In an interactive transaction, which may be open
// for long, it is when the call began.
//
// # Order and interleaving
//
// Transactions run at READ COMMITTED and side by side. Numbers of the outbox are
// taken in their order but become visible with their transaction, so a lower one
// may appear after a higher one was read. The store never goes on from a number:
// it reads what is there, and removes what was acknowledged. The numbers of one
// execution do appear in their order.
//
// A text is kept as it is, in the collation C, so that keys are in the order of
// their bytes as on other engines; JSON is text, never jsonb. NUL cannot be kept and
// is refused.
//
// # Poolers
//
// No lock, setting or other state outlives a transaction, so a pooler in
// transaction mode, such as PgBouncer, is no obstacle. It is recognised because it
// refuses the settings above, and statements are then sent unprepared; say
// [WithUnpreparedStatements] for one that does not refuse them. Names of a
// search_path have to be set for the role then, not in the URL.
package postgres
