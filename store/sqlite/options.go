package sqlite

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// Durability is what a commit survives.
type Durability uint8

const (
	// Full durability, the default: a commit that was acknowledged survives a
	// crash of the process, of the operating system, and a loss of power. Each
	// transaction waits for the disk once (PRAGMA synchronous=FULL).
	Full Durability = iota

	// Normal durability: a commit that was acknowledged survives a crash of the
	// process. A crash of the operating system or a loss of power may take back
	// the latest commits, in order, but never damages the database (PRAGMA
	// synchronous=NORMAL).
	Normal
)

// String returns the name of d.
func (d Durability) String() string {
	switch d {
	case Full:
		return "full"
	case Normal:
		return "normal"
	}
	return "invalid"
}

// Option changes a default of [Open].
type Option func(*options)

type options struct {
	durability  Durability
	busyTimeout time.Duration
	readers     int
	logger      *slog.Logger
	vfs         string // SQLite's name of the file system
}

func defaultOptions() options {
	return options{
		durability:  Full,
		busyTimeout: 5 * time.Second,
		readers:     max(2, min(4, runtime.GOMAXPROCS(0))),
		logger:      slog.New(slog.DiscardHandler),
		vfs:         filesName,
	}
}

func (o *options) validate() error {
	if o.durability > Normal {
		return fmt.Errorf("durability %d is neither Full nor Normal", o.durability)
	}
	if o.busyTimeout < 0 {
		return fmt.Errorf("busy timeout %v is negative", o.busyTimeout)
	}
	if o.readers < 1 || o.readers > maxReaders {
		return fmt.Errorf("%d readers: want 1 to %d", o.readers, maxReaders)
	}
	return nil
}

// maxReaders bounds WithReaders; each reader is a SQLite of its own with its
// own page cache.
const maxReaders = 64

// WithDurability sets what a commit survives. The default is [Full].
func WithDurability(d Durability) Option { return func(o *options) { o.durability = d } }

// WithBusyTimeout sets how long an operation waits for a file that another
// connection, in this process or another, keeps locked. Beyond it the operation
// fails with [engine.ErrUnavailable] and was not applied. An operation's context
// may end the wait earlier. The default is 5 s; 0 does not wait at all.
func WithBusyTimeout(d time.Duration) Option { return func(o *options) { o.busyTimeout = d } }

// WithReaders sets how many connections read at once, from 1 to 64. They are
// opened when they are needed first and kept. The default is GOMAXPROCS, but at
// least 2 and at most 4.
func WithReaders(n int) Option { return func(o *options) { o.readers = n } }

// WithLogger sets where the engine reports what no caller is told: connections
// it had to replace, checkpoints that failed, a log that others keep from
// shrinking. The default is nowhere. A nil logger means the default.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.logger = l
		}
	}
}
