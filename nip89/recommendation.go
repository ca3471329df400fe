package nip89

import (
	"encoding/hex"
	"fmt"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
)

// Recommendation is a user's recommendation of handlers for one kind of event (31989).
type Recommendation struct {
	PubKey   nostr.PubKey // the author
	At       nostr.Timestamp
	Handles  string // the d tag: a kind in decimal, or a word
	Handlers []Recommended
}

// Recommended points to an announcement.
type Recommended struct {
	PubKey   nostr.PubKey
	D        string
	Relay    string // optional: a relay that may have it
	Platform string // optional: "web", "ios", …
}

// ParseRecommendation reads a recommendation. It ignores a tags that do not point to an announcement.
func ParseRecommendation(e nostr.Event) (Recommendation, error) {
	if err := check(e, KindRecommendation); err != nil {
		return Recommendation{}, fmt.Errorf("recommendation %.8s: %w", e.ID.Hex(), err)
	}
	r := Recommendation{PubKey: e.PubKey, At: e.CreatedAt, Handles: e.Tags.GetD()}
	for tag := range e.Tags.FindAll("a") {
		if handler, ok := parseAddress(tag); ok && len(r.Handlers) < MaxWords {
			r.Handlers = append(r.Handlers, handler)
		}
	}
	return r, nil
}

// Event returns the unsigned recommendation; the signer sets the key and the date. It replaces the key's earlier
// recommendation with the same d, so it must contain everything that is to remain. It writes at most MaxWords
// announcements, each once.
func (r Recommendation) Event() nostr.Event {
	tags := nostr.Tags{{"d", guild.Clean(r.Handles)}}
	named := map[string]bool{}
	for _, h := range r.Handlers {
		tag := nostr.Tag{"a", fmt.Sprintf("%d:%s:%s", Kind, h.PubKey.Hex(), guild.Clean(h.D))}
		if len(tag[1]) > MaxValue || named[tag[1]] || len(named) == MaxWords {
			continue
		}
		named[tag[1]] = true
		platform := guild.Clean(h.Platform)
		switch {
		case isRelayURL(h.Relay):
			tag = append(tag, h.Relay)
		case platform != "":
			tag = append(tag, "")
		}
		if platform != "" {
			tag = append(tag, platform)
		}
		tags = append(tags, tag)
	}
	return nostr.Event{Kind: KindRecommendation, Tags: tags}
}

// Service returns the identity of the recommended announcement.
func (h Recommended) Service() guild.Service {
	return guild.Service{PubKey: h.PubKey, D: CanonicalD(h.D)}
}

// ParseAddress parses the address of an announcement, "31990:<pubkey>:<d>", as in an a tag.
func ParseAddress(address string) (guild.Service, bool) {
	h, ok := parseAddress(nostr.Tag{"a", address})
	return h.Service(), ok
}

// parseAddress parses ["a", "31990:<pubkey>:<d>", relay, platform].
func parseAddress(tag nostr.Tag) (r Recommended, ok bool) {
	parts := strings.SplitN(tag[1], ":", 3)
	if len(parts) < 3 || parts[0] != "31990" || len(parts[1]) != hex.EncodedLen(len(r.PubKey)) {
		return r, false
	}
	if _, err := hex.Decode(r.PubKey[:], []byte(parts[1])); err != nil {
		return r, false
	}
	r.D = parts[2]
	if len(tag) > 2 && isRelayURL(tag[2]) {
		r.Relay = tag[2]
	}
	if len(tag) > 3 {
		r.Platform = tag[3]
	}
	return r, true
}
