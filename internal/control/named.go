package control

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
)

// keyNamed returns the key that a name means: itself in hex or as an npub, or the one of a known provider whose npub
// is shortened, as "npub1abcd…wxyz"; three dots will do for the ellipsis. Whatever is wrong is a *refusal.
func (s *Server) keyNamed(name string) (nostr.PubKey, error) {
	name = strings.ToLower(strings.ReplaceAll(name, "...", "…"))
	start, end, isShort := strings.Cut(name, "…")
	if !isShort {
		key, err := parsePubKey(name)
		if err != nil {
			return key, wrongUsage("", err)
		}
		return key, nil
	}
	return s.keyLike(name, start, end)
}

// parsePubKey reads npub or hex.
func parsePubKey(text string) (nostr.PubKey, error) {
	if strings.HasPrefix(text, "npub1") {
		_, value, err := nip19.Decode(text)
		key, ok := value.(nostr.PubKey)
		if err != nil || !ok {
			return nostr.PubKey{}, fmt.Errorf("provider %.80q is not an npub: %w", text, cmp.Or(err, errors.New("it names no key")))
		}
		text = key.Hex() // nip19 does not check that it is a key
	}
	key, err := nostr.PubKeyFromHex(text)
	if err != nil {
		return nostr.PubKey{}, fmt.Errorf("provider %.80q is neither an npub nor a key in hex: %w", text, err)
	}
	return key, nil
}

// keyStarting is keyNamed that also takes the start of an npub, or the name of one provider as lists show it. It is for
// requests that only show something, because anybody can announce any name.
func (s *Server) keyStarting(name string) (nostr.PubKey, error) {
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "npub1") && len(lower) < npubLength && !strings.ContainsAny(lower, ".…") {
		return s.keyLike(name, lower, "")
	}
	key, err := s.keyNamed(name)
	if err == nil || strings.HasPrefix(lower, "npub1") {
		return key, err
	}
	return s.keyCalled(name, err)
}

// keyCalled finds the one provider with a name, or with one that begins so if it ends with an ellipsis. Without such a
// provider it returns the error unknown.
func (s *Server) keyCalled(name string, unknown error) (nostr.PubKey, error) {
	start, cut := strings.CutSuffix(strings.ReplaceAll(name, "...", "…"), "…")
	found := map[nostr.PubKey]bool{}
	for o := range s.c.Registry.Offers("", 0) {
		if strings.EqualFold(o.Name, name) || cut && start != "" && strings.HasPrefix(o.Name, start) {
			found[o.Service.PubKey] = true
		}
	}
	if len(found) > 1 {
		return nostr.PubKey{}, ambiguous("name one by its npub; guild market ls shows them", fmt.Errorf("%d providers call themselves %.80q", len(found), name))
	}
	for key := range found {
		return key, nil
	}
	return nostr.PubKey{}, unknown
}

// decided lists the services that something was decided about: asked, moved to a state, or trusted.
func (s *Server) decided() []guild.Service {
	all := s.c.Providers.Known()
	for _, e := range s.c.Trust.All() { // another guild may have said it
		all = append(all, e.Service)
	}
	return all
}

// npubLength is that of every npub, in characters.
const npubLength = 63

// keyLike finds the one known provider whose npub begins and ends so.
func (s *Server) keyLike(name, start, end string) (nostr.PubKey, error) {
	const least = len("npub1") + 4
	if !strings.HasPrefix(start, "npub1") || len(start) < least {
		return nostr.PubKey{}, wrongUsage("give at least four characters after npub1", fmt.Errorf("%.80q is too short for the start of an npub", name))
	}
	found := map[nostr.PubKey]bool{}
	look := func(key nostr.PubKey) {
		npub := nip19.EncodeNpub(key)
		if len(start)+len(end) <= len(npub) && strings.HasPrefix(npub, start) && strings.HasSuffix(npub, end) {
			found[key] = true
		}
	}
	for o := range s.c.Registry.Offers("", 0) {
		look(o.Service.PubKey)
	}
	for _, service := range s.decided() { // those who announce nothing any more
		look(service.PubKey)
	}
	if len(found) > 1 {
		return nostr.PubKey{}, ambiguous("give more of it", fmt.Errorf("%d providers are %.80q", len(found), name))
	}
	for key := range found {
		return key, nil
	}
	return nostr.PubKey{}, missing("guild market ls lists the providers", fmt.Errorf("no provider %.80q", name))
}
