package client

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the kernel give up a connection whose peer has not
// confirmed any of what was sent for that long: the path to it is gone. It does
// not concern a peer that is slow to answer. Keep-alive probes, which the kernel
// sends on idle connections only, do not notice that.
func setUserTimeout(raw syscall.RawConn, d time.Duration) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return set
}
