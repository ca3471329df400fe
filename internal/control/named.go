package control

import (
	"fmt"
	"net/http"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
)

// keyNamed returns the key that a name means: itself in hex or as an npub, or the one of a known provider whose npub
// is shortened, as "npub1abcd…wxyz"; three dots will do for the ellipsis. Whatever is wrong is a *choiceError.
func (s *Server) keyNamed(name string) (nostr.PubKey, error) {
	name = strings.ToLower(strings.ReplaceAll(name, "...", "…"))
	start, end, isShort := strings.Cut(name, "…")
	if !isShort {
		key, err := parsePubKey(name)
		if err != nil {
			return key, &choiceError{http.StatusBadRequest, "usage", "", err.Error()}
		}
		return key, nil
	}
	return s.keyLike(name, start, end)
}

// keyStarting is keyNamed, which takes the start of an npub too: for what only shows.
func (s *Server) keyStarting(name string) (nostr.PubKey, error) {
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "npub1") && len(lower) < npubLength && !strings.ContainsAny(lower, ".…") {
		return s.keyLike(name, lower, "")
	}
	return s.keyNamed(name)
}

// npubLength is that of every npub, in characters.
const npubLength = 63

// keyLike finds the one known provider whose npub begins and ends so.
func (s *Server) keyLike(name, start, end string) (nostr.PubKey, error) {
	const least = len("npub1") + 4
	if !strings.HasPrefix(start, "npub1") || len(start) < least {
		return nostr.PubKey{}, &choiceError{http.StatusBadRequest, "usage", "give at least four characters after npub1",
			fmt.Sprintf("%.80q is too short for the start of an npub", name)}
	}
	found := map[nostr.PubKey]bool{}
	for _, o := range s.c.Registry.Offers("", 0) {
		npub := nip19.EncodeNpub(o.Service.PubKey)
		if len(start)+len(end) <= len(npub) && strings.HasPrefix(npub, start) && strings.HasSuffix(npub, end) {
			found[o.Service.PubKey] = true
		}
	}
	if len(found) > 1 {
		return nostr.PubKey{}, &choiceError{http.StatusConflict, "ambiguous", "give more of it", fmt.Sprintf("%d providers are %.80q", len(found), name)}
	}
	for key := range found {
		return key, nil
	}
	return nostr.PubKey{}, &choiceError{http.StatusNotFound, "missing", "guild market ls lists the providers", fmt.Sprintf("no provider %.80q", name)}
}

// refuseChoice answers with what keyNamed and keyStarting return.
func refuseChoice(w http.ResponseWriter, e *choiceError) { refuse(w, e.status, e.code, e.hint, e) }
