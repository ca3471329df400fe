package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nipae"
	"guild/nipae/behaviour"
)

// Job describes a request for which a behaviour is composed.
type Job struct {
	Task  string
	Words string     // the text of the request
	Asked []nostr.ID // nudges that the customer asks for
	Tools []string   // what the worker has; nil if not known
}

// Doing says who does a job, and how.
type Doing struct {
	Agent     string // name
	PubKey    nostr.PubKey
	ID        guild.Hash // of Behaviour
	Behaviour behaviour.Behaviour
	Files     []File // of the definition, which are in the blobs
}

// Roster names the agents and nudges of a service.
type Roster struct {
	Agents  []string // the one whose use-criteria fit the job best does it
	Nudges  []string // names of the library
	Without nostr.ID // a lesson that does not apply: for tries with and without it
}

// ErrNudge means that the library has no nudge of a name.
var ErrNudge = errors.New("no nudge of this name in the library")

// Behave chooses an agent for a job and composes its behaviour.
func (s *Step) Behave(ctx context.Context, r Roster, j Job) (d Doing, err error) {
	var installed []fact.AgentInstalled
	var definitions []nipae.Definition
	for _, name := range r.Agents {
		a, ok := s.fold.agent(name)
		if !ok {
			return d, fmt.Errorf("%.80q: %w", name, ErrUnknown)
		}
		definition, err := nipae.ParseDefinition(a.Definition)
		if err != nil {
			return d, err
		}
		installed, definitions = append(installed, a), append(definitions, definition)
	}
	at := behaviour.Choose(definitions, j.Task+" "+j.Words)
	if at < 0 {
		return d, ErrUnknown
	}
	a := installed[at]
	request := behaviour.Request{
		Definition: a.Definition.ID, Policy: s.policy(), Asked: s.asked(ctx, j.Asked), Tools: j.Tools, Task: j.Task, Words: j.Words, Budget: s.c.Budget,
	}
	for _, name := range r.Nudges {
		n, ok := s.fold.nudge(name)
		if !ok {
			return d, fmt.Errorf("%.80q: %w", name, ErrNudge)
		}
		request.Nudges = append(request.Nudges, n.ID)
	}
	if r.Without != (nostr.ID{}) {
		// No other lesson may take the place of the one that is left out, or two differences would be measured.
		with, err := s.library.Compose(request)
		if err != nil {
			return d, fmt.Errorf("the behaviour of %s: %w", a.Name, err)
		}
		request.Policy.Only = []nostr.ID{}
		for _, from := range with.Sources {
			if from.Event != r.Without {
				request.Policy.Only = append(request.Policy.Only, from.Event)
			}
		}
	}
	d = Doing{Agent: a.Name, PubKey: a.Agent}
	if d.Behaviour, err = s.library.Compose(request); err != nil {
		return d, fmt.Errorf("the behaviour of %s: %w", a.Name, err)
	}
	for _, e := range a.Files {
		f, err := fileOf(e)
		if err != nil {
			return d, err
		}
		d.Files = append(d.Files, f)
	}
	d.ID, err = d.Behaviour.Hash()
	return d, err
}

// asked returns the customer's nudges that the owner's policy admits. Ids of other events, and nudges that no relay has
// soon, are left out. A nudge that is not admitted is not kept.
func (s *Step) asked(ctx context.Context, ids []nostr.ID) (admitted []nostr.ID) {
	const patience = 5 * time.Second // the job waits
	if s.c.Asked == AskedNone {
		return nil
	}
	ids = ids[:min(len(ids), behaviour.MaxAsked)]
	unknown := slices.DeleteFunc(slices.Clone(ids), func(id nostr.ID) bool {
		_, known := s.library.Author(id)
		return known
	})
	fetched := map[nostr.ID]guild.Verified{}
	if len(unknown) > 0 {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		found, _ := s.c.Relays.Find(ctx, nostr.Filter{IDs: unknown}, s.c.Relays.Ours()) // what is not found is left out
		for _, v := range found {
			fetched[v.Event().ID] = v
		}
	}
	admits := func(author nostr.PubKey) bool {
		return s.c.Asked == AskedAll || s.library.Trusts(author, s.policy())
	}
	for _, id := range ids {
		if v, ok := fetched[id]; ok && v.Event().Kind == nipae.KindNudge && admits(v.Event().PubKey) && s.Observe(ctx, v) != nil {
			continue
		}
		if n, ok := s.library.Nudge(id); ok && admits(n.PubKey) {
			admitted = append(admitted, id)
		}
	}
	return admitted
}

// Nudge describes a nudge of the library.
type Nudge struct {
	Name   string       `json:"name"`
	ID     nostr.ID     `json:"id"`
	Author nostr.PubKey `json:"author"`
	Title  string       `json:"title"`
	Only   []string     `json:"only_tools,omitempty"`
	Allow  []string     `json:"allow_tools,omitempty"`
	Deny   []string     `json:"deny_tools,omitempty"`
	Text   string       `json:"text,omitempty"`
}

// Nudges lists the library's nudges by name.
func (s *Step) Nudges() []Nudge {
	all := []Nudge{}
	st := s.fold.Copy()
	for name, e := range st.Nudges.All() {
		if n, err := nipae.ParseNudge(e); err == nil {
			all = append(all, Nudge{Name: name, ID: n.ID, Author: n.PubKey, Title: n.Title, Only: n.Only, Allow: n.Allow, Deny: n.Deny, Text: n.Content})
		}
	}
	slices.SortFunc(all, func(a, b Nudge) int { return slices.Compare([]string{a.Name}, []string{b.Name}) })
	return all
}

// NudgeNamed returns the id of a nudge: of the library by its name, or as nevent or hex.
func (s *Step) NudgeNamed(text string) (nostr.ID, error) {
	if n, ok := s.fold.nudge(text); ok {
		return n.ID, nil
	}
	id, _, err := EventNamed(text)
	if err != nil {
		return id, fmt.Errorf("%.100q: %w", text, ErrNudge)
	}
	return id, nil
}

// Nudge publishes a nudge of the owner and keeps it in the library under a name.
func (s *Step) Nudge(ctx context.Context, name string, n nipae.Nudge) (Nudge, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	if err := CheckName(name); err != nil {
		return Nudge{}, err
	}
	e, err := n.Event()
	if err != nil {
		return Nudge{}, err
	}
	v, err := s.sign(ctx, s.c.Owner, e, 0)
	if err != nil {
		return Nudge{}, fmt.Errorf("sign the nudge: %w", err)
	}
	if err := s.record(ctx, nil, []guild.Verified{v}, fact.NudgeKept{Name: name, Nudge: v.Event()}); err != nil {
		return Nudge{}, fmt.Errorf("keep the nudge %s: %w", name, err)
	}
	return s.kept(name)
}

// KeepNudge keeps somebody's nudge in the library under a name.
func (s *Step) KeepNudge(ctx context.Context, name string, id nostr.ID, relays []string) (Nudge, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	if err := CheckName(name); err != nil {
		return Nudge{}, err
	}
	v, err := s.fetch(ctx, id, relays)
	if err == nil {
		_, err = nipae.ParseNudge(v.Event())
	}
	if err == nil {
		err = s.record(ctx, nil, nil, fact.NudgeKept{Name: name, Nudge: v.Event()})
	}
	if err == nil {
		err = s.add(v)
	}
	if err != nil {
		return Nudge{}, fmt.Errorf("nudge %.8s: %w", id.Hex(), err)
	}
	return s.kept(name)
}

func (s *Step) kept(name string) (Nudge, error) {
	all := s.Nudges()
	i := slices.IndexFunc(all, func(n Nudge) bool { return n.Name == name })
	if i < 0 {
		return Nudge{}, fmt.Errorf("%.80q: %w", name, ErrNudge)
	}
	return all[i], nil
}

// RemoveNudge removes a nudge from the library. Relays keep it.
func (s *Step) RemoveNudge(ctx context.Context, name string) error {
	s.acting.Lock()
	defer s.acting.Unlock()
	if _, err := s.kept(name); err != nil {
		return err
	}
	if err := s.record(ctx, nil, nil, fact.NudgeRemoved{Name: name}); err != nil {
		return fmt.Errorf("remove the nudge %s: %w", name, err)
	}
	return nil
}
