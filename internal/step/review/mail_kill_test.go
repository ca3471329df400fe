package review

import (
	"slices"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
)

// A verdict is told, objected to, given again and told again. The process dies after each entry of that, and also
// before it could write that a message was sent.
func TestMailKilledAtEveryEntry(t *testing.T) {
	var want []nostr.ID
	live := func(t *testing.T) []fact.Entry {
		o := newOffice(t, nil)
		id := o.asks(alice)
		o.Pass(time.Minute)
		o.judges(id, failed(3, 10))
		o.Pass(time.Hour)
		if err := o.objects(alice, id, 1); err != nil {
			t.Fatal(err)
		}
		o.Pass(time.Minute)
		o.judges(id, guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Passed: 10, Expected: 10})
		if want = o.ids(); len(want) != 2 {
			t.Fatalf("%d messages", len(want))
		}
		return o.Entries()
	}
	steptest.KillAtEachEntry(t, 10, live, func(t *testing.T, left, rest []fact.Entry) {
		o := newOffice(t, nil)
		o.Stop()
		o.Relive(left)
		o.restart()
		o.goOn(rest)
		o.Pass(time.Hour)
		o.endsAlike(want, left)
	})
}

// ids lists the messages that a provider got, each once.
func (o *office) ids() (ids []nostr.ID) {
	for _, m := range o.inbox(alice) {
		ids = append(ids, m.ID)
	}
	return ids
}

// goOn does what the rest of the world did: other steps decide, and the provider objects, which relays send twice.
func (o *office) goOn(rest []fact.Entry) {
	o.Helper()
	for _, e := range rest {
		for _, f := range e.Facts {
			switch f := f.(type) {
			case fact.AttemptDisputed:
				o.PassUntil(e.At)
				if err := o.objects(alice, f.Attempt, 1); err != nil {
					o.Error(err)
				}
			case fact.AttemptTold, fact.EffectClaimed, fact.EffectRenewed, fact.EffectSettled:
			default:
				o.PassUntil(e.At)
				o.Write(e.Subject, f)
			}
		}
	}
	steptest.WantDrop(o.T, o.objects(alice, nostr.ID{0xa, 1}, 1), guild.Repeated)
}

// endsAlike checks that both verdicts were told in the same messages and that the objection was accepted once.
func (o *office) endsAlike(want []nostr.ID, before []fact.Entry) {
	o.Helper()
	told := steptest.Facts[fact.AttemptTold](o)
	if len(told) != 2 || told[0].Message != want[0] || told[1].Message != want[1] {
		o.Errorf("told %+v", told)
	}
	if n := len(steptest.Facts[fact.AttemptDisputed](o)); n != 1 {
		o.Errorf("%d objections", n)
	}
	for _, id := range o.ids() {
		if !slices.Contains(want, id) {
			o.Errorf("a message of its own")
		}
	}
	sent := 0 // before it died
	for _, e := range before {
		for _, f := range e.Facts {
			if _, ok := f.(fact.AttemptTold); ok {
				sent++
			}
		}
	}
	if len(o.ids()) != 2-sent {
		o.Errorf("%d messages after %d", len(o.ids()), sent)
	}
}
