package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
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
		return pointer{address: nipae.Address{PubKey: key, D: parts[2]}}, err
	}
	if id, relays, err := EventNamed(reference); err == nil {
		return pointer{id: id, relays: relays}, nil
	}
	if to, err := nip19.ToPointer(reference); err == nil {
		if a, ok := to.(nostr.EntityPointer); ok && a.Kind == nipae.KindDefinition {
			return pointer{address: nipae.Address{PubKey: a.PublicKey, D: a.Identifier}, relays: a.Relays}, nil
		}
	}
	return p, fmt.Errorf("%.100q: %w", reference, ErrReference)
}

// EventNamed parses an event id, as nevent, note or hex, with the relays that may have the event.
func EventNamed(text string) (id nostr.ID, relays []string, err error) {
	if id, err := nostr.IDFromHex(text); err == nil {
		return id, nil, nil
	}
	if to, err := nip19.ToPointer(text); err == nil {
		if e, ok := to.(nostr.EventPointer); ok {
			return e.ID, e.Relays, nil
		}
	}
	return id, nil, fmt.Errorf("%.100q: %w", text, ErrReference)
}

// parseKey parses a public key, as npub or hex.
func parseKey(text string) (nostr.PubKey, error) {
	if to, err := nip19.ToPointer(text); err == nil {
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
		Waiting: len(s.fold.unpublished()),
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
	if !nameForm.MatchString(name) {
		return Agent{}, fmt.Errorf("%.80q: %w", name, ErrName)
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

// Remove ends an agent of this node. Its key and the owner's claim stay.
func (s *Step) Remove(ctx context.Context, name string) error {
	s.acting.Lock()
	defer s.acting.Unlock()
	a, ok := s.fold.agent(name)
	if !ok {
		return fmt.Errorf("%.80q: %w", name, ErrUnknown)
	}
	if err := s.record(ctx, nil, nil, fact.AgentRemoved{Name: name, Agent: a.Agent}); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// File is a file of a definition.
type File struct {
	nip90.File
	Name string // in its alt tag or else the last part of its URL's path, if one of them is a plain name; else the hash
}

// MaxFile limits one file of a definition, in bytes.
const MaxFile = 16 << 20

// Attach uploads a file for a definition, and publishes its metadata (kind 1063), to which the definition refers.
func (s *Step) Attach(ctx context.Context, name, mime string, content []byte) (nipae.Reference, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	if len(content) > MaxFile {
		return nipae.Reference{}, fmt.Errorf("%s has %d bytes: at most %d", name, len(content), MaxFile)
	}
	if before, ok := s.fold.file(name, guild.Sum(content)); ok {
		return nipae.Reference{ID: before, Relay: firstOf(s.c.Relays.Ours())}, nil
	}
	url, err := s.c.Files.Upload(ctx, content)
	if err != nil {
		return nipae.Reference{}, fmt.Errorf("upload %s: %w", name, err)
	}
	e := nip90.File{URL: url, MIME: mime, Hash: guild.Sum(content), Size: int64(len(content))}.Event()
	e.Tags.Find("alt")[1] = name
	v, err := s.sign(ctx, s.c.Owner, e, 0)
	if err != nil {
		return nipae.Reference{}, fmt.Errorf("sign the metadata of %s: %w", name, err)
	}
	if err := s.record(ctx, nil, []guild.Verified{v}); err != nil {
		return nipae.Reference{}, fmt.Errorf("attach %s: %w", name, err)
	}
	return nipae.Reference{ID: v.Event().ID, Relay: firstOf(s.c.Relays.Ours())}, nil
}

// maxFiles limits the files of one definition.
const maxFiles = 32

// checkFiles refuses too many files, and two attached files of one name: an agent could not get both.
func (s *Step) checkFiles(d nipae.Definition) error {
	if len(d.Files) > maxFiles {
		return fmt.Errorf("files: %w: %d, at most %d", nipae.ErrTooBig, len(d.Files), maxFiles)
	}
	names := map[string]bool{}
	for _, reference := range d.Files {
		e, ok := s.fold.signed(reference.ID)
		if !ok {
			continue // of another publisher, and checked when it is installed
		}
		f, err := fileOf(e)
		if err != nil {
			return err
		}
		name := strings.ToLower(f.Name)
		if names[name] {
			return fmt.Errorf("files: %w: two are called %s", nipae.ErrInvalid, f.Name)
		}
		names[name] = true
	}
	return nil
}

// files fetches the files of a definition to the blobs, and returns their metadata (kind 1063). All of them are needed.
func (s *Step) files(ctx context.Context, d nipae.Definition) (all []nostr.Event, err error) {
	if len(d.Files) > maxFiles {
		return nil, fmt.Errorf("the definition has %d files: at most %d", len(d.Files), maxFiles)
	}
	names := map[string]guild.Hash{}
	for _, reference := range d.Files {
		var relays []string
		if reference.Relay != "" {
			relays = []string{reference.Relay}
		}
		v, err := s.fetch(ctx, reference.ID, slices.Concat(relays, s.c.Relays.Of(ctx, d.PubKey)))
		if err != nil {
			return nil, fmt.Errorf("metadata %.8s of a file: %w", reference.ID.Hex(), err)
		}
		f, err := fileOf(v.Event())
		before, again := names[strings.ToLower(f.Name)]
		switch {
		case err != nil:
		case again && before == f.Hash:
			continue
		case again:
			err = fmt.Errorf("another file of it is named %.80q, too", f.Name)
		default:
			err = s.c.Files.Fetch(ctx, f)
		}
		if err != nil {
			return nil, fmt.Errorf("the definition's file %.8s: %w", reference.ID.Hex(), err)
		}
		names[strings.ToLower(f.Name)] = f.Hash
		all = append(all, v.Event())
	}
	return all, nil
}
