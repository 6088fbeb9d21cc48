package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// conn is a connection with the statements that are prepared on it. It is one
// call's at a time; only interrupt may be called from elsewhere.
type conn struct {
	pg         *pgconn.PgConn
	born       time.Time
	statements statements
	args       arguments
	retired    bool // not to be used again

	mu          sync.Mutex
	inUse       bool
	interrupted bool
	interrupts  sync.WaitGroup
}

func newConn(pg *pgconn.PgConn) *conn {
	return &conn{pg: pg, born: time.Now(), statements: newStatements()}
}

// isGood reports whether an idle connection may be used. The server may have
// closed it: sent on such a connection, a write would have an unknown outcome.
func (c *conn) isGood(lifetime time.Duration) bool {
	return time.Since(c.born) < lifetime && !c.pg.IsClosed() && !isCut(c.pg)
}

func (c *conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse, c.interrupted = true, false
}

// finish ends the use of the connection and reports whether it may be used again.
// One that was interrupted may not: the interruption could hit the next one.
func (c *conn) finish() bool {
	c.mu.Lock()
	c.inUse = false
	interrupted := c.interrupted
	c.mu.Unlock()
	c.interrupts.Wait()
	return !interrupted && !c.retired && !c.pg.IsClosed() && !c.pg.IsBusy() && c.pg.TxStatus() == 'I'
}

// wasInterrupted reports whether somebody wanted the call to end.
func (c *conn) wasInterrupted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interrupted
}

// patience is how long the server has to answer that it has cancelled, or not,
// before the connection is given up.
const patience = 2 * time.Second

// interrupt makes the call that uses the connection end: it asks the server to
// cancel, and gives up the connection if that does not answer. So a call whose
// context has ended usually knows what became of it, and nothing goes on, or
// holds a lock, on the server.
func (c *conn) interrupt() {
	c.mu.Lock()
	if !c.inUse || c.interrupted {
		c.mu.Unlock()
		return
	}
	c.interrupted = true
	c.interrupts.Add(1)
	c.mu.Unlock()
	defer c.interrupts.Done()
	deadline := time.Now().Add(patience)
	_ = c.pg.Conn().SetDeadline(deadline)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	_ = c.pg.CancelRequest(ctx)
}

// close closes the connection and waits until all of it is gone.
func (c *conn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = c.pg.Close(ctx)
	select {
	case <-c.pg.CleanupDone():
	case <-ctx.Done():
		_ = c.pg.Conn().Close()
		<-c.pg.CleanupDone()
	}
}

// hasLeft reads what the server has said to an idle connection, and reports
// whether that was its end. It blocks for a millisecond.
func hasLeft(pg *pgconn.PgConn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	for {
		if _, err := pg.ReceiveMessage(ctx); err != nil {
			return !pgconn.Timeout(err)
		}
	}
}
