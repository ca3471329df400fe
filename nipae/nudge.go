package nipae

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fiatjaf.com/nostr"
)

// Nudge changes how an agent behaves and which tools it has (4201).
type Nudge struct {
	ID        nostr.ID
	PubKey    nostr.PubKey
	CreatedAt nostr.Timestamp

	Title   string
	Only    []string // exactly these tools
	Allow   []string // more tools
	Deny    []string // fewer tools
	Content string

	Other nostr.Tags
}

// ParseNudge reads a nudge.
func ParseNudge(e nostr.Event) (Nudge, error) {
	f := read(e, KindNudge)
	n := Nudge{
		ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt, Title: f.one("title"), Only: f.tools("only-tool"),
		Allow: f.tools("allow-tool"), Deny: f.tools("deny-tool"), Content: f.content,
	}
	n.Other = f.rest()
	return finish(f, "nudge", e.ID, n)
}

// Event returns the unsigned nudge; the signer sets the key and the date.
func (n Nudge) Event() (nostr.Event, error) {
	tags := put(nil, "title", n.Title)
	tags = putTools(tags, "only-tool", n.Only)
	tags = putTools(tags, "allow-tool", n.Allow)
	tags = putTools(tags, "deny-tool", n.Deny)
	return checked(nostr.Event{Kind: KindNudge, Tags: append(tags, n.Other...), Content: n.Content}, ParseNudge)
}

// Tools returns the tools that an agent with the tools base has under the nudges, sorted and without duplicates; never
// nil. If any nudge has Only, they are the union of all Only. Else they are base with all Allow and without all Deny.
func Tools(base []string, nudges []Nudge) []string {
	only, tools := set(nil), set(base)
	for _, n := range nudges {
		maps.Copy(only, set(n.Only))
		maps.Copy(tools, set(n.Allow))
	}
	if len(only) > 0 {
		return sorted(only)
	}
	for _, n := range nudges {
		for _, tool := range n.Deny {
			delete(tools, tool)
		}
	}
	return sorted(tools)
}

func set(names []string) map[string]bool {
	s := map[string]bool{}
	for _, name := range names {
		s[name] = true
	}
	return s
}

func sorted(names map[string]bool) []string {
	all := slices.AppendSeq(make([]string, 0, len(names)), maps.Keys(names))
	slices.Sort(all)
	return all
}

// IsTool reports whether name is acceptable as the name of a tool: up to MaxTool ASCII letters, digits and _ - . : / @ +,
// of which the first is a letter, a digit, _ or @. No shell reads such a name as anything but a word, and no program as
// an option or an absolute path.
func IsTool(name string) bool {
	if name == "" || len(name) > MaxTool || strings.IndexByte("-.:/+", name[0]) >= 0 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || 'z' < c) && (c < 'A' || 'Z' < c) && (c < '0' || '9' < c) && strings.IndexByte("_-.:/@+", c) < 0 {
			return false
		}
	}
	return true
}

// tools takes the tags that name a tool each.
func (f *fields) tools(name string) (names []string) {
	tags := f.all(name)
	if len(tags) > MaxTools {
		f.fail(name, fmt.Errorf("%d of them: %w: at most %d", len(tags), ErrTooBig, MaxTools))
		return nil
	}
	for _, tag := range tags {
		if len(tag) > 2 || !IsTool(tag[1]) {
			f.fail(name, fmt.Errorf("%w: %.80q, want one name of letters, digits and _ - . : / @ +", ErrInvalid, tag[1:]))
		}
		if !slices.Contains(names, tag[1]) {
			names = append(names, tag[1])
		}
	}
	return names
}

func putTools(tags nostr.Tags, name string, tools []string) nostr.Tags {
	for _, tool := range tools {
		tags = append(tags, nostr.Tag{name, tool})
	}
	return tags
}
