package agents

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/nipae"
)

// Version describes one version of a definition.
type Version struct {
	ID          nostr.ID     `json:"id"`
	Address     string       `json:"address"` // naddr of all versions
	Publisher   nostr.PubKey `json:"publisher"`
	Slug        string       `json:"slug"`
	Ver         int          `json:"ver"`
	At          int64        `json:"at_ms"` // Unix ms
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	UseCriteria string       `json:"use_criteria,omitempty"`
	Tools       []string     `json:"tools,omitempty"`
	Files       int          `json:"files,omitempty"`
	Forks       []nostr.ID   `json:"forks,omitempty"` // what it was forked from, the nearest first, as far as known
}

// Version describes a definition.
func (s *Step) Version(d nipae.Definition) Version {
	v := Version{
		ID: d.ID, Address: nip19.EncodeNaddr(d.PubKey, nipae.KindDefinition, d.D, s.c.Relays.Ours()), Publisher: d.PubKey, Slug: d.D, Ver: d.Ver,
		At: int64(d.CreatedAt) * 1000, Title: d.Title, Description: d.Description, UseCriteria: d.UseCriteria, Tools: d.Tools, Files: len(d.Files),
	}
	for _, from := range nipae.Ancestry(d, s.library.Definition) {
		v.Forks = append(v.Forks, from.ID)
	}
	return v
}

// Find returns the versions of a definition, the newest first. A reference is a naddr, a nevent, an event id, npub/slug,
// or the name of an agent of this node. exact is the version that the reference names, or the newest.
func (s *Step) Find(ctx context.Context, reference string) (all []nipae.Definition, exact nipae.Definition, err error) {
	p, err := s.parse(reference)
	if err != nil {
		return nil, exact, err
	}
	if p.id != (nostr.ID{}) {
		if exact, err = s.event(ctx, p.id, p.relays); err != nil {
			return nil, exact, fmt.Errorf("definition %s: %w", reference, err)
		}
		p.address = exact.Address()
	}
	s.library.Keep(p.address.PubKey) // strangers take no room from what was looked up
	filter := nostr.Filter{Kinds: []nostr.Kind{nipae.KindDefinition}, Authors: []nostr.PubKey{p.address.PubKey}, Tags: nostr.TagMap{"d": {p.address.D}}}
	relays := slices.Concat(p.relays, s.c.Relays.Of(ctx, p.address.PubKey))
	found, err := s.c.Relays.Find(ctx, filter, relays)
	for _, v := range found {
		if d, err := nipae.ParseDefinition(v.Event()); err == nil && d.Address() == p.address {
			if err := s.take(ctx, v); err != nil {
				return nil, exact, fmt.Errorf("definition %s: %w", reference, err)
			}
		}
	}
	all = s.library.Versions(p.address)
	switch {
	case len(all) > 0:
	case err != nil:
		return nil, exact, fmt.Errorf("definition %s: %w", reference, err)
	default:
		return nil, exact, fmt.Errorf("definition %s: %w", reference, ErrNotFound)
	}
	if exact.ID == (nostr.ID{}) {
		exact = all[0]
	}
	return all, exact, nil
}

// ErrNotFound means that no relay has an event.
var ErrNotFound = errors.New("no relay has it")

// ErrReference is a reference of another form.
var ErrReference = errors.New("want a naddr, a nevent, an event id, npub/slug or the name of an agent")

// pointer is a parsed reference: an id, or else an address.
type pointer struct {
	id      nostr.ID
	address nipae.Address
	relays  []string
}

var byOwner = regexp.MustCompile(`^(npub1[a-z0-9]+|[0-9a-f]{64})/(.+)$`)

func (s *Step) parse(reference string) (p pointer, err error) {
	if a, ok := s.fold.agent(reference); ok {
		d, err := nipae.ParseDefinition(a.Definition)
		return pointer{address: d.Address()}, err
	}
	if parts := byOwner.FindStringSubmatch(reference); parts != nil {
		key, err := parseKey(parts[1])
		if err != nil {
			err = fmt.Errorf("%.100q: %w", reference, ErrReference)
		}
		return pointer{address: nipae.Address{PubKey: key, D: parts[2]}}, err
	}
	if id, relays, err := EventNamed(reference); err == nil {
		return pointer{id: id, relays: relays}, nil
	}
	if to, err := pointerOf(reference); err == nil {
		if a, ok := to.(nostr.EntityPointer); ok && a.Kind == nipae.KindDefinition {
			return pointer{address: nipae.Address{PubKey: a.PublicKey, D: a.Identifier}, relays: a.Relays}, nil
		}
	}
	return p, fmt.Errorf("%.100q: %w", reference, ErrReference)
}

// pointerOf reads a bech32 entity. The library's function for it panics on a note1….
func pointerOf(code string) (nostr.Pointer, error) {
	prefix, data, err := nip19.Decode(code)
	if err != nil {
		return nil, err
	}
	switch data := data.(type) {
	case nostr.PubKey:
		return nostr.ProfilePointer{PublicKey: data}, nil
	case nostr.ID:
		return nostr.EventPointer{ID: data}, nil
	case nostr.Pointer:
		return data, nil
	}
	return nil, fmt.Errorf("%s: %w", prefix, ErrReference)
}

// EventNamed parses an event id, as nevent, note or hex, with the relays that may have the event.
func EventNamed(text string) (id nostr.ID, relays []string, err error) {
	if id, err := nostr.IDFromHex(text); err == nil {
		return id, nil, nil
	}
	if to, err := pointerOf(text); err == nil {
		if e, ok := to.(nostr.EventPointer); ok {
			return e.ID, e.Relays, nil
		}
	}
	return id, nil, fmt.Errorf("%.100q: %w", text, ErrReference)
}

// parseKey parses a public key, as npub or hex.
func parseKey(text string) (nostr.PubKey, error) {
	if to, err := pointerOf(text); err == nil {
		if profile, ok := to.(nostr.ProfilePointer); ok {
			return profile.PublicKey, nil
		}
	}
	return nostr.PubKeyFromHex(text)
}

// event returns a definition by its id.
func (s *Step) event(ctx context.Context, id nostr.ID, relays []string) (nipae.Definition, error) {
	if d, ok := s.library.Definition(id); ok {
		return d, nil
	}
	v, err := s.fetch(ctx, id, relays)
	if err != nil {
		return nipae.Definition{}, err
	}
	d, err := nipae.ParseDefinition(v.Event())
	if err == nil {
		err = s.take(ctx, v)
	}
	return d, err
}

// fetch reads one event by its id.
func (s *Step) fetch(ctx context.Context, id nostr.ID, relays []string) (guild.Verified, error) {
	found, err := s.c.Relays.Find(ctx, nostr.Filter{IDs: []nostr.ID{id}}, slices.Concat(relays, s.c.Relays.Ours()))
	if len(found) > 0 {
		return found[0], nil
	}
	if err == nil {
		err = ErrNotFound
	}
	return guild.Verified{}, err
}

// take adds an event of others that was looked up.
func (s *Step) take(ctx context.Context, v guild.Verified) error {
	if err := s.Observe(ctx, v); err != nil {
		return fmt.Errorf("event %.8s: %w", v.Event().ID.Hex(), err)
	}
	return nil
}

// Publish publishes a definition under the owner's key: the first version of its slug, or the next one, which keeps the
// tags that the owner's program does not know. A definition that says the same as the newest version is that version.
func (s *Step) Publish(ctx context.Context, d nipae.Definition) (Version, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	address := nipae.Address{PubKey: s.c.PubKey, D: d.D}
	d.Ver = 1
	before, _, err := s.Find(ctx, s.c.PubKey.Hex()+"/"+d.D)
	switch {
	case err == nil:
		newest := before[0]
		if len(d.Other) == 0 {
			d.Other = newest.Other
		}
		if d.Fork.ID == (nostr.ID{}) {
			d.Fork = newest.Fork
		}
		if len(d.Files) == 0 {
			d.Files = newest.Files
		}
		d.Ver = newest.Ver
		if same(d, newest) {
			return s.Version(newest), nil
		}
		d.Ver++
	case !errors.Is(err, ErrNotFound):
		return Version{}, err // a version that is not known would get the same number
	}
	if err := s.checkFiles(d); err != nil {
		return Version{}, err
	}
	e, err := d.Event()
	if err != nil {
		return Version{}, err
	}
	v, err := s.sign(ctx, s.c.Owner, e, 0)
	if err != nil {
		return Version{}, fmt.Errorf("sign the definition: %w", err)
	}
	if err := s.record(ctx, nil, []guild.Verified{v}); err != nil {
		return Version{}, fmt.Errorf("publish the definition %s: %w", address.D, err)
	}
	d, err = nipae.ParseDefinition(v.Event())
	return s.Version(d), err
}

// same reports whether two definitions have the same tags and content.
func same(a, b nipae.Definition) bool {
	x, errX := a.Event()
	y, errY := b.Event()
	return errX == nil && errY == nil && x.Content == y.Content && fmt.Sprint(x.Tags) == fmt.Sprint(y.Tags)
}
