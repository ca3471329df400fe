package journal

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"guild/internal/journal/fact"
)

// maxSubject is the length of the longest guard, in bytes.
const maxSubject = 255

// guards lets one local decision at a time be taken under each guard, so that they do not conflict with each
// other. A conflict with anybody else is found when an entry is appended.
type guards struct {
	mu    sync.Mutex
	taken map[fact.Subject]*turn
}

// turn is held by whoever has put a value into ch.
type turn struct {
	ch    chan struct{}
	users int // holding it or waiting for it
}

// lock waits for the turn of a guard. Whoever gets it calls the function returned.
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

// checkSubject refuses what is not a literal subject of a noun and an id: wildcards in a guard would let two
// decisions through.
func checkSubject(s fact.Subject) error {
	noun, id, _ := strings.Cut(string(s), ".")
	if noun == "" || id == "" || len(s) > maxSubject || strings.ContainsFunc(noun+id, notInSubject) {
		return fmt.Errorf("%.80q: %w", s, ErrSubject)
	}
	return nil
}

// checkWords refuses what is not words joined by dots.
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
