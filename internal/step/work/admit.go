package work

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip13"
	"golang.org/x/time/rate"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// Terms are the conditions on which a service takes requests.
type Terms struct {
	Allow     []nostr.PubKey // who may ask; everybody if empty
	MinBid    guild.Msat     // a lower bid is refused
	PoW       int            // leading zero bits that a request's id must have (NIP-13)
	PerMinute int            // requests of one customer; any number if zero
	Each      int            // unfinished requests of one customer; as many as are done at a time, and half of the queue, if zero
}

// refusal is why a request is not taken: in a word for our counters, and in a sentence for its customer.
type refusal struct {
	reason guild.Reason
	text   string
	amount guild.Msat // what would be enough, where that is the reason
	spam   bool       // the customer asks too often
}

// tooOften is a refusal that its customer alone has caused.
func tooOften(format string, args ...any) *refusal {
	why := refuse(guild.Flood, format, args...)
	why.spam = true
	return why
}

func refuse(r guild.Reason, format string, args ...any) *refusal {
	return &refusal{reason: r, text: fmt.Sprintf(format, args...)}
}

// admit says why a service does not take a request, or nil. What a request itself shows comes first, what costs
// its customer a place or a turn comes last.
func (w *Work) admit(s Service, e nostr.Event, r nip90.Request) *refusal {
	switch {
	case w.Draining():
		return refuse(guild.Flood, "at capacity, try again later")
	case w.state(s.D) != Open:
		return refuse(guild.Flood, "paused: busy, try again later")
	}
	if refused := s.Terms.check(e, r); refused != nil {
		return refused
	}
	if err := w.check(r); err != nil {
		return refuse(guild.Malformed, "%v", err)
	}
	if s.Check != nil {
		if err := s.Check(r); err != nil {
			return refuse(guild.Malformed, "%v", err)
		}
	}
	if !w.doors.enters(s, e.PubKey, w.c.Now()) {
		return tooOften("busy: %d requests of one customer in a minute, try again later", s.Terms.PerMinute)
	}
	all, theirs := w.fold.waiting(s.D, e.PubKey)
	if refused := w.scored(s, e.PubKey, theirs); refused != nil {
		return refused
	}
	repeats := w.fold.standing(e.PubKey, r.Get(nip90.ParamIdempotencyKey)) != nostr.ID{}
	switch {
	case repeats && !w.doors.spares(e.PubKey, w.c.Now()):
		return tooOften("busy: it repeats another request, and you repeat too many, try again later")
	case all >= s.Slots+s.Queue:
		return refuse(guild.Flood, "at capacity, try again later")
	case theirs >= s.Terms.Each:
		return tooOften("at capacity: %d of your requests are not finished, try again later", theirs)
	case len(s.Terms.Allow) == 0 && !w.fold.hasServed(e.PubKey) && !w.doors.welcomes(w.c.Now()):
		return refuse(guild.Flood, "busy: too many new customers, try again later")
	}
	return nil
}

// scored says why a customer is not served by what was seen of it, or nil. Whom the owner lists is not scored.
func (w *Work) scored(s Service, p nostr.PubKey, unfinished int) *refusal {
	if w.c.Customers == nil || slices.Contains(s.Terms.Allow, p) {
		return nil
	}
	limits := w.c.Customers.policy
	score := w.c.Customers.Score(w.c.Customers.Of(p), w.doors.refusals(p, w.c.Now()))
	switch {
	case score < limits.Lowest:
		return refuse(lowScore, "not taken: too many of your earlier requests here came to nothing")
	case score < limits.Low && unfinished > 0:
		return refuse(guild.Flood, "at capacity: you may have one request here at a time, try again later")
	}
	return nil
}

// check says what of the terms a request does not meet, or nil.
func (t Terms) check(e nostr.Event, r nip90.Request) *refusal {
	switch {
	case len(t.Allow) > 0 && !slices.Contains(t.Allow, e.PubKey):
		return refuse(unlisted, "this service is only for customers that its owner lists, and you are not among them")
	case difficulty(e) < t.PoW:
		return tooLittle(t.PoW, e)
	case r.Bid < t.MinBid:
		refused := refuse(lowBid, "the least bid is %d msat, and this request bids %d", int64(t.MinBid), int64(r.Bid))
		refused.amount = t.MinBid
		return refused
	}
	return nil
}

// Why a request that does not meet the terms is dropped.
const (
	unlisted guild.Reason = "customer not listed"
	lowBid   guild.Reason = "bid too low"
	lowWork  guild.Reason = "too little proof of work"
	lowScore guild.Reason = "customer scored too low"
)

func tooLittle(bits int, e nostr.Event) *refusal {
	return refuse(lowWork, "proof of work is wanted: %d bits (NIP-13), and this request has %d", bits, difficulty(e))
}

// difficulty is the proof of work of a request (NIP-13): the leading zero bits of its id, and no more than its
// nonce tag was after, so that luck is no work.
func difficulty(e nostr.Event) int {
	bits := nip13.Difficulty(e.ID)
	if nonce := e.Tags.Find("nonce"); len(nonce) > 2 {
		target, err := strconv.Atoi(nonce[2])
		if err != nil || target < 0 {
			return 0
		}
		return min(bits, target)
	}
	return bits
}

// leastWork is the proof of work that every service wants: what has less is not worth decrypting.
func (w *Work) leastWork() int {
	least := -1
	for _, s := range w.services {
		if least < 0 || s.Terms.PoW < least {
			least = s.Terms.PoW
		}
	}
	return max(0, least)
}

// turnDown tells a customer why its request is not taken, unless it or everybody was told enough already: a flood
// of requests must not make us publish a flood. It is no fact: strangers must not be able to fill the journal.
func (w *Work) turnDown(from string, e nostr.Event, r nip90.Request, why *refusal) error {
	dropped := guild.Drop(why.reason, "request %.8s: %.200s", e.ID.Hex(), why.text)
	if e.Tags.FindWithValue("p", w.c.PubKey.Hex()) == nil {
		return dropped // who asked nobody by name is waiting for those who would
	}
	if why.spam {
		w.doors.refused(e.PubKey, w.c.Now())
	}
	if !w.doors.tells(e.PubKey, w.c.Now()) {
		w.c.Log.Debug("a request is refused without a word", "request", e.ID.Hex(), "why", why.text)
		return dropped
	}
	received := fact.RequestReceived{Request: e.ID, Customer: e.PubKey, Encrypted: r.Encrypted != "", Relays: r.Relays, From: from}
	say := nip90.Feedback{Status: nip90.Error, Text: guild.Cut(why.text, 500), Amount: why.amount}
	select {
	case w.talk <- told{request: received, say: say}:
	default:
		w.c.Log.Debug("too busy to decline a request", "request", e.ID.Hex())
	}
	return dropped
}

// isSealed reports whether a request is encrypted, without decrypting it.
func isSealed(e nostr.Event) string {
	if _, err := nip90.ParseRequest(e, nil); errors.Is(err, nip90.ErrEncrypted) {
		return nip90.NIP44
	}
	return ""
}

// How often we tell that we refuse: everybody together, and one customer.
const (
	tellAll, tellAllBurst = rate.Limit(5), 100
	tellOne, tellOneBurst = rate.Limit(0.5), 20
)

// How often what costs a customer no worker becomes a fact: requests that repeat another, and taking one back.
const (
	spareAll, spareAllBurst = rate.Limit(5), 300
	spareOne, spareOneBurst = rate.Limit(0.5), 30
)

// How many requests of customers become facts whom we never delivered to and whom nobody lists: of all of them
// together, because each may have as many keys as it likes.
const newcomersAll, newcomersBurst = rate.Limit(5), 300

// maxKnown is the number of customers whose pace is remembered.
const maxKnown = 4096

// doors remembers how often customers came lately. It is lost with the process, and nothing depends on that.
type doors struct {
	mu      sync.Mutex
	entered map[visitor]*rate.Limiter
	told    map[visitor]*rate.Limiter
	spared  map[visitor]*rate.Limiter
	floods  map[nostr.PubKey]flood

	toldAll, sparedAll, newcomers *rate.Limiter
}

// visitor is a customer at a service; at none where it is told of refusals.
type visitor struct {
	customer nostr.PubKey
	service  string
}

func newDoors() *doors {
	return &doors{
		entered: map[visitor]*rate.Limiter{}, told: map[visitor]*rate.Limiter{}, spared: map[visitor]*rate.Limiter{},
		floods:  map[nostr.PubKey]flood{},
		toldAll: rate.NewLimiter(tellAll, tellAllBurst), sparedAll: rate.NewLimiter(spareAll, spareAllBurst),
		newcomers: rate.NewLimiter(newcomersAll, newcomersBurst),
	}
}

// flood is how often a customer was refused within an hour for asking too often.
type flood struct {
	hour int64 // Unix time in hours
	n    int
}

// refused counts a refusal for asking too often.
func (d *doors) refused(p nostr.PubKey, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, hour := d.floods[p], now.Unix()/3600
	if f.hour != hour {
		f = flood{hour: hour, n: f.n / 2}
	}
	if _, known := d.floods[p]; !known && len(d.floods) >= maxKnown {
		maps.DeleteFunc(d.floods, func(_ nostr.PubKey, f flood) bool { return f.hour != hour })
	}
	if len(d.floods) < maxKnown {
		f.n++
		d.floods[p] = f
	}
}

// refusals is how often a customer was refused lately for asking too often.
func (d *doors) refusals(p nostr.PubKey, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.floods[p]
	if hours := now.Unix()/3600 - f.hour; hours > 0 {
		return f.n >> min(hours, 30)
	}
	return f.n
}

// enters counts a request of a customer, and reports whether it is within what the service takes in a minute.
func (d *doors) enters(s Service, p nostr.PubKey, now time.Time) bool {
	if s.Terms.PerMinute == 0 {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return pace(d.entered, visitor{p, s.D}, rate.Limit(s.Terms.PerMinute)/60, s.Terms.PerMinute, now).AllowN(now, 1)
}

// welcomes counts a request of a customer who was never served, and reports whether it may become a fact.
func (d *doors) welcomes(now time.Time) bool { return d.newcomers.AllowN(now, 1) }

// tells counts a refusal, and reports whether its customer is told of it.
func (d *doors) tells(p nostr.PubKey, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return pace(d.told, visitor{customer: p}, tellOne, tellOneBurst, now).AllowN(now, 1) && d.toldAll.AllowN(now, 1)
}

// spares counts what costs a customer no worker, and reports whether it may become a fact: strangers must not be
// able to fill the journal with what is done at once.
func (d *doors) spares(p nostr.PubKey, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return pace(d.spared, visitor{customer: p}, spareOne, spareOneBurst, now).AllowN(now, 1) && d.sparedAll.AllowN(now, 1)
}

// pace is the limiter of a visitor. When there are too many, those who have rested are forgotten, which changes
// nothing for them; when nobody has, all are.
func pace(of map[visitor]*rate.Limiter, v visitor, limit rate.Limit, burst int, now time.Time) *rate.Limiter {
	if l := of[v]; l != nil {
		return l
	}
	if len(of) >= maxKnown {
		maps.DeleteFunc(of, func(_ visitor, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) })
	}
	if len(of) >= maxKnown {
		clear(of)
	}
	of[v] = rate.NewLimiter(limit, burst)
	return of[v]
}
