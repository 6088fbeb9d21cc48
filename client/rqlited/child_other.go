//go:build !linux

package rqlited

import "syscall"

func childAttr() *syscall.SysProcAttr { return nil }
