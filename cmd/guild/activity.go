package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// activity holds what the judge is at: criteria, with the test that ran last, and tools.
type activity struct {
	now func() time.Time

	mu    sync.Mutex
	steps []part // in the order in which they began
}

type part struct {
	name, test string
	since      time.Time
}

// note is called when a step begins, comes to a test, or is over.
func (p *activity) note(name, test string, over bool) {
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
		p.steps = append(p.steps, part{name: name, test: test, since: p.now()})
	}
}

// text says what runs, and each for how long.
func (p *activity) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.steps) == 0 {
		return "judging"
	}
	var parts []string
	for _, s := range p.steps {
		parts = append(parts, fmt.Sprintf("%s %s", strings.TrimSpace(s.name+" "+s.test), p.now().Sub(s.since).Truncate(time.Second)))
	}
	return "judging: " + strings.Join(parts, ", ")
}
