package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
)

// Worth of a job, cost of waiting, and limits.
const (
	worth     guild.Msat = 100_000 // of an accepted delivery
	perSecond guild.Msat = 100     // cost of waiting
	patience             = 300 * time.Second
	tries                = 3 // providers asked for one job, without those at capacity
)

const day = 24 * time.Hour

// character is a provider's behaviour.
type character string

// The characters.
const (
	steady     character = "steady"
	slow       character = "slow"
	degrading  character = "degrading"
	flapping   character = "flapping"
	cheating   character = "cheating"
	colluding  character = "colluding"
	dead       character = "dead"
	dumping    character = "dumping"
	limited    character = "limited"
	recovering character = "recovering"
)

// cast has the number of providers of each character among 200.
var cast = []struct {
	character
	of int
}{
	{steady, 60}, {slow, 16}, {degrading, 20}, {flapping, 16}, {cheating, 16}, {colluding, 14}, {dead, 20}, {dumping, 16}, {limited, 12},
	{recovering, 10},
}

// condition is a provider's performance during a period. Shares are from 0 to 1.
type condition struct {
	from    time.Duration // since the market opened
	silent  float64       // share of requests that get no answer
	accept  float64       // share of deliveries that are accepted
	violate float64       // share of the other deliveries that try to break out of the sandbox
	latency time.Duration // mean
}

// provider is one provider of the market.
type provider struct {
	n      int
	signer *key.Signer
	pubkey nostr.PubKey
	character
	price      guild.Msat
	slots      int           // requests at the same time
	rest       time.Duration // pause of a slot after a job
	benchmark  condition     // performance in benchmarks, if it differs; otherwise accept is 0
	conditions []condition   // by from, the first at 0
	bad        []spell       // periods in which it is bad
	from       time.Duration // when it is announced
	earlier    *provider     // its earlier key, which it gives up first; nil if it has none
}

// spell is a period in which a provider is bad.
type spell struct{ from, to time.Duration }

// badAt returns the index of the spell at time t, or -1 if the provider is not bad then.
func (p *provider) badAt(t time.Duration) int {
	return slices.IndexFunc(p.bad, func(s spell) bool { return s.from <= t && t < s.to })
}

// service returns the announced service.
func (p *provider) service() guild.Service { return guild.Service{PubKey: p.pubkey, D: "python"} }

// at returns the provider's condition at time t.
func (p *provider) at(t time.Duration) condition {
	i, found := slices.BinarySearchFunc(p.conditions, t, func(c condition, t time.Duration) int { return int(c.from - t) })
	if found {
		return p.conditions[i]
	}
	return p.conditions[i-1]
}

// utility returns the expected value, in msat, of asking a provider with a free slot.
func (p *provider) utility(t time.Duration) float64 {
	c := p.at(t)
	answered := c.accept*float64(worth) - cost(c.latency)
	return (1-c.silent)*answered - c.silent*cost(patience) - float64(p.price)
}

// cost returns the cost of waiting, in msat.
func cost(d time.Duration) float64 { return d.Seconds() * float64(perSecond) }

// market has the providers and the jobs.
type market struct {
	seed      uint64
	days      int
	providers []*provider
	jobs      []time.Duration // times of the requests, ascending
	tasks     int             // number of tasks; 0 and 1 mean the same
}

// newMarket draws a market. Equal arguments give equal markets.
func newMarket(seed uint64, days, providers, perDay int) *market {
	m := &market{seed: seed, days: days}
	random := rand.New(rand.NewPCG(seed, 0x6d61726b6574))
	for _, kind := range castOf(providers) {
		m.providers = append(m.providers, newProvider(m, random, len(m.providers), kind))
	}
	random.Shuffle(len(m.providers), func(i, j int) { m.providers[i], m.providers[j] = m.providers[j], m.providers[i] })
	for n, p := range m.providers {
		p.n = n
	}
	m.demand(random, perDay)
	return m
}

// castOf returns n characters in the proportions of cast.
func castOf(n int) (all []character) {
	whole := 0
	for _, c := range cast {
		whole += c.of
	}
	for i := range n {
		at := (2*i + 1) * whole / (2 * n)
		for _, c := range cast {
			if at -= c.of; at < 0 {
				all = append(all, c.character)
				break
			}
		}
	}
	return all
}

// demand draws the times of the jobs: in bursts of up to twenty, more by day than by night.
func (m *market) demand(random *rand.Rand, perDay int) {
	for len(m.jobs) < perDay*m.days {
		at := time.Duration(random.Int64N(int64(m.days) * int64(day)))
		hour := at % day / time.Hour
		if (hour < 7 || hour >= 22) && random.IntN(3) > 0 {
			continue
		}
		for range 1 + random.IntN(20) {
			m.jobs = append(m.jobs, at.Truncate(time.Second))
		}
	}
	m.jobs = m.jobs[:perDay*m.days]
	slices.Sort(m.jobs)
}

// newProvider draws a provider with a character.
func newProvider(m *market, random *rand.Rand, n int, kind character) *provider {
	var secret nostr.SecretKey
	binary.BigEndian.PutUint64(secret[8:], m.seed+1)
	binary.BigEndian.PutUint64(secret[24:], uint64(n+1))
	k := key.NewSecret(secret)
	p := &provider{signer: key.NewSigner(k), pubkey: k.PubKey(), character: kind, slots: 1 + random.IntN(3)}
	between := func(a, b float64) float64 { return a + (b-a)*random.Float64() }
	days := func(a, b float64) time.Duration {
		return time.Duration(between(a, b) * float64(m.days) / 60 * float64(day))
	}
	p.price = guild.Msat(between(20_000, 40_000))
	fine := condition{accept: between(0.985, 0.998), latency: time.Duration(between(20, 80) * float64(time.Second))}
	poor := condition{accept: between(0.3, 0.5), silent: 0.1, latency: 2 * fine.latency}
	p.conditions = []condition{fine}
	end := time.Duration(m.days) * day
	switch kind {
	case slow:
		p.price = guild.Msat(between(15_000, 30_000))
		p.conditions[0].latency = time.Duration(between(160, 230) * float64(time.Second))
	case degrading:
		p.worsen(days(15, 45), end, poor)
	case flapping:
		hours := func(a, b float64) time.Duration { return time.Duration(between(a, b) * float64(time.Hour)) }
		out := fine
		out.silent = 0.9
		for at := hours(24, 96); at < end; at += hours(24, 120) {
			until := at + hours(6, 24)
			p.worsen(at, until, out)
			at = until
		}
	case cheating:
		p.bad = []spell{{0, end}}
		p.conditions[0].accept, p.conditions[0].violate = 0.95, 0.2
	case colluding:
		p.bad = []spell{{0, end}}
		p.benchmark = fine
		p.conditions[0].accept = between(0.45, 0.65)
	case dead:
		p.bad = []spell{{0, end}}
		p.price = guild.Msat(between(5_000, 30_000))
		p.conditions[0].silent = 1
	case dumping:
		p.bad = []spell{{0, end}}
		p.price = guild.Msat(between(1_000, 4_000))
		p.conditions[0].accept, p.conditions[0].silent = between(0.25, 0.45), 0.1
	case limited:
		p.price = guild.Msat(between(15_000, 25_000))
		p.slots, p.rest = 1, time.Duration(between(30, 90)*float64(time.Minute))
	case recovering:
		turns := days(8, 15)
		p.worsen(turns, turns+days(8, 14), condition{accept: 0.4, silent: 0.3, latency: fine.latency})
	}
	return p
}

// worsen gives the provider a bad period.
func (p *provider) worsen(from, to time.Duration, poor condition) {
	fine := p.conditions[0]
	poor.from, fine.from = from, to
	p.conditions = append(p.conditions, poor, fine)
	p.bad = append(p.bad, spell{from, to})
}

// ending is the result of one request.
type ending int

const (
	accepted ending = iota
	failed
	violated
	silent
	full // at capacity
)

// outcome is the result of a request and its duration.
type outcome struct {
	ending
	after time.Duration
}

// mix spreads similar numbers over all 64 bits (the finaliser of SplitMix64).
func mix(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// outcome draws the outcome of asking a provider with a free slot for a job. For the same provider, job and time it is
// the same for every router, so that two routers differ only by their choices.
func (m *market) outcome(p *provider, job uint64, t time.Duration, benchmark bool) outcome {
	c := p.at(t)
	if benchmark && p.benchmark.accept > 0 {
		c = p.benchmark
	}
	draws := rand.New(rand.NewPCG(mix(m.seed^mix(uint64(p.n))), mix(job)))
	speaks, fits, breaks, spread := draws.Float64(), draws.Float64(), draws.Float64(), draws.NormFloat64()
	const sigma = 0.25
	latency := time.Duration(float64(c.latency) * math.Exp(sigma*spread-sigma*sigma/2))
	latency = min(max(latency, 2*time.Second), patience-10*time.Second)
	switch {
	case speaks < c.silent:
		return outcome{silent, patience}
	case fits < c.accept:
		return outcome{accepted, latency}
	case breaks < c.violate:
		return outcome{violated, latency}
	}
	return outcome{failed, latency}
}

// random returns the random source of a router.
func (m *market) random(name string) *rand.Rand {
	n := mix(m.seed)
	for _, b := range []byte(name) {
		n = mix(n ^ uint64(b))
	}
	return rand.New(rand.NewPCG(n, 1))
}
