package confine

import (
	"fmt"
	"os"
	"sync"
	"time"

	"guild"
)

// maxBreaches is how many different breaches and warnings are kept of a run; a hostile one could make millions.
const maxBreaches = 20

// differentCalls is how many numbers of calls are counted; there are fewer.
const differentCalls = 600

// A run that has been refused this often waits for each further answer, so that asking costs it more than us.
const (
	patience = 10_000
	slowly   = time.Millisecond
)

// hangUp is how long Close waits for the end of a run that should be over.
const hangUp = 2 * time.Second

// Supervisor answers the system calls that a run's filter puts to it. What it lets go on is confined by the run's
// namespaces: it reads arguments that the run may change a moment later, so it reports and is no wall.
type Supervisor struct {
	listener *listener
	network  bool
	member   func(pid int) bool // of a run without namespaces; else nil
	breach   chan struct{}
	done     chan struct{}

	mu       sync.Mutex
	breaches tally
	warnings tally
	refused  map[int32]int64 // calls by number
	fatal    bool            // breach is closed
}

// Supervise answers what arrives at the listener of a run's filter, which it closes at the end. With network,
// reaching out is no breach.
//
// It ends by itself when the last process under the filter has gone.
func Supervise(listener *os.File, network bool) *Supervisor {
	return supervise(listener, &Supervisor{network: network})
}

// SuperviseAlone answers for a run under an AloneFilter. Nothing goes on that a wall would have to stop: an
// attempt to reach out is refused here. Member reports whether a process, as seen from here, belongs to the run.
func SuperviseAlone(listener *os.File, member func(pid int) bool) *Supervisor {
	return supervise(listener, &Supervisor{member: member})
}

func supervise(listener *os.File, s *Supervisor) *Supervisor {
	s.breach, s.done, s.refused = make(chan struct{}), make(chan struct{}), map[int32]int64{}
	l, err := newListener(listener)
	if err != nil { // no descriptor is left: a run that nobody looks at must not go on
		s.warnings.add("supervise", err.Error(), "")
		close(s.breach)
		close(s.done)
		return s
	}
	s.listener = l
	go s.serve()
	return s
}

// Breach is closed when a breach is to end the run. The call that did it is not answered: its thread waits there
// for the kill.
func (s *Supervisor) Breach() <-chan struct{} { return s.breach }

// Close waits for the supervisor's end, which comes with that of the last process under the filter.
func (s *Supervisor) Close() {
	select {
	case <-s.done:
		return
	case <-time.After(hangUp): // something of the run is still there, which the runner will find out
	}
	s.Stop()
}

// Stop ends the supervisor at once, for whoever knows that no process under the filter runs any more: one that has
// ended and whose parent has not asked how still counts for the kernel. Calls get ENOSYS from then on.
func (s *Supervisor) Stop() {
	if s.listener != nil {
		s.listener.file.Close() // ends serve
	}
	<-s.done
}

// Breaches are the attempts to escape or to reach out, at most 20 different ones, each with how often it was made.
func (s *Supervisor) Breaches() []guild.Breach {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []guild.Breach
	for _, e := range s.breaches.entries {
		found = append(found, guild.Breach{Syscall: e.call, Detail: e.String()})
	}
	return found
}

// Refused is how many calls got ENOSYS or EPERM and decide nothing.
func (s *Supervisor) Refused() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for _, times := range s.refused {
		n += times
	}
	return n
}

// Warnings are what it saw and let be.
func (s *Supervisor) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, e := range s.warnings.entries {
		found = append(found, e.call+" "+e.String())
	}
	return found
}

// serve answers until the listener hangs up or is closed.
func (s *Supervisor) serve() {
	defer close(s.done)
	defer s.listener.file.Close()
	for answered := 0; ; {
		n, err := s.listener.receive()
		if err != nil {
			return
		}
		if n == nil {
			continue // it was killed meanwhile
		}
		v := s.decide(n)
		if v.verb == goOn {
			s.listener.send(n, v)
			continue
		}
		if answered++; answered > patience {
			time.Sleep(slowly)
		}
		if v.verb == refuse {
			s.listener.send(n, v)
		}
	}
}

// record keeps what a decision is about.
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

// tally counts equal things, and keeps only so many different ones.
type tally struct{ entries []*entry }

type entry struct {
	call, detail, pid string
	times             int
}

func (t *tally) add(call, detail, pid string) {
	for _, e := range t.entries {
		if e.call == call && e.detail == detail {
			e.times++
			return
		}
	}
	if len(t.entries) < maxBreaches {
		t.entries = append(t.entries, &entry{call, detail, pid, 1})
	}
}

// String is the detail with who did it first and how often it was done.
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
