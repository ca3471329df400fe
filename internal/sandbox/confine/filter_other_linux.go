//go:build linux && !amd64 && !arm64

package confine

import (
	"guild"
	"guild/internal/sandbox"
)

// Filter is nil: the system calls of this processor are not known.
func Filter(sandbox.Profile) []byte { return nil }

// Denylist is nil: the system calls of this processor are not known.
func Denylist() []byte { return nil }

// ProfileHash is zero: there is no filter.
func ProfileHash(sandbox.Profile) guild.Hash { return guild.Hash{} }

// What the supervisor would know of the processor.
const (
	arch     = 0
	otherABI = 0
)

var escapes map[uint32]string

// AloneFilter is nil: the system calls of this processor are not known.
func AloneFilter(sandbox.Profile, int) []byte { return nil }

func (s *Supervisor) alone(*notification, thread) (v answer, decided bool) { return answer{}, false }
