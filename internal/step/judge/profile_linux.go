package judge

import (
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// profileHash returns the hash of the rules of a system call profile.
func profileHash(p sandbox.Profile) string { return confine.ProfileHash(p).String() }
