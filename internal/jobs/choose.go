package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
)

// Trust below which a provider gets no ordinary work, and below which it gets none at all.
const (
	ordinary guild.Trust = guild.Micro / 2
	none     guild.Trust = 3 * guild.Micro / 10
)

// eligible are the states in which a provider gets work, and proven those that a passed benchmark led to.
var (
	eligible = [...]guild.ProviderState{guild.Seen, guild.Benchmarking, guild.Active, guild.Conditional, guild.Warned, guild.Reduced}
	proven   = [...]guild.ProviderState{guild.Active, guild.Conditional, guild.Warned, guild.Reduced}
)

// field is who may be asked next for a job.
type field struct {
	best   *guild.Offer // nil when nobody may be asked now
	count  int          // providers that may be asked, now or later
	when   time.Time    // when somebody may be asked, as far as that is known; zero when nobody is capped or busy
	why    string       // there is no best
	offers int          // services that offer the task

	excluded string // why one of those must not be asked
}

// candidate is a service that may be asked, now or later.
type candidate struct {
	guild.Offer
	turn      int // in the customer's own order
	qualified bool
	trust     guild.Trust
	load      int
	order     guild.Hash
	busy      bool      // it was asked, and had no capacity
	when      time.Time // it may be asked
}

// before orders candidates. A busy one is asked again only if nobody else is left.
func (a candidate) before(b candidate) int {
	return cmp.Or(compareBool(b.busy, a.busy), cmp.Compare(a.turn, b.turn), compareBool(a.qualified, b.qualified),
		-cmp.Compare(a.Confidence, b.Confidence), -cmp.Compare(a.trust, b.trust), cmp.Compare(a.Price, b.Price),
		cmp.Compare(a.load, b.load), slices.Compare(a.order[:], b.order[:]))
}

// compareBool orders what is true before what is not.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// choose picks who is asked next. Without a choice it says why.
func (j *Jobs) choose(job *Job, now time.Time) (*guild.Offer, string) {
	f := j.field(job, now)
	return f.best, f.why
}

// field finds who may be asked: the trusted before the unmet, then by how sure it is that they do the task, trust,
// price and load.
func (j *Jobs) field(job *Job, now time.Time) field {
	if job.lapsed(now) {
		return field{why: "the credentials have expired"}
	}
	offers := j.offersFor(job)
	f, load := field{offers: len(offers)}, j.fold.load()
	able := map[nostr.PubKey]bool{}
	var best candidate
	for _, o := range offers {
		c, reason := j.candidate(job, o, load, now)
		if reason != "" {
			f.excluded = reason
			continue
		}
		able[o.Service.PubKey] = true
		switch {
		case c.when.After(now) && (f.when.IsZero() || c.when.Before(f.when)):
			f.when = c.when
		case !c.when.After(now) && (f.best == nil || c.before(best) < 0):
			best, f.best = c, &c.Offer
		}
	}
	f.count = len(able)
	switch {
	case f.best != nil:
		f.when = time.Time{}
	case f.count > 0:
		f.why = "everybody who may be asked has as much to do as we give at once"
	default:
		f.why = nobody(job, offers, f.excluded)
	}
	return f
}

// candidate weighs one service, or says why it must not be asked.
func (j *Jobs) candidate(job *Job, o guild.Offer, load map[guild.Service]int, now time.Time) (candidate, string) {
	trust, met := j.c.Trust(job.Task, o.Service)
	if reason := j.excludes(job, o, trust, met, now); reason != "" {
		return candidate{}, reason
	}
	c := candidate{Offer: o, qualified: qualified(o, trust, met), load: load[o.Service] / max(o.Slots, 1),
		turn: slices.Index(job.Providers, o.Service.PubKey), order: guild.Sum(append(job.Job[:], o.Service.PubKey[:]...))}
	if trust >= ordinary {
		c.trust = trust // below the threshold all are alike: they get the first tries of unimportant work
	}
	when, known := j.room(o.Service.PubKey, now, 0)
	if c.when = when; !known {
		c.when = now.Add(time.Hour) // or whenever it answers one
	}
	again, busy := j.again(job, o.Service.PubKey)
	switch c.busy = busy; {
	case busy && !again.Before(job.deadline()):
		return candidate{}, fmt.Sprintf("%s has no capacity, and is not asked again before the deadline", nameOf(o))
	case again.After(c.when):
		c.when = again
	}
	return c, ""
}

// qualified reports whether a provider may be given what matters: met, trusted, and not on probation.
func qualified(o guild.Offer, trust guild.Trust, met bool) bool {
	return met && trust >= ordinary && o.State != guild.Conditional && o.State != guild.Benchmarking
}

// excludes says why a provider must not be asked, or "".
func (j *Jobs) excludes(job *Job, o guild.Offer, trust guild.Trust, met bool, now time.Time) string {
	name := nameOf(o)
	switch {
	case o.Service.PubKey == j.c.PubKey:
		return "nobody hires itself"
	case len(job.Providers) > 0 && !slices.Contains(job.Providers, o.Service.PubKey):
		return name + " was not to be asked"
	case job.Meeting != nil && job.Meeting.Service != nil && o.Service != *job.Meeting.Service:
		return name + " is another service than the one that is met"
	case job.asked(o.Service.PubKey):
		return name + " was asked already"
	case (job.Private || job.Release != nil) && !o.Encrypts:
		return name + " does not read encrypted requests"
	case job.Release != nil && sealedFor(job.Release, o) == nil:
		return "the credentials are not sealed for " + name
	case len(job.Providers) > 0 || job.Meeting != nil:
		return "" // the customer's own choice, or how a provider comes to be known
	case !slices.Contains(eligible[:], o.State):
		return fmt.Sprintf("%s is %s", name, o.State)
	case o.Until > now.UnixMilli():
		return fmt.Sprintf("%s is %s until %s", name, o.State, time.UnixMilli(o.Until).UTC().Format(time.RFC3339))
	case met && trust < none:
		return fmt.Sprintf("%s is trusted %s only", name, trust)
	case o.State == guild.Benchmarking && met:
		return name + " is being tried once more"
	case job.Bid > 0 && o.Price > job.Bid:
		return fmt.Sprintf("%s asks %s, the bid is %s", name, o.Price, job.Bid)
	case !o.Confirmed && !slices.Contains(proven[:], o.State):
		return fmt.Sprintf("%s has passed no benchmark, and its announcement does not confirm kind %d", name, job.Kind)
	case job.Criticality.Replicas() > 1 && !qualified(o, trust, met):
		return fmt.Sprintf("%s %s", name, unqualified(o, trust, met))
	}
	return ""
}

// nameOf names a provider so that a person can find it: the commands take the start of an npub.
func nameOf(o guild.Offer) string {
	return fmt.Sprintf("%s (%.12s…)", guild.Cut(cmp.Or(o.Name, "a provider"), 40), nip19.EncodeNpub(o.Service.PubKey))
}

// unqualified says why a provider gets unimportant work only.
func unqualified(o guild.Offer, trust guild.Trust, met bool) string {
	switch {
	case !met:
		return "has not been met"
	case trust < ordinary:
		return fmt.Sprintf("is trusted %s only", trust)
	}
	return fmt.Sprintf("is %s", o.State)
}

func nobody(job *Job, all []guild.Offer, excluded string) string {
	offers := len(all)
	isNamed := func(o guild.Offer) bool { return slices.Contains(job.Providers, o.Service.PubKey) }
	if !job.Open && len(job.Providers) > 0 && !slices.ContainsFunc(all, isNamed) {
		return unheard(job)
	}
	if offers == 0 && job.Open {
		return nobodyOffered(job)
	}
	if offers == 0 {
		return fmt.Sprintf("nobody offers the task %q", job.Task)
	}
	return fmt.Sprintf("of %d who offer the task %q none is left: %s", offers, job.Task, excluded)
}

// unheard says that none of those whom the customer named offers the task.
func unheard(job *Job) string {
	var names []string
	for _, p := range job.Providers[:min(3, len(job.Providers))] {
		npub := nip19.EncodeNpub(p)
		names = append(names, npub[:10]+"…"+npub[len(npub)-4:])
	}
	if more := len(job.Providers) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s announced nothing on the relays for the task %q", hasOrHave(names), job.Task)
}

func hasOrHave(names []string) string {
	if len(names) == 1 {
		return names[0] + " has"
	}
	return strings.Join(names, ", ") + " have"
}

// maxBusy is how often one provider is asked for one job, at most, when it has no capacity each time.
const maxBusy = 4

// asked reports whether a provider has had its turn. One that only had no capacity may have another.
func (j *Job) asked(p nostr.PubKey) bool {
	busy := 0
	for _, a := range j.Attempts {
		switch {
		case a.Provider.PubKey != p:
		case !a.Later:
			return true
		default:
			busy++
		}
	}
	return busy >= maxBusy
}

// again says when a provider that had no capacity may be asked once more: each time after twice the pause.
func (j *Jobs) again(job *Job, p nostr.PubKey) (when time.Time, busy bool) {
	pause := j.c.Patience.Busy
	for _, a := range job.Attempts {
		if a.Provider.PubKey == p && a.Later {
			when, busy = time.UnixMilli(a.Over).Add(pause), true
			pause *= 2
		}
	}
	return when, busy
}
