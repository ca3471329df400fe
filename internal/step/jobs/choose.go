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
	"guild/internal/journal/fact"
	"guild/internal/market/route"
)

// field is the result of a look for providers of a job.
type field struct {
	best   *guild.Offer // nil when nobody may be asked now
	count  int          // providers that may be asked, now or later; counted only up to the number wanted
	when   time.Time    // when somebody may be asked, if known; zero when nobody is at a limit or busy
	why    string       // why there is no best
	offers int          // services that offer the task

	excluded reasons // why the others must not be asked
}

// look is a field that is kept until something changes, with what it was made from.
type look struct {
	job     *Job
	version uint64    // of the task's list
	until   time.Time // when something changes by time alone
	field
	later []route.Facts // providers that may be asked later, if none may be asked now
}

// candidate is a service that may be asked, now or later.
type candidate struct {
	route.Facts
	turn  int // in the customer's own order
	order guild.Hash
	busy  bool      // it was asked, and had no capacity, or is left alone for another reason
	when  time.Time // it may be asked
}

// before orders the providers that the customer named, and those of a benchmark. A busy one comes after all others.
func (a candidate) before(b candidate) int {
	return cmp.Or(compareBool(b.busy, a.busy), cmp.Compare(a.turn, b.turn), -cmp.Compare(a.Offer.Confidence, b.Offer.Confidence),
		-cmp.Compare(a.Trust, b.Trust), cmp.Compare(a.Offer.Price, b.Offer.Price), cmp.Compare(a.Waiting, b.Waiting),
		slices.Compare(a.order[:], b.order[:]))
}

// compareBool orders true before false.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// field finds the provider to ask next for a job, and counts others until there are as many as are wanted.
//
// Every fact makes the node ask what is due, and that calls field for every open job. So a search stops as soon as it can
// answer, and its result is kept (looks) while the job, the version of the task's list and the chosen provider's limits
// are unchanged. The choice is made again, under the same lock, when the attempt is planned (settleOn): a look only says
// that somebody may be asked.
func (j *Jobs) field(job *Job, want int, now time.Time) field {
	if job.lapsed(now) {
		return field{why: "the credentials have expired"}
	}
	j.choosing.Lock()
	defer j.choosing.Unlock()
	j.releaseSlots(now)
	s := j.scope(job, now)
	if given, rule := j.given(job, s); rule != "" {
		return j.fieldOf(job, given, now)
	}
	version := j.matrix.Version(s)
	if known, ok := j.looks[job.Job]; ok && j.holds(known, job, version, want, now) {
		return known.field
	}
	found := j.search(job, s, want)
	if found.when.IsZero() && found.count > 0 {
		o, _, ok := j.choose(job, now)
		if !ok { // all are full, or a fact came in between, and took the room that the search saw
			found.when, found.why = now.Add(lookAgain), allBusy
			if o.Slots > 0 {
				found.when = now.Add(time.Minute) // or as soon as one answers
			}
			delete(j.looks, job.Job)
			return found.field
		}
		found.best = &o
	}
	j.remember(found)
	return found.field
}

// lookAgain is the time until the next look if the choice found nobody although the search did.
const lookAgain = time.Second

// holds reports whether a new search would find the same.
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

// remember keeps a look, and drops those of jobs that are over.
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

// search walks the task's list, the best first, until one provider may be asked now and as many as are wanted may be
// asked at all.
func (j *Jobs) search(job *Job, s route.Scope, want int) look {
	now := s.Now
	l := look{job: job, until: now.Add(time.Hour)}
	able, ready := map[nostr.PubKey]bool{}, false
	l.version = j.matrix.Visit(s, func(f *route.Facts) bool {
		by, when := j.excludes(job, &f.Offer, now)
		switch {
		case temporary(by):
			able[f.Offer.Service.PubKey] = true
			ready = ready || !when.After(now)
			if !ready {
				l.later = append(l.later, *f)
				if l.when.IsZero() || when.Before(l.when) {
					l.when = when
				}
			}
		default:
			until := time.UnixMilli(f.Offer.Until)
			if by == byQuarantine && until.Before(l.until) {
				l.until = until
			}
			l.excluded.add(by, 1, func() string { return j.explain(job, f, by) })
		}
		return !ready || len(able) < want
	})
	retried := ""
	if len(able) < want {
		j.matrix.VisitAgain(s, func(f *route.Facts) bool {
			if by, _ := j.excludes(job, &f.Offer, now); !temporary(by) {
				return true
			}
			able[f.Offer.Service.PubKey] = true
			retried = j.explain(job, f, route.ByAgain)
			if l.when.IsZero() {
				l.when = l.until // or whenever that is over
			}
			return len(able) < want
		})
	}
	l.count = len(able)
	if l.count < want {
		var out []route.Out
		l.offers, out = j.matrix.Out(s)
		for _, o := range out {
			l.excluded.add(o.By, o.Count, func() string { return j.explain(job, &o.One, o.By) })
		}
	}
	if ready {
		l.when, l.later = time.Time{}, nil
		return l
	}
	switch {
	case l.count == 0:
		l.why = nobody(job, l.offers, false, l.excluded.String())
	case len(l.later) == 0:
		l.why = retried
	default:
		l.why = allBusy
	}
	return l
}

const allBusy = "all eligible providers are at their limit of requests, at once or in a minute"

// fieldOf returns the field of a short list of services.
func (j *Jobs) fieldOf(job *Job, given []route.Facts, now time.Time) field {
	f := field{offers: len(given)}
	able := map[nostr.PubKey]bool{}
	for i := range given {
		by := j.bars(job, &given[i], now)
		if by == "" {
			continue
		}
		f.excluded.add(by, 1, func() string { return j.explain(job, &given[i], by) })
		if by == route.ByAgain {
			able[given[i].Offer.Service.PubKey], f.why = true, j.explain(job, &given[i], by)
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
	f.count = len(able)
	if ready {
		f.when = time.Time{}
		if o, _, ok := j.choose(job, now); ok {
			f.best, f.why = &o, ""
			return f
		}
		f.when = now.Add(lookAgain)
	}
	if f.count > 0 {
		return f
	}
	f.why = nobody(job, len(given), len(given) == 0, f.excluded.String())
	return f
}

// given returns the services that a job is limited to, and the rule that limits it: those of the providers that the
// customer named, those of a benchmark, or those that made an offer. The rule is "" for a job that any service may get.
func (j *Jobs) given(job *Job, s route.Scope) (given []route.Facts, rule string) {
	of := func(p nostr.PubKey) []route.Facts { return j.matrix.Of(s, p) }
	switch {
	case job.Open:
		return j.offered(job, of, s.Now), route.Offered
	case len(job.Providers) > 0:
		for i, p := range job.Providers {
			if slices.Contains(job.Providers[:i], p) {
				continue
			}
			services := of(p)
			if len(services) == 0 {
				services = j.unfit(job, p, s.Now)
			}
			given = append(given, services...)
		}
		if job.Meeting != nil {
			return given, route.Meeting
		}
		return given, route.Named
	case job.Meeting != nil && job.Meeting.Service != nil:
		return of(job.Meeting.Service.PubKey), route.Meeting
	case job.Meeting != nil:
		for o := range j.c.Market.Offers(job.Task, job.Kind) {
			given = append(given, j.facts(job.Task, o, s.Now))
		}
		return given, route.Meeting
	}
	return nil, ""
}

// unfit returns the services of a provider that the customer named, and that offers something else by its announcement.
func (j *Jobs) unfit(job *Job, p nostr.PubKey, now time.Time) (services []route.Facts) {
	for _, o := range j.c.Market.OffersOf(p, job.Task, job.Kind) {
		services = append(services, j.facts(job.Task, o, now))
	}
	return services
}

// offered returns the services of the providers that made an offer for an open job, at that price. An offer confirms the
// kind. A provider that never announced itself is asked through our own relays, in clear, and only for a job of low
// criticality.
func (j *Jobs) offered(job *Job, of func(nostr.PubKey) []route.Facts, now time.Time) (offered []route.Facts) {
	seen := map[nostr.PubKey]bool{}
	for _, said := range job.Offers {
		if seen[said.Provider] {
			continue
		}
		seen[said.Provider] = true
		services := of(said.Provider)
		if len(services) == 0 && job.Criticality.Replicas() == 1 {
			services = []route.Facts{j.facts(job.Task, j.unannounced(job, said), now)}
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
			busy: by == byPause || by == route.ByBusy || !slices.Contains([]string{"", route.ByUnconfirmed}, f.PassedOver(now))})
	}
	slices.SortFunc(all, candidate.before)
	return all
}

// nobody says for a person why no provider can be asked.
func nobody(job *Job, offers int, unknown bool, excluded string) string {
	switch {
	case unknown && !job.Open && len(job.Providers) > 0:
		return unheard(job)
	case offers == 0 && job.Open:
		return nobodyOffered(job)
	case offers == 0:
		return fmt.Sprintf("no provider offers the task %q now (one that is paused offers nothing)", job.Task)
	}
	return fmt.Sprintf("no eligible provider among %d for the task %q: %s", offers, job.Task, excluded)
}

// unheard says that none of the providers that the customer named offers the task.
func unheard(job *Job) string {
	var names []string
	for _, p := range job.Providers[:min(3, len(job.Providers))] {
		npub := nip19.EncodeNpub(p)
		names = append(names, npub[:10]+"…"+npub[len(npub)-4:])
	}
	if more := len(job.Providers) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	have := "have"
	if len(names) == 1 {
		have = "has"
	}
	return fmt.Sprintf("%s %s announced nothing on the relays for the task %q, or withdrew it, as who is paused does", strings.Join(names, ", "), have, job.Task)
}

// taskOf returns the task of a job, "" of an unknown one.
func (s *state) taskOf(id guild.JobID) string {
	if job, ok := s.Jobs.Get(id); ok {
		return job.Task
	}
	return ""
}

// jobOf returns the job that a guard or an entry's subject is about.
func jobOf(subject fact.Subject) (guild.JobID, bool) {
	id, err := guild.ParseJobID(strings.TrimPrefix(string(subject), "job."))
	return id, err == nil
}
