package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// backend is the database that all modes of a run share.
type backend struct {
	engine     string // "sqlite", "postgres", "rqlite" or "null"
	server     string // what answers, for people
	durability string // empty where the server does not tell

	// open returns a connection of a mode's own. pool is the number of
	// connections it may use, 0 for the engine's default.
	open func(ctx context.Context, pool int) (engine.Engine, error)
	// logLength returns the number of entries of the replicated log so far; nil
	// where there is none.
	logLength func(ctx context.Context) (uint64, error)

	path    string       // of a SQLite file, or ":memory:"
	cluster *cluster     // of rqlite
	close   func() error // ends what openBackend started
	sync    sqlite.Durability
}

func openBackend(ctx context.Context, cfg *config) (*backend, error) {
	switch cfg.engine {
	case "null":
		return &backend{
			engine: "null",
			server: "null (answers at once; what remains is the library's own cost)",
			open:   func(context.Context, int) (engine.Engine, error) { return newNullEngine() },
			close:  func() error { return nil },
		}, nil
	case "sqlite":
		return openSQLite(cfg)
	case "postgres":
		return openPostgres(ctx, cfg)
	default:
		return openRqlite(ctx, cfg)
	}
}

func openSQLite(cfg *config) (*backend, error) {
	b := &backend{engine: "sqlite", durability: cfg.durability, path: cfg.db, close: func() error { return nil }}
	if cfg.durability == "normal" {
		b.sync = sqlite.Normal
	}
	where := cfg.db
	switch cfg.db {
	case "":
		dir, err := os.MkdirTemp("", "quorate-bench-")
		if err != nil {
			return nil, fmt.Errorf("a folder for the database: %w", err)
		}
		b.path = filepath.Join(dir, "bench.db")
		b.close = func() error { return os.RemoveAll(dir) }
		where = "temporary file"
	case ":memory:":
		where, b.durability = "memory", "none"
	}
	b.server = "SQLite in this process, " + where
	b.open = func(context.Context, int) (engine.Engine, error) {
		return sqlite.Open(b.path, sqlite.WithDurability(b.sync))
	}
	return b, nil
}

// connection is a store of a mode's own, whose requests are counted.
type connection struct {
	eng    engine.Engine
	store  *store.Store
	counts counts
}

func (b *backend) connect(ctx context.Context, pool int) (*connection, error) {
	eng, err := b.open(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", b.engine, err)
	}
	c := &connection{}
	c.eng = &countingEngine{Engine: eng, counts: &c.counts}
	c.store, err = store.Open(ctx, c.eng, store.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return c, nil
}

func (c *connection) close() error { return c.store.Close() }

// actor returns an asynchronous store on the connection.
func (c *connection) actor(cfg *config) (*actor.Store, error) {
	var opts []actor.Option
	if cfg.inFlight > 0 {
		opts = append(opts, actor.WithInFlight(cfg.inFlight, cfg.inFlight))
	}
	if cfg.maxBatch > 0 {
		opts = append(opts, actor.WithMaxBatch(cfg.maxBatch))
	}
	return actor.New(c.store, opts...)
}
