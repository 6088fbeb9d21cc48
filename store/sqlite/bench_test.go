package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

const benchUpsert = `INSERT INTO executions (id, definition_id, data, version) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET definition_id = excluded.definition_id, data = excluded.data, version = excluded.version`

func benchOpen(b *testing.B, path string, opts ...Option) *Engine {
	b.Helper()
	e, err := Open(path, opts...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	if err := e.Define(context.Background(), []string{`CREATE TABLE executions (id TEXT PRIMARY KEY, definition_id TEXT NOT NULL, data TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID`}); err != nil {
		b.Fatal(err)
	}
	return e
}

func benchRows(from, n int) []engine.Statement {
	data := strings.Repeat("x", 512)
	stmts := make([]engine.Statement, n)
	for i := range stmts {
		stmts[i] = engine.Statement{SQL: benchUpsert, Args: []engine.Value{
			engine.Text(fmt.Sprintf("%032x", (from+i)*7919%10000)), engine.Text("definition"), engine.Text(data), engine.Int(int64(i)),
		}}
	}
	return stmts
}

func BenchmarkExec(b *testing.B) {
	for _, where := range []struct {
		name, path string
		opts       []Option
	}{
		{"full", "bench.db", nil},
		{"normal", "bench.db", []Option{WithDurability(Normal)}},
		{"memory", ":memory:", nil},
	} {
		for _, n := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", where.name, n), func(b *testing.B) {
				path := where.path
				if path != ":memory:" {
					path = filepath.Join(b.TempDir(), path)
				}
				e := benchOpen(b, path, where.opts...)
				var batches [][]engine.Statement
				for from := 0; from < 10000; from += n {
					batches = append(batches, benchRows(from, n))
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if _, err := e.Exec(context.Background(), batches[i%len(batches)]); err != nil {
						b.Fatal(err)
					}
					i++
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

func BenchmarkQuery(b *testing.B) {
	for _, n := range []int{1, 256} {
		for _, path := range []string{"bench.db", ":memory:"} {
			b.Run(fmt.Sprintf("%s/%d", path, n), func(b *testing.B) {
				if path != ":memory:" {
					path = filepath.Join(b.TempDir(), path)
				}
				e := benchOpen(b, path, WithDurability(Normal))
				if _, err := e.Exec(context.Background(), benchRows(0, 10000)); err != nil {
					b.Fatal(err)
				}
				args := make([]engine.Value, n)
				for i := range args {
					args[i] = engine.Text(fmt.Sprintf("%032x", i*39))
				}
				q := []engine.Statement{{SQL: "SELECT id, data, version FROM executions WHERE id IN (?" + strings.Repeat(",?", n-1) + ")", Args: args}}
				b.ReportAllocs()
				for b.Loop() {
					res, err := e.Query(context.Background(), engine.Linearizable, q)
					if err != nil || res[0].Len() != n {
						b.Fatal(res, err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
