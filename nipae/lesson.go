package nipae

import (
	"fmt"
	"slices"

	"fiatjaf.com/nostr"
)

// Lesson is what an agent learned (4129). It names one version of a definition, and applies to that and later ones.
type Lesson struct {
	ID        nostr.ID
	PubKey    nostr.PubKey // the agent
	CreatedAt nostr.Timestamp

	Title      string
	Category   string
	Definition Reference
	Content    string

	Other nostr.Tags
}

// ParseLesson reads a lesson. An e tag and a content are required; the first e tag names the definition.
func ParseLesson(e nostr.Event) (Lesson, error) {
	f := read(e, KindLesson)
	l := Lesson{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt, Title: f.one("title"), Category: f.one("category"), Content: f.content}
	if i := slices.IndexFunc(f.tags, func(tag nostr.Tag) bool { return tag[0] == "e" }); i < 0 {
		f.fail("e", ErrMissing)
	} else {
		l.Definition = Reference{f.id(f.tags[i]), element(f.tags[i], 2)}
		f.tags = slices.Delete(f.tags, i, i+1)
	}
	l.Other = f.rest()
	f.needContent()
	return finish(f, "lesson", e.ID, l)
}

func (f *fields) needContent() {
	if f.err == nil && f.content == "" {
		f.err = fmt.Errorf("content: %w", ErrMissing)
	}
}

// Event returns the unsigned lesson; the signer sets the key and the date.
func (l Lesson) Event() (nostr.Event, error) {
	tags := put(nil, "title", l.Title)
	tags = put(tags, "category", l.Category)
	tags = putReference(tags, l.Definition, "")
	return checked(nostr.Event{Kind: KindLesson, Tags: append(tags, l.Other...), Content: l.Content}, ParseLesson)
}

// Comment is a NIP-22 comment on a lesson (1111), or on another comment on it.
type Comment struct {
	ID        nostr.ID
	PubKey    nostr.PubKey
	CreatedAt nostr.Timestamp

	Lesson       Reference    // the root: E
	LessonAuthor nostr.PubKey // P
	Parent       Reference    // the lesson or another comment: e
	ParentAuthor nostr.PubKey // p
	Content      string

	Other nostr.Tags
}

// ParseComment reads a comment on a lesson. K, E, k and e are required. P and p are too, unless the author is the
// fourth value of E or e (NIP-22 has it there as well). Of several p tags, as NDK writes them, the last is the parent's
// author if e does not name one.
func ParseComment(e nostr.Event) (Comment, error) {
	f := read(e, KindComment)
	if root := f.one("K"); f.err == nil && root != "4129" {
		f.fail("K", fmt.Errorf("%w: %.80q, want 4129", ErrInvalid, root))
	}
	parent := f.one("k")
	c := Comment{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt, Content: f.content}
	c.Lesson, c.LessonAuthor = f.event("E", "P")
	c.Parent, c.ParentAuthor = f.event("e", "p")
	switch {
	case parent != "4129" && parent != "1111":
		f.fail("k", fmt.Errorf("%w: %.80q, want 4129 or 1111", ErrInvalid, parent))
	case (parent == "4129") != (c.Parent.ID == c.Lesson.ID):
		f.fail("e", fmt.Errorf("%w: %.8s, of kind %s on lesson %.8s", ErrInvalid, c.Parent.ID.Hex(), parent, c.Lesson.ID.Hex()))
	}
	c.Other = f.rest()
	f.needContent()
	return finish(f, "comment", e.ID, c)
}

// event takes the tag that names an event and the one that names its author.
func (f *fields) event(name, author string) (r Reference, by nostr.PubKey) {
	tags := f.all(name)
	if len(tags) != 1 {
		f.fail(name, fmt.Errorf("%w: %d of them, want 1", ErrInvalid, len(tags)))
		return r, by
	}
	tag := tags[0]
	r = Reference{f.id(tag), element(tag, 2)}
	if !decode(by[:], element(tag, 3)) {
		last := f.tags.FindLast(author)
		if last == nil {
			f.fail(author, ErrMissing)
			return r, by
		}
		f.hex(by[:], author, last[1])
	}
	digits := by.Hex()
	f.tags = slices.DeleteFunc(f.tags, func(tag nostr.Tag) bool { return tag[0] == author && element(tag, 1) == digits })
	return r, by
}

// Event returns the unsigned comment; the signer sets the key and the date.
func (c Comment) Event() (nostr.Event, error) {
	kind := "1111"
	if c.Parent.ID == c.Lesson.ID {
		kind = "4129"
	}
	tags := nostr.Tags{
		{"E", c.Lesson.ID.Hex(), c.Lesson.Relay, c.LessonAuthor.Hex()}, {"K", "4129"}, {"P", c.LessonAuthor.Hex()},
		{"e", c.Parent.ID.Hex(), c.Parent.Relay, c.ParentAuthor.Hex()}, {"k", kind}, {"p", c.ParentAuthor.Hex()},
	}
	return checked(nostr.Event{Kind: KindComment, Tags: append(tags, c.Other...), Content: c.Content}, ParseComment)
}
