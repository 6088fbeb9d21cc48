package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/quorate/quorate/store/engine"
)

var engineCases = append(append(append([]engineCase{}, execCases...), valueCases...), callCases...)

var execCases = []engineCase{
	{promise: "statements run in order and each has its result", run: func(s *seam) {
		res := s.exec(put("a", 1), put("b", 2), statement("UPDATE storetest SET v=v+10"), statement("DELETE FROM storetest WHERE v=?", 12), statement("UPDATE storetest SET v=0 WHERE k='nobody'"))
		for i, want := range []int64{1, 1, 2, 1, 0} {
			if res[i].RowsAffected != want {
				s.Errorf("statement %d affected %d rows, want %d", i, res[i].RowsAffected, want)
			}
			if res[i].Len() != 0 {
				s.Errorf("statement %d has %d rows", i, res[i].Len())
			}
		}
		if n := s.oracle("SELECT v AS v FROM storetest"); n != 11 {
			s.Errorf("left is %d, want 11", n)
		}
	}},
	{promise: "a statement sees what those before it did", run: func(s *seam) {
		stmts := []engine.Statement{put("a", 1)}
		for range 20 {
			stmts = append(stmts, statement("UPDATE storetest SET v=v*2+1 WHERE k=?", "a"))
		}
		s.exec(stmts...)
		if n := s.oracle("SELECT v AS v FROM storetest WHERE k='a'"); n != 1<<21-1 {
			s.Errorf("got %d, want %d", n, 1<<21-1)
		}
	}},
	{promise: "a refused statement undoes all, whatever its place, and is named", run: func(s *seam) {
		s.exec(put("taken", 0))
		for what, bad := range map[string]engine.Statement{
			"a key that is taken":   put("taken", 1),
			"a null":                statement("INSERT INTO storetest(k,v) VALUES(?,?)", nil, 1),
			"a syntax error":        statement("INSERT INTO storetest(k,v VALUES(?,?)", "z", 1),
			"a table not there":     statement("INSERT INTO storetest_nowhere(k) VALUES(?)", "z"),
			"a column not there":    statement("UPDATE storetest SET nowhere=1"),
			"a RETURNING statement": {SQL: "INSERT INTO storetest(k,v) VALUES(?,?) RETURNING k", Args: values([]any{"taken", 1}), Returning: true},
			"a json error":          statement("INSERT INTO storetest(k,v) VALUES('z',json_extract(?,'$.a'))", "not json"),
		} {
			for _, place := range []int{0, 1, 4} {
				var stmts []engine.Statement
				for i := range 5 {
					if i == place {
						stmts = append(stmts, bad)
					} else {
						stmts = append(stmts, put(fmt.Sprint(i), i))
					}
				}
				_, err := s.eng.Exec(s.ctx, stmts)
				s.refused(err, place)
				if n := s.count(); n != 1 {
					s.Errorf("%s at %d: %d rows, want the one of before", what, place, n)
				}
			}
		}
		s.exec(put("after", 1))
	}},
	{promise: "an empty list does nothing", run: func(s *seam) {
		for _, stmts := range [][]engine.Statement{nil, {}} {
			if res, err := s.eng.Exec(s.ctx, stmts); err != nil || len(res) != 0 {
				s.Errorf("exec: %v, %v", res, err)
			}
			if res, err := s.eng.Query(s.ctx, engine.Linearizable, stmts); err != nil || len(res) != 0 {
				s.Errorf("query: %v, %v", res, err)
			}
		}
	}},
	{promise: "RETURNING returns columns and rows, and columns where no row is", run: func(s *seam) {
		insert := "INSERT INTO storetest(k,v) VALUES(?,?),(?,?) ON CONFLICT(k) DO NOTHING RETURNING k,v"
		returning := func(sql string, args ...any) engine.Statement {
			return engine.Statement{SQL: sql, Args: values(args), Returning: true}
		}
		res := s.exec(put("x", 0), returning(insert, "a", 1, "b", 2), returning(insert, "a", 3, "c", 4), returning(insert, "a", 5, "b", 6), returning("DELETE FROM storetest WHERE k=? RETURNING v AS gone", "c"), put("y", 0))
		for i, want := range []string{"[]", "[[a 1] [b 2]]", "[[c 4]]", "[]", "[[4]]", "[]"} {
			var rows []string
			for r := range res[i].Len() {
				var cells []string
				for _, v := range res[i].Row(r) {
					text, ok := v.Text()
					if !ok {
						text = v.String()
					}
					cells = append(cells, text)
				}
				rows = append(rows, "["+strings.Join(cells, " ")+"]")
			}
			if got := "[" + strings.Join(rows, " ") + "]"; got != want {
				s.Errorf("statement %d returned %s, want %s", i, got, want)
			}
		}
		for _, i := range []int{1, 2, 3} {
			if res[i].Column("k") != 0 || res[i].Column("v") != 1 {
				s.Errorf("statement %d has the columns %v", i, res[i].Columns)
			}
		}
		if res[4].Column("gone") != 0 {
			s.Errorf("statement 4 has the columns %v", res[4].Columns)
		}
	}},
	{promise: "counts and last row of a multi-row INSERT SELECT tell the numbers of all its rows", run: func(s *seam) {
		insert := func(from int) engine.Statement {
			return statement("WITH w(ord,k) AS (VALUES (?,?),(?,?),(?,?)) INSERT INTO storetest_other(k) SELECT w.k FROM w WHERE w.ord>=? ORDER BY w.ord DESC", 1, "a", 2, "b", 3, "c", from)
		}
		res := s.exec(insert(1), insert(2), insert(4), insert(3), statement("DELETE FROM storetest_other"), insert(1))
		next := int64(1)
		for i, want := range []int64{3, 2, 0, 1, 6, 3} {
			if res[i].RowsAffected != want {
				s.Errorf("statement %d affected %d rows, want %d", i, res[i].RowsAffected, want)
			}
			if i == 4 || want == 0 {
				continue
			}
			if next += want; res[i].LastInsertID != next-1 && res[i].LastInsertID != 0 { // 0: the engine does not tell
				s.Errorf("statement %d: last row %d, want %d", i, res[i].LastInsertID, next-1)
			}
		}
		if k := askOracle(s.ctx, s.T, &s.db, "SELECT k AS k FROM storetest_other WHERE seq=?", values([]any{7})); len(k) != 1 || k[0][0].String() != `"c"` {
			s.Errorf("row 7 is %v, want c, the first inserted after all were deleted", k)
		}
	}},
	{promise: "an upsert counts what it changed", run: func(s *seam) {
		upsert := func(cond string) engine.Statement {
			return statement("WITH w(k,v) AS (VALUES (?,?)) INSERT INTO storetest(k,v) SELECT w.k,w.v FROM w WHERE "+cond+" ON CONFLICT(k) DO UPDATE SET v=excluded.v", "a", 1)
		}
		res := s.exec(upsert("true"), upsert("true"), upsert("EXISTS(SELECT 1 FROM storetest t WHERE t.k=w.k AND t.v=99)"))
		for i, want := range []int64{1, 1, 0} {
			if res[i].RowsAffected != want {
				s.Errorf("statement %d affected %d rows, want %d", i, res[i].RowsAffected, want)
			}
		}
	}},
	{promise: "as many parameters as the traits say fit a statement", run: func(s *seam) {
		n := s.eng.Traits().MaxParams
		args := make([]engine.Value, n)
		for i := range args {
			args[i] = engine.Text(fmt.Sprint("nobody-", i))
		}
		args[0], args[n-1] = engine.Text("a"), engine.Text("b")
		where := " FROM storetest WHERE k IN (?" + strings.Repeat(",?", n-1) + ")"
		s.exec(put("a", 1), put("b", 2), put("c", 3))
		res := s.ask(engine.Statement{SQL: "SELECT count(*) AS n" + where, Args: args})
		if got, _ := res[0].Row(0)[0].Int(); got != 2 {
			s.Errorf("%d rows found, want 2", got)
		}
		if res := s.exec(engine.Statement{SQL: "DELETE" + where, Args: args}); res[0].RowsAffected != 2 || s.count() != 1 {
			s.Errorf("%d rows deleted and %d left, want 2 and 1", res[0].RowsAffected, s.count())
		}
	}},
	{promise: "thousands of statements are one transaction", run: func(s *seam) {
		const n = 2000
		stmts := make([]engine.Statement, n)
		for i := range stmts {
			stmts[i] = put(fmt.Sprint(i), i)
		}
		s.exec(stmts...)
		stmts = append(stmts[:0:0], stmts...)
		for i := range stmts {
			stmts[i] = put(fmt.Sprint("more", i), i)
		}
		stmts[n-1] = put("0", 0)
		_, err := s.eng.Exec(s.ctx, stmts)
		s.refused(err, n-1)
		if got := s.count(); got != n {
			s.Errorf("%d rows, want %d", got, n)
		}
	}},
	{promise: "calls at the same time are each whole, and none is lost", run: func(s *seam) {
		const workers, rounds = 8, 15
		engines := []engine.Engine{s.eng}
		if s.db.Again != nil {
			other := s.db.Again(s.T)
			s.Cleanup(func() { s.must(other.Close()) })
			engines = append(engines, other)
		}
		s.exec(put("sum", 0), put("count", 0))
		var wg sync.WaitGroup
		for w := range workers {
			eng := engines[w%len(engines)]
			wg.Go(func() {
				for r := range rounds {
					_, err := eng.Exec(s.ctx, []engine.Statement{
						put(fmt.Sprint(w, "-", r), w), statement("UPDATE storetest SET v=v+1 WHERE k='count'"), statement("UPDATE storetest SET v=v+? WHERE k='sum'", w),
					})
					if err != nil {
						s.Errorf("worker %d: %v", w, err)
						return
					}
					// The two numbers are changed together, so they are read together.
					res, err := eng.Query(s.ctx, engine.Linearizable, []engine.Statement{
						statement("SELECT v AS v FROM storetest WHERE k='count'"), statement("SELECT count(*) AS n FROM storetest"),
					})
					if err != nil {
						s.Errorf("worker %d: %v", w, err)
						return
					}
					count, _ := res[0].Row(0)[0].Int()
					rows, _ := res[1].Row(0)[0].Int()
					if rows != count+2 {
						s.Errorf("one query saw %d rows and then %d counted: not one snapshot", rows-2, count)
					}
				}
			})
		}
		wg.Wait()
		if n, sum := s.oracle("SELECT v AS v FROM storetest WHERE k='count'"), s.oracle("SELECT v AS v FROM storetest WHERE k='sum'"); n != workers*rounds || sum != rounds*workers*(workers-1)/2 {
			s.Errorf("counted %d with the sum %d, want %d and %d", n, sum, workers*rounds, rounds*workers*(workers-1)/2)
		}
	}},
}

var callCases = []engineCase{
	{promise: "a query changes nothing, whatever it asks", run: func(s *seam) {
		s.exec(put("a", 1))
		for _, sql := range []string{
			"INSERT INTO storetest(k,v) VALUES('b',2)", "UPDATE storetest SET v=2", "DELETE FROM storetest", "DROP TABLE storetest",
			"INSERT INTO storetest(k,v) VALUES('b',2) RETURNING k", "CREATE TABLE storetest_nowhere(a)",
		} {
			_, err := s.eng.Query(s.ctx, engine.Linearizable, []engine.Statement{statement("SELECT 1 AS one"), {SQL: sql}})
			if err == nil {
				s.Errorf("%s: no error", sql)
			} else if s.oneKind(err) != engine.NotApplied {
				s.Errorf("%s: %v, want not applied", sql, err)
			}
			if n := s.oracle("SELECT sum(v) AS n FROM storetest"); n != 1 {
				s.Errorf("%s changed the table", sql)
			}
		}
		if n := s.oracle("SELECT count(*) AS n FROM sqlite_master WHERE name='storetest_nowhere'"); n != 0 {
			s.Error("a query made a table")
		}
	}},
	{promise: "a query that is refused says which statement, and applied nothing", run: func(s *seam) {
		_, err := s.eng.Query(s.ctx, engine.Linearizable, []engine.Statement{statement("SELECT 1 AS one"), statement("SELECT nowhere FROM storetest"), statement("SELECT 1 AS one")})
		s.refused(err, 1)
	}},
	{promise: "a query sees what was acknowledged before it began, at any engine", run: func(s *seam) {
		other := s.eng
		if s.db.Again != nil {
			other = s.db.Again(s.T)
			s.Cleanup(func() { s.must(other.Close()) })
		}
		s.exec(put("a", 0))
		for i := range 20 {
			s.exec(statement("UPDATE storetest SET v=?", i))
			res, err := other.Query(s.ctx, engine.Linearizable, []engine.Statement{statement("SELECT v AS v FROM storetest")})
			s.must(err)
			if v, _ := res[0].Row(0)[0].Int(); v != int64(i) {
				s.Errorf("read %d after %d was acknowledged", v, i)
			}
		}
	}},
	{promise: "every level of consistency is answered", run: func(s *seam) {
		for _, level := range []engine.Consistency{engine.Linearizable, engine.Weak, engine.Stale} {
			// Not of the table, which a node that is behind need not have.
			res, err := s.eng.Query(s.ctx, level, []engine.Statement{statement("SELECT 1 AS one")})
			if err != nil || res[0].Len() != 1 {
				s.Errorf("%v: %v, %v", level, res, err)
			}
		}
	}},
	{promise: "a context that has ended: not applied, with the context's error", run: func(s *seam) {
		ctx, cancel := context.WithCancel(s.ctx)
		cancel()
		_, execErr := s.eng.Exec(ctx, []engine.Statement{put("a", 1)})
		_, queryErr := s.eng.Query(ctx, engine.Linearizable, []engine.Statement{statement("SELECT 1 AS one")})
		for op, err := range map[string]error{
			"exec": execErr, "query": queryErr, "define": s.eng.Define(ctx, []string{"CREATE TABLE IF NOT EXISTS storetest(k)"}), "ping": s.eng.Ping(ctx),
		} {
			if !errors.Is(err, context.Canceled) {
				s.Errorf("%s: got %v, want the context's end", op, err)
			} else if s.oneKind(err) != engine.NotApplied {
				s.Errorf("%s: %v, want not applied", op, err)
			}
		}
		if n := s.count(); n != 0 {
			s.Errorf("%d rows were written", n)
		}
	}},
	{promise: "a context that ends at any moment: the error agrees with the database", run: func(s *seam) {
		for i := range 60 {
			k := fmt.Sprint(i)
			ctx, cancel := context.WithCancel(s.ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range i * 20 {
					_ = ctx.Err()
				}
				cancel()
			}()
			_, err := s.eng.Exec(ctx, []engine.Statement{put(k, 1), put(k+"/", 2)})
			<-ended
			n := s.oracle("SELECT count(*) AS n FROM storetest WHERE k IN (?,?)", k, k+"/")
			switch outcome := engine.OutcomeOf(err); {
			case n == 1:
				s.Errorf("half a transaction was applied (%v)", err)
			case outcome == engine.Applied && n != 2:
				s.Errorf("said to be applied (%v), and is not there", err)
			case outcome == engine.NotApplied && n != 0:
				s.Errorf("said not to be applied (%v), and is there", err)
			}
			if err != nil {
				s.oneKind(err)
			}
		}
		s.exec(put("after", 1))
	}},
	{promise: "schema statements may be run again and by many at once; a column that is there is done", run: func(s *seam) {
		ddl := []string{
			"CREATE TABLE IF NOT EXISTS storetest(k TEXT NOT NULL PRIMARY KEY," + s.column + ")", "ALTER TABLE storetest ADD COLUMN extra TEXT NOT NULL DEFAULT 'none'",
			"CREATE INDEX IF NOT EXISTS storetest_extra ON storetest(extra,k)", "ALTER TABLE storetest ADD COLUMN second INTEGER",
		}
		engines := []engine.Engine{s.eng}
		if s.db.Again != nil {
			other := s.db.Again(s.T)
			s.Cleanup(func() { s.must(other.Close()) })
			engines = append(engines, other)
		}
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				for range 2 {
					if err := engines[i%len(engines)].Define(s.ctx, ddl); err != nil {
						s.Error(err)
					}
				}
			})
		}
		wg.Wait()
		s.exec(statement("INSERT INTO storetest(k,second) VALUES('a',2)"))
		if n := s.oracle("SELECT count(*) AS n FROM storetest WHERE extra='none' AND second=2"); n != 1 {
			s.Error("the columns are not there")
		}
	}},
	{promise: "a schema statement that is wrong is an error", run: func(s *seam) {
		for _, sql := range []string{"CREATE TABLE", "ALTER TABLE storetest_nowhere ADD COLUMN a", "CREATE INDEX i ON storetest(nowhere)"} {
			if err := s.eng.Define(s.ctx, []string{sql}); err == nil {
				s.Errorf("%s: no error", sql)
			} else {
				s.oneKind(err)
			}
		}
	}},
	{promise: "the traits are usable and do not change", run: func(s *seam) {
		tr := s.eng.Traits()
		if tr.Name == "" || tr.MaxParams < 100 || tr.RowsPerStatement < 1 || tr.MaxBatchBytes < 1 || tr.Writers < 1 || tr.Readers < 1 {
			s.Errorf("traits %+v", tr)
		}
		s.exec(put("a", 1))
		if s.eng.Traits() != tr {
			s.Errorf("traits changed to %+v", s.eng.Traits())
		}
	}},
	{promise: "a ping answers", run: func(s *seam) { s.must(s.eng.Ping(s.ctx)) }},
	{promise: "a closed engine says closed, and nothing is applied; closing twice is no error", run: func(s *seam) {
		var other engine.Engine
		if s.db.Again != nil {
			other = s.db.Again(s.T)
			s.Cleanup(func() { s.must(other.Close()) })
		}
		s.must(s.eng.Close())
		s.must(s.eng.Close())
		_, execErr := s.eng.Exec(s.ctx, []engine.Statement{put("a", 1)})
		_, queryErr := s.eng.Query(s.ctx, engine.Linearizable, []engine.Statement{statement("SELECT 1 AS one")})
		for op, err := range map[string]error{
			"exec": execErr, "query": queryErr, "define": s.eng.Define(s.ctx, []string{"CREATE TABLE IF NOT EXISTS storetest(k)"}), "ping": s.eng.Ping(s.ctx),
		} {
			if !errors.Is(err, engine.ErrClosed) {
				s.Errorf("%s: got %v, want closed", op, err)
			} else if s.oneKind(err) != engine.NotApplied {
				s.Errorf("%s: %v, want not applied", op, err)
			}
		}
		if other != nil {
			res, err := other.Query(s.ctx, engine.Linearizable, []engine.Statement{statement("SELECT count(*) AS n FROM storetest")})
			s.must(err)
			if n, _ := res[0].Row(0)[0].Int(); n != 0 {
				s.Errorf("%d rows were written", n)
			}
		}
	}},
	{promise: "calls that are under way when the engine closes end, whole or absent", run: func(s *seam) {
		var other engine.Engine
		if s.db.Again != nil {
			other = s.db.Again(s.T)
			s.Cleanup(func() { s.must(other.Close()) })
		}
		const workers = 6
		acknowledged := make([]int64, workers)
		unsure := make([]int64, workers)
		started := make(chan struct{}, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := 0; ; i++ {
					if i == 1 {
						started <- struct{}{}
					}
					_, err := s.eng.Exec(s.ctx, []engine.Statement{put(fmt.Sprint(w, "-", i), 1), put(fmt.Sprint(w, "-", i, "/"), 1)})
					switch {
					case err == nil:
						acknowledged[w]++
						continue
					case s.oneKind(err) != engine.NotApplied:
						unsure[w]++
					case !errors.Is(err, engine.ErrClosed):
						s.Errorf("worker %d: got %v, want closed", w, err)
					}
					if i == 0 {
						started <- struct{}{}
					}
					return
				}
			})
		}
		for range workers {
			<-started
		}
		s.must(s.eng.Close())
		wg.Wait()
		if other == nil {
			return // the database has gone with its engine
		}
		least, most := int64(0), int64(0)
		for w := range workers {
			least += 2 * acknowledged[w]
			most += 2 * (acknowledged[w] + unsure[w])
		}
		res, err := other.Query(s.ctx, engine.Linearizable, []engine.Statement{statement("SELECT count(*) AS n FROM storetest")})
		s.must(err)
		if n, _ := res[0].Row(0)[0].Int(); n < least || n > most || n%2 != 0 {
			s.Errorf("%d rows, want %d to %d, in pairs", n, least, most)
		}
	}},
}
