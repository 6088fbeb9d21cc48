package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/quorate/quorate/store/engine"
)

// rawSQLite is the loop by hand over the SQLite driver: one goroutine and one
// connection write full batches, each in one transaction, with prepared
// statements and a compare-and-swap in each.
type rawSQLite struct {
	*handwritten
	conns  []*rawConn // the first one writes
	counts counts
}

func openRaw(ctx context.Context, env *environment) (target, error) {
	if env.backend.engine == "rqlite" {
		return openRawRqlite(ctx, env)
	}
	// The store makes the schema, in its own database if that is in memory.
	conn, err := env.backend.connect(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	t := &rawSQLite{handwritten: newHandwritten(env)}
	connections := conn.store.Traits().Readers
	memory := env.backend.path == ":memory:"
	if memory {
		connections = 1 // each connection has a memory of its own
	}
	for i := range connections {
		c, err := openRawConn(env.backend, i > 0)
		if err != nil {
			return nil, errors.Join(err, t.close(ctx))
		}
		t.conns = append(t.conns, c)
		if memory {
			if err := copySchema(ctx, conn.eng, c.db); err != nil {
				return nil, errors.Join(err, t.close(ctx))
			}
		}
		if err := c.prepare(); err != nil {
			return nil, errors.Join(err, t.close(ctx))
		}
	}
	if err := t.populate(ctx, &rawEngine{db: t.conns[0].db}); err != nil {
		return nil, errors.Join(err, t.close(ctx))
	}
	return t, nil
}

func (t *rawSQLite) steps(o op, callers int) ([]step, error) {
	if !o.writes() {
		goroutines := min(len(t.conns), callers)
		out := make([]step, goroutines)
		for i := range out {
			lo, hi := share(callers, i, goroutines)
			w := t.hand(i, goroutines)
			out[i] = t.loads(t.conns[i], w, o, hi-lo)
		}
		return out, nil
	}
	w, c := t.hand(0, 1), t.conns[0]
	return []step{func(context.Context) (int, time.Duration, error) {
		rows := w.batch(o, callers)
		var seqs []int64
		d, err := took(func() error {
			if o == opMixed {
				if err := t.read(c, w, rows); err != nil {
					return err
				}
			}
			var err error
			if seqs, err = t.write(c, rows); err != nil {
				return err
			}
			if o == opMixed {
				return t.ack(c, seqs)
			}
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
		w.won(rows)
		return len(rows), d, nil
	}}, nil
}

// write commits a batch and returns the outbox numbers.
func (t *rawSQLite) write(c *rawConn, rows []row) (seqs []int64, err error) {
	t.counts.writes.Add(1)
	size := 0
	err = c.transaction(c.begin, func() error {
		for i := range rows {
			r := &rows[i]
			size += len(r.data) + len(r.id) + len(r.token)
			if err := c.run(c.update, r.data, r.old+1, r.token, r.old+1, r.id, r.old); err != nil {
				return err
			}
			if c.db.Changes() != 1 {
				return fmt.Errorf("execution %s is not at version %d", r.id, r.old)
			}
			for _, e := range r.emits {
				if err := c.run(c.outbox, r.id, e); err != nil {
					return err
				}
				seqs = append(seqs, c.db.LastInsertRowID())
			}
			if r.event != "" {
				if err := c.run(c.processed, r.id, r.event); err != nil {
					return err
				}
			}
			if r.child != "" {
				if err := errors.Join(
					c.run(c.timer, r.id, "/step/timeout", float64(fireAt)),
					c.run(c.spawn, r.id, r.child, "/child", t.env.data.child.Raw()),
					c.run(c.trace, r.id, r.traceIdx, t.env.data.trace.Raw()),
					c.run(c.trim, r.id, r.traceIdx-traceKept),
				); err != nil {
					return err
				}
			}
		}
		return nil
	})
	t.counts.bytes.Add(uint64(size))
	return seqs, err
}

func (t *rawSQLite) ack(c *rawConn, seqs []int64) error {
	t.counts.writes.Add(1)
	return c.transaction(c.begin, func() error {
		for _, seq := range seqs {
			if err := c.run(c.ackOutbox, seq); err != nil {
				return err
			}
		}
		return nil
	})
}

// read loads the executions of a batch on one snapshot.
func (t *rawSQLite) read(c *rawConn, w *hand, rows []row) error {
	t.counts.reads.Add(1)
	return c.transaction(c.beginRead, func() error {
		for i := range rows {
			if err := c.fetch(rows[i].id, rows[i].event); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *rawSQLite) loads(c *rawConn, w *hand, o op, n int) step {
	return func(context.Context) (int, time.Duration, error) {
		t.counts.reads.Add(1)
		d, err := took(func() error {
			return c.transaction(c.beginRead, func() error {
				for range n {
					event := ""
					if o == opLoadForEvent {
						event = w.events.id()
					}
					if err := c.fetch(w.ids[w.next()], event); err != nil {
						return err
					}
				}
				return nil
			})
		})
		return n, d, err
	}
}

func (t *rawSQLite) traffic() traffic { return t.counts.snapshot() }

func (t *rawSQLite) verify(ctx context.Context) error {
	return t.handwritten.verify(ctx, &rawEngine{db: t.conns[0].db})
}

func (t *rawSQLite) close(context.Context) error {
	var errs []error
	for _, c := range t.conns {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// rawConn is a connection with the statements of the loop.
type rawConn struct {
	db *sqlite3.Conn

	begin, beginRead, commit, rollback                                         *sqlite3.Stmt
	update, outbox, processed, timer, spawn, trace, trim, ackOutbox, get, look *sqlite3.Stmt
}

// openRawConn opens a connection set up as the engine's are.
func openRawConn(b *backend, read bool) (*rawConn, error) {
	db, err := sqlite3.Open(b.path)
	if err != nil {
		return nil, fmt.Errorf("open %s by hand: %w", b.engine, err)
	}
	pragmas := "PRAGMA journal_mode=WAL; PRAGMA synchronous=" + b.sync.String()
	if b.path == ":memory:" {
		pragmas = "PRAGMA synchronous=OFF"
	}
	err = errors.Join(db.BusyTimeout(10*time.Second), db.Exec(pragmas))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s by hand: %w", b.engine, err), db.Close())
	}
	return &rawConn{db: db}, nil
}

func (c *rawConn) prepare() error {
	for _, s := range []struct {
		stmt **sqlite3.Stmt
		sql  string
	}{
		{&c.begin, "BEGIN IMMEDIATE"}, {&c.beginRead, "BEGIN"}, {&c.commit, "COMMIT"}, {&c.rollback, "ROLLBACK"},
		{&c.update, handUpdate},
		{&c.outbox, `INSERT INTO outbox(target_id,event) VALUES(?,?)`},
		{&c.processed, `INSERT INTO processed_events(execution_id,event_id) VALUES(?,?) ON CONFLICT(execution_id,event_id) DO NOTHING`},
		{&c.timer, `INSERT INTO timers(execution_id,path,fire_at) VALUES(?,?,?) ON CONFLICT(execution_id,path) DO UPDATE SET fire_at=excluded.fire_at`},
		{&c.spawn, `INSERT INTO spawns(parent_id,child_id,root_path,context) VALUES(?,?,?,?)`},
		{&c.trace, `INSERT INTO trace(execution_id,idx,entry) VALUES(?,?,?)`},
		{&c.trim, handTrim}, {&c.ackOutbox, handAck}, {&c.get, handLoad}, {&c.look, handLoadEvent},
	} {
		stmt, _, err := c.db.PrepareFlags(s.sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return fmt.Errorf("prepare %q: %w", s.sql, err)
		}
		*s.stmt = stmt
	}
	return nil
}

// run executes a statement with these parameters.
func (c *rawConn) run(s *sqlite3.Stmt, args ...any) error {
	if err := bind(s, args); err != nil {
		return err
	}
	return s.Exec()
}

func bind(s *sqlite3.Stmt, args []any) error {
	for i, a := range args {
		var err error
		switch a := a.(type) {
		case string:
			err = s.BindText(i+1, a)
		case int64:
			err = s.BindInt64(i+1, a)
		case float64:
			err = s.BindFloat(i+1, a)
		default:
			err = fmt.Errorf("parameter %d has type %T", i+1, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetch reads one execution and makes a Go string of its document.
func (c *rawConn) fetch(id, event string) error {
	s, args := c.get, []any{id}
	if event != "" {
		s, args = c.look, []any{id, event, id}
	}
	if err := bind(s, args); err != nil {
		return err
	}
	if !s.Step() {
		return errors.Join(fmt.Errorf("execution %s is not there", id), s.Reset())
	}
	if doc := s.ColumnText(2); len(doc) == 0 {
		return fmt.Errorf("execution %s is empty", id)
	}
	return s.Reset()
}

func (c *rawConn) transaction(begin *sqlite3.Stmt, f func() error) error {
	if err := begin.Exec(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return errors.Join(err, c.rollback.Exec())
	}
	return c.commit.Exec()
}

func (c *rawConn) close() error {
	for _, s := range []*sqlite3.Stmt{
		c.begin, c.beginRead, c.commit, c.rollback, c.update, c.outbox, c.processed, c.timer, c.spawn, c.trace, c.trim, c.ackOutbox, c.get, c.look,
	} {
		if s != nil {
			_ = s.Close()
		}
	}
	return c.db.Close()
}

// copySchema makes the tables of one database in another.
func copySchema(ctx context.Context, from engine.Engine, to *sqlite3.Conn) error {
	results, err := from.Query(ctx, engine.Linearizable, []engine.Statement{{
		SQL: "SELECT sql AS sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type='table' DESC",
	}})
	if err != nil {
		return fmt.Errorf("copying the schema: %w", err)
	}
	for r := range results[0].Len() {
		ddl, _ := results[0].Row(r)[0].Bytes()
		if err := to.Exec(ddl); err != nil {
			return fmt.Errorf("copying the schema: %w", err)
		}
	}
	return nil
}

// rawEngine is as much of an engine as setting up and verifying need.
type rawEngine struct {
	engine.Engine
	db *sqlite3.Conn
}

func (e *rawEngine) Exec(_ context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	return e.each(stmts)
}

func (e *rawEngine) Query(_ context.Context, _ engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	return e.each(stmts)
}

func (e *rawEngine) each(stmts []engine.Statement) ([]engine.Result, error) {
	results := make([]engine.Result, len(stmts))
	for i := range stmts {
		if err := e.one(&stmts[i], &results[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (e *rawEngine) one(st *engine.Statement, res *engine.Result) error {
	s, _, err := e.db.Prepare(st.SQL)
	if err != nil {
		return err
	}
	defer s.Close()
	args := make([]any, len(st.Args))
	for i, v := range st.Args {
		if n, ok := v.Int(); ok {
			args[i] = n
		} else {
			args[i], _ = v.Text()
		}
	}
	if err := bind(s, args); err != nil {
		return err
	}
	for i := range s.ColumnCount() {
		res.Columns = append(res.Columns, s.ColumnName(i))
	}
	for s.Step() {
		for i := range s.ColumnCount() {
			if s.ColumnType(i) == sqlite3.INTEGER {
				res.Values = append(res.Values, engine.Int(s.ColumnInt64(i)))
			} else {
				res.Values = append(res.Values, engine.Text(s.ColumnText(i)))
			}
		}
	}
	return s.Err()
}
