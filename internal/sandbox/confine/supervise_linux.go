package confine

import (
	"os"

	"guild"
	"guild/internal/sandbox"
)

// Filter is the system call filter of a profile for a supervised run: what it does not list is put to the
// supervisor. Nil for a processor that it does not know.
func Filter(p sandbox.Profile) []byte { return nil }

// Supervisor answers the system calls that a run's filter puts to it.
type Supervisor struct{}

// Supervise answers what arrives at the listener of a run's filter, which it closes at the end. With network,
// reaching out is no breach.
func Supervise(listener *os.File, network bool) *Supervisor { return &Supervisor{} }

// Breach is closed when a breach is to end the run.
func (s *Supervisor) Breach() <-chan struct{} { return nil }

// Close waits for the supervisor's end, which comes with that of the last process under the filter.
func (s *Supervisor) Close() {}

// Breaches are the attempts to escape or to reach out.
func (s *Supervisor) Breaches() []guild.Breach { return nil }

// Refused is how many calls got ENOSYS or EPERM and decide nothing.
func (s *Supervisor) Refused() int64 { return 0 }

// Warnings are what it saw and let be.
func (s *Supervisor) Warnings() []string { return nil }
