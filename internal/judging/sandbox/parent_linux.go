package sandbox

import "syscall"

// EndWithParent has the kernel send a signal to a command when the thread that started it ends.
func EndWithParent(a *syscall.SysProcAttr, s syscall.Signal) { a.Pdeathsig = s }
