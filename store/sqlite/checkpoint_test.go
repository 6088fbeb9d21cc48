package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

func walSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestLogStaysBounded writes far more than the log may hold, without a pause, and
// reads beside it.
func TestLogStaysBounded(t *testing.T) {
	path := tempDB(t)
	e := openKV(t, path, WithDurability(Normal))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := e.Query(context.Background(), engine.Linearizable, []engine.Statement{st("SELECT v FROM kv WHERE k = '7'"), st("SELECT v FROM kv WHERE k = '8'")}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	const commits = 1300
	// SQLite writes no page that does not change.
	var values [26]string
	for i := range values {
		values[i] = strings.Repeat(string(rune('a'+i)), 64<<10)
	}
	var largest int64
	for i := range commits {
		exec(t, e, st("INSERT INTO kv (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v", fmt.Sprint(i%50), values[i%26]))
		largest = max(largest, walSize(t, path))
	}
	cancel()
	wg.Wait()
	t.Logf("the log was at most %d MiB long, %d MiB went through it", largest>>20, commits*66>>10)
	if largest >= 64<<20 {
		t.Errorf("the log grew to %d MiB", largest>>20)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}

// TestLogHeldByAnother has a read transaction of somebody else keep the log from
// shrinking. Commits go on, a warning is logged once, and the log starts anew when
// the reader has gone.
func TestLogHeldByAnother(t *testing.T) {
	path := tempDB(t)
	var log syncBuffer
	e := openKV(t, path, WithDurability(Normal), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	other := open(t, path)
	exec(t, e, put("big", 1))

	c, err := other.takeReader(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.own(c.begin); err != nil {
		t.Fatal(err)
	}
	read, err := c.stmts.get("SELECT count(*) FROM kv")
	if err != nil {
		t.Fatal(err)
	}
	var res engine.Result
	if err := read.run(c.db, nil, nil, &res); err != nil {
		t.Fatal(err)
	}
	big := []string{strings.Repeat("x", 8<<20), strings.Repeat("y", 8<<20)}
	updates := 0
	update := func() {
		exec(t, e, st("UPDATE kv SET v = ? WHERE k = 'big'", big[updates%2]))
		updates++
	}
	for range 12 {
		update()
	}
	for i := 0; !strings.Contains(log.String(), "does not shrink"); i++ {
		if i > 50 {
			t.Fatalf("no warning with %d MiB: %s", walSize(t, path)>>20, log.String())
		}
		update()
	}
	// The reader still reads its snapshot.
	if err := read.run(c.db, nil, nil, &res); err != nil {
		t.Error(err)
	}
	c.undo()
	other.giveReader(c, nil)
	for i := 0; walSize(t, path) > 40<<20; i++ {
		if i > 100 {
			t.Fatalf("the log still has %d MiB", walSize(t, path)>>20)
		}
		update()
	}
	if n := strings.Count(log.String(), "does not shrink"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
