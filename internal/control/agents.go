package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/step/agents"
	"guild/nipae"
	"guild/nipae/agentfile"
	"guild/nipae/behaviour"
)

// Install is the body of POST /v1/agents.
type Install struct {
	Definition string `json:"definition"`       // naddr, nevent, event id, or npub/slug
	Name       string `json:"name,omitempty"`   // of the agent on this node; the slug when empty
	Bunker     string `json:"bunker,omitempty"` // address of a remote signer with the agent's key
}

// Definition is a version of a definition, with the text of its agent file.
type Definition struct {
	agents.Version
	File string `json:"file"` // Markdown with TOML front matter
}

// Owned lists the owners that an agent names, with the result of each check.
type Owned struct {
	Npub   string             `json:"npub"`
	PubKey string             `json:"pubkey"`
	Owners []agents.Ownership `json:"owners"`           // each that the agent's profile names
	Drafts *agents.Drafts     `json:"drafts,omitempty"` // if asked for
}

// ClaimChange is the answer to a change of the owner's claims.
type ClaimChange struct {
	Npub    string `json:"npub"`
	Changed bool   `json:"changed"` // false if the claims said so already
}

// Compose is the body of POST /v1/behaviours: for what job a behaviour is composed.
type Compose struct {
	Agents  []string `json:"agents"`           // of this node; the one whose use-criteria fit best
	Task    string   `json:"task,omitempty"`   // of the job
	Words   string   `json:"words,omitempty"`  // its text
	Nudges  []string `json:"nudges,omitempty"` // names of the library
	Worker  []string `json:"worker,omitempty"` // tools that the worker has; unknown when absent
	Without nostr.ID `json:"without,omitzero"` // a lesson to leave out
}

// Composed describes the behaviour of an agent of this node for one job.
type Composed struct {
	Agent      string           `json:"agent"`
	PubKey     nostr.PubKey     `json:"pubkey"`
	Behaviour  guild.Hash       `json:"behaviour"` // its hash
	Definition nostr.ID         `json:"definition"`
	Files      []ComposedFile   `json:"files,omitempty"`
	Prompt     string           `json:"prompt"`
	Tools      []string         `json:"tools"` // null for all that the worker has
	Sources    []ComposedSource `json:"sources"`
	Left       ComposedLeft     `json:"left_out"`
}

// ComposedFile is a file of the definition, which is in the node's blobs.
type ComposedFile struct {
	Name string     `json:"name"`
	Hash guild.Hash `json:"hash"`
}

// ComposedSource says where a part of the prompt is from.
type ComposedSource struct {
	From   int    `json:"from_line"` // of the prompt, the first is 1; 0 without text
	To     int    `json:"to_line"`
	Event  string `json:"event"`
	Author string `json:"author"` // hex
	Why    string `json:"why"`
}

// ComposedLeft counts what did not apply.
type ComposedLeft struct {
	OtherDefinition int `json:"other_definition"`
	Stranger        int `json:"stranger"`
	Retired         int `json:"retired"`
	OverBudget      int `json:"over_budget"`
}

// Draft is the body of POST /v1/lessons: a lesson that the owner writes for an agent.
type Draft struct {
	Agent string `json:"agent"`
	Task  string `json:"task,omitempty"` // its category
	Text  string `json:"text"`           // the first line is the title
}

// LessonAct is the body of POST /v1/lessons/{id}/{act}; act is accept, reject, retire, comment or measured.
type LessonAct struct {
	Text   string        `json:"text,omitempty"`  // the comment, or why it is retired
	Trials agents.Trials `json:"trials,omitzero"` // for measured
}

// KeepNudge is the body of POST /v1/nudges: a nudge of the owner, or somebody's by its id.
type KeepNudge struct {
	Name  string   `json:"name"`
	Event string   `json:"event,omitempty"` // id or nevent of a published nudge, instead of the rest
	Title string   `json:"title,omitempty"`
	Only  []string `json:"only_tools,omitempty"`
	Allow []string `json:"allow_tools,omitempty"`
	Deny  []string `json:"deny_tools,omitempty"`
	Text  string   `json:"text,omitempty"`
}

// agentProblem returns an error of the step as an answer.
func agentProblem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, agents.ErrUnknown):
		return missing("guild agent ls", err)
	case errors.Is(err, agents.ErrNotFound):
		return missing("guild status shows the relays that were asked", err)
	case errors.Is(err, agents.ErrDraft), errors.Is(err, agents.ErrNoLesson):
		return missing("guild agent lessons lists them", err)
	case errors.Is(err, agents.ErrSeveral):
		return ambiguous("guild agent lessons lists them", err)
	case errors.Is(err, agents.ErrNudge):
		return missing("guild agent nudge ls", err)
	case errors.Is(err, agents.ErrNoProfile):
		return missing("", err)
	case errors.Is(err, agents.ErrWorks):
		return refused("guild work ls shows it; end that service first", err)
	case errors.Is(err, agents.ErrSilent):
		return refused("try again when the relay answers, or take it out of this node's relays", err)
	case errors.Is(err, agents.ErrTaken):
		return refused("another name: --as NAME", err)
	case errors.Is(err, agents.ErrDrafts), errors.Is(err, agents.ErrCustomer):
		return refused("guild agent lessons review", err)
	case errors.Is(err, agents.ErrName), errors.Is(err, agents.ErrReference), errors.Is(err, agents.ErrLesson),
		errors.Is(err, nipae.ErrInvalid), errors.Is(err, nipae.ErrMissing), errors.Is(err, nipae.ErrTooBig), errors.Is(err, nipae.ErrOwnsItself):
		return wrongUsage("", err)
	case errors.Is(err, behaviour.ErrBudget):
		return refused("a shorter definition, or a larger [agents] budget", err)
	}
	return err
}

// settle waits until relays have what was signed, so that a node which only lives for this request has published it.
// After a while the answer is given all the same: the node publishes it when a relay is there.
func (s *Server) settle(ctx context.Context) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.c.Agents.Settle(ctx)
}

func (s *Server) getAgents(*http.Request) ([]agents.Agent, error) {
	all, err := s.c.Agents.Agents()
	return all, agentProblem(err)
}

func (s *Server) getAgent(r *http.Request) (agents.Agent, error) {
	a, err := s.c.Agents.Agent(r.PathValue("name"))
	return a, agentProblem(err)
}

func (s *Server) postAgent(r *http.Request, asked Install) (agents.Agent, error) {
	a, err := s.c.Agents.Install(r.Context(), asked.Definition, asked.Name, asked.Bunker)
	if err != nil {
		return a, agentProblem(err)
	}
	s.settle(r.Context())
	return s.c.Agents.Agent(a.Name)
}

func (s *Server) removeAgent(r *http.Request) (struct{}, error) {
	return struct{}{}, agentProblem(s.c.Agents.Remove(r.Context(), r.PathValue("name")))
}

func (s *Server) getDefinitions(r *http.Request) ([]Definition, error) {
	versions, exact, err := s.c.Agents.Find(r.Context(), r.URL.Query().Get("of"))
	if err != nil {
		return nil, agentProblem(err)
	}
	if r.URL.Query().Get("all") != "true" {
		versions = []nipae.Definition{exact}
	}
	all := []Definition{}
	for _, d := range versions {
		text, err := agentfile.Format(d)
		if err != nil {
			return nil, err
		}
		all = append(all, Definition{s.c.Agents.Version(d), string(text)})
	}
	return all, nil
}

// postDefinition publishes an agent file: the first or the next version of its slug.
func (s *Server) postDefinition(r *http.Request) (agents.Version, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return agents.Version{}, wrongUsage("", err)
	}
	d, err := agentfile.Parse(b)
	if err != nil {
		return agents.Version{}, wrongUsage("guild agent --help shows a file", err)
	}
	if from := r.URL.Query().Get("fork"); from != "" {
		_, origin, err := s.c.Agents.Find(r.Context(), from)
		if err != nil {
			return agents.Version{}, agentProblem(err)
		}
		_, _, err = s.c.Agents.Find(r.Context(), s.c.PubKey+"/"+d.D)
		if err == nil {
			return agents.Version{}, refused("another slug", fmt.Errorf("a fork has a slug of its own, and this node's key has published %.80q already", d.D))
		}
		if !errors.Is(err, agents.ErrNotFound) {
			return agents.Version{}, agentProblem(err)
		}
		d.Fork, d.Files = nipae.Reference{ID: origin.ID}, origin.Files
	}
	for _, id := range r.URL.Query()["file"] {
		at, _, err := agents.EventNamed(id)
		if err != nil {
			return agents.Version{}, wrongUsage("", err)
		}
		d.Files = append(d.Files, nipae.Reference{ID: at})
	}
	v, err := s.c.Agents.Publish(r.Context(), d)
	if err == nil {
		s.settle(r.Context())
	}
	return v, agentProblem(err)
}

// Attached is a file that a definition can refer to.
type Attached struct {
	ID nostr.ID `json:"id"` // of its metadata (kind 1063)
}

func (s *Server) postAttachment(r *http.Request) (Attached, error) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return Attached{}, wrongUsage("", err)
	}
	at, err := s.c.Agents.Attach(r.Context(), r.URL.Query().Get("name"), http.DetectContentType(content), content)
	return Attached{at.ID}, agentProblem(err)
}

func (s *Server) getOwned(r *http.Request) (Owned, error) {
	key, err := s.keyNamed(r.PathValue("key"))
	if err != nil {
		return Owned{}, err
	}
	o := Owned{Npub: nip19.EncodeNpub(key), PubKey: key.Hex(), Owners: []agents.Ownership{}}
	if r.URL.Query().Get("drafts") == "true" {
		d, err := s.c.Agents.Drafts(r.Context(), key)
		if err != nil {
			return o, agentProblem(err)
		}
		o.Drafts = &d
	}
	o.Owners, err = s.c.Agents.Verify(r.Context(), key)
	if errors.Is(err, agents.ErrNoProfile) && o.Drafts != nil {
		err = nil
	}
	return o, agentProblem(err)
}

func (s *Server) postClaim(r *http.Request) (ClaimChange, error) {
	return s.changeClaims(r, s.c.Agents.Claim)
}

func (s *Server) postDisown(r *http.Request) (ClaimChange, error) {
	return s.changeClaims(r, s.c.Agents.Disown)
}

func (s *Server) changeClaims(r *http.Request, change func(context.Context, nostr.PubKey) (bool, error)) (ClaimChange, error) {
	key, err := s.keyNamed(r.PathValue("key"))
	if err != nil {
		return ClaimChange{}, err
	}
	changed, err := change(r.Context(), key)
	if err == nil && changed {
		s.settle(r.Context())
	}
	return ClaimChange{nip19.EncodeNpub(key), changed}, agentProblem(err)
}

func (s *Server) postBehaviour(r *http.Request, asked Compose) (Composed, error) {
	d, err := s.c.Agents.Behave(r.Context(), agents.Roster{Agents: asked.Agents, Nudges: asked.Nudges, Without: asked.Without},
		agents.Job{Task: asked.Task, Words: asked.Words, Tools: asked.Worker})
	if err != nil {
		return Composed{}, agentProblem(err)
	}
	b := d.Behaviour
	c := Composed{Agent: d.Agent, PubKey: d.PubKey, Behaviour: d.ID, Definition: b.Definition, Prompt: b.Prompt, Tools: b.Tools, Left: ComposedLeft(b.LeftOut), Sources: []ComposedSource{}}
	for _, f := range d.Files {
		c.Files = append(c.Files, ComposedFile{f.Name, f.Hash})
	}
	for _, from := range b.Sources {
		c.Sources = append(c.Sources, ComposedSource{From: from.From, To: from.To, Event: from.Event.Hex(), Author: from.Author.Hex(), Why: from.Why})
	}
	return c, nil
}

func (s *Server) getLessons(r *http.Request) ([]agents.Lesson, error) {
	name := r.URL.Query().Get("agent")
	names := []string{name}
	if name == "" {
		installed, err := s.c.Agents.Agents()
		if err != nil {
			return nil, err
		}
		names = nil
		for _, a := range installed {
			names = append(names, a.Name)
		}
	}
	all := []agents.Lesson{}
	for _, name := range names {
		lessons, err := s.c.Agents.Lessons(name)
		if err != nil {
			return nil, agentProblem(err)
		}
		all = append(all, lessons...)
	}
	return all, nil
}

func (s *Server) postLesson(r *http.Request, d Draft) (agents.Lesson, error) {
	draft, err := s.c.Agents.Draft(r.Context(), d.Agent, d.Task, d.Text, "owner", nostr.ID{})
	if err != nil {
		return agents.Lesson{}, agentProblem(err)
	}
	id, err := s.c.Agents.Accept(r.Context(), draft)
	if errors.Is(err, agents.ErrDraft) { // it was ruled before
		l, err := s.c.Agents.Lesson(draft)
		if errors.Is(err, agents.ErrNoLesson) {
			err = refused("other words", errors.New("this text was a draft that you rejected"))
		}
		return l, agentProblem(err)
	}
	return s.lesson(r, id.Hex(), err)
}

// actOnLesson does what the owner decides about a draft or a lesson.
func (s *Server) actOnLesson(r *http.Request, act LessonAct) (agents.Lesson, error) {
	id, step, ctx := r.PathValue("id"), s.c.Agents, r.Context()
	switch r.PathValue("act") {
	case "accept":
		lesson, err := step.Accept(ctx, id)
		return s.lesson(r, lesson.Hex(), err)
	case "reject":
		l, err := step.Reject(ctx, id)
		return l, agentProblem(err)
	case "retire":
		return s.lesson(r, id, step.Retire(ctx, id, act.Text))
	case "comment":
		_, err := step.Comment(ctx, id, act.Text)
		return s.lesson(r, id, err)
	case "measured":
		l, err := step.Measured(ctx, id, act.Trials)
		return l, agentProblem(err)
	}
	return agents.Lesson{}, missing("", fmt.Errorf("no act %.40q: want accept, reject, retire, comment or measured", r.PathValue("act")))
}

func (s *Server) lesson(r *http.Request, id string, err error) (agents.Lesson, error) {
	if err != nil {
		return agents.Lesson{}, agentProblem(err)
	}
	s.settle(r.Context())
	l, err := s.c.Agents.Lesson(id)
	return l, agentProblem(err)
}

func (s *Server) getNudges(*http.Request) ([]agents.Nudge, error) { return s.c.Agents.Nudges(), nil }

func (s *Server) postNudge(r *http.Request, k KeepNudge) (n agents.Nudge, err error) {
	if k.Event == "" {
		n, err = s.c.Agents.Nudge(r.Context(), k.Name, nipae.Nudge{Title: k.Title, Only: k.Only, Allow: k.Allow, Deny: k.Deny, Content: k.Text})
	} else {
		n, err = s.keepNudge(r.Context(), k)
	}
	if err == nil {
		s.settle(r.Context())
	}
	return n, agentProblem(err)
}

func (s *Server) keepNudge(ctx context.Context, k KeepNudge) (agents.Nudge, error) {
	id, relays, err := agents.EventNamed(k.Event)
	if err != nil {
		return agents.Nudge{}, err
	}
	return s.c.Agents.KeepNudge(ctx, k.Name, id, relays)
}

func (s *Server) removeNudge(r *http.Request) (struct{}, error) {
	return struct{}{}, agentProblem(s.c.Agents.RemoveNudge(r.Context(), r.PathValue("name")))
}
