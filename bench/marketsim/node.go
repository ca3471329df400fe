package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/internal/step/jobs"
	"guild/internal/step/meet"
	"guild/internal/step/partner"
	"guild/nip89"
)

const (
	task  = "python"
	kind  = 5000
	relay = "wss://relay.example.com"
)

// node is a customer's node without network, sandbox and receipts. Journal, registry, jobs, trust and meet are real
// and do their due effects by the clock of the bubble. The market replaces relays and judge.
type node struct {
	*world
	ctx      context.Context
	began    time.Time
	policy   policy.Policy
	mu       sync.Mutex // guards world and the members below
	requests map[nostr.ID]request
	idle     map[guild.JobID]time.Duration // end of each job's latest request
	runs     []uint64                      // benchmarks requested from each provider
	by       map[nostr.PubKey]*provider
	trace    io.Writer // receives decisions about providers; can be nil

	signer   *key.Signer
	pubkey   nostr.PubKey
	journal  *journal.Journal
	registry *registry.Registry
	partners *partner.Partners
	jobs     *jobs.Jobs
	meet     *meet.Meet
	runner   *due.Runner
	going    sync.WaitGroup // goroutines of the market
	appended chan fact.Entry
	failure  error
}

// request is a request that the market received.
type request struct {
	*provider
	outcome
	job guild.JobID
	at  time.Duration
}

// drive runs all jobs of a market on a node with this policy. It must run in a bubble.
func drive(ctx context.Context, m *market, p policy.Policy, dir string, trace io.Writer) (n *node, err error) {
	ctx, stop := context.WithCancel(ctx)
	n = &node{world: newWorld(m), ctx: ctx, began: time.Now(), policy: p, requests: map[nostr.ID]request{}, idle: map[guild.JobID]time.Duration{},
		runs: make([]uint64, len(m.providers)), by: map[nostr.PubKey]*provider{}, appended: make(chan fact.Entry, 1<<14), trace: trace}
	for _, p := range m.providers {
		n.by[p.pubkey] = p
	}
	secret := key.NewSecret(nostr.SecretKey{0: 1, 31: byte(m.seed)})
	n.signer, n.pubkey = key.NewSigner(secret), secret.PubKey()
	if err = n.open(dir); err != nil {
		stop()
		return nil, err
	}
	n.going.Go(func() { n.runner.Run(ctx) })
	n.going.Go(n.judge)
	for _, p := range m.providers {
		n.going.Go(func() { n.advertise(p) })
	}
	err = n.demandAll()
	stop()
	n.going.Wait()
	return n, errors.Join(err, n.failure, n.journal.Close())
}

// benchmark opens the job of one benchmark run, as the node does. The market does not use the bundle's content.
func (n *node) benchmark(ctx context.Context, r meet.Run) error {
	_, err := n.jobs.Open(ctx, jobs.Order{
		ID: r.Job, Task: r.Task, Kind: r.Kind, Title: r.Title, Bundle: bundle, Bid: r.Bid, Tries: 1,
		Providers: []nostr.PubKey{r.Service.PubKey}, Meeting: &r.Meeting, Timeout: 10 * time.Minute,
	})
	return err
}

var bundle = []byte("the task")

// demandAll opens every job of the market at its time and waits until the market closes.
func (n *node) demandAll() error {
	for i, at := range n.market.jobs {
		time.Sleep(at - n.now())
		n.mu.Lock()
		n.tally.Jobs++
		n.mu.Unlock()
		_, err := n.jobs.Open(n.ctx, jobs.Order{ID: jobID(i), Task: n.taskOf(uint64(i)), Kind: kind, Title: "Do it", Bundle: bundle, Bid: worth, Tries: tries})
		if err != nil {
			return err
		}
		if err := n.failed(nil); err != nil {
			return err
		}
	}
	time.Sleep(time.Duration(n.days)*day - n.now())
	return nil
}

// now returns the time since the market opened.
func (n *node) now() time.Duration { return time.Since(n.began) }

// failed keeps the first error and returns it.
func (n *node) failed(err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure == nil && n.ctx.Err() == nil {
		n.failure = err
	}
	return n.failure
}

// jobID returns the id of job i of the market.
func jobID(i int) (id guild.JobID) {
	binary.BigEndian.PutUint64(id[len(id)-8:], uint64(i)+1)
	return id
}

// numberOf returns the number of a job of the market. ok is false for a benchmark.
func numberOf(id guild.JobID) (n uint64, ok bool) {
	n = binary.BigEndian.Uint64(id[len(id)-8:])
	return n - 1, id == jobID(int(n-1))
}

// advertise announces a provider's service every six days. All providers claim to be good, and colluding providers
// also recommend one another.
func (n *node) advertise(p *provider) {
	n.rest(time.Duration(p.n)*time.Second + p.from)
	for p.earlier != nil && n.ctx.Err() == nil && !n.knows(n.listed, p) {
		n.rest(time.Hour)
	}
	announcement := nip89.Handler{
		D:             p.service().D,
		Name:          fmt.Sprintf("Provider %d", p.n),
		Kinds:         []int{kind},
		Tasks:         n.tasksOf(p),
		Relays:        []string{relay},
		Price:         p.price,
		MaxConcurrent: p.slots,
		Bundles:       true,
	}
	for n.ctx.Err() == nil && !n.knows(n.left, p) {
		n.hears(p, announcement.Event())
		if p.character == colluding {
			n.hears(p, n.praise().Event())
		}
		n.rest(6 * day)
	}
}

// knows asks the world about a provider now.
func (n *node) knows(is func(*provider, time.Duration) bool, p *provider) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return is(p, n.now())
}

// hears lets a provider sign an announcement and passes it to the registry.
func (n *node) hears(p *provider, e nostr.Event) {
	v, err := n.sign(p, e)
	if err == nil {
		err = n.registry.Observe(n.ctx, relay, v)
	}
	if _, dropped := errors.AsType[*guild.DropError](err); !dropped && err != nil {
		n.failed(fmt.Errorf("announce: %w", err))
	}
}

func (n *node) sign(p *provider, e nostr.Event) (guild.Verified, error) {
	e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	return guild.Sign(n.ctx, p.signer, e)
}

// rest waits for d or until the market closes.
func (n *node) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-n.ctx.Done():
	}
}

// judge gives verdicts on deliveries and counts decisions about providers.
func (n *node) judge() {
	for {
		select {
		case <-n.ctx.Done():
			return
		case e := <-n.appended:
			for _, one := range e.Facts {
				n.note(one)
			}
		}
	}
}

// note reacts to a fact in place of the steps judge and record, which are not simulated, and traces decisions about
// providers.
func (n *node) note(one fact.Fact) {
	switch one := one.(type) {
	case fact.MeetingBegan:
		n.tell("meeting %q with %s %d", one.Purpose, n.by[one.Service.PubKey].character, n.by[one.Service.PubKey].n)
	case fact.AttemptPlanned:
		n.chose(one)
	case fact.AttemptDelivered:
		n.mu.Lock()
		r := n.requests[one.Attempt]
		n.mu.Unlock()
		n.append(r.job, fact.AttemptJudged{Attempt: one.Attempt, Verdict: verdict(r.outcome)})
	case fact.AttemptJudged:
		n.record(one.Attempt)
	case fact.AttemptExpired:
		n.cut(one.Attempt)
		n.record(one.Attempt)
	case fact.AttemptRefused:
		n.record(one.Attempt)
	case fact.ProviderMoved:
		if p := n.by[one.Service.PubKey]; p != nil {
			n.moved(p, one)
		}
	}
}

// cut corrects the counts of a request that was given up before or after patience: a later delivery no longer counts.
func (n *node) cut(attempt nostr.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, ok := n.requests[attempt]
	if _, ordinary := numberOf(r.job); !ok || !ordinary {
		return
	}
	by := cost(r.after) - cost(n.now()-r.at)
	if r.ending == accepted {
		by -= float64(worth)
		n.tally.Accepted--
		n.lose(r.provider)
	}
	n.tally.Expected += by
	n.tally.Realised += by
}

// moved counts a change of a provider's state.
func (n *node) moved(p *provider, m fact.ProviderMoved) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch m.To {
	case guild.Suspended, guild.Unqualified, guild.Unresponsive, guild.Removed:
		if p.character == steady {
			n.tally.Kept++
		}
	}
	n.tell("%s %d: %s -> %s: %s", p.character, p.n, m.From, m.To, m.Cause)
}

// chose traces a choice and its reasons.
func (n *node) chose(a fact.AttemptPlanned) {
	if p := n.by[a.Provider.PubKey]; p != nil && a.Choice != nil && a.Choice.Rule != "meeting" {
		trust := guild.Trust(0)
		for _, c := range a.Choice.Candidates {
			if c.Service == a.Provider {
				trust = c.Trust
			}
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		lost := 0.0 // relative to the best provider with a free slot
		job, _ := numberOf(a.Job)
		if best := n.oracle(n.now(), n.doing(job, n.now())); len(best) > 0 {
			lost = n.utility(best[0], n.now()) - n.utility(p, n.now())
		}
		n.tell("%s %d: %s of %s, trusted %s, asks %s, %.0f msat worse than the best", p.character, p.n, a.Choice.Rule, a.Choice.Tier, trust,
			p.price, lost)
	}
}

// tell writes a line of the trace.
func (n *node) tell(format string, args ...any) {
	if n.trace != nil {
		fmt.Fprintf(n.trace, "%6.2f "+format+"\n", append([]any{n.now().Hours() / 24}, args...)...)
	}
}

// record records an attempt's receipt and forgets the attempt.
func (n *node) record(attempt nostr.ID) {
	n.mu.Lock()
	r := n.requests[attempt]
	delete(n.requests, attempt)
	n.mu.Unlock()
	n.append(r.job, fact.AttemptRecorded{Attempt: attempt, Receipt: attempt.Hex()})
}

func (n *node) append(job guild.JobID, facts ...fact.Fact) {
	err := n.journal.Do(n.ctx, fact.JobSubject(job), "", func(tx *journal.Tx) error { tx.Append(facts...); return nil })
	if err != nil {
		n.failed(fmt.Errorf("judge: %w", err))
	}
}

// verdict returns the verdict for an outcome.
func verdict(o outcome) guild.Verdict {
	v := guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Expected: 50, Passed: 50}
	switch o.ending {
	case failed:
		v.Outcome, v.Cause, v.Score, v.Passed = guild.Failure, "35 of 50 tests failed", 300_000, 15
	case violated:
		v.Outcome, v.Cause, v.Score, v.Passed = guild.Violation, "connect", 0, 0
	}
	return v
}
