package storetest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// texts are texts that have to survive as they are. NUL, invalid UTF-8 and blob
// literals are not among them: the store refuses those for all engines.
var texts = []string{
	"", " ", "a", "null", "NULL", "0", "007", "1e3", "-1", "true", "'", `"`, "''", `\`, `\n`, "\n", "\r\n", "\t", "it's", "a;b", "--", "/*", "?", ":a", "@a", "$1", "%", "_",
	"ä", "e\u0301", "😀", "\u00a0", "\u2028", "\u2029", "\ufeff", "\ufffd", "\uffff", "\U0010ffff", "\x01\x1f\x7f", "<a href='x'>&amp;</a>", `{"a":"\u0000"}`, `["\ud800"]`,
	"x'4142", `x"4142"`, "y'4142'", "xx'4142'", "x'4142'z", strings.Repeat("long ü ", 20000),
}

var ints = []int64{0, 1, -1, 127, -128, 1<<31 - 1, -1 << 31, 1 << 53, 1<<53 + 1, -1<<53 - 1, 999999999999999999, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1}

var floats = []float64{
	0, 1, -1, 0.1, 0.30000000000000004, 1.0 / 3, 1.5, 1e15 + 0.3, 1 << 53, 1<<53 + 2, 1e20, 1e21, 1e22, 1e23, 1e-7, 1700000000.1234567, 9223372036854775807, -9223372036854775808, 18446744073709551616,
	math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 2.2250738585072014e-308, math.Nextafter(1, 2), math.Pi,
}

var valueCases = []engineCase{
	{promise: "integers survive, all 64 bits", run: func(s *seam) {
		var stmts []engine.Statement
		for i, v := range ints {
			stmts = append(stmts, statement("INSERT INTO storetest_other(seq,k,n) VALUES(?,?,?)", i+1, "k", v), put(fmt.Sprint(i), v))
		}
		s.exec(stmts...)
		for i, want := range ints {
			res := s.ask(statement("SELECT n AS n FROM storetest_other WHERE seq=?", i+1), statement("SELECT v AS v FROM storetest WHERE k=?", fmt.Sprint(i)), statement("SELECT count(*) AS n FROM storetest_other WHERE n=?", want))
			for _, r := range res[:2] {
				if got, ok := r.Row(0)[0].Int(); !ok || got != want {
					s.Errorf("got %v, want %d", r.Row(0)[0], want)
				}
			}
			if n, _ := res[2].Row(0)[0].Int(); n != 1 {
				s.Errorf("%d is found %d times by its value", want, n)
			}
		}
	}},
	{promise: "reals survive, bit for bit", run: func(s *seam) {
		var stmts []engine.Statement
		for i, v := range floats {
			stmts = append(stmts, statement("INSERT INTO storetest_other(seq,k,r) VALUES(?,?,?)", i+1, "k", v))
		}
		s.exec(stmts...)
		for i, want := range floats {
			res := s.ask(statement("SELECT r AS r FROM storetest_other WHERE seq=?", i+1), statement("SELECT count(*) AS n FROM storetest_other WHERE r=? AND typeof(r)='real'", want))
			if got, ok := res[0].Row(0)[0].Float(); !ok || math.Float64bits(got) != math.Float64bits(want) {
				s.Errorf("got %v, want %v", res[0].Row(0)[0], want)
			}
			if n, _ := res[1].Row(0)[0].Int(); n != 1 {
				s.Errorf("%v is found %d times by its value", want, n)
			}
		}
	}},
	{promise: "texts survive, whatever they look like", column: "TEXT", run: func(s *seam) {
		var stmts []engine.Statement
		for i, v := range texts {
			stmts = append(stmts, statement("INSERT INTO storetest_other(seq,k) VALUES(?,?)", i+1, v), put(fmt.Sprint(i), v))
		}
		s.exec(stmts...)
		for i, want := range texts {
			res := s.ask(statement("SELECT k AS k FROM storetest_other WHERE seq=?", i+1), statement("SELECT v AS v FROM storetest WHERE k=?", fmt.Sprint(i)), statement("SELECT count(*) AS n FROM storetest_other WHERE k=? AND typeof(k)='text'", want))
			for _, r := range res[:2] {
				if got, ok := r.Row(0)[0].Text(); !ok || got != want {
					s.Errorf("got %.100v, want %.100q", r.Row(0)[0], want)
				}
			}
			if n, _ := res[2].Row(0)[0].Int(); n != 1 {
				s.Errorf("%.100q is found %d times by its value", want, n)
			}
		}
	}},
	{promise: "null is null, and neither nothing nor zero", column: "TEXT", run: func(s *seam) {
		s.exec(put("null", nil), put("empty", ""), put("text", "null"))
		if !s.db.Typed {
			s.exec(put("zero", 0))
		}
		res := s.ask(statement("SELECT k AS k,v AS v,v IS NULL AS missing FROM storetest ORDER BY k"))
		for r := range res[0].Len() {
			row := res[0].Row(r)
			k, _ := row[0].Text()
			missing, _ := row[2].Int()
			if row[1].IsNull() != (k == "null") || (missing == 1) != (k == "null") {
				s.Errorf("%s: %v, null in SQL: %d", k, row[1], missing)
			}
		}
	}},
	{promise: "rows come with their columns, in order, of mixed kinds", mixed: true, run: func(s *seam) {
		s.exec(put("a", 1), put("b", "two"), put("c", nil), put("d", 4.5))
		res := s.ask(statement("SELECT k AS name,v AS value,1 AS one FROM storetest ORDER BY k DESC"), statement("SELECT k AS name FROM storetest WHERE k='nobody'"))
		if res[0].Len() != 4 || res[0].Column("name") != 0 || res[0].Column("value") != 1 || res[0].Column("one") != 2 || res[0].Column("nowhere") != -1 {
			s.Fatalf("%d rows of %v", res[0].Len(), res[0].Columns)
		}
		for r, want := range []engine.Value{engine.Float(4.5), engine.Null(), engine.Text("two")} {
			if row := res[0].Row(r); row[1] != want || row[2] != engine.Int(1) {
				s.Errorf("row %d: %v, want %v", r, row, want)
			}
		}
		// A wire that tells the kinds of a column once may take this for a real.
		if n, ok := res[0].Row(3)[1].Float(); !ok || n != 1 {
			s.Errorf("row 3: %v, want 1", res[0].Row(3))
		}
		if res[1].Len() != 0 || res[1].Column("name") != 0 {
			s.Errorf("a query without rows: %d rows of %v", res[1].Len(), res[1].Columns)
		}
	}},
	{promise: "parameters go to their places, also many of them and more than once", column: "TEXT", run: func(s *seam) {
		s.exec(statement("INSERT INTO storetest(k,v) VALUES(?,?),(?,?)", "a", "first", "b", "second"))
		res := s.ask(statement("SELECT k AS k FROM storetest WHERE v=? AND k<>? OR v=? AND k=?", "first", "b", "nobody's", "b"), statement("SELECT '?' AS q,? AS p", "x"))
		if res[0].Len() != 1 || res[0].Row(0)[0] != engine.Text("a") {
			s.Errorf("got %v, want a", res[0].Values)
		}
		if row := res[1].Row(0); row[0] != engine.Text("?") || row[1] != engine.Text("x") {
			s.Errorf("got %v, want ? and x", row)
		}
	}},
	{promise: "numbered parameters go where their numbers say, in any order and repeatedly", column: "TEXT", run: func(s *seam) {
		s.exec(statement("INSERT INTO storetest(k,v) SELECT ?2,?1 WHERE ?3=?3 AND ?2<>?1", "value", "key", 7))
		res := s.ask(statement("SELECT v AS v,?2 AS b,?1 AS a FROM storetest WHERE k=?2 AND ?1=?1", 5, "key"))
		row := res[0].Row(0)
		v, _ := row[0].Text()
		b, _ := row[1].Text()
		if a, _ := row[2].Int(); v != "value" || b != "key" || a != 5 {
			s.Errorf("got %v", row)
		}
	}},
	{promise: "a blob that others wrote does not stop the rows beside it", mixed: true, run: func(s *seam) {
		s.exec(put("a", "text"), statement("INSERT INTO storetest(k,v) VALUES('b',x'414243')"), put("c", "text"))
		res := s.ask(statement("SELECT k AS k,v AS v FROM storetest ORDER BY k"))
		if res[0].Len() != 3 || res[0].Row(0)[1] != engine.Text("text") || res[0].Row(2)[1] != engine.Text("text") {
			s.Fatalf("got %v", res[0].Values)
		}
		if got, ok := res[0].Row(1)[1].Bytes(); !ok || got != "ABC" {
			s.Errorf("the blob came as %v, want the bytes ABC", res[0].Row(1)[1])
		}
	}},
	{promise: "the engine's clock is one instant per call, near this host's", run: func(s *seam) {
		before := time.Now().UnixMicro()
		s.exec(statement("INSERT INTO storetest_other(seq,k,n) VALUES(?,?,?)", 1, "k", engine.Now(0)), statement("INSERT INTO storetest_other(seq,k,n) VALUES(?,?,?)", 2, "k", engine.Now(-90*time.Minute)))
		after := time.Now().UnixMicro()
		const skew = int64(time.Minute / time.Microsecond)
		res := s.ask(statement("SELECT n AS n,?1-n AS ago FROM storetest_other ORDER BY seq", engine.Now(time.Second)))
		first, _ := res[0].Row(0)[0].Int()
		second, _ := res[0].Row(1)[0].Int()
		if first < before-skew || first > after+skew {
			s.Errorf("now was bound as %d, want it between %d and %d", first, before, after)
		}
		if d := first - second; d != int64(90*time.Minute/time.Microsecond) {
			s.Errorf("two values of one call are %d us apart, want 90 minutes", d)
		}
		if ago, _ := res[0].Row(0)[1].Int(); ago < int64(time.Second/time.Microsecond) {
			s.Errorf("a second after the present is %d us after the insert, want at least 1000000", ago)
		}
	}},
}
