package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/quorate/quorate/store/engine"
)

// Engine is a SQLite database. It implements [engine.Engine]. All its methods
// are safe for concurrent use.
type Engine struct {
	path   string // as the caller gave it
	name   string // as SQLite gets it
	shared string // name of the memory that connections share, if memory
	memory bool
	opts   options
	info   os.FileInfo

	writer      writer
	readers     readers
	checkpoints checkpoints

	closing   atomic.Bool
	done      chan struct{} // closed when closing begins
	closeOnce sync.Once
	closeErr  error
}

var _ engine.Engine = (*Engine)(nil)

// memorySerial numbers the databases in memory, so that no two share one.
var memorySerial atomic.Int64

// Open opens the database file at path, and creates it if it is not there. The
// folder must be there. The path ":memory:" opens a new, empty database in
// memory, which lives until [Engine.Close] and is this Engine's alone.
//
// A file is switched to WAL mode, which stays with the file. Open waits for a
// file that others keep locked, up to the busy timeout, so any number of
// processes may open one file at the same time, also a new one.
//
// The error is an [*engine.Error] with reason [engine.ErrReadOnly] if the file
// or its folder cannot be written, [engine.ErrProtocol] if the file is not a
// SQLite database, and [engine.ErrUnavailable] for what else is in the way: a
// folder that is missing, a path that is a folder, a file that stays locked. A
// file that could not be opened is left as it was.
func Open(path string, opts ...Option) (*Engine, error) {
	e := &Engine{path: path, opts: defaultOptions(), done: make(chan struct{})}
	for _, o := range opts {
		o(&e.opts)
	}
	if err := e.opts.validate(); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	e.writer.slot = make(chan struct{}, 1)
	e.readers.slots = make(chan struct{}, e.opts.readers)
	e.checkpoints.wake = make(chan struct{}, 1)
	e.checkpoints.stopped = make(chan struct{})

	if err := e.open(); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Engine) open() error {
	ctx := context.Background()
	if err := e.locate(); err != nil {
		return &engine.Error{Op: "connect", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable, Err: fmt.Errorf("open %s: %w", e.path, err)}
	}
	c, err := e.openConn(ctx, writerRole, true)
	if err == nil && !e.memory {
		if e.info, err = os.Stat(e.path); err != nil {
			_ = c.close()
		}
	}
	if err != nil {
		if e.memory {
			memdb.Delete(e.shared)
		}
		return e.openFailed(ctx, "connect", err)
	}
	e.writer.conn = c
	if e.memory {
		close(e.checkpoints.stopped)
		return nil
	}
	go e.checkpointer()
	return nil
}

// locate turns the path into a name for SQLite.
func (e *Engine) locate() error {
	if e.path == ":memory:" {
		e.memory = true
		e.shared = "quorate-" + strconv.FormatInt(memorySerial.Add(1), 10)
		memdb.Create(e.shared, nil) // stays, also without connections, until Delete
		e.name = "file:/" + e.shared + "?vfs=memdb"
		return nil
	}
	switch {
	case e.path == "":
		return errors.New("the path is empty")
	case strings.HasPrefix(e.path, "file:"):
		return errors.New("a URI is not supported, give the path of a file or \":memory:\"")
	case strings.ContainsRune(e.path, 0):
		return errors.New("the path contains a NUL character")
	}
	// Connections are opened later too, when the working folder may be another.
	abs, err := filepath.Abs(e.path)
	if err != nil {
		return err
	}
	slashed := filepath.ToSlash(abs)
	if !strings.HasPrefix(slashed, "/") { // a drive's letter
		slashed = "/" + slashed
	}
	e.name = (&url.URL{Scheme: "file", Path: slashed, RawQuery: "vfs=" + e.opts.vfs}).String()
	switch info, err := os.Stat(abs); {
	case err == nil && info.IsDir():
		return errors.New("the path is a folder")
	case err == nil && !info.Mode().IsRegular():
		return errors.New("the path is not a regular file")
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(abs)); errors.Is(err, fs.ErrNotExist) {
			return errors.New("the folder does not exist")
		}
	}
	return nil
}

// openFailed builds the error of a connection that could not be opened.
func (e *Engine) openFailed(ctx context.Context, op string, err error) *engine.Error {
	switch {
	case ctx.Err() != nil:
		return ended(op, ctx)
	case e.closing.Load():
		return closed(op)
	case isBusy(err):
		return busy(op, e.opts.busyTimeout)
	}
	var p *errPanic
	if errors.As(err, &p) {
		return panicked(op, engine.NotApplied, p.value)
	}
	fail := failure(op, -1, err)
	if fail.Reason == nil {
		fail.Reason = engine.ErrUnavailable
	}
	fail.Err = fmt.Errorf("open %s: %w", e.path, err)
	return fail
}

// retire closes a connection whose state is in doubt. The next call opens
// another one.
func (e *Engine) retire(c *conn, what string, cause *engine.Error) {
	attrs := []any{"path", e.path, "connection", what}
	if cause != nil {
		attrs = append(attrs, "cause", cause)
	}
	if err := c.close(); err != nil {
		attrs = append(attrs, "close", err)
	}
	e.opts.logger.Warn("sqlite: connection replaced", attrs...)
}

// usable returns an error if the engine is closed or ctx has ended.
func (e *Engine) usable(op string, ctx context.Context) error {
	switch {
	case e.closing.Load():
		return closed(op)
	case ctx.Err() != nil:
		return ended(op, ctx)
	}
	return nil
}

// acquire takes a place in slot, under ctx. Those who wait get it in order.
func (e *Engine) acquire(ctx context.Context, op string, slot chan struct{}) error {
	if err := e.usable(op, ctx); err != nil {
		return err
	}
	select {
	case slot <- struct{}{}:
	default:
		select {
		case slot <- struct{}{}:
		case <-ctx.Done():
			return ended(op, ctx)
		case <-e.done:
			return closed(op)
		}
	}
	if err := e.usable(op, ctx); err != nil {
		<-slot
		return err
	}
	return nil
}

// Traits describes the engine: one writer, and as many readers as
// [WithReaders] says. A batch carries one row in each statement, since statements
// stay prepared.
func (e *Engine) Traits() engine.Traits {
	return engine.Traits{
		Name:             "sqlite",
		MaxParams:        32766,
		RowsPerStatement: 1,
		MaxBatchBytes:    4 << 20,
		Writers:          1,
		Readers:          e.opts.readers,
	}
}

// Close waits for the calls under way, which end promptly: a COMMIT that has
// begun is finished, what else runs ends with [engine.ErrClosed]. An interactive
// transaction that is open is rolled back. Close then moves
// the log into the database, if no other process is in the way, and closes the
// file. A database in memory is gone. Closing twice is no error.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		e.closing.Store(true)
		close(e.done)
		<-e.checkpoints.stopped
		// The slots are not given back.
		for range e.opts.readers {
			e.readers.slots <- struct{}{}
		}
		e.writer.mu.Lock()
		open := e.writer.open
		e.writer.mu.Unlock()
		if open != nil {
			open.abort()
		}
		e.writer.slot <- struct{}{}
		for _, c := range e.readers.idle {
			_ = c.close()
		}
		e.readers.idle = nil
		if c := e.writer.conn; c != nil {
			// The last connection to a file checkpoints it and removes the log.
			if err := c.close(); err != nil {
				e.closeErr = &engine.Error{Op: "close", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable, Err: err}
			}
			e.writer.conn = nil
		}
		if e.memory {
			memdb.Delete(e.shared)
		}
	})
	return e.closeErr
}
