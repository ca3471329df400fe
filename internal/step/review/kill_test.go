package review

import (
	"slices"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
	"guild/internal/step/steptest"
)

// The history of a service has a review for every cause except the owner's command, and a hold. The process dies after
// each of its entries in turn.
func TestKilledAtEveryEntry(t *testing.T) {
	var causes []string
	hasty := func(c *Config) {
		c.Policy = func() policy.Policy {
			p := policy.Specification()
			p.Review.Delay = (10 * time.Minute).Milliseconds()
			return p
		}
	}
	live := func(t *testing.T) []fact.Entry {
		w, s := newWorld(t, hasty), alice.service()
		w.works(s, 600_000)
		w.meets(s, "m1", guild.Active, 950_000)
		w.Pass(11 * time.Minute)
		w.works(s, 810_000)
		w.Pass(time.Minute)
		if err := w.Hold(t.Context(), s, python, "a look"); err != nil {
			t.Fatal(err)
		}
		bad := w.asks(s)
		w.judges(bad, guild.Violation, 0)
		w.learns(s, bad, 510_000)
		w.Pass(time.Minute)
		if err := w.Resume(t.Context(), s, python, "it is so"); err != nil {
			t.Fatal(err)
		}
		w.Pass(time.Minute)
		w.wants(3, "3.04")
		causes = w.causes()
		equal(t, causes, "benchmark", "change", "violation")
		return w.Entries()
	}
	steptest.KillAtEachEntry(t, 25, live, func(t *testing.T, left, rest []fact.Entry) {
		w := newWorld(t, hasty)
		w.Stop()
		w.Relive(left)
		w.restart()
		for _, e := range rest {
			if theirs := foreign(e.Facts); len(theirs) > 0 {
				w.PassUntil(e.At)
				w.Write(e.Subject, theirs...)
			}
		}
		w.Pass(20 * time.Minute)
		w.saidOnce(left, causes)
	})
}

// foreign returns the facts that other steps or the owner write.
func foreign(facts []fact.Fact) []fact.Fact {
	return slices.DeleteFunc(slices.Clone(facts), func(f fact.Fact) bool {
		switch f.(type) {
		case fact.ReviewDrafted, fact.ReviewPublished, fact.ReviewDropped, fact.EffectClaimed, fact.EffectRenewed, fact.EffectSettled:
			return true
		}
		return false
	})
}

// saidOnce checks that each cause led to one review, that relays got no others, and that they got the events that were
// signed before the process died.
func (w *world) saidOnce(before []fact.Entry, causes []string) {
	w.Helper()
	if got := w.causes(); !slices.Equal(got, causes) {
		w.Errorf("causes %q, want %q", got, causes)
	}
	published := map[nostr.ID]int{}
	drafted := map[nostr.ID]bool{}
	for _, f := range steptest.Facts[fact.ReviewDrafted](w) {
		drafted[f.Review] = true
	}
	for _, f := range steptest.Facts[fact.ReviewPublished](w) {
		published[f.Review]++
	}
	for _, f := range steptest.Facts[fact.ReviewDropped](w) {
		w.Errorf("%+v", f)
	}
	for id := range drafted {
		if published[id] != 1 {
			w.Errorf("a review was published %d times", published[id])
		}
	}
	for _, p := range w.sent(Kind) {
		if !drafted[p.ID] {
			w.Errorf("relays got a review that is no draft")
		}
	}
	for _, e := range before {
		for _, f := range e.Facts {
			if d, ok := f.(fact.ReviewDrafted); ok && published[d.Review] != 1 {
				w.Errorf("what was signed before is not what was published")
			}
		}
	}
	if l, _ := w.fold.line(lineKey(python, alice.service())); l.Draft != nil || l.Alarm != nil || l.Waiting != nil || *l.Public != 510_000 {
		w.Errorf("%+v", l)
	}
}
