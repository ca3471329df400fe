//go:build linux && !amd64 && !arm64

package confine

import (
	"guild"
	"guild/internal/judging/sandbox"
)

// Filter returns nil: this processor is not supported.
func Filter(sandbox.Profile) []byte { return nil }

// Denylist returns nil: this processor is not supported.
func Denylist() []byte { return nil }

// ProfileHash returns zero: there is no filter.
func ProfileHash(sandbox.Profile) guild.Hash { return guild.Hash{} }

// The supervisor needs these declarations to compile.
const (
	arch     = 0
	otherABI = 0
)

var escapes map[uint32]string

// AloneFilter returns nil: this processor is not supported.
func AloneFilter(sandbox.Profile, int) []byte { return nil }

func (s *Supervisor) alone(*notification, thread) (v answer, decided bool) { return answer{}, false }
