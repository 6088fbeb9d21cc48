package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorate/quorate/store/engine"
)

// txCases are the promises of an [engine.Transactor].
var txCases = []engineCase{
	{promise: "a transaction reads what it wrote, and others see it after its commit only", run: func(s *seam) {
		tx := s.begin()
		s.in(tx, put("a", 1), put("b", 2))
		if n := s.in(tx, statement("SELECT count(*) AS n FROM storetest"))[0]; n.Len() != 1 || !isInt(n.Row(0)[0], 2) {
			s.Errorf("the transaction sees %v, want its two rows", n.Values)
		}
		if n := s.count(); n != 0 {
			s.Errorf("others see %d rows before the commit", n)
		}
		s.must(tx.Commit(s.ctx))
		if n := s.count(); n != 2 {
			s.Errorf("%d rows after the commit, want 2", n)
		}
		tx.Rollback()
		if n := s.count(); n != 2 {
			s.Errorf("%d rows after a rollback behind the commit, want 2", n)
		}
	}},
	{promise: "a transaction that is rolled back leaves nothing, and the next one works", run: func(s *seam) {
		for range 3 {
			tx := s.begin()
			s.in(tx, put("a", 1), statement("UPDATE storetest SET v=v+1"))
			tx.Rollback()
			tx.Rollback()
		}
		if n := s.count(); n != 0 {
			s.Errorf("%d rows are left", n)
		}
		s.exec(put("a", 1))
	}},
	{promise: "results of a transaction's statements are those of Exec", run: func(s *seam) {
		tx := s.begin()
		defer tx.Rollback()
		res := s.in(tx, put("a", 1), put("b", 2), statement("UPDATE storetest SET v=v+10"),
			engine.Statement{SQL: "DELETE FROM storetest WHERE v=? RETURNING k", Args: values([]any{12}), Returning: true},
			statement("SELECT k AS k,v AS v FROM storetest WHERE k=?", "nobody"))
		for i, want := range []int64{1, 1, 2, 1} {
			if res[i].RowsAffected != want {
				s.Errorf("statement %d affected %d rows, want %d", i, res[i].RowsAffected, want)
			}
		}
		if res[3].Len() != 1 || res[3].Column("k") != 0 {
			s.Errorf("RETURNING gave %v of %v", res[3].Values, res[3].Columns)
		}
		if res[4].Len() != 0 || len(res[4].Columns) != 2 {
			s.Errorf("an empty SELECT gave %v of %v", res[4].Values, res[4].Columns)
		}
	}},
	{promise: "a refused statement ends the transaction and undoes it", run: func(s *seam) {
		s.exec(put("taken", 0))
		tx := s.begin()
		s.in(tx, put("a", 1))
		_, err := tx.Exec(s.ctx, []engine.Statement{put("b", 1), put("taken", 1)})
		s.refused(err, 1)
		if _, err := tx.Exec(s.ctx, []engine.Statement{put("c", 1)}); err == nil || s.oneKind(err) != engine.NotApplied {
			s.Errorf("a statement after that: %v, want not applied", err)
		}
		if err := tx.Commit(s.ctx); err == nil || s.oneKind(err) != engine.NotApplied {
			s.Errorf("a commit after that: %v, want not applied", err)
		}
		tx.Rollback()
		if n := s.count(); n != 1 {
			s.Errorf("%d rows, want the one of before", n)
		}
		s.exec(put("after", 1))
	}},
	{promise: "a transaction that is over refuses what comes", run: func(s *seam) {
		for _, end := range []func(tx engine.Tx){
			func(tx engine.Tx) { s.must(tx.Commit(s.ctx)) },
			func(tx engine.Tx) { tx.Rollback() },
		} {
			tx := s.begin()
			end(tx)
			if _, err := tx.Exec(s.ctx, []engine.Statement{put("a", 1)}); err == nil || s.oneKind(err) != engine.NotApplied {
				s.Errorf("exec: %v, want not applied", err)
			}
			if err := tx.Commit(s.ctx); err == nil || s.oneKind(err) != engine.NotApplied {
				s.Errorf("commit: %v, want not applied", err)
			}
		}
		if n := s.count(); n != 0 {
			s.Errorf("%d rows are left", n)
		}
	}},
	{promise: "a transaction whose context ended before the commit is undone", run: func(s *seam) {
		for range 20 {
			ctx, cancel := context.WithCancel(s.ctx)
			tx, err := s.transactor().Begin(ctx)
			s.must(err)
			s.in(tx, put("a", 1))
			cancel()
			if err := tx.Commit(ctx); !errors.Is(err, context.Canceled) || s.oneKind(err) != engine.NotApplied {
				s.Errorf("commit: %v, want canceled and not applied", err)
			}
			tx.Rollback()
		}
		if n := s.count(); n != 0 {
			s.Errorf("%d rows are left", n)
		}
		s.exec(put("after", 1))
	}},
	{promise: "a context that ends bounds the calls it was given to alone", run: func(s *seam) {
		ctx, cancel := context.WithCancel(s.ctx)
		tx, err := s.transactor().Begin(ctx)
		s.must(err)
		cancel()
		s.in(tx, put("a", 1))
		s.must(tx.Commit(s.ctx))
		if n := s.count(); n != 1 {
			s.Errorf("%d rows, want 1", n)
		}
		if _, err := s.transactor().Begin(ctx); !errors.Is(err, context.Canceled) || s.oneKind(err) != engine.NotApplied {
			s.Errorf("begin: %v, want canceled and not applied", err)
		}
	}},
	{promise: "a statement that is interrupted ends its transaction and nothing else", run: func(s *seam) {
		s.exec(put("a", 0))
		for i := range 20 {
			tx := s.begin()
			s.in(tx, statement("UPDATE storetest SET v=v+1 WHERE k=?", "a"))
			ctx, cancel := context.WithCancel(s.ctx)
			if i%2 == 0 {
				cancel()
			}
			done := make(chan error, 1)
			go func() {
				_, err := tx.Exec(ctx, []engine.Statement{statement("SELECT count(*) AS n FROM storetest x,storetest y,storetest z")})
				done <- err
			}()
			cancel()
			err := <-done
			if err != nil && (!errors.Is(err, context.Canceled) || s.oneKind(err) != engine.NotApplied) {
				s.Errorf("exec: %v, want canceled and not applied", err)
			}
			tx.Rollback()
		}
		s.exec(statement("UPDATE storetest SET v=v+1 WHERE k=?", "a"))
		if n := s.oracle("SELECT v AS v FROM storetest WHERE k='a'"); n != 1 {
			s.Errorf("the row holds %d, want 1", n)
		}
	}},
	{promise: "transactions that lock one row first are serial", run: func(s *seam) {
		s.exec(put("a", 0))
		const workers, rounds = 8, 10
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for r := range rounds {
					if err := s.increment(fmt.Sprintf("%d-%d", w, r)); err != nil {
						s.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := s.oracle("SELECT v AS v FROM storetest WHERE k='a'"); n != workers*rounds {
			s.Errorf("the row holds %d, want %d", n, workers*rounds)
		}
		if n := s.count(); n != workers*rounds+1 {
			s.Errorf("%d rows, want %d", n, workers*rounds+1)
		}
	}},
	{promise: "all values of now in one call are one instant", run: func(s *seam) {
		tx := s.begin()
		defer tx.Rollback()
		insert := engine.Statement{SQL: "INSERT INTO storetest_other(k,n) VALUES(?1,?2)", Args: []engine.Value{engine.Text("a"), engine.Now(0)}}
		s.in(tx, insert, insert)
		res := s.in(tx, statement("SELECT count(DISTINCT n) AS d,min(n) AS n FROM storetest_other"))[0]
		if !isInt(res.Row(0)[0], 1) {
			s.Errorf("%v instants, want one", res.Row(0)[0])
		}
		if n, ok := res.Row(0)[1].Int(); !ok || n < 1e15 {
			s.Errorf("the instant is %v, want microseconds of today", res.Row(0)[1])
		}
	}},
	{promise: "closing ends an open transaction without a trace", run: func(s *seam) {
		tx := s.begin()
		s.in(tx, put("a", 1))
		s.must(s.eng.Close())
		if _, err := tx.Exec(s.ctx, []engine.Statement{put("b", 1)}); err == nil || s.oneKind(err) != engine.NotApplied {
			s.Errorf("exec: %v, want not applied", err)
		}
		if err := tx.Commit(s.ctx); !errors.Is(err, engine.ErrClosed) || s.oneKind(err) != engine.NotApplied {
			s.Errorf("commit: %v, want closed and not applied", err)
		}
		tx.Rollback()
		if _, err := s.transactor().Begin(s.ctx); !errors.Is(err, engine.ErrClosed) {
			s.Errorf("begin: %v, want closed", err)
		}
	}},
}

func (s *seam) transactor() engine.Transactor { return s.eng.(engine.Transactor) }

func (s *seam) begin() engine.Tx {
	s.Helper()
	tx, err := s.transactor().Begin(s.ctx)
	s.must(err)
	return tx
}

// in runs statements in tx, which must succeed.
func (s *seam) in(tx engine.Tx, stmts ...engine.Statement) []engine.Result {
	s.Helper()
	res, err := tx.Exec(s.ctx, stmts)
	s.must(err)
	if len(res) != len(stmts) {
		s.Fatalf("%d results for %d statements", len(res), len(stmts))
	}
	return res
}

// increment locks the row a, reads it, and writes what follows from that.
func (s *seam) increment(mark string) error {
	tx, err := s.transactor().Begin(s.ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec(s.ctx, []engine.Statement{statement("UPDATE storetest SET v=v WHERE k=?", "a")}); err != nil {
		return err
	}
	res, err := tx.Exec(s.ctx, []engine.Statement{statement("SELECT v AS v FROM storetest WHERE k=?", "a")})
	if err != nil {
		return err
	}
	n, _ := res[0].Row(0)[0].Int()
	if _, err := tx.Exec(s.ctx, []engine.Statement{statement("UPDATE storetest SET v=? WHERE k=?", n+1, "a"), put(mark, 0)}); err != nil {
		return err
	}
	return tx.Commit(s.ctx)
}

func isInt(v engine.Value, want int64) bool {
	n, ok := v.Int()
	return ok && n == want
}
