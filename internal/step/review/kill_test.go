package review

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// The history of a service has a review for every cause except the owner's command, and a hold. The process dies after
// each of its entries in turn.
func TestKilledAtEveryEntry(t *testing.T) {
	var whole []fact.Entry
	var causes []string
	hasty := func(c *Config) {
		c.Policy = func() policy.Policy {
			p := policy.Default()
			p.Review.Delay = (10 * time.Minute).Milliseconds()
			return p
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, hasty), alice.service()
		w.works(s, 600_000)
		w.meets(s, "m1", guild.Active, 950_000)
		w.pass(11 * time.Minute)
		w.works(s, 810_000)
		w.pass(time.Minute)
		if err := w.Hold(t.Context(), s, python, "a look"); err != nil {
			t.Fatal(err)
		}
		bad := w.asks(s)
		w.judges(bad, guild.Violation, 0)
		w.learns(s, bad, 510_000)
		w.pass(time.Minute)
		if err := w.Resume(t.Context(), s, python, "it is so"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.wants(3, "3.04")
		whole, causes = w.entries(), w.causes()
	})
	equal(t, causes, "benchmark", "change", "violation")
	if len(whole) < 25 {
		t.Fatalf("%d entries only", len(whole))
	}
	for died := 1; died <= len(whole); died++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, hasty)
			w.stop()
			w.relive(whole[:died])
			w.restart()
			for _, e := range whole[died:] {
				if theirs := foreign(e.Facts); len(theirs) > 0 {
					w.until(e.At)
					w.decides(e.Subject, theirs...)
				}
			}
			w.pass(20 * time.Minute)
			last := whole[died-1].Facts
			w.saidOnce(last[len(last)-1].Type(), whole[:died], causes)
		})
	}
}

// until waits until a time in Unix ms.
func (w *world) until(at int64) { w.pass(time.Until(time.UnixMilli(at))) }

// relive writes the history of a process that died to the journal, each entry at its time.
func (w *world) relive(history []fact.Entry) {
	w.Helper()
	for _, e := range history {
		w.until(e.At)
		err := w.journal.Do(w.Context(), e.Subject, e.Cause, func(tx *journal.Tx) error { tx.Append(e.Facts...); return nil })
		if err != nil {
			w.Fatal(err)
		}
	}
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
func (w *world) saidOnce(died string, before []fact.Entry, causes []string) {
	w.Helper()
	if got := w.causes(); !slices.Equal(got, causes) {
		w.Errorf("after %s: %q", died, got)
	}
	published := map[nostr.ID]int{}
	drafted := map[nostr.ID]bool{}
	for _, f := range w.facts() {
		switch f := f.(type) {
		case fact.ReviewDrafted:
			drafted[f.Review] = true
		case fact.ReviewPublished:
			published[f.Review]++
		case fact.ReviewDropped:
			w.Errorf("after %s: %+v", died, f)
		}
	}
	for id := range drafted {
		if published[id] != 1 {
			w.Errorf("after %s: a review was published %d times", died, published[id])
		}
	}
	for _, p := range w.sent(Kind) {
		if !drafted[p.ID] {
			w.Errorf("after %s: relays got a review that is no draft", died)
		}
	}
	for _, e := range before {
		for _, f := range e.Facts {
			if d, ok := f.(fact.ReviewDrafted); ok && published[d.Review] != 1 {
				w.Errorf("after %s: what was signed before it is not what was published", died)
			}
		}
	}
	if l, _ := w.fold.line(lineKey(python, alice.service())); l.Draft != nil || l.Alarm != nil || l.Waiting != nil || *l.Public != 510_000 {
		w.Errorf("after %s: %+v", died, l)
	}
}
