package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/route"
)

func TestWhoMayBeAskedForWhat(t *testing.T) {
	unconfirmed := func(o guild.Offer, s guild.ProviderState) guild.Offer { o.Confirmed, o.State = false, s; return o }
	in := func(o guild.Offer, s guild.ProviderState) guild.Offer { o.State = s; return o }
	sure := func(o guild.Offer, c float64) guild.Offer { o.Confidence = c; return o }
	trust := func(t guild.Trust, people ...person) map[guild.Service]guild.Trust {
		all := map[guild.Service]guild.Trust{}
		for _, p := range people {
			all[p.service()] = t
		}
		return all
	}
	high := fact.JobOpened{Criticality: guild.High}
	for _, c := range []struct {
		name   string
		offers []guild.Offer
		trust  map[guild.Service]guild.Trust
		job    fact.JobOpened
		want   []person
	}{
		{"who was not met, in a kind that the announcement does not confirm, comes last", []guild.Offer{
			unconfirmed(alice.offers(1), guild.Seen), unconfirmed(bob.offers(2), guild.Active), unconfirmed(carol.offers(3), guild.Conditional)},
			nil, fact.JobOpened{Class: "experimental"}, []person{bob, carol, alice}},
		{"and gets no important work", []guild.Offer{unconfirmed(alice.offers(1), guild.Seen)}, nil, fact.JobOpened{Criticality: guild.Medium}, nil},
		{"of them, those on probation get experimental and background jobs only", []guild.Offer{in(alice.offers(1), guild.Conditional)}, trust(700_000, alice),
			fact.JobOpened{}, nil},
		{"such as this one", []guild.Offer{in(alice.offers(1), guild.Conditional)}, trust(700_000, alice), fact.JobOpened{Class: "background"}, []person{alice}},
		{"and for those whom the customer names", []guild.Offer{unconfirmed(alice.offers(1), guild.Seen)}, nil,
			fact.JobOpened{Providers: []nostr.PubKey{alice.key}}, []person{alice}},
		{"who is being tried is asked like any that is not met", []guild.Offer{in(alice.offers(1), guild.Benchmarking)}, nil, fact.JobOpened{}, []person{alice}},
		{"unless it is tried once more", []guild.Offer{in(alice.offers(1), guild.Benchmarking)}, trust(600_000, alice), fact.JobOpened{}, nil},
		{"a benchmark is for anybody", []guild.Offer{in(alice.offers(9), guild.Suspended), unconfirmed(bob.offers(9), guild.Unqualified)},
			trust(100_000, alice), fact.JobOpened{Bid: 1, Criticality: guild.High, Meeting: &fact.Benchmark{}}, []person{alice, bob}},
		{"the unmet get no work of high criticality", []guild.Offer{alice.offers(1), bob.offers(2)}, trust(500_000, bob), high, []person{bob}},
		{"nor do those on probation", []guild.Offer{in(alice.offers(1), guild.Conditional), in(bob.offers(2), guild.Warned)}, trust(600_000, alice, bob), high, []person{bob}},
		{"nor those below the threshold", []guild.Offer{alice.offers(1)}, trust(499_999, alice), high, nil},
		{"nor any of them of medium", []guild.Offer{alice.offers(1)}, nil, fact.JobOpened{Criticality: guild.Medium}, nil},
		{"but the customer may name them", []guild.Offer{alice.offers(1), bob.offers(1)}, nil,
			fact.JobOpened{Criticality: guild.High, Providers: []nostr.PubKey{bob.key, alice.key}}, []person{bob, alice}},
		{"the trusted before the sure", []guild.Offer{alice.offers(1), sure(bob.offers(2), 0.6)}, trust(500_000, bob), fact.JobOpened{}, []person{bob, alice}},
		{"the more trusted before the sure: verdicts on this task say more than an announcement", []guild.Offer{alice.offers(2), sure(bob.offers(1), 0.8)},
			map[guild.Service]guild.Trust{alice.service(): 600_000, bob.service(): 900_000}, fact.JobOpened{}, []person{bob, alice}},
		{"the sure before the cheap", []guild.Offer{alice.offers(2), sure(bob.offers(1), 0.8)}, nil, fact.JobOpened{}, []person{alice, bob}},
	} {
		j := New(Config{
			Market: offered(func(string, int) []guild.Offer { return c.offers }),
			Trust:  func(_ string, s guild.Service) (guild.Trust, bool) { t, met := c.trust[s]; return t, met },
			Now:    time.Now, Policy: orderly,
		}, NewFold())
		job := &Job{JobOpened: c.job}
		var got []person
		for choice := j.field(job, 1, time.Now()).best; choice != nil; choice = j.field(job, 1, time.Now()).best {
			people := []person{alice, bob, carol}
			got = append(got, people[slices.IndexFunc(people, func(p person) bool { return p.key == choice.Service.PubKey })])
			asked := *job
			job = &asked
			job.Attempts = append(slices.Clip(job.Attempts), Attempt{Attempt: guild.Attempt{Provider: choice.Service, State: guild.Expired}})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: asked %d in another order, want %d", c.name, len(got), len(c.want))
		}
	}
}

func TestAnUnconfirmedKindIsNoDeadEnd(t *testing.T) {
	o := alice.offers(1)
	o.Confirmed = false
	j := New(Config{Market: offered(func(string, int) []guild.Offer { return []guild.Offer{o} }), Now: time.Now,
		Trust: func(string, guild.Service) (guild.Trust, bool) { return 0, false }}, NewFold())
	_, choice, ok := j.choose(&Job{JobOpened: fact.JobOpened{Task: "python", Kind: 5000}}, time.Now())
	if !ok || choice.Rule != route.Unmet {
		t.Fatalf("chosen: %v, by the rule %q", ok, choice.Rule)
	}
	if why := strings.Join(choice.Relaxed, "; "); !strings.Contains(why, "its announcement does not confirm the kind") {
		t.Error(why)
	}
}
