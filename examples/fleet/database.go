package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// database is an open store, and plain SQL beside it.
type database struct {
	name  string // for people
	store *store.Store
	sql   querier
	// temporary is a folder to remove in the end.
	temporary string
}

// memory is the -db of a database in memory.
const memory = ":memory:"

// openDatabase opens what the flags name: a cluster, a file, or a temporary file.
func openDatabase(ctx context.Context, opts options, log *slog.Logger) (*database, error) {
	db := &database{}
	var eng engine.Engine
	var err error
	switch {
	case len(opts.urls) > 0:
		db.name = fmt.Sprintf("rqlite at %s", hosts(opts.urls))
		if eng, err = openCluster(ctx, opts.urls, log); err != nil {
			return nil, err
		}
		db.sql = openRqlite(opts.urls)
	case opts.postgres != "":
		db.name = "PostgreSQL"
		if eng, db.sql, err = openPostgres(ctx, opts.postgres, log); err != nil {
			return nil, err
		}
	default:
		path := opts.db
		db.name = "SQLite file " + path
		if path == "" {
			if db.temporary, err = os.MkdirTemp("", "fleet-"); err != nil {
				return nil, err
			}
			path = filepath.Join(db.temporary, "fleet.db")
			db.name = "a temporary SQLite file"
		}
		if eng, err = sqlite.Open(path, sqlite.WithLogger(log)); err != nil {
			return nil, errors.Join(err, db.remove())
		}
		if path == memory {
			db.name, db.sql = "SQLite in memory", engineQuerier{eng}
		} else if db.sql, err = openSQL(path); err != nil {
			return nil, errors.Join(err, eng.Close(), db.remove())
		}
	}
	if db.store, err = store.Open(ctx, eng, store.WithLogger(log)); err != nil {
		return nil, errors.Join(err, db.sql.close(), eng.Close(), db.remove())
	}
	return db, nil
}

// close closes everything that open opened.
func (db *database) close() error {
	return errors.Join(db.sql.close(), db.store.Close(), db.remove())
}

func (db *database) remove() error {
	if db.temporary == "" {
		return nil
	}
	return os.RemoveAll(db.temporary)
}
