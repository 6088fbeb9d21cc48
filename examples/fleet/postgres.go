package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/postgres"
	"github.com/quorate/quorate/store/sqlite"
)

// openPostgres connects to PostgreSQL, for the store and apart from it for the
// verification.
func openPostgres(ctx context.Context, url string, log *slog.Logger) (engine.Engine, querier, error) {
	eng, err := postgres.Open(ctx, url, postgres.WithLogger(log))
	if err != nil {
		return nil, nil, err
	}
	q := &postgresQuerier{}
	if q.from, err = postgres.Open(ctx, url, postgres.WithMaxConns(1)); err != nil {
		return nil, nil, errors.Join(err, eng.Close())
	}
	if q.to, err = sqlite.Open(memory); err != nil {
		return nil, nil, errors.Join(err, q.from.Close(), eng.Close())
	}
	return eng, q, nil
}

// postgresQuerier copies what is in the tables, with plain SELECTs of one
// snapshot, to SQLite, whose SQL the verification is written in.
type postgresQuerier struct {
	from *postgres.Engine
	to   *sqlite.Engine

	mu       sync.Mutex
	snapshot string // of what was copied
}

func (q *postgresQuerier) close() error { return errors.Join(q.from.Close(), q.to.Close()) }

// copied are the tables, the columns that the verification reads, and their keys.
var copied = []struct{ table, columns, key string }{
	{"executions", "id,definition_id,data,version", "id"},
	{"outbox", "seq,target_id,event", "seq"},
	{"processed_events", "execution_id,event_id", "execution_id,event_id"},
	{"timers", "execution_id,path,fire_at", "execution_id,path"},
	{"spawns", "seq,parent_id,child_id,root_path,context", "seq"},
	{"trace", "execution_id,idx,entry", "execution_id,idx"},
}

func (q *postgresQuerier) query(ctx context.Context, query string, args ...any) ([][]any, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.refresh(ctx); err != nil {
		return nil, fmt.Errorf("copy the tables: %w", err)
	}
	return engineQuerier{q.to}.query(ctx, query, args...)
}

// refresh copies the tables, unless nothing was written since they were copied.
func (q *postgresQuerier) refresh(ctx context.Context) error {
	res, err := q.from.Query(ctx, engine.Linearizable, []engine.Statement{{SQL: "SELECT pg_current_snapshot()::text AS s"}})
	if err != nil {
		return err
	}
	snapshot, _ := res[0].Row(0)[0].Text()
	if snapshot == q.snapshot {
		return nil
	}
	var reads, writes []engine.Statement
	for _, c := range copied {
		reads = append(reads, engine.Statement{SQL: "SELECT " + c.columns + " FROM " + c.table})
	}
	results, err := q.from.Query(ctx, engine.Linearizable, reads)
	if err != nil {
		return err
	}
	for i, c := range copied {
		writes = append(writes, engine.Statement{SQL: "DROP TABLE IF EXISTS " + c.table}, engine.Statement{SQL: "CREATE TABLE " + c.table + "(" + c.columns + ")"}, engine.Statement{SQL: "CREATE INDEX " + c.table + "_key ON " + c.table + "(" + c.key + ")"})
		insert := "INSERT INTO " + c.table + "(" + c.columns + ") VALUES(?" + strings.Repeat(",?", strings.Count(c.columns, ",")) + ")"
		for r := range results[i].Len() {
			writes = append(writes, engine.Statement{SQL: insert, Args: results[i].Row(r)})
		}
	}
	if _, err := q.to.Exec(ctx, writes); err != nil {
		return err
	}
	q.snapshot = snapshot
	return nil
}
