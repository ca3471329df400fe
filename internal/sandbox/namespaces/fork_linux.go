package namespaces

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"guild/internal/sandbox"
)

// What is kept warm, and for how long after its last run.
const (
	maxTemplates = 8
	keepWarm     = 5 * time.Minute
)

// errNotForked is what the error of a run wraps that has not begun: nothing was read of its input and nothing
// of its program has run, so that it can be run the other way.
var errNotForked = errors.New("not forked")

func notForked(err error) error { return fmt.Errorf("%w: %w", errNotForked, err) }

// templates are the warm interpreters of one Runner.
type templates struct {
	users users

	mu     sync.Mutex
	warm   map[string]*template
	asked  int
	closed bool
	gap    error // why the last run that could not be forked was not
}

// forkable reports whether a run is one for a warm interpreter. What a template's namespaces do not have, a
// fork of it cannot get: a mount, the network. What this machine refuses is for the other way to get along without.
func (r *Runner) forkable(s sandbox.Spec, streams sandbox.IO) bool {
	return s.Program != nil && len(s.Mounts) == 0 && !s.Network && (len(s.Collect) == 0 || streams.Files == nil) &&
		!r.noProc.Load() && !r.unasked.Load()
}

// templateKey is what two runs have in common that can be forks of one template.
func templateKey(s sandbox.Spec) string {
	parts := slices.Concat(s.Argv, []string{"", s.Program.Setup}, interpreterEnv(s.Env))
	return strings.Join(parts, "\x00")
}

// take returns the template for a run, started if need be. It is to be given back.
func (ts *templates) take(launch launcher, s sandbox.Spec) (*template, error) {
	t, err := ts.find(templateKey(s))
	if err != nil {
		return nil, err
	}
	t.begin.Do(func() { t.failure = t.start(launch, s) })
	if t.failure != nil {
		ts.giveBack(t)
		return nil, t.failure
	}
	return t, nil
}

// find returns the template of a key, not yet started if there was none or it has ended. One that could not be
// started is not tried again until it has been forgotten.
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

// makeRoom ends the template that has not been used for longest if there are as many as there may be.
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

// forget ends a template that has no run. The caller holds mu.
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

// giveBack ends a run's use of a template, which ends when nobody uses it for a while.
func (ts *templates) giveBack(t *template) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.runs--
	switch {
	case t.runs > 0 || ts.closed:
		return
	case t.broken:
		t.end()
		return
	}
	t.idle = time.AfterFunc(keepWarm, func() { ts.expire(t) })
}

// abandon keeps a template that does not answer from being asked again.
func (ts *templates) abandon(t *template) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.broken = true
	maps.DeleteFunc(ts.warm, func(_ string, other *template) bool { return other == t })
}

// expire ends a template that has been idle, unless it is used again already.
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

// close ends all templates, and every run that is still a fork of one.
func (ts *templates) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for key := range ts.warm {
		ts.forget(key)
	}
}

// note remembers why a run was not forked.
func (ts *templates) note(err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.gap = err
}

// gaps says what kept the last run that was not forked from it.
func (ts *templates) gaps() []string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.gap == nil {
		return nil
	}
	return []string{"no interpreter is kept warm, so that each judged run starts one: " + ts.gap.Error()}
}
