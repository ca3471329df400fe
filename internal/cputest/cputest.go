// Package cputest measures processor time in tests that compare how work grows: what other programs on the machine do
// does not count. It knows nothing of what it measures.
package cputest

import (
	"syscall"
	"testing"
	"time"
)

// Spent is the processor time of this process while f ran, that of its other goroutines included: a test that uses it
// does not run beside others of its package.
func Spent(t testing.TB, f func()) time.Duration {
	t.Helper()
	before := spent(t)
	f()
	return spent(t) - before
}

func spent(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
