package jobs

import (
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fold"
	"guild/nip90"
)

// We subscribe once to everything that is sent to us, by the p tag that NIP-90 asks of every result and feedback event,
// and not with a filter for the id of each request (#e, section 3.1.1 of the partnership protocol). So a request is never
// published before the relay listens for its answer, an answer without its e tag still arrives, and a relay has one
// filter from us instead of hundreds.

// Bounds on the time of an answer that names no request.
const (
	skew     = time.Minute      // that the provider's clock may be behind when the request was planned
	aftertow = 10 * time.Minute // in which a request that was given up may still be answered
)

// correlate finds the attempt that a result or feedback answers, by the strategies of section 3.1.2: the requests that
// its e tags name; else a reference in a request tag, in the content, or inside what is encrypted; else the p tag, the
// provider and the time. Whatever fits, the answer must come from the provider that was asked. If an e tag names
// something else, the event belongs there, and the time says nothing. Events that fit nothing are errors that say why.
func (j *Jobs) correlate(e nostr.Event, requests []nostr.ID, open nip90.Opener) (Attempt, *Job, error) {
	named := append(slices.Clip(requests), nip90.Correlate(e).Mentioned)
	for _, id := range named {
		if a, job, ok := j.fold.Attempt(id); ok {
			return ours(e, a, job)
		}
	}
	if e.Tags.Has("encrypted") && len(j.fold.attemptsOf(e.PubKey)) > 0 {
		inside := nip90.CorrelateInside(e, open)
		for _, id := range []nostr.ID{inside.Request, inside.Mentioned} {
			if a, job, ok := j.fold.Attempt(id); ok {
				return ours(e, a, job)
			}
		}
	}
	if len(requests) > 0 || e.Tags.FindWithValue("p", j.c.PubKey.Hex()) == nil {
		return Attempt{}, nil, guild.Drop(guild.Unrequested, "kind %d from %.8s names no request of ours", e.Kind, e.PubKey.Hex())
	}
	return j.nearest(e)
}

// ours checks that the answer comes from the provider that was asked.
func ours(e nostr.Event, a Attempt, job *Job) (Attempt, *Job, error) {
	if e.PubKey != a.Provider.PubKey {
		return Attempt{}, nil, guild.Drop(guild.Stranger, "%.8s answered for %.8s", e.PubKey.Hex(), a.Provider.PubKey.Hex())
	}
	return a, job, nil
}

// nearest finds the only attempt that the provider may be answering now. With two it drops the event: a delivery judged
// by another job's criteria would count against a provider that did its work.
func (j *Jobs) nearest(e nostr.Event) (Attempt, *Job, error) {
	asked := j.fold.attemptsOf(e.PubKey)
	var found []Attempt
	for _, id := range slices.Backward(asked[max(0, len(asked)-maxRecent):]) {
		a, job, ok := j.fold.Attempt(id)
		switch {
		case !ok:
		case e.ID == a.Result || e.ID == a.Answered:
			return a, job, nil // a relay sends it again
		case a.mayBeAnswered(e, job):
			found = append(found, a)
		}
	}
	if len(found) > 1 {
		return Attempt{}, nil, guild.Drop(guild.Ambiguous, "kind %d from %.8s fits %d requests and names none", e.Kind, e.PubKey.Hex(), len(found))
	}
	if len(found) == 0 || !found[0].State.Waiting() {
		return Attempt{}, nil, guild.Drop(guild.Unrequested, "kind %d from %.8s fits no request that waits", e.Kind, e.PubKey.Hex())
	}
	a, job, _ := j.fold.Attempt(found[0].ID)
	return a, job, nil
}

// mayBeAnswered reports whether an answer that names no request may belong to a, by its kind and time.
func (a Attempt) mayBeAnswered(e nostr.Event, job *Job) bool {
	if e.Kind != nip90.KindFeedback && int(e.Kind) != a.answersIn(job) {
		return false
	}
	said := e.CreatedAt.Time()
	if said.Before(time.UnixMilli(a.At).Add(-skew)) {
		return false
	}
	gone := a.State == guild.Expired || a.State == guild.Cancelled || a.State == guild.Parked
	return a.State.Waiting() || gone && said.Before(time.UnixMilli(a.Over).Add(aftertow))
}

// maxRecent is the number of a provider's latest attempts among which nearest looks.
const maxRecent = 1000

// attemptsOf lists the latest attempts of a provider, the latest last.
func (f *Fold) attemptsOf(provider nostr.PubKey) []nostr.ID {
	return fold.Read(f.State, func(s *state) []nostr.ID { return s.latest.Of(provider) })
}

// addAttempt adds an attempt to those of its provider. A list that was handed out does not change.
func (s *state) addAttempt(provider nostr.PubKey, attempt nostr.ID) {
	latest := s.latest.Of(provider)
	if len(latest) >= 2*maxRecent {
		latest = slices.Clone(latest[len(latest)-maxRecent:])
	}
	s.latest.Set(provider, append(latest, attempt))
}

// With lists the jobs of a provider's latest attempts, at least the last thousand, in the order in which it was first
// asked for each.
func (f *Fold) With(provider nostr.PubKey) []guild.JobID {
	var all []guild.JobID
	known := map[guild.JobID]bool{}
	f.View(func(s *state) {
		for _, attempt := range s.latest.Of(provider) {
			if id, ok := s.attempts.Get(attempt); ok && !known[id] {
				known[id] = true
				all = append(all, id)
			}
		}
	})
	return all
}
