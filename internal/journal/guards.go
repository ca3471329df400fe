package journal

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"guild/internal/journal/fact"
)

const maxSubject = 255 // bytes of a guard

// guards lets the callers of Do in this process take turns under each guard, so that they do not conflict with each other.
// Conflicts with other writers show when an entry is appended.
type guards struct {
	mu    sync.Mutex
	taken map[fact.Subject]*turn
}

// turn is a lock that is held while ch is full. It is waited for with a context.
type turn struct {
	ch    chan struct{}
	users int // that hold it or wait for it
}

// lock waits for the turn under a guard, and returns the function that ends it.
func (g *guards) lock(ctx context.Context, guard fact.Subject) (func(), error) {
	t := g.enter(guard)
	select {
	case t.ch <- struct{}{}:
		return func() { <-t.ch; g.leave(guard, t) }, nil
	case <-ctx.Done():
		g.leave(guard, t)
		return nil, ctx.Err()
	}
}

func (g *guards) enter(guard fact.Subject) *turn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken == nil {
		g.taken = make(map[fact.Subject]*turn)
	}
	t := g.taken[guard]
	if t == nil {
		t = &turn{ch: make(chan struct{}, 1)}
		g.taken[guard] = t
	}
	t.users++
	return t
}

func (g *guards) leave(guard fact.Subject, t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.users--
	if t.users == 0 {
		delete(g.taken, guard)
	}
}

// checkSubject returns ErrSubject unless s is a noun and an id, joined by a dot. With a wildcard in a guard, the server would
// accept two decisions under it.
func checkSubject(s fact.Subject) error {
	noun, id, _ := strings.Cut(string(s), ".")
	if noun == "" || id == "" || len(s) > maxSubject || strings.ContainsFunc(noun+id, notInSubject) {
		return fmt.Errorf("%.80q: %w", s, ErrSubject)
	}
	return nil
}

// checkWords returns ErrSubject unless subject consists of words joined by dots.
func checkWords(subject string) error {
	for word := range strings.SplitSeq(subject, ".") {
		if word == "" || len(subject) > maxSubject || strings.ContainsFunc(word, notInSubject) {
			return fmt.Errorf("%.80q: %w", subject, ErrSubject)
		}
	}
	return nil
}

func notInSubject(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}
