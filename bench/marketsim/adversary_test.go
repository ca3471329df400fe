package main

import (
	"testing"
	"testing/synctest"
	"time"

	"guild/internal/journal/journaltest"
	"guild/internal/policy"
)

// hard returns a small market with adversaries.
func hard(providers int) *market {
	m := newMarket(2, 7, providers, 30)
	m.worsenBy(adversity{gaming: 2, whitewashing: 1, sybils: 30, tasks: 3})
	return m
}

func TestSmallMarkets(t *testing.T) {
	for _, providers := range []int{1, 8, 30} {
		for _, p := range peers {
			for _, m := range []*market{newMarket(1, 3, providers, 30), hard(providers)} {
				if got := peerNamed(t, m, p.name); got.Jobs != len(m.jobs) {
					t.Errorf("%s, %d providers: %d of %d jobs", p.name, providers, got.Jobs, len(m.jobs))
				}
			}
		}
	}
}

func TestAdversariesLeaveTheCast(t *testing.T) {
	m, quiet := hard(30), newMarket(2, 7, 30, 30)
	for i, p := range quiet.providers {
		if other := m.providers[i]; other.pubkey != p.pubkey || other.price != p.price || other.character != p.character {
			t.Fatalf("provider %d is %s and %s", i, p.character, other.character)
		}
	}
	count := map[character]int{}
	for _, p := range m.providers[30:] {
		count[p.character]++
	}
	if count[gaming] != 2 || count[whitewashing] != identities || count[sybil] != 30 {
		t.Errorf("%v", count)
	}
}

func TestSlowDecline(t *testing.T) {
	m := newMarket(1, 60, 1, 1)
	m.worsenBy(adversity{gaming: 1, tasks: 1})
	p := m.providers[1]
	before := p.at(0).accept
	for at := decline * day; at < 60*day; at += day {
		now := p.at(at + time.Hour).accept
		if now >= before || before-now > 0.03 {
			t.Fatalf("from %.2f to %.2f after %s", before, now, at)
		}
		before = now
	}
	if before > 0.31 || p.benchmark.accept < 0.98 {
		t.Errorf("%.2f at last, %.2f in benchmarks", before, p.benchmark.accept)
	}
}

func TestWhitewashing(t *testing.T) {
	m := newMarket(1, 60, 1, 1)
	m.worsenBy(adversity{whitewashing: 1, sybils: 1, tasks: 1})
	w := newWorld(m)
	first, second, late := m.providers[1], m.providers[2], m.providers[len(m.providers)-1]
	if !w.listed(first, 0) || w.listed(second, 0) || w.listed(late, 4*day) || !w.listed(late, 5*day) {
		t.Error("listed at the wrong time")
	}
	w.asked(first, day, outcome{failed, time.Minute})
	if w.listed(second, 2*day) || w.ask(first, 1, 2*day, false).ending == silent {
		t.Error("it gave up its key after a day")
	}
	if !w.listed(second, 3*day) || w.ask(first, 2, 3*day, false).ending != silent || w.utility(first, 3*day) >= 0 {
		t.Error("it kept its key without work")
	}
}

func TestGuildAmongAdversaries(t *testing.T) {
	p, err := policy.Named(policy.Measured)
	if err != nil {
		t.Fatal(err)
	}
	dir := journaltest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		m := hard(8)
		n, err := drive(t.Context(), m, p, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		own, random := n.sum(), peerNamed(t, m, "random")
		if own.Jobs != len(m.jobs) || own.Expected <= random.Expected {
			t.Errorf("%d jobs with %.0f msat, and %.0f by chance", own.Jobs, own.Expected, random.Expected)
		}
	})
}
