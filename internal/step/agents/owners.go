package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/nipae"
	"guild/nipsa"
)

// Ownership is the result of the check of one owner that an agent names.
type Ownership struct {
	Npub     string `json:"npub"`
	PubKey   string `json:"pubkey"`
	Verified bool   `json:"verified"`
	Reason   string `json:"reason,omitempty"` // why it is not
}

// ErrNoProfile means that a key has no profile that names an owner.
var ErrNoProfile = errors.New("no profile (kind 0) of this key is known")

// errMany means that an owner was not looked up.
var errMany = fmt.Errorf("not looked up: it is after the first %d owners", maxOwners)

// Verify checks each owner that an agent's newest profile names, by what its and the owners' relays have now. An owner
// whose relays do not answer, and those after the first maxOwners, are not verified.
func (s *Step) Verify(ctx context.Context, agent nostr.PubKey) ([]Ownership, error) {
	if err := s.readAll(ctx, nipae.KindProfile, agent); err != nil {
		return nil, err
	}
	profile, ok := s.library.Profile(agent)
	if !ok {
		return nil, fmt.Errorf("%.8s: %w", agent.Hex(), ErrNoProfile)
	}
	failed := map[string]error{}
	for i, owner := range profile.Owners {
		if _, again := failed[owner.Hex()]; again {
			continue
		}
		err := errMany
		if i < maxOwners {
			err = s.readAll(ctx, nipae.KindClaims, owner)
		}
		failed[owner.Hex()] = err
	}
	all := s.Ownership(agent)
	for i, o := range all {
		if err := failed[o.PubKey]; err != nil {
			all[i].Verified, all[i].Reason = false, err.Error()
		}
	}
	return all, nil
}

// Ownership is Verify by what is known already. It is empty for a key that names no owner.
func (s *Step) Ownership(agent nostr.PubKey) []Ownership {
	profile, _ := s.library.Profile(agent)
	var claims []nipae.Claims
	for _, owner := range profile.Owners {
		if c, ok := s.library.Claims(owner); ok {
			claims = append(claims, c)
		}
	}
	all := []Ownership{}
	for _, o := range nipae.Verify(profile, claims) {
		one := Ownership{Npub: nip19.EncodeNpub(o.Owner), PubKey: o.Owner.Hex(), Verified: o.Err == nil}
		if o.Err != nil {
			one.Reason = o.Err.Error()
		}
		all = append(all, one)
	}
	return all
}

// Drafts are the newest events of the NIP-SA draft that the relays have of a key. Nobody checks what they say.
type Drafts struct {
	Profile *nipsa.Profile `json:"profile,omitempty"`
	State   *nipsa.State   `json:"state,omitempty"`
}

// Drafts reads them from the key's relays. Events of another form are left out.
func (s *Step) Drafts(ctx context.Context, key nostr.PubKey) (d Drafts, err error) {
	found, err := s.c.Relays.Find(ctx, nostr.Filter{
		Kinds: []nostr.Kind{nipsa.KindProfile, nipsa.KindState, nipsa.KindOldProfile, nipsa.KindOldState}, Authors: []nostr.PubKey{key}, Limit: 20,
	}, s.c.Relays.Of(ctx, key))
	for _, v := range found {
		if p, err := nipsa.ParseProfile(v.Event()); err == nil && (d.Profile == nil || p.At > d.Profile.At) {
			d.Profile = &p
		}
		if state, err := nipsa.ParseState(v.Event()); err == nil && (d.State == nil || state.At > d.State.At) {
			d.State = &state
		}
	}
	if err != nil {
		return d, fmt.Errorf("the draft events of %.8s: %w", key.Hex(), err)
	}
	return d, nil
}

// SameOwner reports whether one verified owner has both keys, or one key is the verified owner of the other.
func (s *Step) SameOwner(a, b nostr.PubKey) bool {
	owners := func(key nostr.PubKey) []string {
		all := []string{key.Hex()}
		for _, o := range s.Ownership(key) {
			if o.Verified {
				all = append(all, o.PubKey)
			}
		}
		return all
	}
	of := owners(b)
	return slices.ContainsFunc(owners(a), func(owner string) bool { return slices.Contains(of, owner) })
}

// readAll reads the newest event of a replaceable kind from the relays of its author. It fails only if no relay answers.
func (s *Step) readAll(ctx context.Context, kind nostr.Kind, author nostr.PubKey) error {
	found, err := s.c.Relays.Find(ctx, nostr.Filter{Kinds: []nostr.Kind{kind}, Authors: []nostr.PubKey{author}}, s.c.Relays.Of(ctx, author))
	for _, v := range found {
		_ = s.Observe(ctx, v) // an event that is not valid counts as absent
	}
	if err != nil {
		return fmt.Errorf("kind %d of %.8s: %w", kind, author.Hex(), err)
	}
	return nil
}

// Claim adds an agent to the owner's claims (14199). It reports false if it was there.
func (s *Step) Claim(ctx context.Context, agent nostr.PubKey) (bool, error) {
	if agent == s.c.PubKey {
		return false, nipae.ErrOwnsItself
	}
	return s.reclaim(ctx, func(c nipae.Claims) nipae.Claims { return c.Add(agent) })
}

// Disown removes an agent from the owner's claims. It reports false if it was not there.
func (s *Step) Disown(ctx context.Context, agent nostr.PubKey) (bool, error) {
	return s.reclaim(ctx, func(c nipae.Claims) nipae.Claims { return c.Remove(agent) })
}

func (s *Step) reclaim(ctx context.Context, change func(nipae.Claims) nipae.Claims) (bool, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	v, changed, err := s.claimed(ctx, change)
	if err != nil || !changed {
		return false, err
	}
	if err := s.record(ctx, nil, []guild.Verified{v}); err != nil {
		return false, fmt.Errorf("change the claims: %w", err)
	}
	return true, nil
}

// claimed signs the owner's claims with a change, unless they say so already. The claims replace what other programs
// published under the owner's key. So they are read from every relay of the owner first, one by one: if one of them does
// not answer, its newer claims could be lost, and nothing is signed.
func (s *Step) claimed(ctx context.Context, change func(nipae.Claims) nipae.Claims) (v guild.Verified, changed bool, err error) {
	var all []nipae.Claims
	if own, ok := s.library.Claims(s.c.PubKey); ok {
		all = append(all, own)
	}
	filter := nostr.Filter{Kinds: []nostr.Kind{nipae.KindClaims}, Authors: []nostr.PubKey{s.c.PubKey}}
	relays, err := s.c.Relays.All(ctx, s.c.PubKey)
	if err != nil {
		return v, false, fmt.Errorf("the owner's relays: %w", err)
	}
	for _, relay := range relays {
		found, err := s.c.Relays.Find(ctx, filter, []string{relay})
		if err != nil {
			return v, false, fmt.Errorf("the owner's claims (kind 14199) at %s: %w: %w", relay, ErrSilent, err)
		}
		for _, one := range found {
			c, err := nipae.ParseClaims(one.Event())
			if err != nil { // its entries would be lost
				return v, false, fmt.Errorf("the owner's claims (kind 14199) at %s: %w", relay, err)
			}
			all = append(all, c)
		}
	}
	now := nipae.Merged(all)
	next := change(now)
	if slices.Equal(next.Agents(), now.Agents()) && now.ID != (nostr.ID{}) {
		return v, false, nil
	}
	e, err := next.Event()
	if err != nil {
		return v, false, err
	}
	if v, err = s.sign(ctx, s.c.Owner, e, now.CreatedAt); err != nil {
		return v, false, fmt.Errorf("sign the claims: %w", err)
	}
	return v, true, nil
}
