// Package nipae reads and writes the events of NIP-AE: agent definitions (kind 4199), nudges (4201), lessons (4129),
// NIP-22 comments on lessons (1111), the profiles of agents (0) and the owners' claims (14199).
//
// Parsing is strict: an event with a wrong value is refused, with an error that names the tag. Tags and JSON members
// that the package does not know are kept, so that a new version has them too. Control characters other than line feed
// and tab are removed. Every Event method checks what it writes as parsing does.
//
// The package decides what the events mean: which version of a definition is the newest, which tools nudges leave, and
// whose claims of ownership hold. Whom to trust is decided in nipae/behaviour. The package has no clock and does not
// check signatures (guild.Verify does).
package nipae

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
)

// Kinds of NIP-AE.
const (
	KindProfile    nostr.Kind = 0
	KindComment    nostr.Kind = 1111
	KindLesson     nostr.Kind = 4129
	KindDefinition nostr.Kind = 4199
	KindNudge      nostr.Kind = 4201
	KindClaims     nostr.Kind = 14199
)

// Limits of the input.
const (
	MaxContent = 64 << 10  // bytes of the content, and of one tag value
	MaxEvent   = 256 << 10 // bytes of the content and all tags
	MaxTags    = 2000      // tags of an event
	MaxTools   = 200       // tags of one event that name a tool
	MaxTool    = 128       // bytes of a tool's name
	MaxSlug    = 200       // bytes of a d tag
)

// Reasons why an event is refused.
var (
	ErrKind    = errors.New("not of the expected kind")
	ErrTooBig  = errors.New("over a limit")
	ErrInvalid = errors.New("invalid")
	ErrMissing = errors.New("missing")
)

// Reference is an e tag.
type Reference struct {
	ID    nostr.ID
	Relay string // optional: a relay that may have the event
}

// fields is an event from which known tags are taken one by one. The first error stays.
type fields struct {
	tags    nostr.Tags // cleaned copies of those that were not taken
	content string
	err     error
}

// read checks the kind and the size of an event.
func read(e nostr.Event, kind nostr.Kind) *fields {
	f := &fields{}
	total := len(e.Content)
	switch {
	case e.Kind != kind:
		f.err = fmt.Errorf("kind %d: %w: want %d", e.Kind, ErrKind, kind)
	case len(e.Content) > MaxContent:
		f.err = fmt.Errorf("content of %d bytes: %w: at most %d", len(e.Content), ErrTooBig, MaxContent)
	case len(e.Tags) > MaxTags:
		f.fail(element(e.Tags[MaxTags], 0), fmt.Errorf("%d tags: %w: at most %d", len(e.Tags), ErrTooBig, MaxTags))
	}
	for _, tag := range e.Tags {
		for _, value := range tag {
			total += len(value)
			if len(value) > MaxContent {
				f.fail(tag[0], fmt.Errorf("%d bytes: %w: at most %d", len(value), ErrTooBig, MaxContent))
			}
		}
	}
	if total > MaxEvent {
		f.fail("", fmt.Errorf("%d bytes: %w: at most %d", total, ErrTooBig, MaxEvent))
	}
	if f.err != nil {
		return f
	}
	f.content = guild.Clean(e.Content)
	for _, tag := range e.Tags {
		if len(tag) > 0 {
			f.tags = append(f.tags, cleaned(tag))
		}
	}
	return f
}

func cleaned(tag nostr.Tag) nostr.Tag {
	clean := make(nostr.Tag, len(tag))
	for i, value := range tag {
		clean[i] = guild.Clean(value)
	}
	return clean
}

// fail keeps the first error, with the name of its tag.
func (f *fields) fail(tag string, err error) {
	if f.err == nil && tag != "" {
		err = fmt.Errorf("%.40s tag: %w", guild.Clean(tag), err)
	}
	if f.err == nil {
		f.err = err
	}
}

// all takes every tag with the name that has a value.
func (f *fields) all(name string) (taken nostr.Tags) {
	f.tags = slices.DeleteFunc(f.tags, func(tag nostr.Tag) bool {
		if tag[0] != name {
			return false
		}
		if len(tag) > 1 {
			taken = append(taken, tag)
		}
		return true
	})
	return taken
}

// one takes the value of a tag that may occur once.
func (f *fields) one(name string) string {
	tags := f.all(name)
	if len(tags) > 1 {
		f.fail(name, fmt.Errorf("%w: %d of them", ErrInvalid, len(tags)))
	}
	if len(tags) == 0 {
		return ""
	}
	return tags[0][1]
}

// references takes the e tags with one of the markers, at most most of them.
func (f *fields) references(most int, markers ...string) (all []Reference) {
	f.tags = slices.DeleteFunc(f.tags, func(tag nostr.Tag) bool {
		if tag[0] != "e" || !slices.Contains(markers, element(tag, 3)) || len(all) == most {
			return false
		}
		all = append(all, Reference{f.id(tag), element(tag, 2)})
		return true
	})
	return all
}

func (f *fields) id(tag nostr.Tag) (id nostr.ID) {
	f.hex(id[:], tag[0], element(tag, 1))
	if id == (nostr.ID{}) {
		f.fail(tag[0], fmt.Errorf("%w: no event has the id zero", ErrInvalid))
	}
	return id
}

// hex decodes 64 lower-case hex digits.
func (f *fields) hex(to []byte, name, digits string) {
	if !decode(to, digits) {
		f.fail(name, fmt.Errorf("%w: %.80q, want 64 lower-case hex digits", ErrInvalid, digits))
	}
}

func decode(to []byte, digits string) bool {
	if len(digits) != hex.EncodedLen(len(to)) {
		return false
	}
	_, err := hex.Decode(to, []byte(digits))
	return err == nil && strings.ToLower(digits) == digits
}

func element(tag nostr.Tag, i int) string {
	if i < len(tag) {
		return tag[i]
	}
	return ""
}

// rest returns the tags that were not taken; nil if there are none.
func (f *fields) rest() nostr.Tags {
	if len(f.tags) == 0 {
		return nil
	}
	return f.tags
}

// finish returns v, or the first error with the name of the event.
func finish[T any](f *fields, what string, id nostr.ID, v T) (T, error) {
	if f.err != nil {
		var none T
		return none, fmt.Errorf("%s %.8s: %w", what, id.Hex(), f.err)
	}
	return v, nil
}

// checked returns an event without control characters that parse accepts.
func checked[T any](e nostr.Event, parse func(nostr.Event) (T, error)) (nostr.Event, error) {
	e.Content = guild.Clean(e.Content)
	for i, tag := range e.Tags {
		e.Tags[i] = cleaned(tag)
	}
	if _, err := parse(e); err != nil {
		return nostr.Event{}, err
	}
	return e, nil
}

// put appends a tag unless its value is empty.
func put(tags nostr.Tags, name, value string) nostr.Tags {
	if value == "" {
		return tags
	}
	return append(tags, nostr.Tag{name, value})
}

// putReference appends an e tag; the relay's place stays empty if a marker follows.
func putReference(tags nostr.Tags, r Reference, marker string) nostr.Tags {
	tag := nostr.Tag{"e", r.ID.Hex()}
	if r.Relay != "" || marker != "" {
		tag = append(tag, r.Relay)
	}
	if marker != "" {
		tag = append(tag, marker)
	}
	return append(tags, tag)
}

// compare orders two events of a replaceable kind: positive if a is newer. Of two with the same date the one with the
// lower id is newer.
func compare(a, b nostr.Timestamp, aID, bID nostr.ID) int {
	return cmp.Or(cmp.Compare(a, b), bytes.Compare(bID[:], aID[:]))
}
