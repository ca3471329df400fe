package judge

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Activity holds what a judge is at: criteria, with the test that ran last, and tools. Only Now is required.
type Activity struct {
	Now func() time.Time

	mu    sync.Mutex
	steps []part // in the order in which they began
}

type part struct {
	name, test string
	since      time.Time
}

// Note is an exam.Progress: it is called when a step begins, comes to a test, or is over.
func (p *Activity) Note(name, test string, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.steps, func(s part) bool { return s.name == name })
	switch {
	case over && i >= 0:
		p.steps = slices.Delete(p.steps, i, i+1)
	case over:
	case i >= 0:
		p.steps[i].test = test
	default:
		p.steps = append(p.steps, part{name: name, test: test, since: p.Now()})
	}
}

// Text says what runs, and each for how long. It is empty if nothing does.
func (p *Activity) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var parts []string
	for _, s := range p.steps {
		parts = append(parts, fmt.Sprintf("%s %s", strings.TrimSpace(s.name+" "+s.test), p.Now().Sub(s.since).Truncate(time.Second)))
	}
	return strings.Join(parts, ", ")
}
