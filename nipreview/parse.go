package nipreview

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
)

// Parse reads a review of kind 2020 or 32020. It requires a subject and a rating within its scale. It keeps or ignores
// everything else that it does not understand. A content that is not a JSON object is the summary. Errors match
// ErrKind, ErrTooBig or ErrInvalid.
func Parse(e nostr.Event) (Review, error) {
	r, err := parse(e)
	if err != nil {
		return Review{}, fmt.Errorf("review %.8s: %w", e.ID.Hex(), err)
	}
	return r, nil
}

func parse(e nostr.Event) (Review, error) {
	if err := check(e); err != nil {
		return Review{}, err
	}
	r := Review{Kind: e.Kind, ID: e.ID, Reviewer: e.PubKey, CreatedAt: e.CreatedAt}
	if err := r.readSubject(e.Tags); err != nil {
		return Review{}, err
	}
	denom := cmp.Or(value(e.Tags, "denom"), value(e.Tags, "max_rating"))
	stars, ok := readStars(rating(e.Tags), denom)
	if !ok {
		return Review{}, fmt.Errorf("rating %.40q of %.40q: %w", rating(e.Tags), denom, ErrInvalid)
	}
	r.Stars = stars
	if e.Kind == KindSet {
		r.D = guild.Cut(guild.Clean(e.Tags.GetD()), MaxValue)
	}
	task := value(e.Tags, "task")
	if e.Tags.Find("task") == nil {
		task = value(e.Tags, "t")
		if rest, ok := strings.CutPrefix(r.D, r.Subject.Hex()+":"); ok && task == "" {
			task = rest
		}
	}
	r.Task = guild.Cut(guild.Clean(task), MaxTask)
	r.Service = guild.Cut(guild.Clean(value(e.Tags, "service")), MaxTask)
	if id, err := nostr.IDFromHex(value(e.Tags, "e")); err == nil {
		r.Request = id
	}
	if kind, err := strconv.ParseUint(value(e.Tags, "k"), 10, 16); err == nil {
		r.JobKind = int(kind)
	}
	r.Content = readContent(e.Content)
	return r, nil
}

// check checks the kind and the limits before anything is parsed, because anyone can publish reviews.
func check(e nostr.Event) error {
	switch {
	case e.Kind != Kind && e.Kind != KindSet:
		return fmt.Errorf("kind %d: %w", e.Kind, ErrKind)
	case len(e.Content) > MaxContent:
		return fmt.Errorf("content of %d bytes: %w", len(e.Content), ErrTooBig)
	case len(e.Tags) > MaxTags:
		return fmt.Errorf("%d tags: %w", len(e.Tags), ErrTooBig)
	}
	for _, tag := range e.Tags {
		if len(tag) > MaxTags {
			return fmt.Errorf("tag of %d values: %w", len(tag), ErrTooBig)
		}
		for _, v := range tag {
			if len(v) > MaxValue {
				return fmt.Errorf("tag value of %d bytes: %w", len(v), ErrTooBig)
			}
		}
	}
	return nil
}

// value returns the value of the first tag with a name, or "".
func value(tags nostr.Tags, name string) string {
	if tag := tags.Find(name); tag != nil {
		return tag[1]
	}
	return ""
}

// rating returns the overall rating. Some programs write several ratings; those for a single quality name it.
func rating(tags nostr.Tags) string {
	for tag := range tags.FindAll("rating") {
		if len(tag) == 2 || tag[2] == "" {
			return tag[1]
		}
	}
	return value(tags, "rating")
}

// readSubject reads the subject of the review: the subject tag, or else the only key in p tags.
func (r *Review) readSubject(tags nostr.Tags) error {
	tag := tags.Find("subject")
	for other := range tags.FindAll("p") {
		if tag == nil {
			tag = other
		} else if tag[0] == "p" && tag[1] != other[1] {
			return fmt.Errorf("no subject, and several keys: %w", ErrInvalid)
		}
	}
	if tag == nil {
		return fmt.Errorf("no subject: %w", ErrInvalid)
	}
	key, err := readKey(tag[1])
	if err != nil {
		return fmt.Errorf("subject %.70q: %w", tag[1], ErrInvalid)
	}
	r.Subject = key
	if len(tag) > 2 && isRelayURL(tag[2]) {
		r.Relay = tag[2]
	}
	return nil
}

// readKey parses a key in hex or as npub; section 4.3.2.1 has an npub in the tag.
func readKey(s string) (nostr.PubKey, error) {
	if !strings.HasPrefix(s, "npub1") || len(s) > 100 {
		return nostr.PubKeyFromHex(s)
	}
	prefix, decoded, err := nip19.Decode(s)
	key, ok := decoded.(nostr.PubKey)
	if err != nil || prefix != "npub" || !ok {
		return nostr.PubKey{}, ErrInvalid
	}
	return nostr.PubKeyFromHex(key.Hex())
}
