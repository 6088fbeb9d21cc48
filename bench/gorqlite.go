package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/rqlite/gorqlite"
)

// gorqliteMode uses gorqlite as its documentation shows: opened with a URL,
// parameterized statements, one call per operation. Its lists of writes are
// transactions by default; the level of reads is set to linearizable, to promise
// what the others promise.
type gorqliteMode struct {
	*handwritten
	setup  *connection
	conn   *gorqlite.Connection
	counts counts
}

func openGorqlite(ctx context.Context, env *environment) (target, error) {
	setup, err := env.backend.connect(ctx, 0)
	if err != nil {
		return nil, err
	}
	t := &gorqliteMode{handwritten: newHandwritten(env), setup: setup}
	if err := t.populate(ctx, setup.eng); err != nil {
		return nil, errors.Join(err, setup.close())
	}
	u, err := url.Parse(env.backend.cluster.urls[0])
	if err != nil {
		return nil, errors.Join(errors.New("gorqlite: unusable URL"), setup.close())
	}
	u.Path, u.RawQuery = "/", "level=linearizable"
	if t.conn, err = gorqlite.Open(u.String()); err != nil {
		return nil, errors.Join(fmt.Errorf("gorqlite: %w", withoutURL(err)), setup.close())
	}
	return t, nil
}

func (t *gorqliteMode) steps(o op, callers int) ([]step, error) {
	out := make([]step, callers)
	for i := range out {
		w := t.hand(i, callers)
		if !o.writes() {
			out[i] = func(ctx context.Context) (int, time.Duration, error) {
				id, event := w.ids[w.next()], ""
				if o == opLoadForEvent {
					event = w.events.id()
				}
				d, err := took(func() error { return t.load(ctx, id, event) })
				return 1, d, err
			}
			continue
		}
		out[i] = func(ctx context.Context) (int, time.Duration, error) {
			rows := w.batch(o, 1)
			d, err := took(func() error { return t.commit(ctx, o, &rows[0]) })
			if err != nil {
				return 0, 0, err
			}
			w.won(rows)
			return 1, d, nil
		}
	}
	return out, nil
}

func (t *gorqliteMode) load(ctx context.Context, id, event string) error {
	t.counts.reads.Add(1)
	st := gorqlite.ParameterizedStatement{Query: handLoad, Arguments: []any{id}}
	if event != "" {
		st = gorqlite.ParameterizedStatement{Query: handLoadEvent, Arguments: []any{id, event, id}}
	}
	rows, err := t.conn.QueryOneParameterizedContext(ctx, st)
	if err != nil {
		return err
	}
	if !rows.Next() {
		return fmt.Errorf("execution %s is not there", id)
	}
	var version int64
	var token, doc string
	if event != "" {
		var processed int64
		return rows.Scan(&version, &token, &doc, &processed)
	}
	return rows.Scan(&version, &token, &doc)
}

func (t *gorqliteMode) commit(ctx context.Context, o op, r *row) error {
	if o == opMixed {
		if err := t.load(ctx, r.id, r.event); err != nil {
			return err
		}
	}
	var stmts []gorqlite.ParameterizedStatement
	for _, s := range r.statements(t.env.data) {
		t.counts.bytes.Add(uint64(len(s.sql) + sizeOf(s.args)))
		stmts = append(stmts, gorqlite.ParameterizedStatement{Query: s.sql, Arguments: s.args})
	}
	t.counts.writes.Add(1)
	results, err := t.conn.WriteParameterizedContext(ctx, stmts)
	if err != nil {
		return err
	}
	if len(results) != len(stmts) || results[len(results)-1].RowsAffected != 1 {
		return fmt.Errorf("execution %s is not at version %d", r.id, r.old)
	}
	if o != opMixed {
		return nil
	}
	t.counts.writes.Add(1)
	_, err = t.conn.WriteParameterizedContext(ctx, []gorqlite.ParameterizedStatement{{Query: handAck, Arguments: []any{results[0].LastInsertID}}})
	return err
}

func sizeOf(args []any) int {
	n := 0
	for _, a := range args {
		n += 8
		if s, ok := a.(string); ok {
			n += len(s)
		}
	}
	return n
}

func (t *gorqliteMode) traffic() traffic { return t.counts.snapshot() }
func (t *gorqliteMode) verify(ctx context.Context) error {
	return t.handwritten.verify(ctx, t.setup.eng)
}

func (t *gorqliteMode) close(context.Context) error {
	t.conn.Close()
	return t.setup.close()
}
