package sqlite

import (
	"context"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
)

// Sizes of the write-ahead log, in pages of 4 KiB.
const (
	// checkpointPages is the growth of the log that is worth a checkpoint.
	checkpointPages = 1000
	// restartPages is the length of the log from which on the writer has to
	// pause, if that is what it takes to start the log anew.
	restartPages = 4 * checkpointPages
	// remainderPages is what a checkpoint may leave for the time in which the
	// writer pauses.
	remainderPages = 250
	// alarmPages is the length of the log that is worth a warning: 64 MiB.
	alarmPages = 16 << 10
	// journalSizeLimit is the length in bytes to which the log file is cut when
	// it starts anew.
	journalSizeLimit = "16777216"
)

// checkpoints moves the log into the database, on a goroutine and a connection of
// its own.
type checkpoints struct {
	pages   atomic.Int64  // length of the log after the last commit
	last    atomic.Int64  // length of the log at the last attempt
	wake    chan struct{} // capacity 1
	stopped chan struct{}
}

// watch makes a connection report the length of the log after each commit. The
// hook takes the place of SQLite's checkpoint inside COMMIT.
func (k *checkpoints) watch(db *sqlite3.Conn) {
	db.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		k.pages.Store(int64(pages))
		return nil
	})
}

// consider is called after each commit, and wakes the goroutine if the log has
// grown enough. It never blocks.
func (k *checkpoints) consider() {
	pages, last := k.pages.Load(), k.last.Load()
	if pages < last {
		// The log has started anew.
		last = 0
		k.last.Store(0)
	}
	if pages-last < checkpointPages {
		return
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// checkpointer runs until the engine closes.
func (e *Engine) checkpointer() {
	k := &e.checkpoints
	defer close(k.stopped)
	var c *conn
	defer func() {
		if c != nil {
			_ = c.close()
		}
	}()
	alarmed := false
	for {
		select {
		case <-e.done:
			return
		case <-k.wake:
		}
		if c == nil {
			var err error
			if c, err = e.openConn(context.Background(), checkpointRole, false); err != nil {
				c = nil
				e.opts.logger.Warn("sqlite: no connection for checkpoints", "path", e.path, "error", err)
				k.last.Store(k.pages.Load())
				continue
			}
		}
		length, err := e.checkpoint(c)
		k.last.Store(length)
		if err != nil && !isBusy(err) && codeOf(err) != sqlite3.INTERRUPT {
			e.opts.logger.Warn("sqlite: checkpoint failed", "path", e.path, "error", err)
			_ = c.close()
			c = nil
		}
		if length > alarmPages != alarmed {
			if alarmed = !alarmed; alarmed {
				e.opts.logger.Warn("sqlite: the write-ahead log does not shrink; a read transaction of another program may be open",
					"path", e.path, "pages", length)
			}
		}
	}
}

// checkpoint makes the log start anew if it can be done without keeping anybody
// waiting for long. It returns the length the log still has.
func (e *Engine) checkpoint(c *conn) (length int64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &errPanic{v}
		}
	}()
	var log, done int
	for range 3 {
		if log, done, err = c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE); err != nil {
			return e.checkpoints.pages.Load(), err
		}
		if done == log {
			// The next transaction starts the log anew by itself.
			return int64(log), nil
		}
		if log-done <= remainderPages {
			break
		}
	}
	if log < restartPages {
		return int64(log), nil
	}
	// Without the writer the rest is copied for good. Writers of other processes
	// and readers are not waited for: the checkpoint connection never waits.
	select {
	case e.writer.slot <- struct{}{}:
	case <-e.done:
		return int64(log), nil
	}
	defer func() { <-e.writer.slot }()
	log, _, err = c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_RESTART)
	if err != nil {
		return e.checkpoints.pages.Load(), err
	}
	return int64(log), nil
}
