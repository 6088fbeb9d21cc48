package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// On a server whose texts are ordered for people, keys are ordered by bytes.
func TestKeysAreOrderedByBytesWhateverTheCollation(t *testing.T) {
	e := open(t, schema(t))
	for _, k := range []string{"a", "B", "ä", "_", "Z", "b"} {
		exec(t, e, put(k, 0))
	}
	res, err := e.Query(t.Context(), engine.Linearizable, []engine.Statement{st("SELECT k AS k FROM t ORDER BY k"), st("SELECT k AS k FROM t WHERE k>? ORDER BY k LIMIT 1", "Z")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range res[0].Len() {
		k, _ := res[0].Row(i)[0].Text()
		got = append(got, k)
	}
	if s := strings.Join(got, ""); s != "BZ_abä" {
		t.Errorf("ordered as %s", s)
	}
	if k, _ := res[1].Row(0)[0].Text(); k != "_" {
		t.Errorf("behind Z is %q", k)
	}
}

// TestST20_TextsSurviveAsTheyAre: what a binary JSON type would refuse or change.
func TestST20_TextsSurviveAsTheyAre(t *testing.T) {
	e := open(t, schema(t))
	exec(t, e, st("CREATE TABLE doc(id BIGINT PRIMARY KEY,body TEXT NOT NULL)"))
	docs := []string{
		`{"a":"\u0000"}`, `{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, `{"b":1,"a":2,"b":3}`, `{"n":` + strings.Repeat("1234567890", 6) + `}`, `{"n":1e400,"f":1.10,"z":-0}`,
		`{ "spaced" : [ 1 , 2 ] }`, `{"emoji":"😀","esc":"\ud83d\ude00"}`, `{"html":"<a href='x'>&amp;</a>"}`, strings.Repeat(`[`, 500) + strings.Repeat(`]`, 500),
	}
	var stmts []engine.Statement
	for i, d := range docs {
		stmts = append(stmts, st("INSERT INTO doc(id,body) VALUES(?,?)", i, d))
	}
	exec(t, e, stmts...)
	res, err := e.Query(t.Context(), engine.Linearizable, []engine.Statement{st("SELECT body AS body FROM doc ORDER BY id")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range docs {
		if got, _ := res[0].Row(i)[0].Text(); got != want {
			t.Errorf("%s came back as %s", want, got)
		}
	}
	var refused *engine.StatementError
	if _, err := e.Exec(t.Context(), []engine.Statement{st("INSERT INTO doc(id,body) VALUES(?,?)", 99, "a\x00b")}); !errors.As(err, &refused) {
		t.Errorf("a text with NUL: %v", err)
	}
}

func TestValuesOfOtherTypesAreReadByTheirKind(t *testing.T) {
	e := open(t, schema(t))
	const columns = `1::smallint AS a,2::int AS b,1.5::real AS c,true AS d,'\x00ff'::bytea AS e,12::numeric AS f,0.5::numeric AS g,'x'::varchar AS h,DATE '2020-01-02' AS i,NULL AS j,sum(3) AS k`
	want := "[1 2 1.5 1 \"\\x00\\xff\" 12 0.5 \"x\" \"2020-01-02\" null 3]"
	for _, e := range []*Engine{e, open(t, schema(t), WithUnpreparedStatements())} {
		for range 2 {
			res, err := e.Query(t.Context(), engine.Linearizable, []engine.Statement{st("SELECT " + columns)})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(res[0].Row(0)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if b, _ := res[0].Row(0)[4].Bytes(); b != "\x00\xff" {
				t.Errorf("bytes %q", b)
			}
		}
	}
}

func TestAQueryWritesNothing(t *testing.T) {
	e := open(t, schema(t))
	for _, sql := range []string{"SELECT 1 AS a INTO u", "SELECT k FROM t FOR UPDATE", "WITH w AS (INSERT INTO t(k) VALUES('a') RETURNING k) SELECT k FROM w", "TRUNCATE t"} {
		if _, err := e.Query(t.Context(), engine.Linearizable, []engine.Statement{st(sql)}); err == nil || engine.OutcomeOf(err) != engine.NotApplied {
			t.Errorf("%s: got %v", sql, err)
		}
	}
	if n := number(t, e, "SELECT count(*) AS n FROM pg_class WHERE relname='u' AND pg_table_is_visible(oid)"); n != 0 {
		t.Error("a query made a table")
	}
	exec(t, e, put("a", 1))
}

// Null fits where the same statement has a value at other times, and a value of
// another kind gets a statement of its own.
func TestAStatementIsPreparedForTheKindsOfItsArguments(t *testing.T) {
	e := open(t, schema(t), WithMaxConns(1))
	exec(t, e, st("CREATE TABLE u(a BIGINT,b TEXT,c DOUBLE PRECISION)"))
	for _, args := range [][]any{{1, "x", 0.5}, {nil, "x", nil}, {nil, nil, nil}, {2, nil, 1.5}, {3, "y", nil}} {
		exec(t, e, st("INSERT INTO u(a,b,c) VALUES(?,?,?)", args...))
		exec(t, e, st("INSERT INTO u(a,b,c) SELECT ?1,?2,?3 WHERE ?1=?1 OR ?2=?2 OR 1=1", args...))
	}
	if n := number(t, e, "SELECT count(*) AS n FROM u WHERE a IS NULL"); n != 4 {
		t.Errorf("%d nulls, want 4", n)
	}
	for _, v := range []any{1, 1.5, "a"} {
		res, err := e.Query(t.Context(), engine.Linearizable, []engine.Statement{st("SELECT ? AS v", v), st("SELECT ? AS v", nil)})
		if err != nil {
			t.Fatal(err)
		}
		if res[0].Row(0)[0] != st("", v).Args[0] || !res[1].Row(0)[0].IsNull() {
			t.Errorf("%v came back as %v", v, res[0].Row(0)[0])
		}
	}
}

// Tables change while statements on them are prepared.
func TestATableThatChangesDoesNotDisturb(t *testing.T) {
	e := open(t, schema(t), WithMaxConns(1))
	exec(t, e, put("a", 1))
	all := []engine.Statement{st("SELECT * FROM t")}
	for i, ddl := range []string{"ALTER TABLE t ADD COLUMN extra TEXT", "ALTER TABLE t DROP COLUMN extra", "ALTER TABLE t ALTER COLUMN v TYPE TEXT"} {
		if _, err := e.Query(t.Context(), engine.Linearizable, all); err != nil {
			t.Fatal(err)
		}
		if err := e.Define(t.Context(), []string{ddl}); err != nil {
			t.Fatal(err)
		}
		res, err := e.Query(t.Context(), engine.Linearizable, all)
		if err != nil || len(res[0].Columns) != []int{3, 2, 2}[i] {
			t.Errorf("after %s: %v, %v", ddl, res, err)
		}
	}
}

func TestMoreStatementsThanAreKeptAreForgottenInTurn(t *testing.T) {
	e := open(t, schema(t), WithMaxConns(1))
	for i := range maxPrepared + 50 {
		if n := number(t, e, fmt.Sprintf("SELECT %d AS n", i)); n != int64(i) {
			t.Fatalf("%d is %d", i, n)
		}
	}
	if n := number(t, e, "SELECT count(*) AS n FROM pg_prepared_statements"); n > maxPrepared+1 {
		t.Errorf("%d statements are prepared", n)
	}
}

// A call whose context ends leaves no lock, nothing that runs on, and a pool that
// works.
func TestAnEndedContextEndsWhatTheServerDoes(t *testing.T) {
	url := schema(t)
	e, other := open(t, url, WithMaxConns(2)), open(t, url)
	exec(t, e, put("a", 1))
	holder, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), []engine.Statement{st("UPDATE t SET v=2")}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := e.Exec(ctx, []engine.Statement{put("b", 1), st("UPDATE t SET v=3 WHERE k='a'")})
			done <- err
		}()
		for number(t, other, "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type='Lock' AND query LIKE 'UPDATE t SET v=3%'") == 0 {
			if err := t.Context().Err(); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || engine.OutcomeOf(err) != engine.NotApplied {
			t.Errorf("got %v, want the context's end, and not applied", err)
		}
	}
	if n := number(t, other, "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type='Lock' AND query LIKE 'UPDATE t SET v=3%'"); n != 0 {
		t.Errorf("%d statements wait on", n)
	}
	holder.Rollback()
	exec(t, e, put("b", 1), st("UPDATE t SET v=3 WHERE k='a'"))
}

func TestADeadlockIsResolvedWithoutTheCaller(t *testing.T) {
	e := open(t, schema(t))
	exec(t, e, put("a", 0), put("b", 0), st("CREATE FUNCTION pause() RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(0.05)'"))
	first := []engine.Statement{st("UPDATE t SET v=v+1 WHERE k='a'"), st("SELECT pause()"), st("UPDATE t SET v=v+1 WHERE k='b'")}
	second := []engine.Statement{first[2], first[1], first[0]}
	var wg sync.WaitGroup
	for _, stmts := range [][]engine.Statement{first, second} {
		wg.Go(func() {
			for range 2 {
				if _, err := e.Exec(t.Context(), stmts); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := number(t, e, "SELECT sum(v)::bigint AS n FROM t"); n != 8 {
		t.Errorf("the sum is %d, want 8", n)
	}
}

// TestCO11_NothingHangsOnAConnection: connections that live for a moment only lose
// neither a statement nor a transaction, and no session keeps a lock.
func TestCO11_NothingHangsOnAConnection(t *testing.T) {
	e := open(t, schema(t), WithMaxConns(3), WithMaxLifetime(time.Millisecond))
	exec(t, e, put("a", 0))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 30 {
				if _, err := e.Exec(t.Context(), []engine.Statement{st("UPDATE t SET v=v+1")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := number(t, e, "SELECT v AS n FROM t"); n != 120 {
		t.Errorf("counted %d, want 120", n)
	}
	if err := e.Define(t.Context(), []string{"CREATE TABLE IF NOT EXISTS u(a TEXT)"}); err != nil {
		t.Fatal(err)
	}
	if n := number(t, e, "SELECT count(*) AS n FROM pg_locks l JOIN pg_stat_activity a ON a.pid=l.pid WHERE l.locktype='advisory' AND a.application_name='quorate' AND a.state='idle'"); n != 0 {
		t.Errorf("%d session locks", n)
	}
}

func TestATransactionThatIsLeftOpenEndsWithTheEngine(t *testing.T) {
	url := schema(t)
	e, other := open(t, url), open(t, url)
	exec(t, other, put("a", 1))
	tx, err := e.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), []engine.Statement{st("UPDATE t SET v=2")}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	exec(t, other, st("UPDATE t SET v=3"))
	if _, err := tx.Exec(t.Context(), []engine.Statement{put("b", 1)}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("got %v, want closed", err)
	}
	if err := tx.Commit(t.Context()); !errors.Is(err, engine.ErrClosed) || engine.OutcomeOf(err) != engine.NotApplied {
		t.Errorf("got %v, want closed", err)
	}
	tx.Rollback()
	if n := number(t, other, "SELECT v AS n FROM t"); n != 3 {
		t.Errorf("v is %d", n)
	}
}

// The present of a transaction moves on, that of one call does not.
func TestThePresentInATransactionIsThatOfTheCall(t *testing.T) {
	e := open(t, schema(t))
	tx, err := e.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var last int64
	for range 3 {
		res, err := tx.Exec(t.Context(), []engine.Statement{st("SELECT ? AS a", engine.Now(0)), st("SELECT pg_sleep(0.002)::text AS p"), st("SELECT ? AS a", engine.Now(time.Second))})
		if err != nil {
			t.Fatal(err)
		}
		a, _ := res[0].Row(0)[0].Int()
		b, _ := res[2].Row(0)[0].Int()
		if b-a != 1_000_000 || a <= last {
			t.Errorf("%d, then %d; before that %d", a, b, last)
		}
		last = a
	}
}

func TestAPoolerWithoutSettingsIsServed(t *testing.T) {
	e := open(t, schema(t), WithUnpreparedStatements())
	for i := range 20 {
		exec(t, e, put(fmt.Sprint(i), i), st("UPDATE t SET v=v+1 WHERE k=?", fmt.Sprint(i)))
	}
	if n := number(t, e, "SELECT sum(v)::bigint AS n FROM t"); n != 210 {
		t.Errorf("the sum is %d", n)
	}
	if n := number(t, e, "SELECT count(*) AS n FROM pg_prepared_statements"); n != 0 {
		t.Errorf("%d prepared statements", n)
	}
}

func BenchmarkExecOneRow(b *testing.B) {
	e := open(b, schema(b))
	exec(b, e, put("a", 1))
	b.ReportAllocs()
	for b.Loop() {
		exec(b, e, st("UPDATE t SET v=v+1 WHERE k=?", "a"))
	}
}
