//go:build !linux

package client

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing here: the time limit of an attempt has to do.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
