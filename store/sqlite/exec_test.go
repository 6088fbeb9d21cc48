package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

// onEach runs f on a file and in memory.
func onEach(t *testing.T, f func(t *testing.T, e *Engine)) {
	t.Run("file", func(t *testing.T) { f(t, openKV(t, tempDB(t), WithDurability(Normal))) })
	t.Run("memory", func(t *testing.T) { f(t, openKV(t, ":memory:")) })
}

func TestExecResults(t *testing.T) {
	onEach(t, func(t *testing.T, e *Engine) {
		define(t, e, "CREATE TABLE seqs (seq INTEGER PRIMARY KEY AUTOINCREMENT, x TEXT)")
		res := exec(t, e,
			put("a", 1),
			put("b", 2),
			st("UPDATE kv SET v = v + 10"),
			st("UPDATE kv SET v = 0 WHERE k = ?", "nobody"),
			st("INSERT INTO seqs (x) SELECT k FROM kv ORDER BY k"),
			st("INSERT INTO seqs (x) VALUES (?) RETURNING seq, x AS named", "z"),
			st("SELECT v FROM kv ORDER BY k"),
			st("DELETE FROM kv WHERE k = ?", "a"),
		)
		var affected []int64
		for _, r := range res {
			affected = append(affected, r.RowsAffected)
		}
		if want := []int64{1, 1, 2, 0, 2, 1, 0, 1}; !reflect.DeepEqual(affected, want) {
			t.Errorf("rows affected %v, want %v", affected, want)
		}
		if res[4].LastInsertID != 2 || res[5].LastInsertID != 3 {
			t.Errorf("last insert ids %d and %d, want 2 and 3", res[4].LastInsertID, res[5].LastInsertID)
		}
		if want := (engine.Result{RowsAffected: 1, LastInsertID: 3, Columns: []string{"seq", "named"}, Values: []engine.Value{engine.Int(3), engine.Text("z")}}); !reflect.DeepEqual(res[5], want) {
			t.Errorf("RETURNING gave %v, want %v", res[5], want)
		}
		if want := []engine.Value{engine.Int(11), engine.Int(12)}; !reflect.DeepEqual(res[6].Values, want) {
			t.Errorf("SELECT gave %v, want %v", res[6].Values, want)
		}
		if res[0].Columns != nil || res[0].Len() != 0 {
			t.Errorf("INSERT gave columns %v", res[0].Columns)
		}
		// Nothing matched: columns without rows.
		empty := exec(t, e, st("UPDATE kv SET v = 1 WHERE k = ? RETURNING k", "nobody"))
		if empty[0].Len() != 0 || empty[0].RowsAffected != 0 || len(empty[0].Columns) != 1 {
			t.Errorf("RETURNING without rows gave %v", empty[0])
		}
	})
}

func TestExecNothing(t *testing.T) {
	e := open(t, ":memory:")
	if res, err := e.Exec(context.Background(), nil); res != nil || err != nil {
		t.Errorf("got %v, %v", res, err)
	}
	if res, err := e.Query(context.Background(), engine.Linearizable, nil); res != nil || err != nil {
		t.Errorf("got %v, %v", res, err)
	}
}

func TestValuesRoundTrip(t *testing.T) {
	values := []engine.Value{
		engine.Null(), engine.Int(0), engine.Int(math.MaxInt64), engine.Int(math.MinInt64),
		engine.Float(0.1), engine.Float(math.MaxFloat64), engine.Float(math.SmallestNonzeroFloat64), engine.Float(-3),
		engine.Text(""), engine.Text("null"), engine.Text("123"), engine.Text("x'00'"), engine.Text(`it's "quoted"`),
		engine.Text("nul\x00in\x00side\x00"), engine.Text("\x00"), engine.Text("emoji 🚀 and ä"), engine.Text("invalid \xff\xfe utf-8"),
		engine.Text(strings.Repeat("long", 100_000)),
		engine.Blob(""), engine.Blob("\x00\x01\xff"),
	}
	onEach(t, func(t *testing.T, e *Engine) {
		for i, v := range values {
			k := fmt.Sprint("key", i)
			res := exec(t, e, engine.Statement{SQL: "INSERT INTO kv (k, v) VALUES (?, ?) RETURNING v", Args: []engine.Value{engine.Text(k), v}})
			if got := res[0].Values[0]; got != v {
				t.Errorf("RETURNING %.40v gave %.40v", v, got)
			}
			if got := query(t, e, st("SELECT v FROM kv WHERE k = ?", k))[0].Values[0]; got != v {
				t.Errorf("SELECT of %.40v gave %.40v", v, got)
			}
		}
	})
}

// FuzzText checks that any text and any integer come back as they were.
func FuzzText(f *testing.F) {
	e, err := Open(":memory:")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { e.Close() })
	for _, s := range []string{"", "\x00", "a\x00b", "🚀", "\xff", `{"a":1}`, "x'ab'", "NaN", "1e999"} {
		f.Add(s, int64(len(s)))
	}
	f.Fuzz(func(t *testing.T, s string, n int64) {
		res := query(t, e, st("SELECT ?, ?, length(CAST(? AS BLOB))", s, n, s))
		want := []engine.Value{engine.Text(s), engine.Int(n), engine.Int(int64(len(s)))}
		if !reflect.DeepEqual(res[0].Values, want) {
			t.Errorf("got %v, want %v", res[0].Values, want)
		}
	})
}

func TestStatementErrors(t *testing.T) {
	bad := map[string]engine.Statement{
		"constraint":     put("there", 2),
		"syntax":         st("INSRT INTO kv"),
		"no such table":  st("INSERT INTO nowhere VALUES (1)"),
		"too few args":   st("INSERT INTO kv (k, v) VALUES (?, ?)", "x"),
		"too many args":  st("INSERT INTO kv (k, v) VALUES (?, ?)", "x", 1, 2),
		"empty":          st(""),
		"comment":        st("-- nothing"),
		"two statements": st("DELETE FROM kv; DELETE FROM kv"),
		"raise":          st("SELECT json_extract('{', '$')"),
		"begin":          st("BEGIN"),
		"commit":         st("COMMIT"),
		"end":            st(" /* sly */ END"),
		"rollback":       st("ROLLBACK"),
		"savepoint":      st("SAVEPOINT x"),
		"attach":         st("ATTACH ':memory:' AS x"),
		"pragma":         st("PRAGMA synchronous=OFF"),
		"or rollback":    st("INSERT OR ROLLBACK INTO kv (k, v) VALUES (?, ?)", "there", 2),
		"vacuum":         st("VACUUM"),
		"mismatch":       st("INSERT INTO kv (rowid, k) VALUES (?, ?)", "no integer", "x"),
		"overflow":       st("SELECT abs(-9223372036854775808)"),
	}
	onEach(t, func(t *testing.T, e *Engine) {
		exec(t, e, put("there", 1))
		for name, stmt := range bad {
			t.Run(name, func(t *testing.T) {
				// Others before and after it: nothing of the list stays.
				_, err := e.Exec(context.Background(), []engine.Statement{put("before", 1), stmt, put("after", 1)})
				wantStatement(t, err, 1)
				if n := number(t, e, "SELECT count(*) FROM kv WHERE k <> 'there' OR v <> 1"); n != 0 {
					t.Errorf("%d rows stayed or changed", n)
				}
			})
		}
		// What is good is allowed.
		exec(t, e, put("good", 1), st("DELETE FROM kv WHERE k = 'good' -- a comment"), st("SELECT 1; -- a comment"), st("PRAGMA user_version=3"))
		if n := number(t, e, "PRAGMA user_version"); n != 3 {
			t.Errorf("user_version is %d, want 3", n)
		}
	})
}

func TestTooLarge(t *testing.T) {
	e := openKV(t, tempDB(t), WithDurability(Normal))
	exec(t, e, put("there", 1))

	// SQLite's own limit on one value: refused, and nothing else applied.
	_, err := e.Exec(context.Background(), []engine.Statement{put("a", 1), st("INSERT INTO kv SELECT 'b', zeroblob(1100000000)")})
	wantStatement(t, err, 1)
	wantErr(t, err, engine.ErrTooLarge)

	// More than the memory of the connection: the library panics, the connection
	// is replaced.
	big := engine.Text(strings.Repeat("x", 100<<20))
	_, err = e.Exec(context.Background(), []engine.Statement{put("a", 1), {SQL: "INSERT INTO kv SELECT ?, ? || ? || ?", Args: []engine.Value{engine.Text("b"), big, big, big}}})
	wantErr(t, err, engine.ErrTooLarge, engine.ErrNotApplied)
	_, err = e.Query(context.Background(), engine.Linearizable, []engine.Statement{{SQL: "SELECT ? || ? || ?", Args: []engine.Value{big, big, big}}})
	wantErr(t, err, engine.ErrTooLarge, engine.ErrNotApplied)

	// The engine goes on.
	exec(t, e, put("c", 1))
	if n := number(t, e, "SELECT count(*) FROM kv"); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestLargeDocument(t *testing.T) {
	onEach(t, func(t *testing.T, e *Engine) {
		big := strings.Repeat("payload ", 4<<20) // 32 MiB
		for range 3 {
			exec(t, e, st("INSERT INTO kv (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v", "big", big))
			if got, _ := query(t, e, st("SELECT v FROM kv WHERE k = 'big'"))[0].Values[0].Text(); got != big {
				t.Fatalf("%d bytes came back, want %d", len(got), len(big))
			}
		}
	})
}

func TestManyRows(t *testing.T) {
	e := openKV(t, tempDB(t), WithDurability(Normal))
	const n = 40_000
	define(t, e, "CREATE TABLE numbers (i INTEGER PRIMARY KEY)")
	exec(t, e, st("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?) INSERT INTO numbers SELECT i FROM c", n))
	res := query(t, e, st("SELECT 'key' || i, i FROM numbers ORDER BY i"))[0]
	if res.Len() != n {
		t.Fatalf("%d rows, want %d", res.Len(), n)
	}
	for i := range n {
		row := res.Row(i)
		if text, _ := row[0].Text(); len(row) != 2 || text != "key"+strconv.Itoa(i+1) || row[1] != engine.Int(int64(i+1)) {
			t.Fatalf("row %d is %v", i, row)
		}
	}
	// As many parameters as the traits promise, and one more.
	max := e.Traits().MaxParams
	in := st("SELECT count(*) FROM numbers WHERE i IN (?" + strings.Repeat(",?", max-1) + ")")
	for i := range max {
		in.Args = append(in.Args, engine.Int(int64(i+1)))
	}
	if got, _ := query(t, e, in)[0].Values[0].Int(); got != int64(max) {
		t.Errorf("%d rows with %d parameters", got, max)
	}
	in.SQL = strings.Replace(in.SQL, "?", "?,?", 1)
	in.Args = append(in.Args, engine.Int(0))
	_, err := e.Query(context.Background(), engine.Linearizable, []engine.Statement{in})
	wantStatement(t, err, 0)
}

// TestPreparedStatements has more shapes than are kept, and a schema that
// changes under them.
func TestPreparedStatements(t *testing.T) {
	e := openKV(t, tempDB(t), WithDurability(Normal), WithReaders(1))
	for i := range maxPrepared + 50 {
		i %= maxPrepared + 25 // the last come round again
		exec(t, e, st(fmt.Sprintf("INSERT OR REPLACE INTO kv (k, v) VALUES (?, %d)", i), "k"))
		if n := number(t, e, fmt.Sprintf("SELECT %d + v FROM kv WHERE k = ?", i), "k"); n != int64(2*i) {
			t.Fatalf("got %d, want %d", n, 2*i)
		}
	}
	for _, s := range []*statements{&e.writer.conn.stmts, &e.readers.idle[0].stmts} {
		if len(s.byText) != maxPrepared {
			t.Errorf("%d statements prepared, want %d", len(s.byText), maxPrepared)
		}
		weight, ring := 0, 0
		for p := s.used.next; p != &s.used; p = p.next {
			weight, ring = weight+p.weight, ring+1
		}
		if weight != s.weight || ring != len(s.byText) {
			t.Errorf("the ring has %d statements of weight %d, the cache says %d of %d", ring, weight, len(s.byText), s.weight)
		}
	}
	// Large shapes push out others.
	s := &e.readers.idle[0].stmts
	s.limit = 300 * parameterWeight
	for i := range 5 {
		in := st("SELECT count(*) FROM kv WHERE v IN (?" + strings.Repeat(",?", 100+i) + ")")
		in.Args = make([]engine.Value, 101+i)
		query(t, e, in)
		if s.weight > s.limit || len(s.byText) == 0 {
			t.Errorf("%d statements of weight %d are kept", len(s.byText), s.weight)
		}
	}
	huge := st("SELECT count(*) FROM kv WHERE v IN (?" + strings.Repeat(",?", 400) + ")")
	huge.Args = make([]engine.Value, 401)
	query(t, e, huge)
	query(t, e, huge)
	if len(s.byText) != 1 {
		t.Errorf("%d statements are kept beside a huge one", len(s.byText))
	}

	star := st("SELECT * FROM kv LIMIT 1")
	if got := query(t, e, star)[0].Columns; len(got) != 2 {
		t.Fatalf("columns %v", got)
	}
	define(t, e, "ALTER TABLE kv ADD COLUMN w TEXT NOT NULL DEFAULT 'w'")
	if got := query(t, e, star)[0]; len(got.Columns) != 3 || len(got.Values) != 3 || got.Columns[2] != "w" {
		t.Errorf("after ADD COLUMN: %v", got)
	}
	define(t, e, "ALTER TABLE kv DROP COLUMN w")
	if got := query(t, e, star)[0]; len(got.Columns) != 2 || len(got.Values) != 2 {
		t.Errorf("after DROP COLUMN: %v", got)
	}
}

func TestErrorText(t *testing.T) {
	e := openKV(t, ":memory:")
	exec(t, e, put("a", 1))
	_, err := e.Exec(context.Background(), []engine.Statement{put("a", 1)})
	if want := "exec: statement 0: constraint failed: UNIQUE constraint failed: kv.k"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	var ee *engine.Error
	if !errors.As(err, &ee) || ee.Reason != nil || ee.Op != "exec" {
		t.Errorf("error %#v", err)
	}
}
