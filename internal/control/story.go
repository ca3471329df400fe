package control

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/jobs"
)

// getStory tells the history of a provider here, from all subjects that can be about it.
func (s *Server) getStory(r *http.Request) ([]Chapter, error) {
	key, err := s.keyStarting(r.PathValue("key"))
	if err != nil {
		return nil, err
	}
	ctx, task := r.Context(), r.URL.Query().Get("task")
	all := []Chapter{}
	for _, subject := range []fact.Subject{fact.ProviderSubject(key), "trust", fact.MeetingSubject, "review", fact.VariableSubject(fact.Parallelism)} {
		for c, err := range chaptersOf(s.c.Journal.Of(ctx, subject), key) {
			if err != nil {
				return nil, err
			}
			if task == "" || c.Task == "" || c.Task == task {
				all = append(all, c)
			}
		}
	}
	turns, err := s.turns(ctx, key, task)
	if err != nil {
		return nil, err
	}
	all = append(all, turns...)
	slices.SortStableFunc(all, func(a, b Chapter) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, nil
}

// mostTurns bounds the jobs that a story looks into, the latest ones.
const mostTurns = 200

// turns tells the results of our requests to a provider that no change of trust tells.
func (s *Server) turns(ctx context.Context, key nostr.PubKey, task string) ([]Chapter, error) {
	var with []*jobs.Job
	for _, id := range s.c.Fold.With(key) {
		if job, ok := s.c.Fold.Job(id); ok && (task == "" || job.Task == task) {
			with = append(with, job)
		}
	}
	var all []Chapter
	for _, job := range with[max(0, len(with)-mostTurns):] {
		for e, err := range s.c.Journal.Of(ctx, fact.JobSubject(job.Job)) {
			if err != nil {
				return nil, err
			}
			for _, f := range e.Facts {
				attempt, text := turn(f)
				a, _, ok := s.c.Fold.Attempt(attempt)
				if _, asked := f.(fact.AttemptPlanned); asked {
					text = waits(a)
				}
				if text == "" || !ok || a.Provider.PubKey != key {
					continue
				}
				all = append(all, Chapter{Seq: e.Seq, At: e.At, Type: f.Type(), D: a.Provider.D, Task: job.Task, Text: text,
					Job: job.Job.String(), Attempt: attempt.Hex()})
			}
		}
	}
	return all, nil
}

// waits says for a person what an attempt waits for, "" if for nothing.
func waits(a jobs.Attempt) string {
	switch {
	case a.State == guild.Planned:
		return "it is to be asked, as soon as a relay takes the request"
	case a.State.Waiting() && a.Heard == 0:
		return "it was asked, and has said nothing yet"
	case a.State.Waiting():
		return "it was asked, and works on it"
	case a.State == guild.Delivered:
		return "it was asked, and its delivery is being judged"
	}
	return ""
}

// turn tells one fact about an attempt, "" for one that a change of trust tells, too.
func turn(f fact.Fact) (attempt nostr.ID, text string) {
	switch f := f.(type) {
	case fact.AttemptPlanned:
		return f.Attempt, ""
	case fact.AttemptRefused:
		switch {
		case f.Later:
			return f.Attempt, "it had no capacity: " + f.Reason
		case f.Fault:
			return f.Attempt, "it did not answer as agreed: " + f.Reason
		}
		return f.Attempt, "the request was refused: " + f.Reason
	case fact.AttemptExpired:
		if f.Silent {
			return f.Attempt, "it said not a word: " + f.Reason
		}
		return f.Attempt, "it did not deliver: " + f.Reason
	case fact.AttemptCancelled:
		return f.Attempt, "we took the request back"
	case fact.AttemptUndecided:
		return f.Attempt, "its delivery has no verdict yet: " + f.Reason
	case fact.AttemptDisputed:
		if f.By == "owner" {
			return f.Attempt, "we doubt the verdict: " + f.Reason
		}
		return f.Attempt, "it objects to the verdict: " + f.Reason
	case fact.AttemptTold:
		if f.Given != "" {
			return f.Attempt, "it could not be told the verdict: " + f.Given
		}
		return f.Attempt, "it was told the verdict"
	}
	return nostr.ID{}, ""
}

// chaptersOf yields the chapters of entries that are about a provider.
func chaptersOf(entries iter.Seq2[fact.Entry, error], key nostr.PubKey) iter.Seq2[Chapter, error] {
	return func(yield func(Chapter, error) bool) {
		for e, err := range entries {
			if err != nil {
				yield(Chapter{}, err)
				return
			}
			for _, f := range e.Facts {
				c, ok := story(f, key)
				if !ok {
					continue
				}
				c.Seq, c.At, c.Type = e.Seq, e.At, f.Type()
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}
