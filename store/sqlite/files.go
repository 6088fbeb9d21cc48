package sqlite

import (
	"errors"
	"runtime"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// filesName is the name under which SQLite finds the file system below.
const filesName = "quorate"

func init() { vfs.Register(filesName, files{vfs.Find("os").(vfs.VFSFilename)}) }

// files is the library's file system, except that a write for which there is no
// room says so. SQLite treats a full disk and a broken one differently, and so
// do we: the first is certain to have left nothing behind, and to pass.
type files struct{ vfs.VFSFilename }

func (v files) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := vfsutil.WrapOpen(v.VFSFilename, name, flags)
	return wrapFile(f, err), flags, err
}

func (v files) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := v.VFSFilename.OpenFilename(name, flags)
	return wrapFile(f, err), flags, err
}

// file is a file of files. It passes on what else its file can do.
type file struct {
	vfs.File
	shm vfs.SharedMemory
	mem vfs.MemoryMapper
}

func wrapFile(f vfs.File, err error) vfs.File {
	if err != nil {
		return nil
	}
	return &file{f, vfsutil.WrapSharedMemory(f), vfsutil.WrapMemoryMapper(f)}
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if isFull(err) {
		err = vfs.SystemError(err, sqlite3.FULL)
	}
	return n, err
}

// windowsDiskFull is ERROR_DISK_FULL, which Go's syscall package does not
// translate.
const windowsDiskFull = 112

// isFull reports whether err says that the disk, or the user's share of it, is
// full.
func isFull(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	var no syscall.Errno
	return runtime.GOOS == "windows" && errors.As(err, &no) && no == windowsDiskFull
}

func (f *file) Unwrap() vfs.File                { return f.File }
func (f *file) SharedMemory() vfs.SharedMemory  { return f.shm }
func (f *file) MemoryMapper() vfs.MemoryMapper  { return f.mem }
func (f *file) LockState() vfs.LockLevel        { return vfsutil.WrapLockState(f.File) }
func (f *file) HasMoved() (bool, error)         { return vfsutil.WrapHasMoved(f.File) }
func (f *file) SizeHint(size int64) error       { return vfsutil.WrapSizeHint(f.File, size) }
func (f *file) PersistWAL() bool                { return vfsutil.WrapPersistWAL(f.File) }
func (f *file) SetPersistWAL(keep bool)         { vfsutil.WrapSetPersistWAL(f.File, keep) }
func (f *file) PowersafeOverwrite() bool        { return vfsutil.WrapPowersafeOverwrite(f.File) }
func (f *file) SetPowersafeOverwrite(psow bool) { vfsutil.WrapSetPowersafeOverwrite(f.File, psow) }
func (f *file) BeginAtomicWrite() error         { return vfsutil.WrapBeginAtomicWrite(f.File) }
func (f *file) CommitAtomicWrite() error        { return vfsutil.WrapCommitAtomicWrite(f.File) }
func (f *file) RollbackAtomicWrite() error      { return vfsutil.WrapRollbackAtomicWrite(f.File) }
