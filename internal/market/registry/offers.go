package registry

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// The age at which a stranger's announcement becomes stale, and archived, if nothing was heard of the service since, as
// package nip89 counts it.
const (
	staleAfter    = 30 * 24 * time.Hour
	archivedAfter = 90 * 24 * time.Hour
)

// Offers returns the services that offer a task under a kind, whatever was decided about them: first those that name
// the task, then those that name a synonym, then those that seem to do it. If task is empty it returns all services.
// Archived services are omitted. Callers ask often, so an answer is cached until something changes.
func (r *Registry) Offers(task string, kind int) []guild.Offer {
	now := r.c.Now()
	q := query{nip89.Word(task), kind}
	if offers, ok := r.answers.of(q, r.changes(), now); ok {
		return offers
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	a := answer{changes: r.changes(), from: now, until: never()}
	add := func(c *card, fit nip89.Confidence) {
		p, until := r.standing(c, now)
		if until.Before(a.until) {
			a.until = until
		}
		if p.State != guild.Archived {
			a.offers = append(a.offers, r.offer(c, p, fit, q.task, kind))
		}
	}
	if q.task == "" {
		for _, c := range r.index.cards {
			if c != nil {
				add(c, nip89.None)
			}
		}
	} else {
		for n, fit := range r.index.matches(q.task, kind, r.synonyms[q.task]) {
			add(r.index.cards[n], fit)
		}
	}
	slices.SortFunc(a.offers, func(a, b guild.Offer) int {
		return cmp.Or(-cmp.Compare(a.Confidence, b.Confidence), slices.Compare(a.Service.PubKey[:], b.Service.PubKey[:]),
			cmp.Compare(a.Service.D, b.Service.D))
	})
	r.answers.keep(q, a)
	return a.offers
}

// Offer returns what a service announces; ok is false if it announces nothing.
func (r *Registry) Offer(s guild.Service) (offer guild.Offer, ok bool) {
	i, now := IDOf(s), r.c.Now()
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := r.index.find(i)
	if c == nil {
		return guild.Offer{}, false
	}
	p, _ := r.standing(c, now)
	return r.offer(c, p, nip89.None, "", 0), true
}

// OfferOf returns one service as Offers lists it; ok is false if Offers omits it.
func (r *Registry) OfferOf(s guild.Service, task string, kind int) (offer guild.Offer, ok bool) {
	i, now, task := IDOf(s), r.c.Now(), nip89.Word(task)
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := r.index.find(i)
	if c == nil {
		return guild.Offer{}, false
	}
	fit := nip89.None
	if task != "" {
		fit = unpack(c.packed).fits(task, kind, r.synonyms[task])
		if fit == nip89.None {
			return guild.Offer{}, false
		}
	}
	p, _ := r.standing(c, now)
	return r.offer(c, p, fit, task, kind), p.State != guild.Archived
}

// OffersOf returns the services of a provider, whether they offer the task or not, as Offers lists them.
func (r *Registry) OffersOf(key nostr.PubKey, task string, kind int) (offers []guild.Offer) {
	now, task := r.c.Now(), nip89.Word(task)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, n := range r.index.keys[key] {
		c := r.index.cards[n]
		if p, _ := r.standing(c, now); p.State != guild.Archived {
			offers = append(offers, r.offer(c, p, unpack(c.packed).fits(task, kind, r.synonyms[task]), task, kind))
		}
	}
	slices.SortFunc(offers, func(a, b guild.Offer) int { return cmp.Compare(a.Service.D, b.Service.D) })
	return offers
}

// fits returns the confidence that a service does a task under a kind. It agrees with index.matches.
func (s summary) fits(task string, kind int, synonyms []string) nip89.Confidence {
	fit := nip89.None
	for _, word := range s.tasks {
		pattern, open := strings.CutSuffix(word, "*")
		switch {
		case word == task:
			fit = nip89.Exact
		case slices.Contains(synonyms, word), open && pattern != "" && strings.HasPrefix(task, pattern):
			fit = max(fit, nip89.Synonym)
		}
	}
	ofTask := func(kind int) bool { return slices.Contains(s.kinds, kind) }
	if s.performs && ofTask(kind) || slices.ContainsFunc(nip89.KindsOf(task), ofTask) {
		fit = max(fit, nip89.Inferred)
	}
	if s.noK {
		fit = min(fit, nip89.Inferred)
	}
	return fit
}

// offer returns the offer of a card for a task, in the kind in which the service is to be asked. The lock must be held.
func (r *Registry) offer(c *card, p guild.Provider, fit nip89.Confidence, task string, kind int) guild.Offer {
	says := unpack(c.packed)
	if task != "" {
		kind = nip89.KindFor(says.kinds, task, kind, says.bundles)
	}
	return guild.Offer{
		Service: c.service(), Name: says.name, Tasks: says.tasks, Kinds: says.kinds, Relays: r.ranked(c, says),
		Encrypts: says.nip44, Recipient: says.recipient, Price: says.priceOf(kind), Slots: says.slots,
		Kind: kind, Plain: !says.bundles, Tool: says.tool.Name, ToolText: says.tool.Text,
		Announced: int64(c.at), State: p.State, Until: p.Until, Provisional: p.Provisional,
		Confidence: float64(fit), Confirmed: slices.Contains(says.confirmed, kind), Recommended: len(r.praise.of(c.service())),
		Followed: r.praise.follow[c.pubkey], First: c.first, Work: int(c.work),
	}
}

// standing returns what was decided about a service or, if nothing was, the state by the age of its announcement. until
// is the time at which that state changes by itself.
func (r *Registry) standing(c *card, now time.Time) (p guild.Provider, until time.Time) {
	known := r.partners.Standing(c.service())
	p = known.Provider
	if p.State != guild.Seen {
		return p, never()
	}
	last := time.Unix(max(int64(c.at), known.Heard/1000), 0)
	switch nip89.AgeOf(nostr.Timestamp(last.Unix()), now) {
	case nip89.Stale:
		p.State = guild.Stale
		return p, last.Add(archivedAfter)
	case nip89.Archived:
		p.State = guild.Archived
		return p, never()
	}
	return p, last.Add(staleAfter)
}

// never returns a time in the far future.
func never() time.Time { return time.Unix(1<<40, 0) }

// changes returns counters that grow when any input of an offer changes, except for the cards.
func (r *Registry) changes() [2]uint64 {
	n := [2]uint64{r.partners.Changes()}
	if r.c.Observed != nil {
		n[1] = r.c.Observed.Changes()
	}
	return n
}

// Latest describes the last announcement of a service.
type Latest struct {
	At        int64 // Unix ms: date of the announcement, or of its deletion; 0 if neither is known
	Announced bool  // it was not deleted since
	Version   string
	Sum       guild.Hash // hash of the announcement without its relays
}

// Latest returns the last announcement of a service.
func (r *Registry) Latest(i ID) Latest {
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := r.index.find(i)
	if c == nil {
		return Latest{At: int64(r.deleted[i]) * 1000}
	}
	says := unpack(c.packed)
	return Latest{At: int64(c.at) * 1000, Announced: true, Version: says.version, Sum: says.sum()}
}

// Services returns the services that a key announces, unordered.
func (r *Registry) Services(key nostr.PubKey) (all []guild.Service) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, n := range r.index.keys[key] {
		all = append(all, r.index.cards[n].service())
	}
	return all
}

// Limits on the cached answers.
const (
	maxAnswers  = 32
	maxAnswered = 1 << 14 // offers, in all answers together
)

// answers caches the results of Offers since the announcements last changed.
type answers struct {
	mu   sync.Mutex
	all  map[query]answer
	size int // offers in all of them
}

// query holds the arguments of Offers.
type query struct {
	task string
	kind int
}

// answer is a result of Offers. It is valid until something is decided or announced, or an announcement becomes stale
// or archived.
type answer struct {
	offers      []guild.Offer
	changes     [2]uint64
	from, until time.Time
}

// of returns a cached answer if it is still valid. The caller owns the slice, but not the memory that its offers refer
// to.
func (a *answers) of(q query, changes [2]uint64, now time.Time) ([]guild.Offer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, ok := a.all[q]
	if !ok || old.changes != changes || now.Before(old.from) || !now.Before(old.until) {
		return nil, false
	}
	return slices.Clone(old.offers), true
}

// keep stores an answer. If there are too many it drops all others, because they are cheap to compute again.
func (a *answers) keep(q query, one answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.size -= len(a.all[q].offers)
	delete(a.all, q)
	if len(one.offers) > maxAnswered {
		return
	}
	if a.all == nil || len(a.all) >= maxAnswers || a.size+len(one.offers) > maxAnswered {
		a.all, a.size = map[query]answer{}, 0
	}
	one.offers = slices.Clone(one.offers)
	a.all[q] = one
	a.size += len(one.offers)
}

// forget drops all answers. The registry's lock must be held for writing: otherwise a reader could store an old answer
// afterwards.
func (a *answers) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) > 0 {
		a.all, a.size = nil, 0
	}
}
