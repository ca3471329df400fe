package scout

import (
	"cmp"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"time"
)

// Intervals between looks at a relay (the partnership protocol, section 1.2.1).
const (
	everyPolled  = 5 * time.Minute
	everySampled = time.Hour // on average
)

// Limits on relays. Anyone can name relays in an announcement. That must not make a node connect to every host, or to
// one host many times.
const (
	mostPersistent = 8 // besides those of the configuration
	mostPolled     = 32
	mostSampled    = 200
	mostOfHost     = 2
)

// place holds one relay and its record. The file has the exported fields.
type place struct {
	URL    string  `json:"url"`
	Tier   Tier    `json:"tier"`
	Looks  int     `json:"looks"`  // since it entered the tier
	Yield  float64 `json:"yield"`  // see Status
	Stable float64 `json:"stable"` // see Status
	Looked int64   `json:"looked"` // Unix ms

	ours  bool
	busy  bool          // a look is running
	whole bool          // all its announcements were read since the start
	due   time.Time     // time of the next look
	came  int           // new events since the last look; used in the first tier
	wait  time.Duration // expected until the relay answers, as measured
}

const (
	memory  = 12 * time.Hour // age at which the weight of a yield is 1/e
	trusted = 0.2            // weight of one look in Stable
)

// looked records one look: whether the relay answered, and how many events it was the first to send.
func (p *place) looked(now time.Time, answered bool, events int) {
	stable := 0.0
	if answered {
		stable = 1
		// The events of the first look count as those of a day, because the query goes back a day.
		since := lookBack
		if p.Looked != 0 {
			since = min(max(now.Sub(time.UnixMilli(p.Looked)), time.Minute), lookBack)
		}
		rate, weight := float64(events)/since.Hours(), 1-math.Exp(-since.Hours()/memory.Hours())
		if p.Looked == 0 {
			weight = 1
		}
		p.Yield += weight * (rate - p.Yield)
	}
	if p.Looked == 0 {
		p.Stable = stable
	}
	p.Stable += trusted * (stable - p.Stable)
	p.Looks++
	p.Looked = now.UnixMilli()
	p.due = p.again(now)
}

// again returns the time of the next look. Looks of the third tier are spread at random, so that they do not all happen
// at once.
func (p *place) again(now time.Time) time.Time {
	last := time.UnixMilli(p.Looked)
	if p.Looked == 0 || last.After(now) || now.Sub(last) > 2*everySampled {
		return now.Add(rand.N(everyPolled)) // never looked at, or long ago
	}
	if p.Tier == Sampled {
		return last.Add(everySampled/2 + rand.N(everySampled))
	}
	return last.Add(everyPolled)
}

// Thresholds between tiers. The thresholds to fall are well below those to rise, and a relay can fall only after some
// looks in its tier. Otherwise it could move up and down with every look.
const (
	looksToPoll = 3 // about as many hours
	looksToStay = 12
	looksToFall = 12

	looksToGiveWay = 24 // a day in the third tier

	stableToPoll, stableToStay = 0.8, 0.95
	stableOfStay, stableOfPoll = 0.8, 0.5

	yieldToPoll, yieldToStay = 0.05, 0.5 // per hour: about one a day, and twelve a day
	yieldOfStay, yieldOfPoll = 0.1, 0.01
)

// next returns the tier that a relay qualifies for.
func (p *place) next() Tier {
	rises := func(looks int, stable, yield float64) bool {
		return p.Looks >= looks && p.Stable >= stable && p.Yield >= yield
	}
	falls := func(stable, yield float64) bool {
		return p.Looks >= looksToFall && (p.Stable < stable || p.Yield < yield)
	}
	switch {
	case p.ours:
		return Persistent
	case p.Tier == Sampled && rises(looksToPoll, stableToPoll, yieldToPoll):
		return Polled
	case p.Tier == Polled && rises(looksToStay, stableToStay, yieldToStay):
		return Persistent
	case p.Tier == Polled && falls(stableOfPoll, yieldOfPoll):
		return Sampled
	case p.Tier == Persistent && falls(stableOfStay, yieldOfStay):
		return Polled
	}
	return p.Tier
}

func (p *place) move(to Tier, now time.Time) {
	if p.Tier != to {
		p.Tier, p.Looks, p.came = to, 0, 0
		p.due = p.again(now)
	}
}

// worth orders relays of one tier: the new events that a relay can be expected to send, the less the longer it takes to
// answer. A relay that takes a second counts a half.
func (p *place) worth() float64 { return p.Yield * p.Stable / (1 + p.wait.Seconds()) }

// settle moves each relay to the tier that it qualifies for, if there is room.
func settle(all []*place, now time.Time) {
	for _, p := range all {
		p.move(p.next(), now)
	}
	crowd(all, Persistent, mostPersistent, now)
	crowd(all, Polled, mostPolled, now)
}

// crowd moves the worst relays of a tier down while it has too many. A relay that was there before counts twice as much
// as a new one, so that two similar relays do not keep replacing each other.
func crowd(all []*place, tier Tier, most int, now time.Time) {
	var in []*place
	for _, p := range all {
		if p.Tier == tier && !p.ours {
			in = append(in, p)
		}
	}
	if len(in) <= most {
		return
	}
	worth := func(p *place) float64 {
		if p.Looks > 0 {
			return 2 * p.worth()
		}
		return p.worth()
	}
	slices.SortFunc(in, func(a, b *place) int {
		return cmp.Or(cmp.Compare(worth(b), worth(a)), cmp.Compare(a.URL, b.URL))
	})
	for _, p := range in[most:] {
		p.move(tier+1, now)
	}
}

// admit takes a new relay into the third tier if there is room, and may drop an idle one for it. It returns false if
// there is no room for any more.
func admit(places map[string]*place, url string, now time.Time) bool {
	if places[url] != nil {
		return true
	}
	sampled, sameHost := 0, 0
	var least *place
	for _, p := range places {
		if hostOf(p.URL) == hostOf(url) {
			sameHost++
		}
		if p.Tier != Sampled || p.ours {
			continue
		}
		sampled++
		if p.idle() && (least == nil || p.Looks > least.Looks) {
			least = p
		}
	}
	if sameHost >= mostOfHost {
		return true
	}
	// The tier is full: replace the idle relay with the most looks, for which the verdict is the surest.
	if sampled >= mostSampled {
		if least == nil {
			return false
		}
		delete(places, least.URL)
	}
	p := &place{URL: url, Tier: Sampled}
	p.due = p.again(now)
	places[url] = p
	return true
}

// idle reports whether a relay of the third tier may be dropped: it was unstable, or yielded nothing for a day.
func (p *place) idle() bool {
	return !p.busy && (p.Looks >= looksToPoll && p.Stable < stableOfPoll || p.Looks >= looksToGiveWay && p.Yield < yieldOfPoll)
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Hostname()
}
