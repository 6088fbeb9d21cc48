package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/quorate/quorate/store/engine"
)

// faultVFS is the usual file system with faults in writing the log.
type faultVFS struct{ vfs.VFSFilename }

type faultFile struct {
	vfs.File
	shm vfs.SharedMemory
	wal bool
}

// Faults of the log's write and sync; they return nil to go on.
var (
	walWrite atomic.Pointer[func(p []byte) error]
	walSync  atomic.Pointer[func() error]
)

func init() {
	vfs.Register("quorate-faults", files{faultVFS{vfs.Find("os").(vfs.VFSFilename)}})
}

func (v faultVFS) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return v.OpenFilename(nil, flags)
}

func (v faultVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := v.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return f, flags, err
	}
	return &faultFile{f, vfsutil.WrapSharedMemory(f), flags&vfs.OPEN_WAL != 0}, flags, nil
}

func (f *faultFile) SharedMemory() vfs.SharedMemory { return f.shm }
func (f *faultFile) Unwrap() vfs.File               { return f.File }
func (f *faultFile) PowersafeOverwrite() bool       { return vfsutil.WrapPowersafeOverwrite(f.File) }
func (f *faultFile) SetPowersafeOverwrite(b bool)   { vfsutil.WrapSetPowersafeOverwrite(f.File, b) }

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if fault := walWrite.Load(); f.wal && fault != nil {
		if err := (*fault)(p); err != nil {
			return 0, err
		}
	}
	return f.File.WriteAt(p, off)
}

func (f *faultFile) Sync(flags vfs.SyncFlag) error {
	if fault := walSync.Load(); f.wal && fault != nil {
		if err := (*fault)(); err != nil {
			return err
		}
	}
	return f.File.Sync(flags)
}

func noFaults() {
	walWrite.Store(nil)
	walSync.Store(nil)
}

func openFaulty(t *testing.T, log *bytes.Buffer) *Engine {
	t.Helper()
	t.Cleanup(noFaults)
	return openKV(t, tempDB(t), func(o *options) { o.vfs = "quorate-faults" }, WithLogger(slog.New(slog.NewTextHandler(log, nil))))
}

// after returns a fault that lets n writes pass first.
func after(n int, fault func() error) *func([]byte) error {
	f := func([]byte) error {
		if n--; n >= 0 {
			return nil
		}
		return fault()
	}
	return &f
}

// TestCommitFaults makes COMMIT fail in each way a file system can, and checks
// that the error says what is known, that what it says is so, and that the engine
// goes on.
func TestCommitFaults(t *testing.T) {
	fail := func(err error) func() error { return func() error { return err } }
	panics := func() error {
		noFaults() // the connection is closed without further faults
		panic("injected")
	}
	for name, c := range map[string]struct {
		write   func() error
		sync    func() error
		outcome engine.Outcome
		reason  error
	}{
		"disk full":      {write: fail(&fs.PathError{Op: "write", Err: syscall.ENOSPC}), outcome: engine.NotApplied, reason: engine.ErrFull},
		"quota":          {write: fail(&fs.PathError{Op: "write", Err: syscall.EDQUOT}), outcome: engine.NotApplied, reason: engine.ErrFull},
		"write error":    {write: fail(&fs.PathError{Op: "write", Err: syscall.EIO}), outcome: engine.Unknown, reason: engine.ErrUnavailable},
		"sync error":     {sync: fail(syscall.EIO), outcome: engine.Unknown, reason: engine.ErrUnavailable},
		"panic in write": {write: panics, outcome: engine.Unknown, reason: engine.ErrUnavailable},
		"panic in sync":  {sync: panics, outcome: engine.Unknown, reason: engine.ErrUnavailable},
		"busy":           {write: fail(sqlite3.BUSY), outcome: engine.NotApplied, reason: engine.ErrUnavailable},
	} {
		for pass := range 3 {
			t.Run(fmt.Sprint(name, "/", pass), func(t *testing.T) {
				var log bytes.Buffer
				e := openFaulty(t, &log)
				exec(t, e, put("there", 1))
				if c.write != nil {
					walWrite.Store(after(pass, c.write))
				} else {
					walSync.Store(&c.sync)
				}
				_, err := e.Exec(context.Background(), []engine.Statement{put("a", 1), put("b", strings.Repeat("b", 20_000))})
				noFaults()
				if err == nil {
					t.Fatal("no error")
				}
				if got := engine.OutcomeOf(err); got != c.outcome {
					t.Errorf("outcome %v, want %v: %v", got, c.outcome, err)
				}
				wantErr(t, err, c.reason)
				if strings.Contains(err.Error(), "database is locked") {
					t.Errorf("error %v", err)
				}
				// What is unknown may be there, but not in part.
				n := number(t, e, "SELECT count(*) FROM kv WHERE k IN ('a', 'b')")
				if n != 0 && (n != 2 || c.outcome != engine.Unknown) {
					t.Errorf("%d rows of the failed commit are visible", n)
				}
				exec(t, e, put("c", 1))
				if m := number(t, e, "SELECT count(*) FROM kv"); m != n+2 {
					t.Errorf("%d rows, want %d", m, n+2)
				}
				if replaced := strings.Contains(log.String(), "connection replaced"); replaced != (c.outcome == engine.Unknown) {
					t.Errorf("log: %s", log.String())
				}
				if res := query(t, e, st("PRAGMA integrity_check"))[0].Values[0]; res != engine.Text("ok") {
					t.Errorf("integrity check: %v", res)
				}
			})
		}
	}
}

// configure runs a PRAGMA that is refused to callers.
func configure(t *testing.T, e *Engine, pragma string) {
	t.Helper()
	if err := e.write(context.Background(), "exec", func(c *conn) (int, error) {
		c.internal = true
		err := c.db.Exec("PRAGMA " + pragma)
		c.internal = false
		return 0, err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestPanicInStatement makes the file system panic while a statement runs, by
// having a transaction spill into the log.
func TestPanicInStatement(t *testing.T) {
	var log bytes.Buffer
	e := openFaulty(t, &log)
	exec(t, e, put("there", 1))
	spill := st("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 200) INSERT INTO kv SELECT i, printf('%4000d', i) FROM c")
	for range 3 {
		configure(t, e, "cache_size=10")
		walWrite.Store(after(10, func() error {
			noFaults()
			panic(errors.New("injected"))
		}))
		_, err := e.Exec(context.Background(), []engine.Statement{spill})
		noFaults()
		wantErr(t, err, engine.ErrUnavailable, engine.ErrNotApplied)
		if n := number(t, e, "SELECT count(*) FROM kv"); n != 1 {
			t.Fatalf("%d rows, want 1", n)
		}
	}
	exec(t, e, spill)
	if n := number(t, e, "SELECT count(*) FROM kv"); n != 201 {
		t.Errorf("%d rows, want 201", n)
	}
	if n := strings.Count(log.String(), "connection replaced"); n != 3 {
		t.Errorf("%d connections replaced, want 3: %s", n, log.String())
	}
}

// TestPanicInGlue makes our own part of a transaction panic.
func TestPanicInGlue(t *testing.T) {
	onEach(t, func(t *testing.T, e *Engine) {
		err := e.write(context.Background(), "exec", func(c *conn) (int, error) {
			p, err := c.stmts.get("INSERT INTO kv VALUES ('a', 1)")
			if err == nil {
				err = p.run(c.db, nil, nil, new(engine.Result))
			}
			if err != nil {
				return 0, err
			}
			panic("injected")
		})
		wantErr(t, err, engine.ErrUnavailable, engine.ErrNotApplied)
		exec(t, e, put("b", 1))
		if n := number(t, e, "SELECT count(*) FROM kv"); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
	})
}

// TestFull fills a database to a limit, and goes on when there is room again.
func TestFull(t *testing.T) {
	onEach(t, func(t *testing.T, e *Engine) {
		configure(t, e, "max_page_count=50")
		var err error
		rows := 0
		for ; err == nil && rows < 1000; rows++ {
			_, err = e.Exec(context.Background(), []engine.Statement{put(fmt.Sprint("first", rows), "x"), put(fmt.Sprint("second", rows), strings.Repeat("x", 3000))})
		}
		wantErr(t, err, engine.ErrFull, engine.ErrNotApplied)
		if n := number(t, e, "SELECT count(*) FROM kv"); n != 2*int64(rows-1) {
			t.Errorf("%d rows, want %d", n, 2*(rows-1))
		}
		configure(t, e, "max_page_count=1000")
		exec(t, e, put("last", strings.Repeat("x", 3000)))
	})
}
