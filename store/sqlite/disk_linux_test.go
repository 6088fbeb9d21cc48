package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

// asNobody runs f with the file permissions of another user, if the test runs as
// root, whom permissions do not stop.
func asNobody(t *testing.T, f func()) {
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setfsuid(0); err != nil {
			panic(err)
		}
	}()
	f()
}

func TestNotOursToWrite(t *testing.T) {
	// A folder that others may enter; those of the test are closed to them.
	dir, err := os.MkdirTemp("", "quorate-sqlite-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Chmod(filepath.Join(dir, "folder"), 0o755)
		os.RemoveAll(dir)
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	make := func(path string, wal bool) string {
		e := openKV(t, path)
		exec(t, e, put("a", 1))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if !wal { // as if another program had made the file
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[18], b[19] = 1, 1
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"read-only file":            make(filepath.Join(dir, "file.db"), true),
		"read-only rollback file":   make(filepath.Join(dir, "rollback.db"), false),
		"read-only folder":          make(filepath.Join(folder, "q.db"), true),
		"read-only folder rollback": make(filepath.Join(folder, "rollback.db"), false),
		"new in read-only folder":   filepath.Join(folder, "new.db"),
	}
	for name, path := range cases {
		mode := os.FileMode(0o444)
		if strings.Contains(name, "folder") {
			mode = 0o666
		}
		if err := os.Chmod(path, mode); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(folder, 0o555); err != nil {
		t.Fatal(err)
	}
	for name, path := range cases {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadFile(path)
			var e *Engine
			var err error
			asNobody(t, func() { e, err = Open(path) })
			if err == nil {
				e.Close()
				t.Fatal("no error")
			}
			t.Log(err)
			wantErr(t, err, engine.ErrReadOnly, engine.ErrNotApplied)
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file has changed")
			}
		})
	}
}

// TestDiskFull fills a real, very small file system.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("cannot mount a small file system (%v); run as root, with CAP_SYS_ADMIN, to enable this test", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "q.db")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 512<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	e := openKV(t, path)
	ctx := context.Background()
	var acked []string
	var err error
	for i := 0; err == nil; i++ {
		k := fmt.Sprint(i)
		if _, err = e.Exec(ctx, []engine.Statement{put(k, strings.Repeat("x", 10_000)), put(k+" too", 1)}); err == nil {
			acked = append(acked, k, k+" too")
		}
		if i > 1000 {
			t.Fatal("the disk never fills")
		}
	}
	t.Log(err)
	wantErr(t, err, engine.ErrFull, engine.ErrNotApplied)
	check := func(want int) {
		t.Helper()
		if n := number(t, e, "SELECT count(*) FROM kv"); n != int64(want) {
			t.Errorf("%d rows, want %d", n, want)
		}
	}
	check(len(acked))
	wantErr(t, e.Define(ctx, []string{"CREATE TABLE big AS SELECT * FROM kv", "CREATE INDEX i ON kv (v)"}), engine.ErrFull, engine.ErrNotApplied)
	check(len(acked))

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	exec(t, e, put("room again", strings.Repeat("x", 10_000)))
	check(len(acked) + 1)
	for _, k := range acked {
		if number(t, e, "SELECT count(*) FROM kv WHERE k = ?", k) != 1 {
			t.Errorf("%s is gone", k)
		}
	}
}
