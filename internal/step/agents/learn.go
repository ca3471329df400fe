package agents

import (
	"cmp"
	"context"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// LearnClass is the class of the effects that ask the owner's command.
const LearnClass = "learn"

// learning lists the judged requests that the owner's command is asked about, and the drafts that need no consent.
func (s *Step) learning() []due.Work {
	if s.c.Learn == nil && !s.c.AutoAccept {
		return nil
	}
	var all []due.Work
	st := s.fold.Copy()
	here := map[nostr.PubKey]bool{}
	for _, a := range st.Agents.All() {
		here[a.Agent] = true
	}
	waiting := map[nostr.PubKey]int{}
	for _, d := range st.Drafts.All() {
		waiting[d.Agent]++
	}
	if s.c.Learn != nil {
		for id, j := range st.Done.All() {
			if j.Outcome != "" && waiting[j.Agent] < maxDrafts {
				all = append(all, due.Work{Key: "learn from " + id, Guard: fact.AgentsSubject, Class: LearnClass, Act: func(ctx context.Context) (due.Decision, error) {
					return s.ask(ctx, j)
				}})
			}
		}
	}
	if s.c.AutoAccept {
		for id, d := range st.Drafts.All() {
			if !here[d.Agent] {
				continue
			}
			all = append(all, due.Work{Key: "accept the draft " + id, Guard: fact.AgentsSubject, Free: true, Act: func(ctx context.Context) (due.Decision, error) {
				_, err := s.Accept(ctx, d.Draft)
				return func(*journal.Tx) error { return nil }, err
			}})
		}
	}
	slices.SortFunc(all, func(a, b due.Work) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// ask asks about one request. A command that fails is not asked again; one that the node's end has stopped is.
func (s *Step) ask(ctx context.Context, j Judged) (due.Decision, error) {
	text, err := s.c.Learn(ctx, j)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var draft fact.LessonDrafted
	if err == nil && text != "" {
		draft, err = s.drafted(j.Agent, j.Task, text, "command", j.Request)
	}
	asked := fact.LessonAsked{Request: j.Request}
	if err != nil {
		asked.Failed = guild.Cut(err.Error(), 200)
	}
	return func(tx *journal.Tx) error {
		tx.Append(asked)
		if draft.Draft != "" && !s.fold.ruled(draft.Draft) {
			tx.Append(draft)
		}
		return nil
	}, nil
}
