package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/quorate/quorate/store/engine"
)

// Ping reports whether Exec would work now. It looks whether the file is still
// the one that was opened, reads from it, and, unless a transaction of this
// Engine is under way, takes and gives back the file's write lock, under ctx and
// the busy timeout. It writes nothing, so a full disk shows only in Exec. Errors
// wrap [engine.ErrUnavailable], [engine.ErrReadOnly] or [engine.ErrClosed].
func (e *Engine) Ping(ctx context.Context) error {
	if err := e.usable("ping", ctx); err != nil {
		return err
	}
	if err := e.inPlace(); err != nil {
		return &engine.Error{Op: "ping", Outcome: engine.NotApplied, Reason: engine.ErrUnavailable, Err: err}
	}
	if _, err := e.Query(ctx, engine.Linearizable, []engine.Statement{{SQL: "SELECT 1 FROM sqlite_schema LIMIT 1"}}); err != nil {
		return asPing(err)
	}
	select {
	case e.writer.slot <- struct{}{}:
		<-e.writer.slot
	default:
		return nil
	}
	return asPing(e.write(ctx, "ping", func(*conn) (int, error) { return 0, nil }))
}

func asPing(err error) error {
	var fail *engine.Error
	if errors.As(err, &fail) {
		fail.Op = "ping"
	}
	return err
}

var errMoved = errors.New("the database file was moved, replaced or deleted")

// inPlace reports an error if the path does not lead to the opened file any more.
func (e *Engine) inPlace() error {
	if e.memory {
		return nil
	}
	info, err := os.Stat(e.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, e.info) {
		return errMoved
	}
	return err
}
