package sqlite

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Sizes of the write-ahead log, in pages of 4 KiB.
const (
	// checkpointPages is the growth of the log that is worth a checkpoint.
	checkpointPages = 2000
	// restartPages is the length of the log from which on the writer has to
	// pause, if that is what it takes to start the log anew.
	restartPages = 2 * checkpointPages
	// restartWait is for how long at most it pauses for readers, for each
	// restartPages of the log, and restartWaitMax for any length.
	restartWait    = 100 * time.Millisecond
	restartWaitMax = time.Second
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
	pages atomic.Int64 // length of the log after the last commit
	last  atomic.Int64 // length of the log at the last attempt
	// nextRestart is the length from which on the writer is asked to pause; the
	// goroutine's own.
	nextRestart int
	wake        chan struct{} // capacity 1
	stopped     chan struct{}
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
	if !k.due() {
		return
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// due reports whether the log has grown enough since the last attempt.
func (k *checkpoints) due() bool {
	pages, last := k.pages.Load(), k.last.Load()
	if pages < last {
		// The log has started anew.
		last = 0
		k.last.Store(0)
	}
	return pages-last >= checkpointPages
}

// checkpointer runs until the engine closes.
func (e *Engine) checkpointer() {
	k := &e.checkpoints
	defer close(k.stopped)
	k.nextRestart = restartPages
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
		if !k.due() {
			continue // it was for what has been done since
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
	k := &e.checkpoints
	var log, done int
	for range 3 {
		before := done
		if log, done, err = c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE); err != nil {
			return k.pages.Load(), err
		}
		if log < restartPages {
			k.nextRestart = restartPages
		}
		if log-done <= remainderPages || done == before {
			break
		}
	}
	if log < k.nextRestart {
		return int64(log), nil
	}
	// With the writer out, the rest is copied for good. Readers that begin then
	// find all in the database and do not use the log, so those that still do
	// come to an end, and with them the wait. One that does not, of another
	// program perhaps, is given more and more room.
	select {
	case e.writer.slot <- struct{}{}:
	case <-e.done:
		return int64(log), nil
	}
	defer func() { <-e.writer.slot }()
	c.waitSince = time.Time{}
	c.busyTimeout = min(restartWait*time.Duration(log)/restartPages, restartWaitMax)
	if _, _, err = c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_RESTART); err != nil {
		pages := k.pages.Load()
		k.nextRestart = int(pages + pages/2)
		return pages, err
	}
	k.nextRestart = restartPages
	k.pages.Store(0)
	return 0, nil
}
