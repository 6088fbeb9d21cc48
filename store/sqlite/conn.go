package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/quorate/quorate/store/engine"
)

// conn is one connection to the database. One goroutine at a time uses it.
type conn struct {
	db    *sqlite3.Conn
	stmts statements

	begin, commit, rollback *sqlite3.Stmt

	call   call
	moment moment // of the call under way
	timer  *time.Timer

	busyTimeout time.Duration
	waitSince   time.Time       // zero when not waiting for the file
	done        <-chan struct{} // closed when the engine closes

	internal bool // a statement of the engine's own is running
	broken   bool // its state is in doubt: to be closed and replaced
}

// call is the context that SQLite asks now and then whether to go on.
type call struct {
	context.Context
	closing *atomic.Bool
	masked  bool // COMMIT or ROLLBACK is running and must not be interrupted
}

// Err returns nil as long as the running statement may go on.
func (c *call) Err() error {
	if c.masked {
		return nil
	}
	if c.closing.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// Value hides the values of the caller's context from the SQLite library.
func (c *call) Value(any) any { return nil }

type role uint8

const (
	writerRole role = iota
	readerRole
	checkpointRole
)

// cacheKiB is the size of a connection's page cache in KiB, which it grows to if
// the database is as large. A reader's cache is worth less: SQLite empties it
// when somebody else has written.
var cacheKiB = [...]int{writerRole: 16 << 10, readerRole: 8 << 10, checkpointRole: 256}

// openConn opens one connection. It waits for a file that is locked, under ctx
// and the busy timeout.
func (e *Engine) openConn(ctx context.Context, r role, create bool) (_ *conn, err error) {
	flags := sqlite3.OPEN_READWRITE | sqlite3.OPEN_URI
	if create {
		flags |= sqlite3.OPEN_CREATE
	}
	c := &conn{busyTimeout: e.opts.busyTimeout, done: e.done}
	c.call = call{Context: ctx, closing: &e.closing}
	defer func() {
		if v := recover(); v != nil {
			err = &errPanic{v}
		}
		if err != nil && c.db != nil {
			_ = c.close()
		}
	}()
	db, err := sqlite3.OpenFlags(e.name, flags)
	if err != nil {
		return nil, err
	}
	c.db = db
	c.timer = time.NewTimer(time.Hour)
	c.timer.Stop()
	db.SetInterrupt(&c.call)
	if err := db.BusyHandler(func(_ context.Context, tries int) bool { return c.wait(tries) }); err != nil {
		return nil, err
	}
	if e.opts.logger.Enabled(ctx, slog.LevelDebug) {
		_ = db.ConfigLog(func(code sqlite3.ExtendedErrorCode, msg string) {
			e.opts.logger.Debug("sqlite", "code", int(code), "message", msg)
		})
	}
	if err := c.configure(e, r); err != nil {
		return nil, err
	}
	if r != checkpointRole {
		if err := c.prepareOwn(r); err != nil {
			return nil, err
		}
	}
	c.call.Context = context.Background()
	return c, nil
}

// configure sets what a connection of role r needs. Each step may find the file
// locked for a moment, also where SQLite does not ask the busy handler.
func (c *conn) configure(e *Engine, r role) error {
	exec := func(sql string) error {
		return c.patiently(func() error { return c.db.Exec(sql) })
	}
	if e.memory {
		if err := exec("PRAGMA synchronous=OFF"); err != nil {
			return err
		}
	} else {
		// The default, 2 MiB, makes SQLite read pages again and again.
		if err := exec("PRAGMA cache_size=-" + strconv.Itoa(cacheKiB[r])); err != nil {
			return err
		}
		if r == writerRole {
			if err := c.enterWAL(); err != nil {
				return err
			}
		}
		sync := "FULL"
		if e.opts.durability == Normal {
			sync = "NORMAL"
		}
		if err := exec("PRAGMA synchronous=" + sync); err != nil {
			return err
		}
		if err := exec("PRAGMA journal_size_limit=" + journalSizeLimit); err != nil {
			return err
		}
		if err := c.db.WALAutoCheckpoint(0); err != nil {
			return err
		}
		if r == writerRole {
			e.checkpoints.watch(c.db)
		}
	}
	if r == readerRole {
		if err := exec("PRAGMA query_only=ON"); err != nil {
			return err
		}
	}
	return nil
}

// enterWAL switches the file to WAL mode, which stays with the file, and makes
// sure that it is. The switch does not ask the busy handler, so that processes
// that open a new file together would fail at random.
func (c *conn) enterWAL() error {
	var mode string
	err := c.patiently(func() error {
		s, _, err := c.db.Prepare("PRAGMA journal_mode=WAL")
		if err != nil {
			return err
		}
		if s.Step() {
			mode = s.ColumnText(0)
		}
		err = s.Err()
		if cerr := s.Close(); err == nil {
			err = cerr
		}
		return err
	})
	if err == nil && mode != "wal" {
		err = &errJournalMode{mode}
	}
	return err
}

// errJournalMode says that the file cannot be in WAL mode.
type errJournalMode struct{ mode string }

func (e *errJournalMode) Error() string {
	return "the journal mode is " + e.mode + ", not wal: the file system does not support shared memory"
}

// prepareOwn prepares the statements around transactions and then closes them to
// everybody else.
func (c *conn) prepareOwn(r role) error {
	begin := "BEGIN IMMEDIATE"
	if r == readerRole {
		begin = "BEGIN DEFERRED"
	}
	if err := c.db.SetAuthorizer(c.authorize); err != nil {
		return err
	}
	c.internal = true
	defer func() { c.internal = false }()
	for _, own := range []struct {
		stmt **sqlite3.Stmt
		sql  string
	}{{&c.begin, begin}, {&c.commit, "COMMIT"}, {&c.rollback, "ROLLBACK"}} {
		s, _, err := c.db.PrepareFlags(own.sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return err
		}
		*own.stmt = s
	}
	c.stmts.init(c.db)
	return nil
}

// authorize refuses, when a statement is compiled, what would end the engine's
// transaction or change its connection.
func (c *conn) authorize(action sqlite3.AuthorizerActionCode, name, arg, _, _ string) sqlite3.AuthorizerReturnCode {
	if c.internal {
		return sqlite3.AUTH_OK
	}
	switch action {
	case sqlite3.AUTH_TRANSACTION, sqlite3.AUTH_SAVEPOINT, sqlite3.AUTH_ATTACH, sqlite3.AUTH_DETACH:
		return sqlite3.AUTH_DENY
	case sqlite3.AUTH_PRAGMA:
		switch name {
		case "user_version", "application_id",
			"table_info", "table_xinfo", "table_list", "index_info", "index_xinfo", "index_list",
			"foreign_key_list", "foreign_key_check", "integrity_check", "quick_check":
		case "journal_mode", "synchronous", "page_size", "page_count", "freelist_count",
			"schema_version", "data_version", "encoding", "compile_options", "query_only":
			if arg != "" {
				return sqlite3.AUTH_DENY
			}
		default:
			return sqlite3.AUTH_DENY
		}
	}
	return sqlite3.AUTH_OK
}

// own runs one of the engine's own statements.
func (c *conn) own(s *sqlite3.Stmt) error {
	c.internal = true
	err := s.Exec()
	c.internal = false
	return err
}

// wait waits a little for a locked file. It reports false when the busy timeout
// is over, the call's context has ended, or the engine closes. SQLite calls it
// through the busy handler, with tries counting from 0 for each wait.
func (c *conn) wait(tries int) bool {
	now := time.Now()
	if c.waitSince.IsZero() {
		c.waitSince = now
	}
	left := c.busyTimeout - now.Sub(c.waitSince)
	if left <= 0 {
		return false
	}
	// Commits take from 20 µs to some milliseconds, and others poll too. Short
	// random waits find the gap between two of their transactions.
	limit := 500 * time.Microsecond
	if tries > 20 {
		limit = 3 * time.Millisecond
	}
	c.timer.Reset(min(left, limit/4+rand.N(limit)))
	defer c.timer.Stop()
	select {
	case <-c.timer.C:
		return true
	case <-c.call.Context.Done():
	case <-c.done:
	}
	return false
}

// patiently runs f until it does not find the file locked, under the call's
// context and the busy timeout.
func (c *conn) patiently(f func() error) error {
	c.waitSince = time.Time{}
	for tries := 0; ; tries++ {
		err := f()
		if err == nil || !isBusy(err) || !c.wait(tries) {
			return err
		}
	}
}

// waited returns for how long the connection has been waiting for the file.
func (c *conn) waited() time.Duration {
	if c.waitSince.IsZero() {
		return 0
	}
	return time.Since(c.waitSince)
}

// undo ends the transaction, if there is one, without a trace.
func (c *conn) undo() {
	c.call.masked = true
	if !c.db.GetAutocommit() {
		if c.rollback == nil || c.own(c.rollback) != nil || !c.db.GetAutocommit() {
			c.broken = true
		}
	}
	c.call.masked = false
}

// close closes the connection and what belongs to it. It does not panic. After a
// panic inside of SQLite the first attempt may end in another one; the second
// finds less to do.
func (c *conn) close() error {
	c.call.Context, c.call.masked = context.Background(), true
	err := c.closeOnce()
	var p *errPanic
	if errors.As(err, &p) {
		err = c.closeOnce()
	}
	return err
}

func (c *conn) closeOnce() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &errPanic{v}
		}
	}()
	for _, s := range slices.Collect(c.db.Stmts()) {
		_ = s.Close() // reports the last run's error once more
	}
	return c.db.Close()
}

// failed builds the error of a call that failed with err and changed nothing.
// The reason is the call's own end if that caused the failure.
func (c *conn) failed(op string, index int, err error) *engine.Error {
	if isBusy(err) || codeOf(err) == sqlite3.INTERRUPT {
		switch {
		case c.call.Context.Err() != nil:
			return ended(op, c.call.Context)
		case c.call.closing.Load():
			return closed(op)
		case isBusy(err):
			return busy(op, c.waited())
		}
	}
	var r refusal
	if errors.As(err, &r) {
		return &engine.Error{Op: op, Outcome: engine.NotApplied, Err: &engine.StatementError{Index: max(index, 0), Message: string(r)}}
	}
	return failure(op, index, err)
}
