package behaviour

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild/nipae"
)

// Author returns the author of an event that is held.
func (l *Library) Author(id nostr.ID) (nostr.PubKey, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.events[id]
	if h == nil {
		return nostr.PubKey{}, false
	}
	return h.author, true
}

// Definition returns a version of a definition.
func (l *Library) Definition(id nostr.ID) (nipae.Definition, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return get[nipae.Definition](l, id)
}

// Nudge returns a nudge that is held.
func (l *Library) Nudge(id nostr.ID) (nipae.Nudge, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return get[nipae.Nudge](l, id)
}

// Versions returns the versions of a definition, the newest first.
func (l *Library) Versions(a nipae.Address) []nipae.Definition {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []nipae.Definition
	for _, h := range l.events {
		if d, ok := h.value.(nipae.Definition); ok && d.Address() == a {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b nipae.Definition) int { return b.Compare(a) })
	return all
}

// Profile returns the newest profile of a key.
func (l *Library) Profile(key nostr.PubKey) (nipae.Profile, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return newest[nipae.Profile](l, key, nipae.KindProfile)
}

// Claims returns the newest claims of an owner.
func (l *Library) Claims(owner nostr.PubKey) (nipae.Claims, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return newest[nipae.Claims](l, owner, nipae.KindClaims)
}

// Trusts reports whether what an author writes applies.
func (l *Library) Trusts(author nostr.PubKey, p Policy) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.composer(Request{Policy: p}).why(author) != ""
}

// Known is a lesson about a definition.
type Known struct {
	nipae.Lesson
	Applies bool   // unless it is over a budget
	Why     string // why it applies (a reason of Source), or why it does not
}

// Reasons why a lesson does not apply.
const (
	OtherDefinition = "its author does not execute this definition, or it is about a later version"
	Stranger        = "its author is not trusted"
	Retired         = "retired"
)

// Lessons lists the lessons about a definition, the oldest first.
func (l *Library) Lessons(definition nostr.ID, p Policy) []Known {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := get[nipae.Definition](l, definition)
	if !ok {
		return nil
	}
	c := l.composer(Request{Policy: p})
	var all []Known
	for _, lesson := range slices.Backward(l.indexed().lessons[d.Address()]) {
		why, applies := c.standing(lesson, d)
		all = append(all, Known{lesson.value.(nipae.Lesson), applies, why})
	}
	return all
}
