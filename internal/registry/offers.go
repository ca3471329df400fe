package registry

import (
	"cmp"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// When an announcement of a stranger is stale and when it is archived, if nothing was heard of it since: what NIP-89
// readers count with.
const (
	staleAfter    = 30 * 24 * time.Hour
	archivedAfter = 90 * 24 * time.Hour
)

// Offers lists the services that offer a task, whatever we think of them: those that name it first, then those
// that name a synonym, then those that seem to. With no task it lists all. Archived announcements are left out.
// It is called often: who offers what is looked up, and an answer is used again until something changes.
func (r *Registry) Offers(task string, kind int) []guild.Offer {
	now := r.c.Now()
	key := question{nip89.Word(task), kind}
	if offers, ok := r.answers.of(key, r.age(), now); ok {
		return offers
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	a := answer{age: r.age(), from: now, until: never()}
	if key.task == "" {
		for _, c := range r.index.cards {
			if c != nil {
				a.add(r, c, nip89.None, kind)
			}
		}
	} else {
		for n, fit := range r.index.matches(key.task, kind, r.synonyms[key.task]) {
			a.add(r, r.index.cards[n], fit, kind)
		}
	}
	slices.SortFunc(a.offers, func(a, b guild.Offer) int {
		return cmp.Or(-cmp.Compare(a.Confidence, b.Confidence), slices.Compare(a.Service.PubKey[:], b.Service.PubKey[:]),
			cmp.Compare(a.Service.D, b.Service.D))
	})
	r.answers.keep(key, a)
	return a.offers
}

// Offer is what a service announces; ok is false when it is not known.
func (r *Registry) Offer(s guild.Service) (offer guild.Offer, ok bool) {
	i, now := IDOf(s), r.c.Now()
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := r.index.find(i)
	if c == nil {
		return guild.Offer{}, false
	}
	p, _ := r.standing(c, now)
	return r.offer(c, p, nip89.None, 0), true
}

// offer makes an offer of a card. The lock must be held.
func (r *Registry) offer(c *card, p guild.Provider, fit nip89.Confidence, kind int) guild.Offer {
	said := unpack(c.said)
	return guild.Offer{
		Service: c.service(), Name: said.name, Tasks: said.tasks, Kinds: said.kinds, Relays: r.ranked(c, said),
		Encrypts: said.nip44, Recipient: said.recipient, Price: said.price, Slots: said.slots,
		Announced: int64(c.at), State: p.State, Until: p.Until,
		Confidence: float64(fit), Confirmed: slices.Contains(said.confirmed, kind), Recommended: len(r.praise.of(c.service())),
	}
}

// standing is what we decided about a service; for one that we have nothing to do with, what its age says. That
// holds until the given time, unless something else changes.
func (r *Registry) standing(c *card, now time.Time) (p guild.Provider, until time.Time) {
	known := r.partners.Standing(c.service())
	p = known.Provider
	last := time.Unix(max(int64(c.at), known.Heard/1000), 0)
	if p.State != guild.Seen {
		return p, never()
	}
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

// Latest is what a service announced last.
type Latest struct {
	At        int64 // Unix ms: of the announcement, or of its deletion; 0 if neither is known
	Announced bool  // it is announced now
	Version   string
	Sum       guild.Hash // of what is announced but for the relays
}

// Latest returns what a service announced last.
func (r *Registry) Latest(i ID) Latest {
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := r.index.find(i)
	if c == nil {
		return Latest{At: int64(r.gone[i]) * 1000}
	}
	said := unpack(c.said)
	return Latest{At: int64(c.at) * 1000, Announced: true, Version: said.version, Sum: said.sum()}
}

// Services lists the services that a key announces, in no order.
func (r *Registry) Services(key nostr.PubKey) (all []guild.Service) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, n := range r.index.keys[key] {
		all = append(all, r.index.cards[n].service())
	}
	return all
}

// never is later than any clock says.
func never() time.Time { return time.Unix(1<<40, 0) }

// age is the age of everything that an offer is made from but the cards: it grows with each decision.
func (r *Registry) age() [2]uint64 {
	a := [2]uint64{r.partners.Changes()}
	if r.c.Observed != nil {
		a[1] = r.c.Observed.Changes()
	}
	return a
}

// question is what Offers is asked.
type question struct {
	task string
	kind int
}

// answer is what it said, and how long that holds: nothing was decided or announced since, and no announcement has
// become stale or archived.
type answer struct {
	offers      []guild.Offer
	age         [2]uint64
	from, until time.Time
}

func (a *answer) add(r *Registry, c *card, fit nip89.Confidence, kind int) {
	p, until := r.standing(c, a.from)
	if until.Before(a.until) {
		a.until = until
	}
	if p.State != guild.Archived {
		a.offers = append(a.offers, r.offer(c, p, fit, kind))
	}
}
