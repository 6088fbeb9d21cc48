package rqlitetest

import (
	"context"
	"fmt"
	"time"
)

// The oracle looks at the database itself, past HTTP, leaders and faults.

// SQL runs a query on the committed state and returns its rows, whatever the
// nodes are doing. Values come as SQLite stores them: nil, int64, float64, string
// and []byte. Arguments may be those, and int and bool. It waits for statements
// under way and nothing else; ctx is checked before it starts.
func (c *Cluster) SQL(ctx context.Context, query string, args ...any) ([][]any, error) {
	res, err := c.direct(ctx, query, args, true)
	if err != nil {
		return nil, err
	}
	rows := make([][]any, res.rows())
	width := len(res.columns)
	for i := range rows {
		rows[i] = make([]any, width)
		for j := range width {
			rows[i][j] = res.values[i*width+j].native()
		}
	}
	return rows, nil
}

// Exec runs a statement on the committed state, past HTTP and faults, and returns
// the number of rows it changed. Nodes that are up to date see it at once.
func (c *Cluster) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := c.direct(ctx, query, args, false)
	return res.affected, err
}

func (c *Cluster) direct(ctx context.Context, query string, args []any, read bool) (result, error) {
	if err := ctx.Err(); err != nil {
		return result{}, err
	}
	params := make([]parameter, len(args))
	for i, a := range args {
		v, err := nativeValue(a)
		if err != nil {
			return result{}, err
		}
		params[i].val = v
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done:
		return result{}, errClosed
	default:
	}
	var (
		res result
		err error
	)
	if read {
		res, err = c.db.read.raw(query, params)
	} else {
		run := func(db *database) (result, error) { return db.write.exec(db, query, params) }
		c.replicate(logEntry{at: time.Now(), apply: func(db *database) { _, _ = run(db) }})
		res, err = run(c.db)
	}
	if err != nil {
		return result{}, fmt.Errorf("rqlitetest: running %q: %w", query, err)
	}
	return res, nil
}

// raw runs a query and returns its values by their storage class alone.
func (c *connection) raw(sql string, params []parameter) (result, error) {
	res := result{shape: shapeRows}
	p, err := c.prepare(sql)
	if err != nil || p.stmt == nil {
		return res, err
	}
	if len(params) != p.inputs {
		return res, fmt.Errorf("%d arguments for %d parameters", len(params), p.inputs)
	}
	if err = p.bind(params, 0); err == nil {
		res.columns = p.columns
		for p.stmt.Step() {
			for i := range p.columns {
				res.values = append(res.values, columnValue(p.stmt, i, "blob", ""))
			}
		}
	}
	if rerr := p.release(); err == nil {
		err = rerr
	}
	return res, err
}

func nativeValue(a any) (value, error) {
	switch v := a.(type) {
	case nil:
		return value{}, nil
	case int:
		return value{kind: kindInt, i: int64(v)}, nil
	case int64:
		return value{kind: kindInt, i: v}, nil
	case bool:
		if v {
			return value{kind: kindInt, i: 1}, nil
		}
		return value{kind: kindInt}, nil
	case float64:
		return value{kind: kindReal, f: v}, nil
	case string:
		return value{kind: kindText, s: v}, nil
	case []byte:
		return value{kind: kindBlob, s: string(v)}, nil
	}
	return value{}, fmt.Errorf("rqlitetest: argument of type %T", a)
}

func (v value) native() any {
	switch v.kind {
	case kindInt:
		return v.i
	case kindBool:
		return v.i != 0
	case kindReal:
		return v.f
	case kindText:
		return v.s
	case kindBlob:
		return []byte(v.s)
	}
	return nil
}
