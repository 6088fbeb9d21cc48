package sqlite

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
)

func TestOptions(t *testing.T) {
	for name, opt := range map[string]Option{
		"durability":   WithDurability(2),
		"busy timeout": WithBusyTimeout(-1),
		"no readers":   WithReaders(0),
		"many readers": WithReaders(maxReaders + 1),
	} {
		if e, err := Open(":memory:", opt); err == nil {
			e.Close()
			t.Errorf("%s: no error", name)
		}
	}
	e := open(t, ":memory:", WithReaders(3), WithLogger(nil))
	if got := e.Traits(); got.Name != "sqlite" || got.Readers != 3 || got.Writers != 1 || got.RowsPerStatement != 1 || got.MaxParams != 32766 || got.MaxBatchBytes != 4<<20 {
		t.Errorf("traits %+v", got)
	}
	if Full.String() != "full" || Normal.String() != "normal" || Durability(9).String() != "invalid" {
		t.Error("names of durabilities")
	}
}

func TestSettings(t *testing.T) {
	for d, want := range map[Durability]int64{Full: 2, Normal: 1} {
		e := open(t, tempDB(t), WithDurability(d))
		if mode, _ := exec(t, e, st("PRAGMA journal_mode"))[0].Values[0].Text(); mode != "wal" {
			t.Errorf("journal mode %q", mode)
		}
		if sync, _ := exec(t, e, st("PRAGMA synchronous"))[0].Values[0].Int(); sync != want {
			t.Errorf("%v: synchronous is %d, want %d", d, sync, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// A database cut off in its header: the magic is there, the rest is nonsense.
	for name, c := range map[string]struct {
		path   string
		reason error
	}{
		"folder":         {dir, engine.ErrUnavailable},
		"missing folder": {filepath.Join(dir, "missing", "q.db"), engine.ErrUnavailable},
		"file as folder": {filepath.Join(file("plain", "x"), "q.db"), engine.ErrUnavailable},
		"empty path":     {"", engine.ErrUnavailable},
		"nul":            {filepath.Join(dir, "a\x00b"), engine.ErrUnavailable},
		"short text":     {file("short.txt", "hello"), engine.ErrProtocol},
		"long text":      {file("long.txt", strings.Repeat("This is not a database. ", 1000)), engine.ErrProtocol},
		"bad header":     {file("header.db", "SQLite format 3\x00"+strings.Repeat("\xff", 5000)), engine.ErrProtocol},
		"device":         {os.DevNull, engine.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadFile(c.path)
			e, err := Open(c.path)
			if err == nil {
				e.Close()
				t.Fatal("no error")
			}
			wantErr(t, err, c.reason, engine.ErrNotApplied)
			t.Log(err)
			if after, _ := os.ReadFile(c.path); !bytes.Equal(before, after) {
				t.Error("the file has changed")
			}
		})
	}
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), "-wal") || strings.HasSuffix(entry.Name(), "-shm") || strings.HasSuffix(entry.Name(), "-journal") {
			t.Errorf("%s was left behind", entry.Name())
		}
	}
}

// TestOddPaths opens names that mean something to SQLite or to URLs.
func TestOddPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"relative.db", "a b%20c#d?e.db", ":memory:x", "ü🚀.db", "quote'.db"} {
		e := openKV(t, path)
		exec(t, e, put("a", 1))
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	// A relative path stays what it was when the folder changes.
	e := openKV(t, "before.db")
	exec(t, e, put("a", 1))
	t.Chdir(t.TempDir())
	if n := number(t, e, "SELECT count(*) FROM kv"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestReopen(t *testing.T) {
	path := tempDB(t)
	e := openKV(t, path)
	exec(t, e, put("a", 1))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	// The last one out leaves a single file.
	entries, _ := os.ReadDir(filepath.Dir(path))
	if len(entries) != 1 {
		t.Errorf("%v was left", entries)
	}
	e = openKV(t, path)
	exec(t, e, put("b", 1))
	if n := number(t, e, "SELECT count(*) FROM kv"); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestMemoryIsPrivate(t *testing.T) {
	one, two := openKV(t, ":memory:", WithReaders(4)), openKV(t, ":memory:", WithReaders(4))
	var wg sync.WaitGroup
	for i, e := range []*Engine{one, two} {
		for g := range 16 {
			wg.Go(func() {
				for n := range 10 {
					k := string(rune('a'+g)) + string(rune('a'+n))
					exec(t, e, put(k, i))
					if got := number(t, e, "SELECT v FROM kv WHERE k = ?", k); got != int64(i) {
						t.Errorf("engine %d read %d", i, got)
					}
				}
			})
		}
	}
	wg.Wait()
	for i, e := range []*Engine{one, two} {
		if n := number(t, e, "SELECT count(*) FROM kv WHERE v = ?", i); n != 160 {
			t.Errorf("engine %d has %d rows", i, n)
		}
	}
	// The data does not depend on any connection.
	one.retire(one.writer.conn, "writer", nil)
	one.writer.conn = nil
	for _, c := range one.readers.idle {
		one.retire(c, "reader", nil)
	}
	one.readers.idle = nil
	exec(t, one, put("again", 0))
	if n := number(t, one, "SELECT count(*) FROM kv"); n != 161 {
		t.Errorf("%d rows after all connections were replaced", n)
	}
}

func TestDefine(t *testing.T) {
	path := tempDB(t)
	ddl := []string{
		"CREATE TABLE IF NOT EXISTS a (id INTEGER PRIMARY KEY)",
		"ALTER TABLE a ADD COLUMN extra TEXT NOT NULL DEFAULT ''",
		"CREATE INDEX IF NOT EXISTS a_extra ON a (extra)",
		"alter table a add virt TEXT AS (upper(extra)) VIRTUAL",
	}
	engines := []*Engine{open(t, path), open(t, path), open(t, path)}
	var wg sync.WaitGroup
	for _, e := range engines {
		for range 3 {
			wg.Go(func() { define(t, e, ddl...) })
		}
	}
	wg.Wait()
	if n := number(t, engines[0], "SELECT count(*) FROM pragma_table_xinfo('a')"); n != 3 {
		t.Errorf("%d columns, want 3", n)
	}
	// A failure takes the whole list back.
	err := engines[0].Define(context.Background(), []string{"CREATE TABLE b (x)", "CREATE TABLE a (x)"})
	wantStatement(t, err, 1)
	wantStatement(t, engines[0].Define(context.Background(), []string{"CREATE TABLE c (x, x)"}), 0)
	if n := number(t, engines[0], "SELECT count(*) FROM sqlite_schema WHERE name IN ('b', 'c')"); n != 0 {
		t.Error("a part of a failed definition stayed")
	}
	if err := engines[0].Define(context.Background(), nil); err != nil {
		t.Error(err)
	}
}

func TestPing(t *testing.T) {
	ctx := context.Background()
	onEach(t, func(t *testing.T, e *Engine) {
		if err := e.Ping(ctx); err != nil {
			t.Error(err)
		}
		// A transaction under way is no reason to fail, nor to wait.
		release := hold(t, e)
		if err := e.Ping(ctx); err != nil {
			t.Error(err)
		}
		release()
	})
	path := tempDB(t)
	e := openKV(t, path)
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, e.Ping(ctx), engine.ErrUnavailable, errMoved)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wantErr(t, e.Ping(ctx), engine.ErrUnavailable, errMoved)
	os.Remove(path)
	os.Rename(path+".moved", path)
	if err := e.Ping(ctx); err != nil {
		t.Error(err)
	}
	e.Close()
	wantErr(t, e.Ping(ctx), engine.ErrClosed)
}

func TestClosed(t *testing.T) {
	ctx := context.Background()
	onEach(t, func(t *testing.T, e *Engine) {
		for range 2 {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, stmts := range [][]engine.Statement{nil, {put("a", 1)}} {
			_, err := e.Exec(ctx, stmts)
			wantErr(t, err, engine.ErrClosed, engine.ErrNotApplied)
			_, err = e.Query(ctx, engine.Stale, stmts)
			wantErr(t, err, engine.ErrClosed, engine.ErrNotApplied)
		}
		wantErr(t, e.Define(ctx, []string{"CREATE TABLE x (y)"}), engine.ErrClosed, engine.ErrNotApplied)
		wantErr(t, e.Define(ctx, nil), engine.ErrClosed)
		wantErr(t, e.Ping(ctx), engine.ErrClosed)
	})
}

// TestCloseUnderWay closes engines in the middle of work: statements that would
// never end, commits, queries, and waits.
func TestCloseUnderWay(t *testing.T) {
	for _, path := range []string{":memory:", tempDB(t)} {
		e := openKV(t, path, WithReaders(2))
		var acked sync.Map
		var wg sync.WaitGroup
		started := make(chan struct{}, 100)
		check := func(err error) bool {
			if err != nil {
				wantErr(t, err, engine.ErrClosed, engine.ErrNotApplied)
			}
			return err == nil
		}
		for g := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					k := string(rune('a'+g)) + time.Duration(i).String()
					_, err := e.Exec(context.Background(), []engine.Statement{put(k, i)})
					if !check(err) {
						return
					}
					acked.Store(k, true)
					if i == 3 {
						started <- struct{}{}
					}
				}
			})
		}
		for range 4 {
			<-started
		}
		for range 4 { // more than there are readers
			wg.Go(func() {
				_, err := e.Query(context.Background(), engine.Linearizable, []engine.Statement{st(endlessRead)})
				if check(err) {
					t.Error("an endless query ended")
				}
			})
		}
		for len(e.readers.slots) < 2 {
			yield()
		}
		wg.Go(func() {
			_, err := e.Exec(context.Background(), []engine.Statement{st(endless)})
			if check(err) {
				t.Error("an endless statement ended")
			}
		})
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		closers.Wait()
		wg.Wait()
		if path == ":memory:" {
			continue
		}
		e = openKV(t, path)
		acked.Range(func(k, _ any) bool {
			if number(t, e, "SELECT count(*) FROM kv WHERE k = ?", k) != 1 {
				t.Errorf("%v was acknowledged and is gone", k)
			}
			return true
		})
	}
}

func TestManyEngines(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		path := ":memory:"
		if i%2 == 0 {
			path = filepath.Join(dir, "q.db")
		}
		e, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			define(t, e, "CREATE TABLE IF NOT EXISTS kv (k, v)")
			exec(t, e, put("a", i))
		}
		for range 1 + i%2 {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestLogger(t *testing.T) {
	var buf bytes.Buffer
	e := openKV(t, ":memory:", WithLogger(slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	exec(t, e, put("a", 1))
	_, _ = e.Exec(context.Background(), []engine.Statement{put("a", 1)})
	if s := buf.String(); !strings.Contains(s, "UNIQUE constraint failed") || strings.Contains(s, "level=ERROR") || strings.Contains(s, "level=WARN") {
		t.Errorf("log: %s", s)
	}
}

// What looks like a URI is refused instead of becoming a file of that name.
func TestOpenRefusesWhatIsNoPath(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"", "file:fleet.db", "file:fleet.db?mode=memory", "a\x00b"} {
		if e, err := Open(path); err == nil {
			t.Errorf("opened %q", path)
			e.Close()
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}
