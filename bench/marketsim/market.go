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

// What a job is worth, and what waiting for it costs.
const (
	worth     guild.Msat = 100_000 // of an accepted delivery
	perSecond guild.Msat = 100     // of waiting
	patience             = 300 * time.Second
	tries                = 3  // providers that are asked for one job, not counting those that have no room
	asks                 = 20 // and counting them
)

const day = 24 * time.Hour

// character is how a provider behaves.
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

// cast is how many of 200 providers have each character.
var cast = []struct {
	character
	of int
}{
	{steady, 60}, {slow, 16}, {degrading, 20}, {flapping, 16}, {cheating, 16}, {colluding, 14}, {dead, 20}, {dumping, 16}, {limited, 12},
	{recovering, 10},
}

// condition is how a provider does during some time. Shares are from 0 to 1.
type condition struct {
	from    time.Duration // since the market opened
	silent  float64       // share of the requests that it never answers
	accept  float64       // share of its deliveries that are accepted
	violate float64       // share of the others that try to break out of the sandbox
	latency time.Duration // mean
}

// provider is one of the market's.
type provider struct {
	n      int
	signer *key.Signer
	pubkey nostr.PubKey
	character
	price      guild.Msat
	slots      int           // requests that it does at a time
	rest       time.Duration // that a slot needs after a job
	benchmark  condition     // on benchmarks, where it is another: accept is 0 where it is not
	conditions []condition   // by from, the first at 0
	bad        []spell       // when it is not what it seems
}

// spell is a time in which a provider is bad.
type spell struct{ from, to time.Duration }

// badAt is the spell in which a provider is bad at a time, -1 when it is not.
func (p *provider) badAt(t time.Duration) int {
	return slices.IndexFunc(p.bad, func(s spell) bool { return s.from <= t && t < s.to })
}

// service is what a provider announces.
func (p *provider) service() guild.Service { return guild.Service{PubKey: p.pubkey, D: "python"} }

// at is how the provider does at a time.
func (p *provider) at(t time.Duration) condition {
	i, found := slices.BinarySearchFunc(p.conditions, t, func(c condition, t time.Duration) int { return int(c.from - t) })
	if found {
		return p.conditions[i]
	}
	return p.conditions[i-1]
}

// utility is what asking a provider that has room comes to on average, in msat.
func (p *provider) utility(t time.Duration) float64 { return p.worthOf(p.at(t)) }

func (p *provider) worthOf(c condition) float64 {
	answered := c.accept*float64(worth) - cost(c.latency)
	return (1-c.silent)*answered - c.silent*cost(patience) - float64(p.price)
}

// cost is what waiting costs.
func cost(d time.Duration) float64 { return d.Seconds() * float64(perSecond) }

// market is who offers, and what is asked for.
type market struct {
	seed      uint64
	days      int
	providers []*provider
	jobs      []time.Duration // when each is asked for, ascending
}

// newMarket draws a market from a seed: the same one always the same.
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

// castOf is n characters in the shares of the cast.
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

// demand draws when jobs are asked for: in bursts of up to twenty, more of them by day than by night.
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

// newProvider draws a provider of a character.
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
		p.flap(between, end, fine)
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

// worsen has the provider do badly for a while, and then as before.
func (p *provider) worsen(from, to time.Duration, poor condition) {
	fine := p.conditions[0]
	poor.from, fine.from = from, to
	p.conditions = append(p.conditions, poor, fine)
	p.bad = append(p.bad, spell{from, to})
}

// flap lets a provider fall silent for 6 to 24 hours every few days.
func (p *provider) flap(between func(a, b float64) float64, end time.Duration, out condition) {
	hours := func(a, b float64) time.Duration { return time.Duration(between(a, b) * float64(time.Hour)) }
	out.silent = 0.9
	for at := hours(24, 96); at < end; at += hours(24, 120) {
		until := at + hours(6, 24)
		p.worsen(at, until, out)
		at = until
	}
}

// ending is what became of one request.
type ending int

const (
	accepted ending = iota
	failed
	violated
	silent
	full // it had no room
)

// outcome is what becomes of a request and how long that takes.
type outcome struct {
	ending
	after time.Duration
}

// mix makes numbers that are close to each other far from each other (the finaliser of SplitMix64).
func mix(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// outcome is what becomes of asking a provider that has room for a job. For one provider and one job it is the same
// whoever asks, at the same time: so what is different between two routers is what they chose.
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

// random is where a router's own chance comes from.
func (m *market) random(name string) *rand.Rand {
	n := mix(m.seed)
	for _, b := range []byte(name) {
		n = mix(n ^ uint64(b))
	}
	return rand.New(rand.NewPCG(n, 1))
}
