package conformance

import (
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/storetest"
)

// openClient opens an engine on a cluster.
func openClient(t testing.TB, urls []string) engine.Engine {
	t.Helper()
	eng, err := client.Open(t.Context(), urls)
	if err != nil {
		t.Fatal(err)
	}
	return eng
}

// emptied opens an engine on a cluster that the tests share, and empties it.
func emptied(t testing.TB, urls []string) storetest.Database {
	t.Helper()
	eng := openClient(t, urls)
	if err := storetest.Reset(t.Context(), eng); err != nil {
		t.Fatal("reset:", err)
	}
	return storetest.Database{
		Engine: eng,
		Again:  func(t testing.TB) engine.Engine { return openClient(t, urls) },
	}
}

func TestRqlitetest(t *testing.T) {
	storetest.Run(t, rqlitetestHarness(t))
}

func rqlitetestHarness(tb testing.TB) storetest.Harness {
	cluster := rqlitetest.Start(tb, rqlitetest.LogLimit(0))
	return storetest.Harness{Open: func(t testing.TB) storetest.Database {
		db := emptied(t, cluster.URLs())
		db.Oracle = func(t testing.TB, sql string, args ...engine.Value) [][]engine.Value {
			t.Helper()
			rows, err := cluster.SQL(t.Context(), sql, natives(args)...)
			if err != nil {
				t.Fatalf("oracle: %s: %v", sql, err)
			}
			out := make([][]engine.Value, len(rows))
			for i, row := range rows {
				out[i] = make([]engine.Value, len(row))
				for j, v := range row {
					out[i][j] = fromNative(v)
				}
			}
			return out
		}
		return db
	}}
}

func BenchmarkRqlitetest(b *testing.B) { storetest.Benchmark(b, rqlitetestHarness(b)) }

func natives(args []engine.Value) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a.Kind() {
		case engine.KindInt:
			out[i], _ = a.Int()
		case engine.KindFloat:
			out[i], _ = a.Float()
		case engine.KindText:
			out[i], _ = a.Text()
		}
	}
	return out
}

func fromNative(v any) engine.Value {
	switch v := v.(type) {
	case int64:
		return engine.Int(v)
	case float64:
		return engine.Float(v)
	case string:
		return engine.Text(v)
	case []byte:
		return engine.Blob(string(v))
	}
	return engine.Null()
}
