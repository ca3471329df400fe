package nip89

import (
	"encoding/hex"
	"fmt"
	"strings"

	"fiatjaf.com/nostr"
)

// Recommendation is what a user says about handlers for one kind of event (31989).
type Recommendation struct {
	PubKey   nostr.PubKey // who recommends
	Handles  string       // the d tag: a kind in decimal, or a word
	Handlers []Recommended
}

// Recommended points to an announcement.
type Recommended struct {
	PubKey   nostr.PubKey
	D        string
	Relay    string // where it may be found; may be empty
	Platform string // "web", "ios", …; may be empty
}

// ParseRecommendation reads a recommendation. An a tag that does not point to an announcement is left out.
func ParseRecommendation(e nostr.Event) (Recommendation, error) {
	if err := check(e, KindRecommendation); err != nil {
		return Recommendation{}, fmt.Errorf("recommendation %.8s: %w", e.ID.Hex(), err)
	}
	r := Recommendation{PubKey: e.PubKey, Handles: e.Tags.GetD()}
	for tag := range e.Tags.FindAll("a") {
		if handler, ok := parseAddress(tag); ok && len(r.Handlers) < MaxWords {
			r.Handlers = append(r.Handlers, handler)
		}
	}
	return r, nil
}

// parseAddress reads ["a", "31990:<pubkey>:<d>", relay, platform].
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
