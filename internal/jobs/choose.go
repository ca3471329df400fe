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
	"guild/internal/fact"
	"guild/internal/route"
)

// What keeps a service out of a job, in a word, beside what keeps it out of all and what the router avoids.
const (
	byItself      = "itself"      // nobody hires itself
	byOthers      = "not named"   // the customer named others
	byService     = "service"     // another one of its provider is met
	byAsked       = "asked"       // it had its turn
	byEncryption  = "encryption"  // the job is private, and it reads no encrypted requests
	byCredentials = "credentials" // they are not sealed for it
	byQuarantine  = "quarantine"
	byPrice       = "price"
	byClass       = "class"    // it is on probation, and the job is none of those that are for such
	byFull        = "full"     // it has as much to do as we give at once
	byPause       = "pause"    // it had no capacity, and is asked again later
	byCapacity    = "capacity" // as above, and the deadline is before that
)

// probation are the classes of jobs that a provider on probation may get.
var probation = [...]string{guild.ClassExperimental, guild.ClassBackground}

// field is who may be asked next for a job.
type field struct {
	best   *guild.Offer // nil when nobody may be asked now
	count  int          // providers that may be asked, now or later; when there are as many as are wanted, no more are counted
	when   time.Time    // when somebody may be asked, as far as that is known; zero when nobody is capped or busy
	why    string       // there is no best
	offers int          // services that offer the task

	excluded string // why one of those must not be asked
}

// look is what was found for a job, as long as that holds.
type look struct {
	job     *Job
	version uint64    // of the task's list
	until   time.Time // something changes by time alone
	field
	later []route.Facts // who may be asked later, if nobody may be asked now
}

// candidate is a service that may be asked, now or later.
type candidate struct {
	route.Facts
	turn  int // in the customer's own order
	order guild.Hash
	busy  bool      // it was asked, and had no capacity, or is left alone for another reason
	when  time.Time // it may be asked
}

// before orders those whom the customer named, and those who are met. A busy one is asked again only if nobody else is
// left.
func (a candidate) before(b candidate) int {
	return cmp.Or(compareBool(b.busy, a.busy), cmp.Compare(a.turn, b.turn), -cmp.Compare(a.Offer.Confidence, b.Offer.Confidence),
		-cmp.Compare(a.Trust, b.Trust), cmp.Compare(a.Offer.Price, b.Offer.Price), cmp.Compare(a.Waiting, b.Waiting),
		slices.Compare(a.order[:], b.order[:]))
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

// field finds who may be asked, and as many others as are wanted. It is called for every job that goes on after every
// fact, so it looks no further than it must, and not again where nothing has changed.
func (j *Jobs) field(job *Job, want int, now time.Time) field {
	if job.lapsed(now) {
		return field{why: "the credentials have expired"}
	}
	j.choosing.Lock()
	defer j.choosing.Unlock()
	j.settle(now)
	s := j.scope(job, now)
	if given, rule := j.given(job, s); rule != "" {
		return j.fieldOf(job, given, now)
	}
	version := j.matrix.Version(s)
	if known, ok := j.looks[job.Job]; ok && j.holds(known, job, version, want, now) {
		return known.field
	}
	found := j.search(job, s, want)
	if found.best = nil; found.when.IsZero() && found.count > 0 {
		if o, _, ok := j.choose(job, now); ok {
			found.best = &o
		}
	}
	j.remember(found)
	return found.field
}

// holds reports whether what was found for a job would be found again.
func (j *Jobs) holds(l look, job *Job, version uint64, want int, now time.Time) bool {
	switch {
	case l.job != job || !now.Before(l.until):
		return false
	case l.best != nil:
		by, when := j.excludes(job, l.best, now)
		return l.version == version && l.count >= want && (by == "" || by == route.ByBusy && !when.After(now))
	}
	return l.version == version && len(l.later) == 0
}

// remember keeps what was found, and forgets it of jobs that are over.
func (j *Jobs) remember(l look) {
	if len(j.looks) > 2*j.fold.Open()+64 {
		for id := range j.looks {
			if job, ok := j.fold.Job(id); !ok || job.Ending != guild.Open {
				delete(j.looks, id)
			}
		}
	}
	j.looks[l.job.Job] = l
}

// search walks the task's list, the best first, until somebody may be asked now and there are as many as are wanted.
func (j *Jobs) search(job *Job, s route.Scope, want int) look {
	now := s.Now
	l := look{job: job, until: now.Add(time.Hour)}
	able, ready := map[nostr.PubKey]bool{}, false
	l.version = j.matrix.Visit(s, func(f *route.Facts) bool {
		by, when := j.excludes(job, &f.Offer, now)
		switch {
		case soft(by):
			able[f.Offer.Service.PubKey] = true
			if ready = ready || !when.After(now); !ready {
				l.later = append(l.later, *f)
				if l.when.IsZero() || when.Before(l.when) {
					l.when = when
				}
			}
		default:
			if until := time.UnixMilli(f.Offer.Until); by == byQuarantine && until.Before(l.until) {
				l.until = until
			}
			if l.excluded == "" {
				l.excluded = j.explain(job, f, by)
			}
		}
		return !ready || len(able) < want
	})
	retried := ""
	if len(able) < want {
		j.matrix.VisitAgain(s, func(f *route.Facts) bool {
			if by, _ := j.excludes(job, &f.Offer, now); !soft(by) {
				return true
			}
			able[f.Offer.Service.PubKey] = true
			if retried = j.explain(job, f, route.ByAgain); l.when.IsZero() {
				l.when = l.until // or whenever that is over
			}
			return len(able) < want
		})
	}
	if l.count = len(able); l.count < want {
		var f route.Facts
		var by string
		l.offers, f, by = j.matrix.Out(s)
		if by != "" && l.excluded == "" {
			l.excluded = j.explain(job, &f, by)
		}
	}
	if ready {
		l.when, l.later = time.Time{}, nil
		return l
	}
	switch l.why = allBusy; {
	case l.count == 0:
		l.why = nobody(job, l.offers, false, l.excluded)
	case len(l.later) == 0:
		l.why = retried
	}
	return l
}

const allBusy = "everybody who may be asked has as much to do as we give at once"

// soft reports whether what excludes says keeps nobody out for long.
func soft(by string) bool { return by == "" || by == byFull || by == byPause || by == route.ByBusy }

// fieldOf is field among few.
func (j *Jobs) fieldOf(job *Job, given []route.Facts, now time.Time) field {
	f := field{offers: len(given)}
	able := map[nostr.PubKey]bool{}
	for i := range given {
		by := j.bars(job, &given[i], now)
		if by == "" {
			continue
		}
		f.excluded = j.explain(job, &given[i], by)
		if by == route.ByAgain {
			able[given[i].Offer.Service.PubKey], f.why = true, f.excluded
			f.when = now.Add(time.Hour) // or whenever that is over
		}
	}
	ready := false
	for _, c := range j.inOrder(job, given, now) {
		able[c.Offer.Service.PubKey], f.why = true, allBusy
		if c.when.After(now) && (f.when.IsZero() || c.when.Before(f.when)) {
			f.when = c.when
		}
		ready = ready || !c.when.After(now)
	}
	if f.count = len(able); ready {
		f.when = time.Time{}
		if o, _, ok := j.choose(job, now); ok {
			f.best, f.why = &o, ""
			return f
		}
	}
	if f.count > 0 {
		return f
	}
	f.why = nobody(job, len(given), len(given) == 0, f.excluded)
	return f
}

// given are the services that a job is for, where it does not go to whoever is best: those of the providers that the
// customer named, one that is met, or those that made an offer.
func (j *Jobs) given(job *Job, s route.Scope) (given []route.Facts, rule string) {
	of := func(p nostr.PubKey) []route.Facts { return j.matrix.Of(s, p) }
	switch {
	case job.Open:
		return j.offered(job, of, s.Now), route.Offered
	case len(job.Providers) > 0:
		for i, p := range job.Providers {
			if !slices.Contains(job.Providers[:i], p) {
				given = append(given, of(p)...)
			}
		}
		if job.Meeting != nil {
			return given, route.Meeting
		}
		return given, route.Named
	case job.Meeting != nil && job.Meeting.Service != nil:
		return of(job.Meeting.Service.PubKey), route.Meeting
	case job.Meeting != nil:
		for _, o := range j.c.Offers(job.Task, job.Kind) {
			given = append(given, j.facts(job.Task, o, s.Now))
		}
		return given, route.Meeting
	}
	return nil, ""
}

// offered are those who made an offer for an open job, at their price. To offer is to confirm the kind. Who made one and
// never announced itself is asked by our own relays, in clear, and for unimportant work only.
func (j *Jobs) offered(job *Job, of func(nostr.PubKey) []route.Facts, now time.Time) (offered []route.Facts) {
	seen := map[nostr.PubKey]bool{}
	for _, said := range job.Offers {
		if seen[said.Provider] {
			continue
		}
		seen[said.Provider] = true
		services := of(said.Provider)
		if len(services) == 0 && job.Criticality.Replicas() == 1 {
			services = []route.Facts{j.facts(job.Task, j.unannounced(job, said.Provider), now)}
		}
		price, _ := job.offerOf(said.Provider)
		for _, f := range services {
			f.Offer.Price, f.Offer.Confirmed, f.Measured.Cost, f.Free = price, true, 0, price == 0
			offered = append(offered, f)
		}
	}
	return offered
}

// inOrder lists those of a few that may be asked, now or later.
func (j *Jobs) inOrder(job *Job, given []route.Facts, now time.Time) (all []candidate) {
	for i := range given {
		f := &given[i]
		if j.bars(job, f, now) != "" {
			continue
		}
		by, when := j.excludes(job, &f.Offer, now)
		all = append(all, candidate{Facts: *f, turn: slices.Index(job.Providers, f.Offer.Service.PubKey),
			order: guild.Sum(append(job.Job[:len(job.Job):len(job.Job)], f.Offer.Service.PubKey[:]...)), when: when,
			busy: by == byPause || by == route.ByBusy || f.PassedOver(now) != ""})
	}
	slices.SortFunc(all, candidate.before)
	return all
}

// bars says in a word why one of a few must not be asked, now or later, or "". What the customer chose, and who comes to
// be known, need not be trusted.
func (j *Jobs) bars(job *Job, f *route.Facts, now time.Time) string {
	by, _ := j.excludes(job, &f.Offer, now)
	if soft(by) {
		by = ""
	}
	if by != "" || len(job.Providers) > 0 || job.Meeting != nil {
		return by
	}
	s := j.settings(job.Task)
	if by := s.Bars(f); by != "" {
		return by
	}
	if job.Criticality.Replicas() > 1 && !s.Qualifies(f) {
		return route.ByCriticality
	}
	return ""
}

// excludes says in a word what keeps a service out of a job, whatever its place in the order, or "". Who is full may be
// asked when it has answered one or a minute is over, and who was busy after a pause: then when says when.
func (j *Jobs) excludes(job *Job, o *guild.Offer, now time.Time) (by string, when time.Time) {
	p := o.Service.PubKey
	switch chosen := len(job.Providers) > 0 || job.Meeting != nil; {
	case p == j.c.PubKey:
		return byItself, now
	case o.State == guild.Removed: // whoever names it too: first it must be allowed again
		return route.ByState, now
	case len(job.Providers) > 0 && !slices.Contains(job.Providers, p):
		return byOthers, now
	case job.Meeting != nil && job.Meeting.Service != nil && o.Service != *job.Meeting.Service:
		return byService, now
	case job.asked(p):
		return byAsked, now
	case (job.Private || job.Release != nil) && !o.Encrypts:
		return byEncryption, now
	case job.Release != nil && sealedFor(job.Release, *o) == nil:
		return byCredentials, now
	case !chosen && o.Until > now.UnixMilli():
		return byQuarantine, now
	case !chosen && job.Bid > 0 && o.Price > job.Bid:
		return byPrice, now
	case !chosen && o.State == guild.Conditional && job.Criticality.Replicas() == 1 && !slices.Contains(probation[:], job.Class):
		return byClass, now
	}
	_, his, _ := j.promises.of(p, job.Task)
	when, known := j.room(p, now, his)
	if !known {
		when = now.Add(time.Hour) // or whenever it answers one
	}
	if when.After(now) {
		by = byFull
	}
	again, busy := j.again(job, p)
	switch {
	case busy && !again.Before(job.deadline()):
		return byCapacity, now
	case busy && again.After(when):
		return byPause, again
	case busy && by == "":
		return route.ByBusy, when
	}
	return by, when
}

// explain says for a person what a word of excludes means.
func (j *Jobs) explain(job *Job, f *route.Facts, by string) string {
	o, name := &f.Offer, nameOf(f.Offer)
	switch by {
	case byItself:
		return "nobody hires itself"
	case byOthers:
		return name + " was not to be asked"
	case byService:
		return name + " is another service than the one that is met"
	case byAsked:
		return name + " was asked already"
	case byEncryption:
		return name + " does not read encrypted requests"
	case byCredentials:
		return "the credentials are not sealed for " + name
	case byQuarantine:
		return fmt.Sprintf("%s is %s until %s", name, o.State, time.UnixMilli(o.Until).UTC().Format(time.RFC3339))
	case byPrice:
		return fmt.Sprintf("%s asks %s, the bid is %s", name, o.Price, job.Bid)
	case byClass:
		return fmt.Sprintf("%s is %s, and gets %s jobs only", name, o.State, strings.Join(probation[:], " and "))
	case byFull:
		return name + " has as much to do as we give at once"
	case byPause, route.ByBusy:
		return name + " had no capacity for it"
	case byCapacity:
		return name + " has no capacity, and is not asked again before the deadline"
	case route.ByState:
		return fmt.Sprintf("%s is %s", name, o.State)
	case route.ByTrust:
		return fmt.Sprintf("%s is trusted %s only", name, f.Trust)
	case route.ByAgain:
		return name + " is being tried once more"
	case route.ByUnconfirmed:
		return fmt.Sprintf("%s has passed no benchmark, and its announcement does not confirm kind %d", name, job.Kind)
	case route.ByCriticality:
		return fmt.Sprintf("%s %s", name, unqualified(f))
	}
	return name + ": " + by
}

// nameOf names a provider so that a person can find it: the commands take the start of an npub.
func nameOf(o guild.Offer) string {
	return fmt.Sprintf("%s (%.12s…)", guild.Cut(cmp.Or(o.Name, "a provider"), 40), nip19.EncodeNpub(o.Service.PubKey))
}

// unqualified says why a provider gets unimportant work only.
func unqualified(f *route.Facts) string {
	switch {
	case !f.Met:
		return "has not been met"
	case f.Offer.State == guild.Conditional || f.Offer.State == guild.Benchmarking:
		return fmt.Sprintf("is %s", f.Offer.State)
	}
	return fmt.Sprintf("is trusted %s only", f.Trust)
}

// nobody says why there is nobody to ask.
func nobody(job *Job, offers int, unknown bool, excluded string) string {
	switch {
	case unknown && !job.Open && len(job.Providers) > 0:
		return unheard(job)
	case offers == 0 && job.Open:
		return nobodyOffered(job)
	case offers == 0:
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

// taskOf is the task of a job, "" of an unknown one.
func (s *state) taskOf(id guild.JobID) string {
	if job, ok := s.Jobs.Get(id); ok {
		return job.Task
	}
	return ""
}

// jobOf is the job that an entry is about.
func jobOf(e fact.Entry) guild.JobID {
	id, _ := guild.ParseJobID(strings.TrimPrefix(string(e.Subject), "job."))
	return id
}
