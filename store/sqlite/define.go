package sqlite

import (
	"context"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// Define runs schema statements in one transaction, in order. Each must be
// idempotent; one that adds a column which is already there counts as done. Many
// processes may define one file's schema at once. It blocks and fails as
// [Engine.Exec] does.
func (e *Engine) Define(ctx context.Context, ddl []string) error {
	if len(ddl) == 0 {
		return e.usable("define", ctx)
	}
	return e.write(ctx, "define", func(c *conn) (int, error) {
		for i, sql := range ddl {
			if err := c.define(sql); err != nil {
				return i, err
			}
		}
		return 0, nil
	})
}

func (c *conn) define(sql string) error {
	p, err := compile(c.db, sql, 0)
	if err != nil {
		if strings.Contains(err.Error(), "duplicate column name") && addsColumn(sql) {
			return nil
		}
		return err
	}
	var discard engine.Result
	err = p.run(c.db, nil, nil, &discard)
	_ = p.stmt.Close() // reports err once more
	return err
}

// addsColumn reports whether sql is an ALTER TABLE ... ADD.
func addsColumn(sql string) bool {
	words := strings.Fields(strings.ToUpper(sql))
	if len(words) < 4 || words[0] != "ALTER" || words[1] != "TABLE" {
		return false
	}
	for _, w := range words[3:] {
		if w == "ADD" {
			return true
		}
	}
	return false
}
