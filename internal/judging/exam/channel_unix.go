//go:build unix

package exam

import (
	"fmt"
	"os"
	"syscall"
)

// channelPair returns the two ends of a stream socket. A runner closes the end that it receives.
func channelPair() (ends [2]*os.File, err error) {
	syscall.ForkLock.RLock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return ends, fmt.Errorf("channel: %w", err)
	}
	for i, fd := range pair {
		ends[i] = os.NewFile(uintptr(fd), "channel")
	}
	return ends, nil
}
