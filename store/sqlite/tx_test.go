package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/store/engine"
)

func begin(t *testing.T, e *Engine) engine.Tx {
	t.Helper()
	tx, err := e.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func within(t *testing.T, tx engine.Tx, stmts ...engine.Statement) []engine.Result {
	t.Helper()
	res, err := tx.Exec(context.Background(), stmts)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestTransactionsTakeTurns has transactions and plain writes wait for one that is
// open, and come in the order in which they began.
func TestTransactionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openKV(t, ":memory:")
		first := begin(t, e)
		within(t, first, put("first", 0))
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				stmt := st("INSERT INTO kv SELECT ?, count(*) FROM kv", fmt.Sprint(i))
				if i%2 == 0 {
					exec2(t, e, stmt)
					return
				}
				tx, err := e.Begin(context.Background())
				if err == nil {
					_, err = tx.Exec(context.Background(), []engine.Statement{stmt})
					err = errors.Join(err, tx.Commit(context.Background()))
				}
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // it is in line
		}
		if err := first.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if n := number(t, e, "SELECT count(*) FROM kv WHERE k <> 'first' AND CAST(k AS INTEGER) + 1 <> v"); n != 0 {
			t.Errorf("%d transactions were out of order", n)
		}
	})
}

// TestTransactionOnALockedFile has another engine keep the file.
func TestTransactionOnALockedFile(t *testing.T) {
	path := tempDB(t)
	one, two := openKV(t, path), openKV(t, path, WithBusyTimeout(20*time.Millisecond))
	tx := begin(t, one)
	within(t, tx, put("a", 1))
	_, err := two.Begin(context.Background())
	wantErr(t, err, engine.ErrUnavailable, engine.ErrNotApplied)
	_, err = two.Exec(context.Background(), []engine.Statement{put("b", 1)})
	wantErr(t, err, engine.ErrUnavailable, engine.ErrNotApplied)
	if n := number(t, two, "SELECT count(*) FROM kv"); n != 0 {
		t.Errorf("a reader sees %d rows", n)
	}
	tx.Rollback()
	other := begin(t, two)
	within(t, other, put("b", 1))
	if err := other.Commit(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestTransactionMayNotEndItself has statements try to end the transaction.
func TestTransactionMayNotEndItself(t *testing.T) {
	e := openKV(t, tempDB(t))
	for _, sql := range []string{"COMMIT", "ROLLBACK", "SAVEPOINT x", "BEGIN"} {
		tx := begin(t, e)
		within(t, tx, put("a", 1))
		_, err := tx.Exec(context.Background(), []engine.Statement{st(sql)})
		wantStatement(t, err, 0)
		tx.Rollback()
	}
	if n := number(t, e, "SELECT count(*) FROM kv"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestFaultsInATransaction makes the file system fail in COMMIT and panic while a
// statement runs.
func TestFaultsInATransaction(t *testing.T) {
	var log bytes.Buffer
	e := openFaulty(t, &log)
	exec(t, e, put("there", 1))

	tx := begin(t, e)
	within(t, tx, put("a", strings.Repeat("a", 20_000)))
	walWrite.Store(after(1, func() error { return syscall.ENOSPC }))
	err := tx.Commit(context.Background())
	noFaults()
	wantErr(t, err, engine.ErrFull, engine.ErrNotApplied)
	tx.Rollback()

	tx = begin(t, e)
	within(t, tx, put("b", 1))
	walWrite.Store(after(0, func() error { return syscall.EIO }))
	err = tx.Commit(context.Background())
	noFaults()
	wantErr(t, err, engine.ErrOutcomeUnknown)
	tx.Rollback()

	configure(t, e, "cache_size=10")
	tx = begin(t, e)
	walWrite.Store(after(10, func() error { noFaults(); panic("injected") }))
	_, err = tx.Exec(context.Background(), []engine.Statement{st("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 200) INSERT INTO kv SELECT i, printf('%4000d', i) FROM c")})
	noFaults()
	wantErr(t, err, engine.ErrUnavailable, engine.ErrNotApplied)
	tx.Rollback()

	exec(t, e, put("after", 1))
	if n := number(t, e, "SELECT count(*) FROM kv"); n < 2 || n > 3 {
		t.Errorf("%d rows, want those of before and after, and perhaps that of the unknown commit", n)
	}
	if n := strings.Count(log.String(), "connection replaced"); n != 2 {
		t.Errorf("%d connections replaced, want 2: %s", n, log.String())
	}
}

// TestCloseInTheMiddleOfATransaction closes the engine while statements run.
func TestCloseInTheMiddleOfATransaction(t *testing.T) {
	for i := range 10 {
		e := openKV(t, tempDB(t))
		tx := begin(t, e)
		within(t, tx, put("a", 1))
		done := make(chan error, 1)
		started := make(chan struct{})
		go func() {
			close(started)
			for {
				if _, err := tx.Exec(context.Background(), []engine.Statement{st("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?) SELECT count(*) FROM c", i*10_000)}); err != nil {
					done <- err
					return
				}
			}
		}()
		<-started
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, <-done, engine.ErrClosed, engine.ErrNotApplied)
		wantErr(t, tx.Commit(context.Background()), engine.ErrNotApplied)
		_, err := e.Begin(context.Background())
		wantErr(t, err, engine.ErrClosed, engine.ErrNotApplied)
	}
}
