package namespaces

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"guild/internal/judging/sandbox"
)

// Limits on warm interpreters: their number, and the time after their last run.
const (
	maxTemplates = 8
	keepWarm     = 5 * time.Minute
)

// errNotForked is wrapped by the error of a run that has not begun: no input was read and no code of its program was
// executed, so it can still be started cold.
var errNotForked = errors.New("not forked")

func notForked(err error) error { return fmt.Errorf("%w: %w", errNotForked, err) }

// templates holds the warm interpreters of one Runner.
type templates struct {
	users users

	mu     sync.Mutex
	warm   map[string]*template
	asked  int
	closed bool
	gap    error // the reason why the last run that should have been forked was not
}

// forkable reports whether a warm interpreter can execute a run. A fork has the namespaces of its template, so it can
// have no mounts, no network and no served port. On machines that refuse /proc or a supervisor, only cold runs are adapted.
func (r *Runner) forkable(s sandbox.Spec, streams sandbox.IO) bool {
	return s.Program != nil && streams.Serve == nil && len(s.Mounts) == 0 && !s.Network && (len(s.Collect) == 0 || streams.Files == nil) &&
		!r.noProc.Load() && !r.noSupervisor.Load()
}

// templateKey returns the same key for runs that can be forks of one template.
//
// A template executes Setup before it forks. So the key contains everything that can influence that: the command line,
// the source, and the environment variables that the interpreter reads at its start.
func templateKey(s sandbox.Spec) string {
	parts := slices.Concat(s.Argv, []string{"", s.Program.Setup}, interpreterEnv(s.Env))
	return strings.Join(parts, "\x00")
}

// take returns the template for a run, and starts it if necessary. The caller must give it back.
func (ts *templates) take(launch launcher, s sandbox.Spec) (*template, error) {
	t, err := ts.find(templateKey(s))
	if err != nil {
		return nil, err
	}
	// Outside of ts.mu, because starting takes long. Concurrent runs of one template wait here for the same start.
	t.begin.Do(func() { t.failure = t.start(launch, s) })
	if t.failure != nil {
		ts.giveBack(t)
		return nil, t.failure
	}
	return t, nil
}

// find returns the template of a key. It is new and not yet started if there was none or the last one has ended. A
// template that failed to start stays until it expires, so that not every run tries to start it.
func (ts *templates) find(key string) (*template, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, errors.New("the runner is closed")
	}
	t := ts.warm[key]
	if t == nil || t.ended() {
		delete(ts.warm, key)
		if err := ts.makeRoom(); err != nil {
			return nil, err
		}
		if ts.warm == nil {
			ts.warm = map[string]*template{}
		}
		t = &template{gone: make(chan struct{})}
		ts.warm[key] = t
	}
	ts.asked++
	t.used = ts.asked
	t.runs++
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	return t, nil
}

// makeRoom ends the least recently used idle template if there are maxTemplates.
func (ts *templates) makeRoom() error {
	if len(ts.warm) < maxTemplates {
		return nil
	}
	oldest := ""
	for key, t := range ts.warm {
		if t.runs == 0 && (oldest == "" || t.used < ts.warm[oldest].used) {
			oldest = key
		}
	}
	if oldest == "" {
		return fmt.Errorf("%d interpreters are warm and busy", len(ts.warm))
	}
	ts.forget(oldest)
	return nil
}

// forget removes and ends a template without runs. The caller must hold mu.
func (ts *templates) forget(key string) {
	t := ts.warm[key]
	delete(ts.warm, key)
	if t.idle != nil {
		t.idle.Stop()
	}
	t.begin.Do(func() { t.failure = errors.New("never started") })
	if t.failure == nil {
		t.end()
	}
}

// giveBack ends the use of a template by a run. The template ends after keepWarm without a run.
func (ts *templates) giveBack(t *template) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.runs--
	if t.runs > 0 || ts.closed {
		return
	}
	if t.broken {
		t.end()
		return
	}
	t.idle = time.AfterFunc(keepWarm, func() { ts.expire(t) })
}

// abandon removes a template that does not answer. It ends with its last run.
func (ts *templates) abandon(t *template) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.broken = true
	maps.DeleteFunc(ts.warm, func(_ string, other *template) bool { return other == t })
}

// expire ends a template that has been idle for keepWarm, unless it is in use again.
func (ts *templates) expire(t *template) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for key, other := range ts.warm {
		if other == t && t.runs == 0 {
			ts.forget(key)
			return
		}
	}
}

// close ends all templates, and every run that is a fork of one.
func (ts *templates) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for key := range ts.warm {
		ts.forget(key)
	}
}

// note stores the reason why a run was not forked, for gaps.
func (ts *templates) note(err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.gap = err
}

// gaps returns the reason why the last run that should have been forked was not.
func (ts *templates) gaps() []string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.gap == nil {
		return nil
	}
	return []string{"no interpreter is kept warm, so that each judged run starts one: " + ts.gap.Error()}
}
