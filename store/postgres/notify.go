package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

var _ engine.Notifier = (*Engine)(nil)

// Notification returns a statement that wakes those who [Engine.Listen] to a
// channel, when its transaction commits. Transactions that notify commit one after
// the other: the server keeps notifications in the order of commits.
func (e *Engine) Notification(channel string) engine.Statement {
	return engine.Statement{SQL: "SELECT pg_notify('" + strings.ReplaceAll(channel, "'", "''") + "','')"}
}

// Listen calls wake when it begins to listen to a channel and for each
// notification, until ctx ends, the engine closes, or the connection breaks, and
// returns why. It has a connection of its own beside those of [WithMaxConns], and no
// other goroutine. A pooler in transaction mode passes no notifications on, so
// where statements are not prepared for its sake, Listen fails at once.
//
// Errors are [engine.ErrNotApplied] with those of [Open], [engine.ErrClosed], or
// the context's.
func (e *Engine) Listen(ctx context.Context, channel string, wake func()) error {
	const op = "listen"
	if channel == "" || strings.Trim(channel, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return (&failure{outcome: engine.NotApplied, err: fmt.Errorf("channel %q has other characters than a to z and _", channel)}).toError(op)
	}
	if !e.pool.enter() {
		return closedFailure().toError(op)
	}
	defer e.pool.users.Done()
	c, f := e.pool.connect(ctx)
	if f != nil {
		return f.toError(op)
	}
	defer c.close()
	if e.unprepared.Load() {
		return (&failure{outcome: engine.NotApplied, err: errors.New("a pooler passes no notifications on")}).toError(op)
	}
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.pool.ending, cancel)()
	_, err := c.pg.Exec(listening, "LISTEN "+channel).ReadAll()
	for err == nil {
		wake()
		err = c.pg.WaitForNotification(listening)
	}
	switch {
	case e.pool.ending.Err() != nil:
		return closedFailure().toError(op)
	case ctx.Err() != nil:
		return ended(ctx).toError(op)
	}
	return broken(engine.NotApplied, err).toError(op)
}
