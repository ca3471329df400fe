package registry

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// archivedAfter is the age at which a stranger's announcement is archived, if nothing was heard of the service since, as
// package nip89 counts it.
const archivedAfter = 90 * 24 * time.Hour

// Offers yields the services that offer a task under a kind, whatever was decided about them: first those that name the
// task, then those that name a synonym, then those that seem to do it, each in the order of their keys. If task is empty it
// yields all services. Archived services are omitted. Each offer is made when it is asked for, so the first ones of many
// cost little; a service that was announced since the iteration began may be missing.
func (r *Registry) Offers(task string, kind int) iter.Seq[guild.Offer] {
	return func(yield func(guild.Offer) bool) {
		now, task := r.c.Now(), nip89.Word(task)
		for _, g := range r.matches(task, kind) {
			for _, n := range g.cards {
				if o, ok := r.offerOf(n, g.fit, now, task, kind); ok && !yield(o) {
					return
				}
			}
		}
	}
}

// matches returns the cards that may offer a task, in the order of Offers.
func (r *Registry) matches(task string, kind int) []group {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if task == "" {
		return []group{{nip89.None, r.index.merge([]sorted{r.index.all})}}
	}
	return r.index.matches(task, kind, r.synonyms[task])
}

// offerOf returns the offer of a card for a task, if it has this confidence and is not archived.
func (r *Registry) offerOf(n number, fit nip89.Confidence, now time.Time, task string, kind int) (o guild.Offer, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := r.index.cards[n]
	if c == nil {
		return guild.Offer{}, false // removed since the iteration began
	}
	says := unpack(c.packed)
	if task != "" && says.fits(task, kind, r.synonyms[task]) != fit {
		return guild.Offer{}, false
	}
	p := r.standing(c, now)
	if p.State == guild.Archived {
		return guild.Offer{}, false
	}
	return r.offer(c, says, p, fit, task, kind), true
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
	return r.offer(c, unpack(c.packed), r.standing(c, now), nip89.None, "", 0), true
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
	says, fit := unpack(c.packed), nip89.None
	if task != "" {
		fit = says.fits(task, kind, r.synonyms[task])
		if fit == nip89.None {
			return guild.Offer{}, false
		}
	}
	p := r.standing(c, now)
	return r.offer(c, says, p, fit, task, kind), p.State != guild.Archived
}

// OffersOf returns the services of a provider, whether they offer the task or not, as Offers lists them.
func (r *Registry) OffersOf(key nostr.PubKey, task string, kind int) (offers []guild.Offer) {
	now, task := r.c.Now(), nip89.Word(task)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, n := range r.index.keys[key] {
		c := r.index.cards[n]
		if p := r.standing(c, now); p.State != guild.Archived {
			says := unpack(c.packed)
			offers = append(offers, r.offer(c, says, p, says.fits(task, kind, r.synonyms[task]), task, kind))
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
func (r *Registry) offer(c *card, says summary, p guild.Provider, fit nip89.Confidence, task string, kind int) guild.Offer {
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

// standing returns what was decided about a service or, if nothing was, the state by the age of its announcement.
func (r *Registry) standing(c *card, now time.Time) guild.Provider {
	known := r.partners.Standing(c.service())
	p := known.Provider
	if p.State != guild.Seen {
		return p
	}
	switch nip89.AgeOf(nostr.Timestamp(max(int64(c.at), known.Heard/1000)), now) {
	case nip89.Stale:
		p.State = guild.Stale
	case nip89.Archived:
		p.State = guild.Archived
	}
	return p
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
