package sqlite

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

func TestQueryRefusesWrites(t *testing.T) {
	onEach(t, func(t *testing.T, e *Engine) {
		exec(t, e, put("there", 1))
		for _, sql := range []string{
			"INSERT INTO kv (k) VALUES ('x')", "DELETE FROM kv", "UPDATE kv SET v = 2 RETURNING k", "CREATE TABLE x (y)",
			"PRAGMA user_version=7", "PRAGMA query_only=OFF", "BEGIN IMMEDIATE", "COMMIT", "VACUUM",
			"WITH x AS (SELECT 1) INSERT INTO kv SELECT 'x', 1 FROM x",
		} {
			_, err := e.Query(context.Background(), engine.Linearizable, []engine.Statement{st("SELECT 1"), st(sql)})
			wantStatement(t, err, 1)
		}
		if n := number(t, e, "SELECT count(*) FROM kv WHERE v = 1"); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
		if n := number(t, e, "PRAGMA user_version"); n != 0 {
			t.Errorf("user_version %d", n)
		}
	})
}

func TestQueryErrors(t *testing.T) {
	onEach(t, func(t *testing.T, e *Engine) {
		for _, bad := range []engine.Statement{st("SELEC 1"), st("SELECT * FROM nowhere"), st("SELECT ?"), st("SELECT json_extract('{', '$')")} {
			_, err := e.Query(context.Background(), engine.Linearizable, []engine.Statement{st("SELECT 1"), bad})
			wantStatement(t, err, 1)
			_, err = e.Query(context.Background(), engine.Linearizable, []engine.Statement{bad})
			wantStatement(t, err, 0)
		}
		for _, c := range e.readers.idle {
			if c.broken || !c.db.GetAutocommit() {
				t.Error("a reader was left in a transaction")
			}
		}
	})
}

// TestQuerySnapshot reads the same sum in several statements while a writer
// moves amounts between rows.
func TestQuerySnapshot(t *testing.T) {
	onEach(t, func(t *testing.T, e *Engine) {
		exec(t, e, put("a", 1000), put("b", 0))
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				exec(t, e, st("UPDATE kv SET v = v - 1 WHERE k = 'a'"), st("UPDATE kv SET v = v + 1 WHERE k = 'b'"))
			}
		})
		for range 200 {
			res := query(t, e, st("SELECT v FROM kv WHERE k = 'a'"), st("SELECT v FROM kv WHERE k = 'b'"), st("SELECT sum(v) FROM kv"))
			a, _ := res[0].Values[0].Int()
			b, _ := res[1].Values[0].Int()
			sum, _ := res[2].Values[0].Int()
			if a+b != 1000 || sum != 1000 {
				t.Errorf("%d + %d, sum %d: not one snapshot", a, b, sum)
				break
			}
		}
		cancel()
		wg.Wait()
	})
}

// TestReadYourWrites has every query see every commit that was acknowledged
// before, by this engine or another one on the same file.
func TestReadYourWrites(t *testing.T) {
	path := tempDB(t)
	one := openKV(t, path, WithDurability(Normal), WithReaders(4))
	two := openKV(t, path, WithDurability(Normal))
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			k := fmt.Sprint("key", g)
			exec(t, one, put(k, 0))
			for i := range 40 {
				w, r := one, two
				if i%2 == g%2 {
					w, r = two, one
				}
				exec(t, w, st("UPDATE kv SET v = ? WHERE k = ?", i, k))
				for _, e := range []*Engine{r, w} {
					if n := number(t, e, "SELECT v FROM kv WHERE k = ?", k); n != int64(i) {
						t.Errorf("read %d after writing %d", n, i)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if n := len(one.readers.idle); n == 0 || n > 4 {
		t.Errorf("%d readers, want 1 to 4", n)
	}
}

// TestOneReaderIsEnough checks that readers are opened only when needed.
func TestOneReaderIsEnough(t *testing.T) {
	e := openKV(t, tempDB(t))
	for range 20 {
		number(t, e, "SELECT count(*) FROM kv")
	}
	if n := len(e.readers.idle); n != 1 {
		t.Errorf("%d readers for queries one after the other", n)
	}
}
