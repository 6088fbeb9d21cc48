package rqlited

import "syscall"

// childAttr makes a node end with the process that started it, and keeps a
// terminal's interrupt from reaching it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
