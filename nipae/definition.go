package nipae

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fiatjaf.com/nostr"
)

// Definition is one version of an agent definition (4199). All versions have the same key and D.
type Definition struct {
	ID        nostr.ID
	PubKey    nostr.PubKey // the publisher
	CreatedAt nostr.Timestamp

	D            string // the slug
	Title        string
	Role         string
	Instructions string
	UseCriteria  string // when to use this agent
	Description  string // one line
	Tools        []string
	Ver          int // 1 or more
	Image        string
	Files        []Reference // NIP-94 file metadata (1063)
	Fork         Reference   // the definition that this one was forked from; zero if none
	Content      string      // Markdown

	Other nostr.Tags // all other tags
}

// ParseDefinition reads an agent definition. The slug is required. The version is in the ver tag, or in a version tag
// as some programs write it, and 1 without both. An e tag without a marker or with "file" is a file, the first with
// "fork" is the forked definition; others stay in Other.
func ParseDefinition(e nostr.Event) (Definition, error) {
	f := read(e, KindDefinition)
	d := Definition{
		ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt, D: f.one("d"), Title: f.one("title"), Role: f.one("role"),
		Instructions: f.one("instructions"), UseCriteria: f.one("use-criteria"), Description: f.one("description"),
		Tools: f.tools("tool"), Ver: f.version(), Image: f.one("image"), Files: f.references(MaxTags, "", "file"), Content: f.content,
	}
	for _, fork := range f.references(1, "fork") {
		d.Fork = fork
	}
	d.Other = f.rest()
	switch {
	case d.D == "":
		f.fail("d", ErrMissing)
	case len(d.D) > MaxSlug:
		f.fail("d", fmt.Errorf("%d bytes: %w: at most %d", len(d.D), ErrTooBig, MaxSlug))
	case strings.ContainsAny(d.D, "\n\t"):
		f.fail("d", fmt.Errorf("%w: %.80q", ErrInvalid, d.D))
	}
	return finish(f, "definition", e.ID, d)
}

// version takes the version number.
func (f *fields) version() int {
	name := "ver"
	if !f.tags.Has(name) {
		name = "version"
	}
	text := f.one(name)
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n == 0 {
		f.fail(name, fmt.Errorf("%w: %.80q, want a positive integer", ErrInvalid, text))
	}
	return int(n)
}

// Event returns the unsigned definition; the signer sets the key and the date. Ver 0 is written as 1.
func (d Definition) Event() (nostr.Event, error) {
	tags := nostr.Tags{{"d", d.D}}
	tags = put(tags, "title", d.Title)
	tags = put(tags, "role", d.Role)
	tags = put(tags, "instructions", d.Instructions)
	tags = put(tags, "use-criteria", d.UseCriteria)
	tags = put(tags, "description", d.Description)
	tags = putTools(tags, "tool", d.Tools)
	tags = append(tags, nostr.Tag{"ver", strconv.Itoa(cmp.Or(d.Ver, 1))})
	tags = put(tags, "image", d.Image)
	for _, file := range d.Files {
		tags = putReference(tags, file, "file")
	}
	if d.Fork.ID != (nostr.ID{}) {
		tags = putReference(tags, d.Fork, "fork")
	}
	return checked(nostr.Event{Kind: KindDefinition, Tags: append(tags, d.Other...), Content: d.Content}, ParseDefinition)
}

// Address is what all versions of a definition have in common.
type Address struct {
	PubKey nostr.PubKey
	D      string
}

// Address returns the address of the definition.
func (d Definition) Address() Address { return Address{d.PubKey, d.D} }

// Compare orders the versions of a definition: it is positive if d is newer than other. The higher Ver is newer, then
// the later date, then the lower id.
func (d Definition) Compare(other Definition) int {
	return cmp.Or(cmp.Compare(d.Ver, other.Ver), compare(d.CreatedAt, other.CreatedAt, d.ID, other.ID))
}

// Newest returns the newest version of each definition.
func Newest(all []Definition) map[Address]Definition {
	newest := map[Address]Definition{}
	for _, d := range all {
		if have, ok := newest[d.Address()]; !ok || d.Compare(have) > 0 {
			newest[d.Address()] = d
		}
	}
	return newest
}

// Inherits reports whether a lesson about named applies to d: d is named or a later version of it.
func (d Definition) Inherits(named Definition) bool {
	return d.Address() == named.Address() && d.Compare(named) >= 0
}

// MaxForks limits the length of an ancestry.
const MaxForks = 32

// Ancestry returns the definitions that d was forked from, the nearest first, as far as find knows them. It ends at a
// definition that was there already, and after MaxForks.
func Ancestry(d Definition, find func(nostr.ID) (Definition, bool)) (ancestors []Definition) {
	seen := []nostr.ID{d.ID}
	for len(ancestors) < MaxForks && !slices.Contains(seen, d.Fork.ID) {
		var ok bool
		if d, ok = find(d.Fork.ID); !ok {
			break
		}
		seen = append(seen, d.ID)
		ancestors = append(ancestors, d)
	}
	return ancestors
}
