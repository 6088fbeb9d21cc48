//go:build unix

package postgres

import (
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// isCut reports whether the server has closed an idle connection, or has said
// something that it will close it for. It does not block.
func isCut(pg *pgconn.PgConn) bool {
	nc := pg.Conn()
	if wrapped, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = wrapped.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	var n int
	var peekErr error
	// Not raw.Read, which waits for a reader that the driver may have left behind
	// in the background.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, peekErr = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	switch {
	case err != nil:
		return true
	case peekErr == unix.EAGAIN || peekErr == unix.EINTR:
		return false
	case peekErr != nil || n == 0:
		return true
	}
	return hasLeft(pg) // it has something to say
}
