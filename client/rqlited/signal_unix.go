//go:build unix

package rqlited

import "syscall"

const (
	sigTerminate = syscall.SIGTERM
	sigPause     = syscall.SIGSTOP
	sigResume    = syscall.SIGCONT
)
