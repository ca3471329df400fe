package jobs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/market/route"
	"guild/internal/policy"
	"guild/nip90"
)

// standard are the partnership protocol's own numbers for routing.
func standard() (policy.Policy, guild.Hash) {
	return policy.Specification(), guild.Sum([]byte("standard"))
}

// chosen returns the choice of a job's latest attempt.
func (w *world) chosen(id guild.JobID) *fact.Choice {
	w.Helper()
	a := w.attempt(id)
	if a.Planned == nil || a.Planned.Choice == nil {
		w.Fatalf("the attempt is %s, and its choice is not there", a.State)
	}
	return a.Planned.Choice
}

func TestEveryAttemptSaysWhyItsProvider(t *testing.T) {
	for _, c := range []struct {
		name   string
		order  Order
		policy func() (policy.Policy, guild.Hash)
		rule   string
		first  person
		count  int
	}{
		{"the best", Order{}, orderly, route.Best, bob, 2},
		{"whom the customer named", Order{Providers: []nostr.PubKey{alice.key, bob.key}}, orderly, route.Named, alice, 2},
		{"who is met", Order{Meeting: &fact.Benchmark{Service: ptr(alice.service())}, Providers: []nostr.PubKey{alice.key}}, orderly, route.Meeting, alice, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(1), bob.offers(2), mallory.offers(3))
			w.trust[alice.service()], w.trust[bob.service()], w.trust[mallory.service()] = 600_000, 850_000, 200_000
			id := w.opens(c.order)
			got, a := w.chosen(id), w.attempt(id)
			_, hash := c.policy()
			if got.Rule != c.rule || a.Provider.PubKey != c.first.key || got.Policy != hash || got.Count != c.count || len(got.Candidates) != c.count {
				t.Errorf("%s: %+v of %v", c.name, got, a.Provider)
			}
			if best := got.Candidates[0]; best.Score != best.Terms.Trust+best.Terms.Cost+best.Terms.Latency+best.Terms.Load+best.Terms.Exploration || best.Score == 0 {
				t.Errorf("%s: the score is not the sum of its terms: %+v", c.name, best)
			}
			if c.rule == route.Best && got.Barred[route.ByTrust] != 1 {
				t.Errorf("%s: who is trusted too little is not counted: %v", c.name, got.Barred)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestUnmetProviderWithoutTrustedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		got := w.chosen(w.opens(Order{}))
		if got.Rule != route.Unmet || got.Tier != "tertiary" || !slices.ContainsFunc(got.Relaxed, func(s string) bool { return strings.HasPrefix(s, "qualified: ") }) {
			t.Errorf("%+v", got)
		}
	})
}

func TestOffersAreScored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0), bob.offers(0))
		w.trust[alice.service()], w.trust[bob.service()] = 600_000, 600_000
		id := w.opens(Order{Open: true, Timeout: time.Minute})
		request := w.sent(5000)[0].ID
		for p, price := range map[person]guild.Msat{alice: 2000, bob: 1000} {
			e := nip90.Feedback{Request: request, Customer: customer.key, Status: nip90.PaymentRequired, Amount: price}.Event()
			if err := w.says(p, e); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(11 * time.Second)
		got := w.chosen(id)
		if got.Rule != route.Offered || w.attempt(id).Provider.PubKey != bob.key || got.Candidates[0].Cost != 1000 || len(got.Candidates) != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// Section 3.3.3: no provider gets more than half of a task's requests in an hour, and at least three get some. Three are
// trusted alike, and one is much cheaper. A hundred jobs are decided at the same time.
func TestSharesUnderConcurrentDecisions(t *testing.T) {
	offers := []guild.Offer{alice.offers(1), bob.offers(1000), carol.offers(1000)}
	j := New(Config{
		Market: offered(func(string, int) []guild.Offer { return offers }),
		Trust:  func(string, guild.Service) (guild.Trust, bool) { return 850_000, true },
		Now:    time.Now, Policy: standard, Limits: Limits{AtOnce: 1000, PerMinute: 1000},
	}, NewFold())
	now := time.Now()
	const jobs = 100
	var all []*Job
	for n := range jobs {
		id := guild.JobID{1, byte(n)}
		j.fold.Apply(fact.Entry{Seq: uint64(n + 1), At: now.UnixMilli(), Subject: fact.JobSubject(id), Facts: []fact.Fact{
			fact.JobOpened{Job: id, Task: "python", Kind: 5000, Tries: 3, Deadline: now.Add(time.Hour).UnixMilli()}}})
		job, _ := j.fold.Job(id)
		all = append(all, job)
	}
	var mu sync.Mutex
	had := map[nostr.PubKey]int{}
	var decided sync.WaitGroup
	for n, job := range all {
		decided.Go(func() {
			best := j.field(job, 1, now).best
			o, _, choice := j.settleOn(job, *best, 0)
			if choice == nil {
				t.Errorf("nobody for job %d", n)
				return
			}
			planned := fact.AttemptPlanned{Attempt: nostr.ID{1, byte(n)}, Job: job.Job, Provider: o.Service, Choice: choice}
			if !j.admit(planned, now) {
				t.Errorf("job %d has no room for whom it chose", n)
			}
			mu.Lock()
			defer mu.Unlock()
			had[o.Service.PubKey]++
			for _, broken := range choice.Relaxed {
				t.Errorf("job %d: %s", n, broken)
			}
			if n%3 == 0 { // some facts are known before others are decided
				j.fold.Apply(fact.Entry{Seq: uint64(jobs + n + 1), At: now.UnixMilli(), Subject: fact.JobSubject(job.Job), Facts: []fact.Fact{planned}})
			}
		})
	}
	decided.Wait()
	if had[alice.key] > jobs/2 || had[alice.key] < jobs/2-2 || len(had) < 3 {
		t.Errorf("the shares are %d, %d and %d", had[alice.key], had[bob.key], had[carol.key])
	}
}

// With two providers a share of at most a half cannot hold, so the rules are skipped, and the choice says so.
func TestSharesNeedEnoughProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(1000))
		w.configures = func(c *Config) { c.Policy = standard }
		w.trust[alice.service()], w.trust[bob.service()] = 850_000, 850_000
		w.restart()
		had, said := map[nostr.PubKey]int{}, 0
		for range 8 {
			id := w.opens(Order{})
			said += len(w.chosen(id).Relaxed)
			had[w.attempt(id).Provider.PubKey]++
			w.pass(time.Second)
		}
		if had[alice.key] < 4 || had[bob.key] < 3 || said == 0 {
			t.Errorf("%d and %d, and %d times a rule was said to be skipped", had[alice.key], had[bob.key], said)
		}
	})
}

func TestShareWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(1000), carol.offers(1000))
		w.configures = func(c *Config) {
			c.Policy = func() (policy.Policy, guild.Hash) {
				p, hash := standard()
				p.Routing.Epsilon, p.Routing.EpsilonFloor = 0, 0
				return p, hash
			}
		}
		for _, p := range []person{alice, bob, carol} {
			w.trust[p.service()] = 850_000
		}
		w.restart()
		first := func() nostr.PubKey { return w.attempt(w.opens(Order{Timeout: time.Minute})).Provider.PubKey }
		if first() != alice.key || first() == alice.key {
			t.Error("the cheapest comes first, and not twice in a row")
		}
		w.pass(time.Hour + time.Minute)
		if first() != alice.key {
			t.Error("an hour later, what was before still counts")
		}
	})
}

// A task's own threshold decides which providers get its ordinary work. CONDITIONAL ones get none.
func TestThresholdOfTask(t *testing.T) {
	for _, c := range []struct {
		threshold guild.Trust
		want      int // of two who are trusted 0.45 and 0.65, those that get work that matters
	}{{0, 1}, {400_000, 2}, {650_000, 1}, {650_001, 0}, {100_000, 2}} {
		j := New(Config{
			Market: offered(func(string, int) []guild.Offer { return []guild.Offer{alice.offers(1), bob.offers(1)} }),
			Trust: func(_ string, s guild.Service) (guild.Trust, bool) {
				return map[nostr.PubKey]guild.Trust{alice.key: 450_000, bob.key: 650_000}[s.PubKey], true
			},
			Now: time.Now, Policy: orderly, Thresholds: map[string]guild.Trust{"python": c.threshold},
		}, NewFold())
		if got := j.field(&Job{JobOpened: fact.JobOpened{Task: "python", Criticality: guild.High}}, 2, time.Now()).count; got != c.want {
			t.Errorf("threshold %s: %d, want %d", c.threshold, got, c.want)
		}
	}
}

// Looking at a waiting job must not search all providers again.
func TestWaitingJobIsNotRoutedAgain(t *testing.T) {
	var offers []guild.Offer
	for n := range 5000 {
		o := alice.offers(1)
		o.Service.D = fmt.Sprint(n)
		offers = append(offers, o)
	}
	reads := 0
	j := New(Config{
		Market: offered(func(string, int) []guild.Offer { return offers }),
		Trust:  func(string, guild.Service) (guild.Trust, bool) { reads++; return 0, false },
		Now:    time.Now, Policy: standard, OfferOf: func(s guild.Service, _ string, _ int) (guild.Offer, bool) {
			o := alice.offers(1)
			o.Service = s
			return o, true
		},
	}, NewFold())
	now := time.Now()
	for what, job := range map[string]*Job{
		"somebody may be asked": {JobOpened: fact.JobOpened{Job: guild.JobID{1}, Task: "python", Deadline: now.Add(time.Hour).UnixMilli()}},
		"nobody may":            {JobOpened: fact.JobOpened{Job: guild.JobID{2}, Task: "python", Private: true, Deadline: now.Add(time.Hour).UnixMilli()}},
	} {
		first := j.field(job, 1, now)
		reads = 0
		for range 100 {
			if again := j.field(job, 1, now); (again.best == nil) != (first.best == nil) || again.count != first.count || again.why != first.why {
				t.Errorf("%s: %+v, then %+v", what, first, again)
			}
		}
		if reads > 0 {
			t.Errorf("%s: %d services were looked at by 100 looks at what had not changed", what, reads)
		}
	}
}

// A matrix that is told of changes is never older than the facts: trust, states, requests and announcements.
func TestTheMatrixFollowsTheFacts(t *testing.T) {
	offers := map[guild.Service]guild.Offer{}
	for _, p := range []person{alice, bob, carol} {
		offers[p.service()] = p.offers(100)
	}
	trust := map[guild.Service]guild.Trust{alice.service(): 600_000, bob.service(): 600_000, carol.service(): 600_000}
	j := New(Config{
		Market: offered(func(string, int) (all []guild.Offer) {
			for _, p := range []person{alice, bob, carol, mallory} {
				if o, ok := offers[p.service()]; ok {
					all = append(all, o)
				}
			}
			return all
		}),
		Trust: func(_ string, s guild.Service) (guild.Trust, bool) { t, met := trust[s]; return t, met },
		Now:   time.Now, Policy: orderly, OfferOf: func(s guild.Service, _ string, _ int) (guild.Offer, bool) { o, ok := offers[s]; return o, ok },
	}, NewFold())
	seq := uint64(0)
	applies := func(subject fact.Subject, f ...fact.Fact) {
		seq++
		j.fold.Apply(fact.Entry{Seq: seq, At: time.Now().UnixMilli(), Subject: subject, Facts: f})
	}
	turn := byte(0)
	best := func() guild.Service {
		turn++
		o := j.field(&Job{JobOpened: fact.JobOpened{Job: guild.JobID{9, turn}, Task: "python", Kind: 5000}}, 1, time.Now()).best
		if o == nil {
			return guild.Service{}
		}
		return o.Service
	}
	was := best()
	for _, step := range []struct {
		name   string
		change func()
		want   person
	}{
		{"trust.changed", func() {
			applies(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: bob.service()})
			trust[bob.service()] = 700_000 // another fold may have the fact later than we do
		}, bob},
		{"provider.moved", func() {
			applies(fact.ProviderSubject(bob.key), fact.ProviderMoved{Service: bob.service(), To: guild.Suspended})
			o := offers[bob.service()]
			o.State = guild.Suspended
			offers[bob.service()] = o
			trust[carol.service()] = 650_000
			applies(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: carol.service()})
		}, carol},
		{"a request, that is not answered", func() {
			trust[alice.service()] = 650_000
			applies(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: alice.service()})
			id := guild.JobID{7}
			applies(fact.JobSubject(id), fact.JobOpened{Job: id, Task: "python"}, fact.AttemptPlanned{Job: id, Attempt: nostr.ID{7}, Provider: carol.service()})
		}, alice},
		{"an announcement", func() {
			o := carol.offers(1)
			offers[carol.service()] = o
			j.Touch(carol.service())
		}, carol},
		{"somebody new", func() {
			offers[mallory.service()], trust[mallory.service()] = mallory.offers(100), 900_000
			j.Touch(mallory.service())
		}, mallory},
		{"somebody who goes", func() {
			delete(offers, mallory.service())
			j.Touch(mallory.service())
		}, carol},
	} {
		step.change()
		if got := best(); got != step.want.service() {
			t.Errorf("%s: %v was chosen, before it %v", step.name, got, was)
		} else {
			was = got
		}
	}
}

func TestReportedQueueCounts(t *testing.T) {
	f, id := NewFold(), guild.JobID{1}
	apply := func(seq uint64, facts ...fact.Fact) {
		f.Apply(fact.Entry{Seq: seq, At: int64(seq) * 1000, Subject: fact.JobSubject(id), Facts: facts})
	}
	apply(1, fact.JobOpened{Job: id, Task: "python"}, fact.AttemptPlanned{Job: id, Attempt: nostr.ID{1}, Provider: alice.service()})
	apply(2, fact.AttemptRequested{Attempt: nostr.ID{1}}, fact.AttemptProgressed{Attempt: nostr.ID{1}, Capacity: &fact.Capacity{Queue: 7}})
	for _, of := range []*Fold{f, restored(t, f)} {
		if waiting, queue, recent := of.burden("python", alice.key); waiting != 1 || queue != 7 || recent != 1 {
			t.Errorf("%d wait, %d in its queue, %d in the hour", waiting, queue, recent)
		}
	}
	apply(3, fact.AttemptRefused{Attempt: nostr.ID{1}})
	if waiting, queue, _ := f.burden("python", alice.key); waiting != 0 || queue != 0 {
		t.Errorf("what it said of then counts now: %d, %d", waiting, queue)
	}
}

func restored(t *testing.T, f *Fold) *Fold {
	t.Helper()
	again := NewFold()
	if err := again.Restore([]byte(foldtest.Snapshot(t, f))); err != nil {
		t.Fatal(err)
	}
	return again
}
