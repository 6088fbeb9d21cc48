//go:build !unix

package rqlited

import (
	"os"
	"syscall"
)

// Elsewhere a process can only be killed; Pause and Resume return an error.
const (
	sigPause  = syscall.Signal(-1)
	sigResume = syscall.Signal(0)
)

var sigTerminate = os.Kill
