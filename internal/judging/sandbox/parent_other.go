//go:build !linux

package sandbox

import "syscall"

// EndWithParent does nothing: only Linux ends a command when guild is killed. Elsewhere the command goes on to its own end.
func EndWithParent(*syscall.SysProcAttr, syscall.Signal) {}
