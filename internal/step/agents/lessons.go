package agents

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nipae"
	"guild/nipae/behaviour"
)

// Lesson is a lesson about the definition of an agent of this node, or a draft of one.
type Lesson struct {
	ID       nostr.ID `json:"id,omitzero"`
	Draft    string   `json:"draft,omitempty"` // id of the draft, if it waits for the owner
	Agent    string   `json:"agent"`           // name of the agent of this node
	Author   string   `json:"author"`          // hex
	At       int64    `json:"at_ms,omitempty"` // Unix ms
	Title    string   `json:"title"`
	Category string   `json:"category,omitempty"`
	Text     string   `json:"text"`
	Request  nostr.ID `json:"request,omitzero"` // a draft's: from which the agent learned

	Applies bool     `json:"applies"`
	Why     string   `json:"why"` // it applies, or not
	Trials  []Trials `json:"trials,omitempty"`
}

// Lessons lists the drafts of an agent, and the lessons about its definition, the oldest first.
func (s *Step) Lessons(name string) ([]Lesson, error) {
	a, ok := s.fold.agent(name)
	if !ok {
		return nil, fmt.Errorf("%.80q: %w", name, ErrUnknown)
	}
	all := []Lesson{}
	st := s.fold.Copy()
	for _, d := range st.Drafts.All() {
		if d.Agent == a.Agent {
			all = append(all, s.drafts(d, "waits for the owner"))
		}
	}
	slices.SortFunc(all, func(a, b Lesson) int { return cmp.Compare(a.Draft, b.Draft) })
	for _, known := range s.library.Lessons(a.Definition.ID, s.policy()) {
		l := known.Lesson
		one := Lesson{
			ID: l.ID, Agent: name, Author: l.PubKey.Hex(), At: int64(l.CreatedAt) * 1000, Title: l.Title, Category: l.Category, Text: l.Content,
			Applies: known.Applies, Why: known.Why, Trials: st.Trials.Of(l.ID.Hex()),
		}
		if reason, retired := st.Retired.Get(l.ID.Hex()); retired {
			one.Why = "retired: " + reason
		}
		all = append(all, one)
	}
	return all, nil
}

// policy says whose lessons apply.
func (s *Step) policy() behaviour.Policy {
	p := behaviour.Policy{Owners: append([]nostr.PubKey{s.c.PubKey}, s.c.Owners...), Allow: s.c.Allow}
	st := s.fold.Copy()
	for id := range st.Retired.All() {
		if lesson, err := nostr.IDFromHex(id); err == nil {
			p.Without = append(p.Without, lesson)
		}
	}
	slices.SortFunc(p.Without, func(a, b nostr.ID) int { return bytes.Compare(a[:], b[:]) })
	return p
}

// Limits of a draft.
const (
	MaxLesson     = 8 << 10 // bytes of the text
	maxTitle      = 120     // characters
	maxDrafts     = 100     // of one agent that wait for the owner
	maxOfCustomer = 10      // of these, from the requests of one customer
	draftDigits   = 16
)

// Errors about drafts.
var (
	ErrDraft  = errors.New("no draft has this id, or its beginning")
	ErrDrafts = fmt.Errorf("%d drafts wait for the owner: accept or reject some first", maxDrafts)
	// ErrCustomer means that the requests of one customer left drafts enough.
	ErrCustomer = fmt.Errorf("%d drafts from the requests of this customer wait for the owner", maxOfCustomer)

	ErrLesson = fmt.Errorf("a lesson is a text of up to %d bytes", MaxLesson)
)

// Draft records what an agent may have learned. The first line is the title. It has no effect until it is accepted. A
// draft that was made or ruled before is not made again.
func (s *Step) Draft(ctx context.Context, name, task, text, by string, request nostr.ID) (draft string, err error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	a, ok := s.fold.agent(name)
	if !ok {
		return "", fmt.Errorf("%.80q: %w", name, ErrUnknown)
	}
	d, err := s.drafted(a.Agent, task, text, by, request)
	if err != nil || s.fold.ruled(d.Draft) {
		return d.Draft, err
	}
	if err := s.record(ctx, nil, nil, d); err != nil {
		return "", fmt.Errorf("draft a lesson: %w", err)
	}
	return d.Draft, nil
}

// drafted returns the draft of a text.
func (s *Step) drafted(agent nostr.PubKey, task, text, by string, request nostr.ID) (d fact.LessonDrafted, err error) {
	text = strings.TrimSpace(guild.Clean(text))
	if text == "" || len(text) > MaxLesson || !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
		return d, ErrLesson
	}
	st := s.fold.Copy()
	customer := st.Done.Of(request.Hex()).Customer
	if by != "owner" {
		all, of := 0, 0
		for _, other := range st.Drafts.All() {
			if other.Agent == agent {
				all++
			}
			if other.Agent == agent && other.Customer == customer {
				of++
			}
		}
		switch {
		case all >= maxDrafts:
			return d, ErrDrafts
		case of >= maxOfCustomer && customer != (nostr.PubKey{}):
			return d, ErrCustomer
		}
	}
	title, rest, _ := strings.Cut(text, "\n")
	title = strings.TrimSpace(strings.TrimLeft(title, "# "))
	if rest = strings.TrimSpace(rest); rest == "" {
		rest = title
	}
	d = fact.LessonDrafted{Agent: agent, Request: request, Task: task, Title: guild.Cut(title, maxTitle), Text: rest, Proposed: by, Customer: customer}
	d.Draft = draftOf(agent.Hex(), d.Title, d.Text)
	return d, nil
}

// draftOf returns the id of the draft of an agent's text.
func draftOf(agent, title, text string) string {
	return guild.Sum([]byte(agent + "\x00" + title + "\x00" + text)).Hex()[:draftDigits]
}

// DraftBy is Draft for the agent with a key.
func (s *Step) DraftBy(ctx context.Context, key nostr.PubKey, task, text, by string, request nostr.ID) error {
	for _, a := range s.fold.agents() {
		if a.Agent == key {
			_, err := s.Draft(ctx, a.Name, task, text, by, request)
			return err
		}
	}
	return fmt.Errorf("%.8s: %w", key.Hex(), ErrUnknown)
}

// draft finds a draft by its id or the beginning of it.
func (s *Step) draft(id string) (found fact.LessonDrafted, err error) {
	n := 0
	st := s.fold.Copy()
	for known, d := range st.Drafts.All() {
		if strings.HasPrefix(known, id) {
			found, n = d, n+1
		}
	}
	if n != 1 || id == "" {
		return found, fmt.Errorf("%.20q: %w", id, ErrDraft)
	}
	return found, nil
}

// Accept makes a draft a lesson, which its agent signs. It applies from now on.
func (s *Step) Accept(ctx context.Context, id string) (nostr.ID, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	d, err := s.draft(id)
	if err != nil {
		return nostr.ID{}, err
	}
	agents := s.fold.agents()
	i := slices.IndexFunc(agents, func(a fact.AgentInstalled) bool { return a.Agent == d.Agent })
	if i < 0 {
		return nostr.ID{}, fmt.Errorf("the agent of draft %s: %w", d.Draft, ErrUnknown)
	}
	definition, err := nipae.ParseDefinition(agents[i].Definition)
	if err != nil {
		return nostr.ID{}, err
	}
	signer, err := s.c.Keys.Signer(ctx, keyName(agents[i].Name, definition))
	if err != nil {
		return nostr.ID{}, fmt.Errorf("the key of %s: %w", agents[i].Name, err)
	}
	l := nipae.Lesson{Title: d.Title, Category: d.Task, Content: d.Text, Definition: nipae.Reference{
		ID: agents[i].Definition.ID, Relay: firstOf(s.c.Relays.Ours()),
	}}
	e, err := l.Event()
	if err != nil {
		return nostr.ID{}, err
	}
	v, err := s.sign(ctx, signer, e, 0)
	if err != nil {
		return nostr.ID{}, fmt.Errorf("sign the lesson: %w", err)
	}
	once := func() error {
		_, err := s.draft(d.Draft)
		return err
	}
	lesson := v.Event().ID
	if err := s.record(ctx, once, []guild.Verified{v}, fact.LessonAccepted{Draft: d.Draft, Lesson: lesson}); err != nil {
		return nostr.ID{}, fmt.Errorf("accept the draft %s: %w", d.Draft, err)
	}
	return lesson, nil
}

// Reject drops a draft, and returns it.
func (s *Step) Reject(ctx context.Context, id string) (Lesson, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	d, err := s.draft(id)
	if err != nil {
		return Lesson{}, err
	}
	if err := s.record(ctx, nil, nil, fact.LessonRejected{Draft: d.Draft}); err != nil {
		return Lesson{}, fmt.Errorf("reject the draft %s: %w", d.Draft, err)
	}
	return s.drafts(d, "rejected"), nil
}

// drafts describes a draft.
func (s *Step) drafts(d fact.LessonDrafted, why string) Lesson {
	l := Lesson{Draft: d.Draft, Author: d.Agent.Hex(), Title: d.Title, Category: d.Task, Text: d.Text, Request: d.Request, Why: why}
	for _, a := range s.fold.agents() {
		if a.Agent == d.Agent {
			l.Agent = a.Name
		}
	}
	return l
}

// ErrNoLesson means that no lesson about an agent of this node has the id.
var ErrNoLesson = errors.New("no lesson about the definition of an agent of this node has this id, or its beginning")

// ErrSeveral means that an id is too short.
var ErrSeveral = errors.New("several lessons begin with it")

// Lesson finds a lesson by its id or the beginning of it, or by the id of the draft that it was.
func (s *Step) Lesson(id string) (found Lesson, err error) {
	n := 0
	for _, a := range s.fold.agents() {
		all, err := s.Lessons(a.Name)
		if err != nil {
			return found, err
		}
		for _, l := range all {
			if l.Draft == "" && (strings.HasPrefix(l.ID.Hex(), id) || draftOf(l.Author, l.Title, l.Text) == id) && l.ID != found.ID {
				found, n = l, n+1
			}
		}
	}
	if n > 1 && id != "" {
		return Lesson{}, fmt.Errorf("%.20q: %w", id, ErrSeveral)
	}
	if n != 1 || id == "" {
		return Lesson{}, fmt.Errorf("%.20q: %w", id, ErrNoLesson)
	}
	return found, nil
}

// Retire ends the effect of a lesson on the agents of this node.
func (s *Step) Retire(ctx context.Context, id, reason string) error {
	s.acting.Lock()
	defer s.acting.Unlock()
	l, err := s.Lesson(id)
	if err != nil {
		return err
	}
	if err := s.record(ctx, nil, nil, fact.LessonRetired{Lesson: l.ID, Reason: reason}); err != nil {
		return fmt.Errorf("retire the lesson %.8s: %w", l.ID.Hex(), err)
	}
	return nil
}

// Comment publishes the owner's comment on a lesson, which applies with it.
func (s *Step) Comment(ctx context.Context, id, text string) (nostr.ID, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	l, err := s.Lesson(id)
	if err != nil {
		return nostr.ID{}, err
	}
	author, err := nostr.PubKeyFromHex(l.Author)
	if err != nil {
		return nostr.ID{}, err
	}
	at := nipae.Reference{ID: l.ID, Relay: firstOf(s.c.Relays.Ours())}
	e, err := nipae.Comment{Lesson: at, LessonAuthor: author, Parent: at, ParentAuthor: author, Content: strings.TrimSpace(text)}.Event()
	if err != nil {
		return nostr.ID{}, err
	}
	v, err := s.sign(ctx, s.c.Owner, e, 0)
	if err != nil {
		return nostr.ID{}, fmt.Errorf("sign the comment: %w", err)
	}
	if err := s.record(ctx, nil, []guild.Verified{v}); err != nil {
		return nostr.ID{}, fmt.Errorf("comment on %.8s: %w", l.ID.Hex(), err)
	}
	return v.Event().ID, nil
}

// Measured adds pairs of tries with and without a lesson, and retires a lesson that harms: Harms says when.
func (s *Step) Measured(ctx context.Context, id string, t Trials) (Lesson, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	l, err := s.Lesson(id)
	if err != nil {
		return l, err
	}
	a, ok := s.fold.agent(l.Agent)
	if !ok {
		return l, fmt.Errorf("%.80q: %w", l.Agent, ErrUnknown)
	}
	facts := []fact.Fact{fact.LessonMeasured{Lesson: l.ID, Agent: a.Agent, Bundle: t.Bundle, Both: t.Both, With: t.With, Without: t.Without, Neither: t.Neither}}
	sum := Sum(append(slices.Clone(l.Trials), t))
	st := s.fold.Copy()
	if sum.Harms() && !st.Retired.Has(l.ID.Hex()) {
		facts = append(facts, fact.LessonRetired{Lesson: l.ID, Reason: fmt.Sprintf(
			"of %d pairs of tries, only the one without it passed in %d, and only the one with it in %d", sum.Pairs(), sum.Without, sum.With)})
	}
	if err := s.record(ctx, nil, nil, facts...); err != nil {
		return l, fmt.Errorf("record the tries of %.8s: %w", l.ID.Hex(), err)
	}
	return s.Lesson(l.ID.Hex())
}
