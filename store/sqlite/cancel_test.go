package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// endless inserts rows until it is interrupted.
const endless = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) INSERT INTO kv SELECT i, i FROM c"

// endlessRead reads until it is interrupted.
const endlessRead = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT max(i) FROM c"

func TestContextEndsInStatement(t *testing.T) {
	onEach(t, func(t *testing.T, e *Engine) {
		for range 3 {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			_, err := e.Exec(ctx, []engine.Statement{put("first", 1), st(endless)})
			wantErr(t, err, context.DeadlineExceeded, engine.ErrNotApplied)
			cancel()

			ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
			_, err = e.Query(ctx, engine.Linearizable, []engine.Statement{st("SELECT 1"), st(endlessRead)})
			wantErr(t, err, context.DeadlineExceeded, engine.ErrNotApplied)
			cancel()
		}
		exec(t, e, put("last", 1))
		if n := number(t, e, "SELECT count(*) FROM kv"); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
		if len(e.readers.idle) == 0 || e.writer.conn == nil {
			t.Error("an interrupt cost a connection")
		}
	})
}

func TestContextEndedBefore(t *testing.T) {
	onEach(t, func(t *testing.T, e *Engine) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := e.Exec(ctx, []engine.Statement{put("a", 1)})
		wantErr(t, err, context.Canceled, engine.ErrNotApplied)
		_, err = e.Query(ctx, engine.Linearizable, []engine.Statement{st("SELECT 1")})
		wantErr(t, err, context.Canceled, engine.ErrNotApplied)
		wantErr(t, e.Define(ctx, []string{"CREATE TABLE x (y)"}), context.Canceled, engine.ErrNotApplied)
		wantErr(t, e.Ping(ctx), context.Canceled)
		if n := number(t, e, "SELECT count(*) FROM kv"); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestContextEndsWhileQueued has calls wait for the writer and for a reader.
func TestContextEndsWhileQueued(t *testing.T) {
	e := openKV(t, tempDB(t), WithReaders(1))
	e.writer.slot <- struct{}{}
	e.readers.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	_, err := e.Exec(ctx, []engine.Statement{put("a", 1)})
	wantErr(t, err, context.DeadlineExceeded, engine.ErrNotApplied)
	_, err = e.Query(ctx, engine.Linearizable, []engine.Statement{st("SELECT 1")})
	wantErr(t, err, context.DeadlineExceeded, engine.ErrNotApplied)
	<-e.writer.slot
	<-e.readers.slots
	exec(t, e, put("a", 1))
}

// hold begins a write transaction on the engine's writer and returns the end of
// it.
func hold(t *testing.T, e *Engine) (release func()) {
	t.Helper()
	e.writer.slot <- struct{}{}
	c := e.writer.conn
	if err := c.own(c.begin); err != nil {
		t.Fatal(err)
	}
	return func() {
		c.undo()
		<-e.writer.slot
	}
}

func TestFileLockedByAnother(t *testing.T) {
	path := tempDB(t)
	one := openKV(t, path)
	two := openKV(t, path, WithBusyTimeout(30*time.Millisecond))
	patient := openKV(t, path)
	release := hold(t, one)

	// Beyond the busy timeout.
	_, err := two.Exec(context.Background(), []engine.Statement{put("a", 1)})
	wantErr(t, err, engine.ErrUnavailable, engine.ErrNotApplied)
	if s := err.Error(); strings.Contains(s, "database is locked") || !strings.Contains(s, "another connection kept the database file locked for ") {
		t.Errorf("error %q", s)
	}
	wantErr(t, two.Ping(context.Background()), engine.ErrUnavailable)
	wantErr(t, two.Define(context.Background(), []string{"CREATE TABLE x (y)"}), engine.ErrUnavailable)

	// Beyond the context.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = patient.Exec(ctx, []engine.Statement{put("a", 1)})
	wantErr(t, err, context.DeadlineExceeded, engine.ErrNotApplied)

	// Reads do not care.
	if n := number(t, two, "SELECT count(*) FROM kv"); n != 0 {
		t.Errorf("%d rows", n)
	}

	// Close ends the wait.
	closing := open(t, path)
	failed := make(chan error)
	go func() {
		_, err := closing.Exec(context.Background(), []engine.Statement{put("a", 1)})
		failed <- err
	}()
	for len(closing.writer.slot) == 0 {
		yield()
	}
	if err := closing.Close(); err != nil {
		t.Error(err)
	}
	wantErr(t, <-failed, engine.ErrClosed, engine.ErrNotApplied)

	// Waiting works.
	go func() {
		_, err := patient.Exec(context.Background(), []engine.Statement{put("a", 1)})
		failed <- err
	}()
	for len(patient.writer.slot) == 0 {
		yield()
	}
	release()
	if err := <-failed; err != nil {
		t.Error(err)
	}
	exec(t, two, put("b", 1))
	if err := two.Ping(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestRandomDeadlines lets contexts end at any point of many commits. Each commit
// must be whole or absent, as its error says, and the engine must go on.
func TestRandomDeadlines(t *testing.T) {
	const goroutines, each = 8, 50
	onEach(t, func(t *testing.T, e *Engine) {
		define(t, e, "CREATE TABLE ledger (k TEXT PRIMARY KEY)")
		commit := func(ctx context.Context, k string) error {
			_, err := e.Exec(ctx, []engine.Statement{
				put(k, strings.Repeat("state", 50)),
				st("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?) UPDATE kv SET v = v || (SELECT max(i) FROM c) WHERE k = ?", 300, k),
				st("INSERT INTO ledger (k) VALUES (?)", k),
			})
			return err
		}
		// About half of the deadlines end in time, on fast machines and slow ones.
		start := time.Now()
		for i := range 10 {
			if err := commit(context.Background(), fmt.Sprint("before-", i)); err != nil {
				t.Fatal(err)
			}
		}
		limit := time.Since(start) / 10 * goroutines * 2

		var mu sync.Mutex
		errs := map[string]error{}
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range each {
					k := fmt.Sprintf("%d-%d", g, i)
					ctx, cancel := context.WithTimeout(context.Background(), rand.N(limit))
					err := commit(ctx, k)
					cancel()
					mu.Lock()
					errs[k] = err
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for i := range 20 {
			if err := commit(context.Background(), fmt.Sprint("after-", i)); err != nil {
				t.Fatal("without a deadline:", err)
			}
		}
		there := map[string]bool{}
		res := query(t, e, st("SELECT kv.k, ledger.k FROM kv FULL JOIN ledger ON kv.k = ledger.k"))[0]
		for i := range res.Len() {
			k, ok := res.Row(i)[0].Text()
			if l, _ := res.Row(i)[1].Text(); !ok || k != l {
				t.Errorf("half a commit: %v", res.Row(i))
			}
			there[k] = true
		}
		applied := 0
		for k, err := range errs {
			switch {
			case err == nil:
				applied++
			case !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, engine.ErrNotApplied):
				t.Errorf("%s: unexpected error %v", k, err)
			}
			if there[k] != (err == nil) {
				t.Errorf("%s: in the database: %v, error: %v", k, there[k], err)
			}
		}
		t.Logf("%d of %d commits applied", applied, len(errs))
	})
}
