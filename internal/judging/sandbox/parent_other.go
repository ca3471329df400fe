//go:build !linux

package sandbox

import "syscall"

// EndWithParent does nothing, because only Linux can end a command when guild is killed. Here the command runs on.
func EndWithParent(*syscall.SysProcAttr, syscall.Signal) {}
