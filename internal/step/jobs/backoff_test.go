package jobs

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/route"
	"guild/internal/policy"
	"guild/nip90"
)

// told begins a world whose matrix is told of changes. Alice is trusted most, then bob.
func told(t *testing.T, offers ...guild.Offer) *world {
	t.Helper()
	w := newWorld(t, offers...)
	w.trust[alice.service()], w.trust[bob.service()], w.trust[carol.service()] = 800_000, 700_000, 600_000
	w.configures = func(c *Config) {
		c.OfferOf = func(s guild.Service, _ string, _ int) (guild.Offer, bool) {
			for _, o := range w.offered("", 0) {
				if o.Service == s {
					return o, true
				}
			}
			return guild.Offer{}, false
		}
	}
	w.restart()
	return w
}

// goesTo opens a job and checks that p gets it, and that the choice says why others were passed over.
func (w *world) goesTo(p person, over map[person]string) guild.JobID {
	w.Helper()
	id := w.opens(Order{})
	if a := w.attempt(id); a.Provider != p.service() {
		w.Errorf("%v was asked", a.Provider)
	}
	got := map[guild.Service]string{}
	for _, e := range w.chosen(id).Excluded {
		got[e.Service] = e.By
		if len(e.Reason) < 20 {
			w.Errorf("the reason is %q", e.Reason)
		}
	}
	for who, by := range over {
		if got[who.service()] != by {
			w.Errorf("%v is passed over by %q, want %q", who.service(), got[who.service()], by)
		}
	}
	if len(got) != len(over) {
		w.Errorf("%d are passed over, want %d", len(got), len(over))
	}
	return id
}

func slots(o guild.Offer, n int) guild.Offer { o.Slots = n; return o }

func TestFullSlotsArePassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := alice.offers(1)
		other.Service.D = "docs"
		w := told(t, slots(alice.offers(1), 1), slots(bob.offers(1), 2), other)
		w.trust[other.Service] = 650_000
		first := w.goesTo(alice, nil)
		w.goesTo(bob, map[person]string{alice: route.BySlots})
		w.restart()
		w.goesTo(bob, map[person]string{alice: route.BySlots})
		id := w.opens(Order{})
		if a := w.attempt(id); a.Provider != other.Service { // its provider's other service has slots of its own
			t.Errorf("%v was asked", a.Provider)
		}
		w.delivers(alice, w.attempt(first).ID, []byte("the work"))
		w.goesTo(alice, map[person]string{bob: route.BySlots})
	})
}

func TestFullProviderIsAskedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := told(t, slots(alice.offers(1), 1))
		w.goesTo(alice, nil)
		id := w.goesTo(alice, map[person]string{alice: route.BySlots})
		if said := w.chosen(id).Relaxed; !slices.Contains(said, "slots: it has 1 requests of ours, and does 1 at a time, and there is nobody else") {
			t.Error(said)
		}
	})
}

// By the policy measured, a job for which only full providers are left waits until one of them answers.
func TestFullProviderIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := told(t, slots(alice.offers(1), 1))
		offers := w.configures
		w.configures = func(c *Config) {
			offers(c)
			c.Policy = func() (policy.Policy, guild.Hash) {
				p, err := policy.Named(policy.Measured)
				if err != nil {
					t.Error(err)
				}
				return p, guild.Hash{}
			}
		}
		w.restart()
		first := w.goesTo(alice, nil)
		id := w.opens(Order{})
		w.pass(time.Minute)
		w.wants(id)
		w.delivers(alice, w.attempt(first).ID, []byte("the work"))
		if a := w.attempt(id); a.Provider != alice.service() {
			t.Errorf("%v was asked", a.Provider)
		}
	})
}

// A provider without capacity is passed over for a minute, doubled each time, by all jobs and through a restart.
func TestBusyProviderIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := told(t, alice.offers(1), bob.offers(1))
		busy := func(id guild.JobID) { w.says(alice, feedback(w.attempt(id).ID, nip90.Error, "at capacity")) }
		busy(w.goesTo(alice, nil))
		for _, pause := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
			began := time.Now()
			w.goesTo(bob, map[person]string{alice: route.ByRefused})
			w.restart()
			w.pass(pause - time.Since(began) - time.Millisecond)
			w.goesTo(bob, map[person]string{alice: route.ByRefused})
			w.pass(time.Millisecond)
			busy(w.goesTo(alice, nil))
		}
		w.pass(10 * time.Minute)
		id := w.goesTo(alice, nil)
		w.delivers(alice, w.attempt(id).ID, []byte("the work"))
		busy(w.goesTo(alice, nil))
		w.pass(time.Minute) // the work that it took lets it begin anew
		w.goesTo(alice, nil)
	})
}

func TestWhatAnAnswerSaysOfCapacity(t *testing.T) {
	said := func(n byte, s nip90.Status) fact.Fact {
		return fact.AttemptProgressed{Attempt: nostr.ID{n}, Status: string(s)}
	}
	refused := func(n byte, later bool) fact.Fact { return fact.AttemptRefused{Attempt: nostr.ID{n}, Later: later} }
	for _, c := range []struct {
		what  string
		facts []fact.Fact // one a second, from the third on; the three requests were made in the first
		want  backoff
	}{
		{"nothing", nil, backoff{}},
		{"it has none", []fact.Fact{refused(1, true)}, backoff{Refused: 1, At: 3000}},
		{"a refusal for something else says nothing", []fact.Fact{refused(1, false)}, backoff{}},
		{"requests that were on their way together count once", []fact.Fact{refused(1, true), refused(2, true), refused(3, true)}, backoff{Refused: 1, At: 5000}},
		{"its first word on another", []fact.Fact{refused(1, true), said(2, nip90.Processing)}, backoff{}},
		{"its second word does not say it", []fact.Fact{said(2, nip90.Processing), refused(1, true), said(2, nip90.Processing)}, backoff{Refused: 1, At: 4000}},
		{"nor does a word that nobody knows", []fact.Fact{refused(1, true), said(2, nip90.Other)}, backoff{Refused: 1, At: 3000}},
		{"a delivery does", []fact.Fact{said(2, nip90.Processing), refused(1, true), fact.AttemptDelivered{Attempt: nostr.ID{2}}}, backoff{}},
		{"an attempt that is over says nothing more", []fact.Fact{refused(1, false), refused(1, true)}, backoff{}},
		{"it wants to be paid", []fact.Fact{fact.AttemptQuoted{Attempt: nostr.ID{1}, Amount: 500}, refused(1, false)}, backoff{Wanted: 4000, Quote: 500}},
		{"a delivery for a request of before does not change that", []fact.Fact{fact.AttemptQuoted{Attempt: nostr.ID{1}, Amount: 500}, refused(1, false),
			fact.AttemptDelivered{Attempt: nostr.ID{2}}}, backoff{Wanted: 4000, Quote: 500}},
	} {
		f, job := NewFold(), guild.JobID{1}
		seq := int64(0)
		apply := func(facts ...fact.Fact) {
			seq++
			f.Apply(fact.Entry{Seq: uint64(seq), At: seq * 1000, Subject: fact.JobSubject(job), Facts: facts})
		}
		apply(fact.JobOpened{Job: job, Task: "python"}, fact.AttemptPlanned{Job: job, Attempt: nostr.ID{1}, Provider: alice.service()},
			fact.AttemptPlanned{Job: job, Attempt: nostr.ID{2}, Provider: alice.service()}, fact.AttemptPlanned{Job: job, Attempt: nostr.ID{3}, Provider: alice.service()})
		apply(fact.AttemptRequested{Attempt: nostr.ID{1}})
		for _, one := range c.facts {
			apply(one)
		}
		for _, of := range []*Fold{f, restored(t, f)} {
			if got := of.backoffOf(alice.service()); got != c.want {
				t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
			}
			if of.backoffOf(bob.service()) != (backoff{}) {
				t.Errorf("%s: of bob too", c.what)
			}
		}
	}
}

// Alice announces 1 msat and wants 5000 first: for a day she is passed over, and counts with that price.
func TestPaymentDemandLastsADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := told(t, alice.offers(1), bob.offers(1000))
		wants := func(id guild.JobID) {
			w.says(alice, nip90.Feedback{Request: w.attempt(id).ID, Customer: customer.key, Status: nip90.PaymentRequired, Amount: 5000}.Event())
		}
		score := func() guild.Trust {
			all := w.Matrix("python", 5000, 10)
			return all[slices.IndexFunc(all, func(e route.Entry) bool { return e.Offer.Service == alice.service() })].Score
		}
		id := w.goesTo(alice, nil)
		before := score()
		wants(id)
		if score() >= before {
			t.Errorf("her score is %d, before it was %d", score(), before)
		}
		began := time.Now()
		id = w.goesTo(bob, map[person]string{alice: route.ByPayment})
		if at := slices.IndexFunc(w.chosen(id).Candidates, func(c fact.Candidate) bool { return c.Service == alice.service() }); w.chosen(id).Candidates[at].Cost != 5000 {
			t.Errorf("%+v", w.chosen(id).Candidates[at])
		}
		w.restart()
		w.pass(24*time.Hour - time.Since(began) - time.Minute)
		w.goesTo(bob, map[person]string{alice: route.ByPayment})
		w.pass(time.Minute)
		w.goesTo(alice, nil)
		if got := score(); got < before {
			t.Errorf("a day later her score is %d, want %d", got, before)
		}
	})
}

// If all others want to be paid first, they are asked as before, after those without capacity.
func TestPaymentDemandIsAskedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := told(t, alice.offers(1), slots(bob.offers(1), 1))
		id := w.goesTo(alice, nil)
		w.says(alice, nip90.Feedback{Request: w.attempt(id).ID, Customer: customer.key, Status: nip90.PaymentRequired, Amount: 5000}.Event())
		w.goesTo(bob, map[person]string{alice: route.ByPayment, bob: route.BySlots})
		w.mu.Lock()
		w.offers = w.offers[:1]
		w.mu.Unlock()
		w.Touch(bob.service())
		w.goesTo(alice, map[person]string{alice: route.ByPayment})
	})
}

func TestNamedBusyProviderIsAskedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := told(t, alice.offers(1), bob.offers(1))
		w.says(alice, feedback(w.attempt(w.opens(Order{})).ID, nip90.Error, "busy"))
		order := Order{Providers: []nostr.PubKey{alice.key, bob.key}}
		id := w.opens(order)
		if a := w.attempt(id); a.Provider != bob.service() {
			t.Errorf("%v was asked", a.Provider)
		}
		if said := w.chosen(id).Excluded; len(said) != 1 || said[0].By != route.ByRefused {
			t.Errorf("%+v", said)
		}
		w.pass(time.Minute)
		if a := w.attempt(w.opens(order)); a.Provider != alice.service() {
			t.Errorf("then %v was asked", a.Provider)
		}
	})
}

// Alice is the only provider, and is being tried once more.
func TestJobWaitsForRetriedProvider(t *testing.T) {
	in := func(s guild.ProviderState) guild.Offer { o := alice.offers(1); o.State = s; return o }
	for _, c := range []struct {
		what    string
		order   Order
		becomes guild.ProviderState
		ending  guild.Ending
		asked   int
	}{
		{"she works again", Order{}, guild.Active, guild.Open, 1},
		{"she has failed", Order{}, guild.Suspended, guild.JobUnclaimed, 0},
		{"it takes longer than the job may", Order{Timeout: time.Minute}, guild.Benchmarking, guild.JobUnclaimed, 0},
		{"she would not do for the job anyway", Order{Private: true}, guild.Benchmarking, guild.JobUnclaimed, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := told(t, in(guild.Benchmarking))
			id := w.opens(c.order)
			w.pass(30 * time.Second)
			if !c.order.Private {
				w.ends(id, guild.Open)
				if why := w.Waits(id); !strings.Contains(why, "is being tried once more") {
					t.Errorf("%s: it waits: %q", c.what, why)
				}
			}
			w.mu.Lock()
			w.offers = []guild.Offer{in(c.becomes)}
			w.mu.Unlock()
			w.Write(fact.ProviderSubject(alice.key), fact.ProviderMoved{Service: alice.service(), From: guild.Benchmarking, To: c.becomes})
			w.pass(30 * time.Second)
			if job := w.ends(id, c.ending); len(job.Attempts) != c.asked {
				t.Errorf("%s: %d were asked; %s", c.what, len(job.Attempts), job.Reason)
			}
			if w.Waits(id) != "" {
				t.Errorf("%s: it still waits: %s", c.what, w.Waits(id))
			}
		})
	}
}

func TestOpenJobWaitsForRetriedProvider(t *testing.T) {
	j := New(Config{
		Market: offered(func(string, int) []guild.Offer {
			o := alice.offers(1)
			o.State = guild.Benchmarking
			return []guild.Offer{o}
		}),
		Trust: func(string, guild.Service) (guild.Trust, bool) { return 700_000, true },
		Now:   time.Now, Policy: orderly,
	}, NewFold())
	job := &Job{JobOpened: fact.JobOpened{Task: "python", Open: true}, Offers: []fact.JobOffered{{Provider: alice.key}}}
	if f := j.field(job, 1, time.Now()); f.best != nil || f.count != 1 || !strings.Contains(f.why, "tried once more") {
		t.Errorf("%+v", f)
	}
}

// A provider that closes hands back what waits, and withdraws its announcement. It may come back.
func TestJobWaitsForProviderThatRestarts(t *testing.T) {
	for _, named := range []bool{false, true} {
		for _, back := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, alice.offers(0))
				announces := func(offers ...guild.Offer) {
					w.mu.Lock()
					w.offers = offers
					w.mu.Unlock()
					w.Touch(alice.service())
					w.runner.Wake()
					w.pass(time.Second)
				}
				order := Order{}
				if named {
					order.Providers = []nostr.PubKey{alice.key}
				}
				id := w.opens(order)
				closing := nip90.Feedback{Request: w.attempt(id).ID, Customer: customer.key, Status: nip90.Error, Text: "the provider is closing: busy, try again later"}
				if err := w.says(alice, closing.Event()); err != nil {
					t.Fatal(err)
				}
				announces()
				w.pass(40 * time.Second)
				w.wants(id, guild.Refused)
				if why := w.Waits(id); !strings.Contains(why, "a provider may appear until") {
					t.Errorf("it waits: %q", why)
				}
				if back {
					announces(alice.offers(0))
					w.pass(time.Minute)
					w.wants(id, guild.Refused, guild.Requested)
					return
				}
				w.pass(90 * time.Second)
				w.ends(id, guild.JobUnclaimed)
			})
		}
	}
}
