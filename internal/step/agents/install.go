package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nipae"
)

// Agent describes an agent of this node.
type Agent struct {
	Name       string       `json:"name"`
	Npub       string       `json:"npub"`
	PubKey     nostr.PubKey `json:"pubkey"`
	Definition Version      `json:"definition"`
	Newest     int          `json:"newest_ver"` // of the definition, as far as known
	Lessons    int          `json:"lessons"`    // that apply
	Drafts     int          `json:"drafts"`     // lessons that wait for the owner
	Waiting    int          `json:"waiting"`    // events of the owner and all agents that no relay has yet
	Owners     []Ownership  `json:"owners"`     // that its profile names, as far as known
}

// Agents lists the agents of this node.
func (s *Step) Agents() ([]Agent, error) {
	all := []Agent{}
	for _, installed := range s.fold.agents() {
		a, err := s.describe(installed)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// Agent describes one agent of this node.
func (s *Step) Agent(name string) (Agent, error) {
	installed, ok := s.fold.agent(name)
	if !ok {
		return Agent{}, fmt.Errorf("%.80q: %w", name, ErrUnknown)
	}
	return s.describe(installed)
}

func (s *Step) describe(installed fact.AgentInstalled) (Agent, error) {
	d, err := nipae.ParseDefinition(installed.Definition)
	if err != nil {
		return Agent{}, err
	}
	a := Agent{
		Name: installed.Name, Npub: nip19.EncodeNpub(installed.Agent), PubKey: installed.Agent, Definition: s.Version(d), Newest: d.Ver,
		Waiting: len(s.fold.unpublished()), Owners: s.Ownership(installed.Agent),
	}
	if all := s.library.Versions(d.Address()); len(all) > 0 {
		a.Newest = all[0].Ver
	}
	lessons, err := s.Lessons(installed.Name)
	for _, l := range lessons {
		if l.Applies {
			a.Lessons++
		}
		if l.Draft != "" {
			a.Drafts++
		}
	}
	return a, err
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckName returns an error that matches ErrName if an agent or a nudge of this node cannot have a name.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%.80q: %w", name, ErrName)
	}
	return nil
}

// Install has an agent of this node execute a definition: the version that the reference names, or the newest. The agent
// gets a key of its own, a profile that names definition and owner, and the owner's claim. Installing again is the same
// agent, with that version. The error matches ErrTaken if the name belongs to an agent of another definition.
func (s *Step) Install(ctx context.Context, reference, name, bunker string) (Agent, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	_, d, err := s.Find(ctx, reference)
	if err != nil {
		return Agent{}, err
	}
	if name == "" {
		name = d.D
	}
	if err := CheckName(name); err != nil {
		return Agent{}, err
	}
	e, err := s.signed(ctx, d)
	if err != nil {
		return Agent{}, err
	}
	if before, taken := s.fold.agent(name); taken {
		have, err := nipae.ParseDefinition(before.Definition)
		if err != nil {
			return Agent{}, err
		}
		if have.Address() != d.Address() {
			return Agent{}, fmt.Errorf("%s: %w: it executes %s", name, ErrTaken, s.Version(have).Address)
		}
		if profile, ok := s.library.Profile(before.Agent); have.ID == d.ID && ok && slices.Equal(profile.Owners, s.owners()) {
			return s.Agent(name)
		}
	}
	files, err := s.files(ctx, d)
	if err != nil {
		return Agent{}, err
	}
	return s.install(ctx, fact.AgentInstalled{Name: name, Definition: e, Files: files}, d, bunker)
}

// signed returns the event of a definition, as its publisher signed it: ours, or as it was seen, or from relays.
func (s *Step) signed(ctx context.Context, d nipae.Definition) (nostr.Event, error) {
	for _, e := range s.fold.events() {
		if e.ID == d.ID {
			return e, nil
		}
	}
	for m, err := range s.c.Journal.Seen(ctx, seenPrefix+"."+d.ID.Hex()) {
		if err != nil {
			return nostr.Event{}, err
		}
		if v, err := verified(m); err == nil {
			return v.Event(), nil
		}
	}
	v, err := s.fetch(ctx, d.ID, s.c.Relays.Of(ctx, d.PubKey))
	if err != nil {
		return nostr.Event{}, fmt.Errorf("definition %.8s: %w", d.ID.Hex(), err)
	}
	return v.Event(), nil
}

// install makes the key, and signs what says whose agent it is.
func (s *Step) install(ctx context.Context, a fact.AgentInstalled, d nipae.Definition, bunker string) (_ Agent, err error) {
	if a.Agent, err = s.c.Keys.Make(ctx, keyName(a.Name, d), bunker); err != nil {
		return Agent{}, fmt.Errorf("the key of %s: %w", a.Name, err)
	}
	signer, err := s.c.Keys.Signer(ctx, keyName(a.Name, d))
	if err != nil {
		return Agent{}, fmt.Errorf("the key of %s: %w", a.Name, err)
	}
	profile := nipae.Profile{
		PubKey: a.Agent, Bot: true, Definition: nipae.Reference{ID: d.ID, Relay: firstOf(s.c.Relays.Ours())},
		Owners: s.owners(), Members: members(d, a.Name),
	}
	listed := false
	if bunker != "" { // other programs may have published with this key
		if listed, err = s.keepProfile(ctx, &profile); err != nil {
			return Agent{}, err
		}
	}
	before, _ := s.library.Profile(a.Agent)
	zero, err := profile.Event()
	if err != nil {
		return Agent{}, err
	}
	signed, err := s.sign(ctx, signer, zero, before.CreatedAt)
	if err != nil {
		return Agent{}, fmt.Errorf("sign the profile of %s: %w", a.Name, err)
	}
	events := []guild.Verified{signed}
	if _, ours := s.fold.latest(kindRelays, a.Agent); !ours && !listed {
		list, err := s.sign(ctx, signer, relayList(s.c.Relays.Ours()), 0)
		if err != nil {
			return Agent{}, fmt.Errorf("sign the relay list of %s: %w", a.Name, err)
		}
		events = append(events, list)
	}
	claims, changed, err := s.claimed(ctx, func(c nipae.Claims) nipae.Claims { return c.Add(a.Agent) })
	if err != nil {
		return Agent{}, err
	}
	if changed {
		events = append(events, claims)
	}
	taken := func() error {
		if now, ok := s.fold.agent(a.Name); ok && now.Agent != a.Agent {
			return fmt.Errorf("%s: %w", a.Name, ErrTaken)
		}
		return nil
	}
	if err := s.record(ctx, taken, events, a); err != nil {
		return Agent{}, fmt.Errorf("install %s: %w", a.Name, err)
	}
	return s.Agent(a.Name)
}

// keyName returns the name of the key of an agent. An agent of another definition never gets it.
func keyName(name string, d nipae.Definition) string {
	return name + "-" + guild.Sum([]byte(d.PubKey.Hex() + "/" + d.D)).Hex()[:8]
}

func (s *Step) owners() []nostr.PubKey { return append([]nostr.PubKey{s.c.PubKey}, s.c.Owners...) }

// renaming lists the agents whose profile, as it was signed here, names other owners than the configuration.
func (s *Step) renaming() (work []due.Work) {
	for _, a := range s.fold.agents() {
		zero, ours := s.fold.latest(nipae.KindProfile, a.Agent)
		p, err := nipae.ParseProfile(zero)
		if !ours || err != nil || slices.Equal(p.Owners, s.owners()) {
			continue
		}
		work = append(work, due.Work{Key: "owners of " + a.Name, Guard: fact.AgentsSubject, Free: true, Act: func(ctx context.Context) (due.Decision, error) {
			return func(*journal.Tx) error { return nil }, s.rename(ctx, a.Name)
		}})
	}
	return work
}

// rename has an agent's profile name the owners of the configuration.
func (s *Step) rename(ctx context.Context, name string) error {
	s.acting.Lock()
	defer s.acting.Unlock()
	a, ok := s.fold.agent(name)
	if !ok {
		return nil // it was removed
	}
	d, err := nipae.ParseDefinition(a.Definition)
	if err != nil {
		return err
	}
	signer, err := s.c.Keys.Signer(ctx, keyName(a.Name, d))
	if err != nil {
		return fmt.Errorf("the key of %s: %w", a.Name, err)
	}
	profile, _ := s.library.Profile(a.Agent)
	profile.Owners = s.owners()
	zero, err := profile.Event()
	if err != nil {
		return err
	}
	signed, err := s.sign(ctx, signer, zero, profile.CreatedAt)
	if err != nil {
		return fmt.Errorf("sign the profile of %s: %w", a.Name, err)
	}
	if err := s.record(ctx, nil, []guild.Verified{signed}); err != nil {
		return fmt.Errorf("the owners of %s: %w", a.Name, err)
	}
	return nil
}

// keepProfile takes over what is published of a key: the members and tags of its profile that are not about NIP-AE. It
// reports whether the key has a relay list.
func (s *Step) keepProfile(ctx context.Context, p *nipae.Profile) (listed bool, err error) {
	if err := s.readAll(ctx, nipae.KindProfile, p.PubKey); err != nil {
		return false, err
	}
	if before, ok := s.library.Profile(p.PubKey); ok {
		for name, value := range before.Members {
			p.Members[name] = value
		}
		p.Other = before.Other
	}
	lists, err := s.c.Relays.Find(ctx, nostr.Filter{Kinds: []nostr.Kind{kindRelays}, Authors: []nostr.PubKey{p.PubKey}}, s.c.Relays.Of(ctx, p.PubKey))
	if err != nil {
		return false, fmt.Errorf("the relay list of %.8s: %w", p.PubKey.Hex(), err)
	}
	return len(lists) > 0, nil
}

func members(d nipae.Definition, name string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{"bot": json.RawMessage("true")}
	for key, value := range map[string]string{"name": name, "display_name": d.Title, "about": d.Description, "picture": d.Image} {
		if raw, err := json.Marshal(value); err == nil && value != "" {
			m[key] = raw
		}
	}
	return m
}

func relayList(relays []string) nostr.Event {
	e := nostr.Event{Kind: kindRelays}
	for _, r := range relays {
		e.Tags = append(e.Tags, nostr.Tag{"r", r})
	}
	return e
}

func firstOf(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// Remove ends an agent of this node. Its key, its drafts and the owner's claim stay. The error matches ErrWorks if a service
// needs it.
func (s *Step) Remove(ctx context.Context, name string) error {
	s.acting.Lock()
	defer s.acting.Unlock()
	a, ok := s.fold.agent(name)
	if !ok {
		return fmt.Errorf("%.80q: %w", name, ErrUnknown)
	}
	if s.c.Works != nil && s.c.Works(name) {
		return fmt.Errorf("remove %s: %w", name, ErrWorks)
	}
	if err := s.record(ctx, nil, nil, fact.AgentRemoved{Name: name, Agent: a.Agent}); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
