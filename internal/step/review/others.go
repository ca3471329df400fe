package review

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
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
	"guild/nipreview"
)

// Limits on the reviews by others that are kept. They are needed because anybody can write reviews and make keys to do
// so. They leave room in SEEN for the entries of the registry.
const (
	most         = 20_000   // reviews
	mostStored   = 48 << 20 // bytes in SEEN
	mostGone     = 5_000    // retracted reviews
	mostOfKey    = 1_000    // reviews by one reviewer that counts
	mostOfNobody = 32       // reviews by one that does not

	mostBytes = 32 << 10 // of one review, as JSON
	mostWords = 4 << 10  // of one review by a reviewer that does not count
	framing   = 256      // bytes that a message in SEEN takes beside its data, roughly
	maxShown  = 300      // bytes of a summary that are kept in memory
)

// seenPrefix begins the subjects of others' reviews in SEEN.
const seenPrefix = "review"

// place identifies a reviewer, a subject and a task. Only the newest review of a place counts.
type place [16]byte

func placeOf(reviewer, subject nostr.PubKey, task string) place {
	sum := guild.Sum(slices.Concat(reviewer[:], subject[:], []byte(nip89.Word(task))))
	return place(sum[:16])
}

func (p place) subject() string { return fmt.Sprintf("%s.%x", seenPrefix, p[:]) }

// opinion is a review by another key, reduced to the parts that are used.
type opinion struct {
	id, request       nostr.ID
	reviewer, subject nostr.PubKey
	at                nostr.Timestamp
	stars             nipreview.Stars
	task, service     string
	summary           string
	evidence          nipreview.Evidence // its receipt and the two hashes
	proven            bool               // the receipt was verified
	tried             int                // attempts to verify it
	stored            int                // bytes in SEEN
}

// others holds other keys' reviews in memory. SEEN holds the whole events.
//
// writes is locked before mu. It is held while memory and SEEN change together, so that both end with the same review
// of a place. mu guards the memory alone, so that readers do not wait for the journal.
type others struct {
	c      Config
	fold   *Fold
	follow map[nostr.PubKey]bool

	writes sync.Mutex // serializes changes of memory and SEEN
	mu     sync.RWMutex
	by     map[place]*opinion
	ids    map[nostr.ID]place
	about  map[nostr.PubKey]map[place]bool // by subject
	count  map[nostr.PubKey]int            // by reviewer
	stored int
	gone   map[place]nostr.Timestamp // retracted, with everything up to that time
	untold map[place]bool            // reviews with a receipt to verify
	line   []leaving                 // the next reviews to be removed when there is no room, the first first
	limit  int                       // most, or less in tests
}

func newOthers(c Config, f *Fold) *others {
	o := &others{c: c, fold: f, follow: map[nostr.PubKey]bool{}, by: map[place]*opinion{}, ids: map[nostr.ID]place{}, about: map[nostr.PubKey]map[place]bool{},
		count: map[nostr.PubKey]int{}, gone: map[place]nostr.Timestamp{}, untold: map[place]bool{}, limit: most}
	for _, key := range c.Follow {
		o.follow[key] = true
	}
	return o
}

// Observe handles a review by another key, or a deletion of one, that came from a relay. It returns a *guild.DropError
// for an event that changes nothing, but nil for this node's own events. It may be called from many goroutines.
func (r *Review) Observe(ctx context.Context, from string, v guild.Verified) error {
	e, o := v.Event(), r.others
	switch {
	case e.PubKey == r.c.PubKey:
		return nil
	case e.CreatedAt > nostr.Timestamp(r.c.Now().Add(time.Hour).Unix()):
		return guild.Drop(guild.Future, "kind %d of %s", e.Kind, e.CreatedAt.Time())
	case e.Kind == KindDeletion:
		return o.deleted(ctx, e)
	case e.Kind != Kind && e.Kind != KindSet:
		return guild.Drop(guild.Unexpected, "kind %d", e.Kind)
	}
	said, err := nipreview.Parse(e)
	if err != nil {
		return guild.Drop(guild.Malformed, "%v", err)
	}
	if said.Subject == said.Reviewer {
		return guild.Drop(guild.SelfReview, "%.8s of itself", e.PubKey.Hex())
	}
	return o.observe(ctx, from, e, said)
}

// observe stores a review in memory and in SEEN. Large reviews of keys that do not count are refused, so that strangers
// cannot fill the store with few events.
func (o *others) observe(ctx context.Context, from string, e nostr.Event, said nipreview.Review) error {
	raw, err := e.MarshalJSON()
	if err != nil {
		return guild.Drop(guild.Malformed, "%v", err)
	}
	if len(raw) > mostBytes || len(raw) > mostWords && !o.counts(e.PubKey) {
		return guild.Drop(guild.TooLarge, "a review of %d bytes", len(raw))
	}
	p := placeOf(said.Reviewer, said.Subject, said.Task)
	o.writes.Lock()
	defer o.writes.Unlock()
	left, news, err := o.put(p, opinionOf(said, len(raw)))
	if err != nil || !news {
		return err
	}
	for _, out := range left {
		if err := o.c.Journal.Unsee(ctx, out.subject()); err != nil {
			return err
		}
	}
	return o.keep(ctx, p, from, raw)
}

func opinionOf(said nipreview.Review, size int) *opinion {
	return &opinion{
		id: said.ID, request: said.Request, reviewer: said.Reviewer, subject: said.Subject, at: said.CreatedAt, stars: said.Stars, task: said.Task,
		service: nip89.CanonicalD(said.Service), summary: strings.Clone(guild.Cut(said.Summary, maxShown)),
		evidence: nipreview.Evidence{Receipt: said.Evidence.Receipt, ReceiptHash: said.Evidence.ReceiptHash, VerdictHash: said.Evidence.VerdictHash},
		stored:   size + framing,
	}
}

// counts reports whether reviews by a key have any weight.
func (o *others) counts(reviewer nostr.PubKey) bool {
	return o.follow[reviewer] || o.fold.Esteem(reviewer) > 0
}

// put stores a review in memory and returns the places that were removed to make room for it. news is false for a
// review that is known, also in the other of the two kinds.
//
// The limits for one key apply to new places only. A reviewer that has reached its limit can still replace its own
// reviews, which need no more room.
func (o *others) put(p place, now *opinion) (left []place, news bool, err error) {
	counts := o.counts(now.reviewer)
	o.mu.Lock()
	defer o.mu.Unlock()
	old, stored := o.by[p], o.stored+now.stored
	switch {
	case old != nil && old.at == now.at && !newer(now, old.at, old.id):
		return nil, false, nil
	case old != nil && !newer(now, old.at, old.id), o.gone[p] >= now.at:
		return nil, false, guild.Drop(guild.Outdated, "a review by %.8s", now.reviewer.Hex())
	case old != nil:
		stored -= old.stored
	case o.count[now.reviewer] >= mostOfKey, !counts && o.count[now.reviewer] >= mostOfNobody:
		return nil, false, guild.Drop(guild.Flood, "%d reviews by %.8s are known already", o.count[now.reviewer], now.reviewer.Hex())
	}
	fits := func(gone, freed int) bool {
		return (old != nil || len(o.by)-gone < o.limit) && stored-freed <= mostStored
	}
	if !fits(0, 0) {
		if left = o.makeRoom(now, counts, fits); len(left) == 0 {
			return nil, false, guild.Drop(guild.Flood, "%d reviews are known already", len(o.by))
		}
	}
	o.remove(p)
	o.add(p, now)
	if counts && !now.proven && now.verifiable() && o.c.Receipt != nil {
		o.untold[p] = true
	}
	return left, true, nil
}

// add stores a review in memory. The caller holds mu.
func (o *others) add(p place, now *opinion) {
	o.by[p], o.ids[now.id] = now, p
	if o.about[now.subject] == nil {
		o.about[now.subject] = map[place]bool{}
	}
	o.about[now.subject][p] = true
	o.count[now.reviewer]++
	o.stored += now.stored
	delete(o.gone, p)
}

// newer reports whether o replaces a review: it is later, or of the same second with the lower id.
func newer(o *opinion, at nostr.Timestamp, id nostr.ID) bool {
	return o.at > at || o.at == at && slices.Compare(o.id[:], id[:]) < 0
}

// leaving is a candidate for removal.
type leaving struct {
	place place
	id    nostr.ID
	at    nostr.Timestamp
}

// makeRoom removes the oldest reviews by keys that do not count until fits is true. It removes none if that is not
// enough. A newcomer that does not count either only replaces older reviews.
func (o *others) makeRoom(newcomer *opinion, counts bool, fits func(gone, freed int) bool) (left []place) {
	for range 2 {
		left = nil
		for n, freed := 0, 0; n < len(o.line); n++ {
			old := o.by[o.line[n].place]
			if old == nil || old.id != o.line[n].id || old.subject == newcomer.subject && old.reviewer == newcomer.reviewer || o.counts(old.reviewer) {
				continue
			}
			if !counts && old.at >= newcomer.at {
				return nil
			}
			left, freed = append(left, o.line[n].place), freed+old.stored
			if fits(len(left), freed) {
				o.line = o.line[n+1:]
				for _, p := range left {
					o.remove(p)
				}
				return left
			}
		}
		o.line = o.lineUp()
	}
	return nil
}

// lineUp lists the reviews to remove next. It sorts once for many removals. Otherwise each event of a flood would make
// the node look at all reviews.
func (o *others) lineUp() []leaving {
	var all []leaving
	known := map[nostr.PubKey]bool{}
	for p, old := range o.by {
		if _, ok := known[old.reviewer]; !ok {
			known[old.reviewer] = o.counts(old.reviewer)
		}
		if !known[old.reviewer] {
			all = append(all, leaving{p, old.id, old.at})
		}
	}
	slices.SortFunc(all, func(a, b leaving) int { return cmp.Or(cmp.Compare(a.at, b.at), slices.Compare(a.place[:], b.place[:])) })
	return slices.Clone(all[:min(len(all), len(all)/64+1)])
}

// remove removes a review from memory. The caller holds mu.
func (o *others) remove(p place) {
	old := o.by[p]
	if old == nil {
		return
	}
	delete(o.by, p)
	delete(o.ids, old.id)
	delete(o.untold, p)
	o.stored -= old.stored
	delete(o.about[old.subject], p)
	if len(o.about[old.subject]) == 0 {
		delete(o.about, old.subject)
	}
	o.count[old.reviewer]--
	if o.count[old.reviewer] == 0 {
		delete(o.count, old.reviewer)
	}
}

// sighting is the first line of a message in SEEN, as JSON. The second line is the event as it came. A retracted review
// has no second line.
type sighting struct {
	From   string          `json:"from,omitempty"` // relay
	Proven bool            `json:"proven,omitempty"`
	Gone   nostr.Timestamp `json:"gone,omitempty"` // everything up to this time was retracted
}

// keep writes a review to SEEN.
func (o *others) keep(ctx context.Context, p place, from string, raw []byte) error {
	o.mu.RLock()
	head, err := json.Marshal(sighting{From: guild.Cut(from, nipreview.MaxValue), Proven: o.by[p] != nil && o.by[p].proven})
	o.mu.RUnlock()
	if err != nil {
		return fmt.Errorf("save a review: %w", err)
	}
	return o.c.Journal.See(ctx, p.subject(), append(append(head, '\n'), raw...))
}

// recall reads SEEN into memory. The events were verified before they were stored. Reviews for which there is no room
// are removed from SEEN as well.
func (o *others) recall(ctx context.Context) error {
	var left []string
	for m, err := range o.c.Journal.Seen(ctx, seenPrefix) {
		if err != nil {
			return err
		}
		left = append(left, o.remember(m)...)
	}
	for _, subject := range left {
		if err := o.c.Journal.Unsee(ctx, subject); err != nil {
			return err
		}
	}
	return nil
}

// remember reads one message of SEEN and returns the subjects that recall has to remove.
func (o *others) remember(m journal.SeenMessage) (left []string) {
	p, s, e, err := parseSighting(m)
	if err != nil {
		return []string{m.Subject}
	}
	if s.Gone != 0 {
		o.gone[p] = s.Gone
		return nil
	}
	said, err := nipreview.Parse(e)
	if err != nil {
		return []string{m.Subject}
	}
	_, raw, _ := bytes.Cut(m.Data, []byte{'\n'})
	now := opinionOf(said, len(raw))
	now.proven = s.Proven
	out, _, err := o.put(p, now)
	if err != nil {
		return []string{m.Subject}
	}
	for _, p := range out {
		left = append(left, p.subject())
	}
	return left
}

// parseSighting reads a message of SEEN.
func parseSighting(m journal.SeenMessage) (p place, s sighting, e nostr.Event, err error) {
	digits := strings.TrimPrefix(m.Subject, seenPrefix+".")
	if len(digits) != hex.EncodedLen(len(p)) {
		return p, s, e, fmt.Errorf("entry %q is not a review", m.Subject)
	}
	if _, err = hex.Decode(p[:], []byte(digits)); err != nil {
		return p, s, e, err
	}
	head, raw, _ := bytes.Cut(m.Data, []byte{'\n'})
	if err = json.Unmarshal(head, &s); err == nil && s.Gone == 0 {
		err = e.UnmarshalJSON(raw)
	}
	return p, s, e, err
}
