package confine

import (
	"fmt"
	"os"
	"sync"
	"time"

	"guild"
)

// maxBreaches limits the different breaches, and the different warnings, that are kept of a run.
const maxBreaches = 20

// differentCalls limits the different system call numbers that are counted. There are fewer real ones.
const differentCalls = 600

// After patience refused calls, each answer is delayed by slowly, so that a flood of calls costs the run more than it
// costs us.
const (
	patience = 10_000
	slowly   = time.Millisecond
)

// hangUp limits how long Close waits for the last process under the filter.
const hangUp = 2 * time.Second

// Supervisor answers the system calls that a run's filter sends to it. It reads arguments in memory that the run can change
// before the kernel reads them, so it reports, and does not isolate: calls that it allows are confined by the run's
// namespaces.
type Supervisor struct {
	listener *listener
	network  bool
	member   func(pid int) bool // reports whether a process belongs to a run without namespaces; nil for other runs
	breach   chan struct{}
	done     chan struct{}

	mu       sync.Mutex
	breaches tally
	warnings tally
	refused  map[int32]int64 // number of refused calls, by system call number
	fatal    bool            // breach is closed
}

// Supervise starts to answer the calls that arrive at the listener of a run's filter. It closes the listener when the last
// process under the filter has ended. With network, an address outside is not a breach.
func Supervise(listener *os.File, network bool) *Supervisor {
	return supervise(listener, &Supervisor{network: network})
}

// SuperviseAlone does the same as Supervise for a run under an AloneFilter, which has no namespaces. It refuses calls
// to the network itself. member reports whether a process, by its id in our namespace, belongs to the run.
func SuperviseAlone(listener *os.File, member func(pid int) bool) *Supervisor {
	return supervise(listener, &Supervisor{member: member})
}

// supervise starts the goroutine that answers calls. If it cannot, it reports a breach at once, so that the run is
// killed.
func supervise(listener *os.File, s *Supervisor) *Supervisor {
	s.breach, s.done, s.refused = make(chan struct{}), make(chan struct{}), map[int32]int64{}
	l, err := newListener(listener)
	if err != nil { // no descriptors are left; a run without a supervisor must not continue
		s.warnings.add("supervise", err.Error(), "")
		close(s.breach)
		close(s.done)
		return s
	}
	s.listener = l
	go s.serve()
	return s
}

// Breach returns a channel that is closed when a breach must end the run. The call gets no answer, so its thread waits
// until the run is killed.
func (s *Supervisor) Breach() <-chan struct{} { return s.breach }

// Close waits for the end of the supervisor, which ends with the last process under the filter. After hangUp it calls
// Stop.
func (s *Supervisor) Close() {
	select {
	case <-s.done:
		return
	case <-time.After(hangUp):
	}
	s.Stop()
}

// Stop ends the supervisor at once. Further calls fail with ENOSYS. Call it only if no process under the filter runs
// any more. Close would wait for zombies, which the kernel still counts as under the filter.
func (s *Supervisor) Stop() {
	if s.listener != nil {
		s.listener.file.Close() // ends serve
	}
	<-s.done
}

// Breaches returns the attempts to escape or to reach the network, at most maxBreaches different ones, each with the
// number of times.
func (s *Supervisor) Breaches() []guild.Breach {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []guild.Breach
	for _, e := range s.breaches.entries {
		found = append(found, guild.Breach{Syscall: e.call, Detail: e.String()})
	}
	return found
}

// Refused returns the number of refused calls that are not a breach.
func (s *Supervisor) Refused() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for _, times := range s.refused {
		n += times
	}
	return n
}

// Warnings returns the calls that are reported and not a breach.
func (s *Supervisor) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, e := range s.warnings.entries {
		found = append(found, e.call+" "+e.String())
	}
	return found
}

// serve answers calls until the last process under the filter has ended, or the listener is closed.
func (s *Supervisor) serve() {
	defer close(s.done)
	defer s.listener.file.Close()
	for answered := 0; ; {
		n, err := s.listener.receive()
		if err != nil {
			return
		}
		if n == nil {
			continue // its process was killed meanwhile
		}
		t := thread{n, s.listener}
		v := s.answer(n, t)
		pid := ""
		if v.breach {
			pid = t.pidInside()
		}
		s.record(n, v, pid)
		if v.verb == goOn {
			s.listener.send(n, v)
			continue
		}
		answered++
		if answered > patience {
			time.Sleep(slowly)
		}
		if v.verb == refuse {
			s.listener.send(n, v)
		}
	}
}

// record stores a breach or a warning and counts a refused call.
func (s *Supervisor) record(n *notification, v answer, pid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.breach {
		s.breaches.add(v.call, v.detail, pid)
		if v.verb == wait && !s.fatal {
			s.fatal = true
			close(s.breach)
		}
		return
	}
	if v.call != "" {
		s.warnings.add(v.call, v.detail, "")
	}
	if v.errno != 0 && (len(s.refused) < differentCalls || s.refused[n.number] > 0) {
		s.refused[n.number]++
	}
}

// tally counts equal entries, and keeps at most maxBreaches different ones.
type tally struct{ entries []*entry }

type entry struct {
	call, detail, pid string
	times             int
}

// add counts an entry. A new entry beyond the limit is dropped, so a run cannot fill our memory with reports.
func (t *tally) add(call, detail, pid string) {
	for _, e := range t.entries {
		if e.call == call && e.detail == detail {
			e.times++
			return
		}
	}
	if len(t.entries) < maxBreaches {
		t.entries = append(t.entries, &entry{call: call, detail: detail, pid: pid, times: 1})
	}
}

// String returns the detail, with the first process and the number of times.
func (e *entry) String() string {
	switch {
	case e.pid != "" && e.times > 1:
		return fmt.Sprintf("%s (pid %s, %d times)", e.detail, e.pid, e.times)
	case e.pid != "":
		return fmt.Sprintf("%s (pid %s)", e.detail, e.pid)
	case e.times > 1:
		return fmt.Sprintf("%s (%d times)", e.detail, e.times)
	default:
		return e.detail
	}
}
