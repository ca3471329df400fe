// Package registry is the step that discovers: it reads announcements (NIP-89), keeps who offers what, and
// owns the state of each provider (the fact provider.moved). What strangers announce is kept in the journal's
// SEEN stream, which anybody may fill and which relays can give back; what we decide about a provider is a
// fact. It never asks a provider for anything.
package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/nip89"
)

// Kinds that the registry takes.
const (
	Kind         = nip89.Kind
	KindRelays   = nostr.Kind(10002)
	KindDeletion = nostr.Kind(5)
)

// most is the number of services, and of relay lists, that are kept in memory: strangers write them.
const most = 200_000

// Config says what a registry needs.
type Config struct {
	Journal *journal.Journal
	Now     func() time.Time

	Synonyms map[string][]string // task → other words for it
	Changed  func()              // called after the offers have changed, if not nil
	Observed *Observed           // what was measured; nil for nothing
	Follow   []nostr.PubKey      // whose recommendations count
}

// Registry knows who announced what, and how we stand with each.
type Registry struct {
	c     Config
	fold  *Fold
	mu    sync.RWMutex
	cards map[guild.Service]card
	gone  map[guild.Service]nostr.Timestamp // taken back by their author
	reads map[nostr.PubKey]relayList        // NIP-65
}

type card struct {
	nip89.Handler
	id nostr.ID
}

type relayList struct {
	at   nostr.Timestamp
	id   nostr.ID
	urls []string
}

// Open reads back what was seen before.
func Open(ctx context.Context, c Config, f *Fold) (*Registry, error) {
	r := &Registry{c: c, fold: f, cards: map[guild.Service]card{},
		gone: map[guild.Service]nostr.Timestamp{}, reads: map[nostr.PubKey]relayList{}}
	for m, err := range c.Journal.Seen(ctx, "registry") {
		if err != nil {
			return nil, fmt.Errorf("what was seen of providers: %w", err)
		}
		var e nostr.Event
		if json.Unmarshal(m.Data, &e) == nil {
			r.take(e) // what is stored was verified when it came, and a card too old to count is harmless
		}
	}
	return r, nil
}

// Observe takes an announcement, a relay list or a deletion of an announcement. What changes nothing is a
// *guild.DropError.
func (r *Registry) Observe(ctx context.Context, from string, v guild.Verified) error {
	e := v.Event()
	subject, err := r.take(e)
	if err != nil || subject == "" {
		return err // "" is what a relay sends again
	}
	if r.c.Changed != nil {
		r.c.Changed()
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("announcement %.8s: %w", e.ID.Hex(), err)
	}
	return r.c.Journal.See(ctx, "registry."+subject, raw)
}

// take changes the memory by an event and returns where it is to be kept.
func (r *Registry) take(e nostr.Event) (subject string, err error) {
	if e.CreatedAt > nostr.Timestamp(r.c.Now().Add(time.Hour).Unix()) {
		return "", guild.Drop(guild.Future, "kind %d of %s", e.Kind, e.CreatedAt.Time())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case Kind:
		return r.announced(e)
	case KindRelays:
		return r.listed(e)
	case KindDeletion:
		return r.deleted(e)
	}
	return "", guild.Drop(guild.Unexpected, "kind %d", e.Kind)
}

func (r *Registry) announced(e nostr.Event) (string, error) {
	h, err := nip89.Parse(e)
	if err != nil {
		return "", guild.Drop(guild.Malformed, "%v", err)
	}
	service := h.Service()
	if old, ok := r.cards[service]; ok && old.id == e.ID {
		return "", nil
	} else if ok && !newer(e, old.CreatedAt, old.id) || r.gone[service] >= e.CreatedAt {
		return "", guild.Drop(guild.Outdated, "announcement %q", h.D)
	} else if !ok && len(r.cards) >= most {
		return "", guild.Drop(guild.Flood, "%d services are known already", most)
	}
	r.cards[service] = card{h, e.ID}
	delete(r.gone, service)
	return place(service), nil
}

func (r *Registry) listed(e nostr.Event) (string, error) {
	if old, ok := r.reads[e.PubKey]; ok && !newer(e, old.at, old.id) {
		return "", guild.Drop(guild.Outdated, "relay list")
	}
	list := relayList{at: e.CreatedAt, id: e.ID}
	for _, t := range e.Tags {
		const relays = 16
		if len(t) >= 2 && t[0] == "r" && (len(t) == 2 || t[2] == "read") && len(list.urls) < relays {
			list.urls = append(list.urls, t[1])
		}
	}
	if _, ok := r.reads[e.PubKey]; !ok && len(r.reads) >= most {
		return "", guild.Drop(guild.Flood, "%d relay lists are known already", most)
	}
	r.reads[e.PubKey] = list
	return "relays." + e.PubKey.Hex(), nil
}

// deleted takes back the announcements that a deletion names by address (NIP-09) and that are its author's.
func (r *Registry) deleted(e nostr.Event) (subject string, err error) {
	err = guild.Drop(guild.Misdirected, "deletion of nothing we know")
	prefix := fmt.Sprintf("%d:%s:", Kind, e.PubKey.Hex())
	for _, t := range e.Tags {
		if len(t) < 2 || t[0] != "a" || !strings.HasPrefix(t[1], prefix) {
			continue
		}
		service := nip89.Handler{PubKey: e.PubKey, D: t[1][len(prefix):]}.Service()
		switch old, ok := r.cards[service]; {
		case r.gone[service] >= e.CreatedAt: // a relay sends it again
			err = nil
		case !ok && len(r.gone) >= most: // what was never seen need not be forgotten
			err = nil
		case !ok || old.CreatedAt <= e.CreatedAt:
			delete(r.cards, service)
			r.gone[service] = e.CreatedAt
			subject, err = cmp.Or(subject, place(service)), nil
		}
	}
	return subject, err
}

// newer says whether e replaces an event of that time and id: the newest wins, then the lowest id.
func newer(e nostr.Event, at nostr.Timestamp, id nostr.ID) bool {
	return e.CreatedAt > at || e.CreatedAt == at && slices.Compare(e.ID[:], id[:]) < 0
}

// place is the subject that a service's announcement is kept under: one message for each service.
func place(s guild.Service) string {
	return "card." + s.PubKey.Hex() + "." + guild.Sum([]byte(s.D)).Hex()[:16]
}

// Offers lists the services that offer a task, whatever we think of them: those that name it first, then those
// that name a synonym, then those that seem to. With no task it lists all. Archived announcements are left out.
func (r *Registry) Offers(task string, kind int) []guild.Offer {
	now := r.c.Now()
	type ranked struct {
		guild.Offer
		fit nip89.Confidence
	}
	var found []ranked
	r.mu.RLock()
	for service, c := range r.cards {
		fit := nip89.Exact
		if task != "" {
			fit = c.Confidence(kind, task, r.c.Synonyms)
		}
		if fit > nip89.None && nip89.AgeOf(c.CreatedAt, now) != nip89.Archived {
			found = append(found, ranked{r.offer(service, c, now), fit})
		}
	}
	r.mu.RUnlock()
	slices.SortFunc(found, func(a, b ranked) int {
		return cmp.Or(-cmp.Compare(a.fit, b.fit), slices.Compare(a.Service.PubKey[:], b.Service.PubKey[:]),
			cmp.Compare(a.Service.D, b.Service.D))
	})
	offers := make([]guild.Offer, len(found))
	for i, f := range found {
		offers[i] = f.Offer
	}
	return offers
}

func (r *Registry) offer(s guild.Service, c card, now time.Time) guild.Offer {
	p := r.fold.Provider(s)
	if p.State == guild.Seen && nip89.AgeOf(c.CreatedAt, now) == nip89.Stale {
		p.State = guild.Stale
	}
	relays := slices.Concat(c.Relays, r.reads[s.PubKey].urls)
	slices.Sort(relays[len(c.Relays):])
	return guild.Offer{
		Service: s, Name: c.Name, Tasks: c.Tasks, Kinds: c.Kinds, Relays: unique(relays),
		Encrypts: c.Accepts("nip44"), Recipient: c.AgeRecipient, Price: c.Price, Slots: c.MaxConcurrent,
		Announced: int64(c.CreatedAt), State: p.State, Until: p.Until,
	}
}

// unique drops repetitions and keeps the order.
func unique(urls []string) []string {
	var once []string
	for _, u := range urls {
		if !slices.Contains(once, u) {
			once = append(once, u)
		}
	}
	return once
}

// Name is what a provider calls one of its services, or "" when it is not known.
func (r *Registry) Name(s guild.Service) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.cards[s].Name
}

// Len is the number of services known.
func (r *Registry) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.cards)
}
