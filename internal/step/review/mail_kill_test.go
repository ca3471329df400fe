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
)

// A verdict is told, objected to, given again and told again. The process dies after each entry of that, and also
// before it could write that a message was sent.
func TestMailKilledAtEveryEntry(t *testing.T) {
	var whole []fact.Entry
	var want []nostr.ID
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		id := o.asks(alice)
		o.pass(time.Minute)
		o.judges(id, failed(3, 10))
		o.pass(time.Hour)
		if err := o.objects(alice, id, 1); err != nil {
			t.Fatal(err)
		}
		o.pass(time.Minute)
		o.judges(id, guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Passed: 10, Expected: 10})
		for e, err := range o.journal.Entries(t.Context(), 1) {
			if err != nil {
				t.Fatal(err)
			}
			whole = append(whole, e)
		}
		want = o.ids()
	})
	if len(want) != 2 || len(whole) < 10 {
		t.Fatalf("%d messages, %d entries", len(want), len(whole))
	}
	for died := 1; died <= len(whole); died++ {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t, nil)
			o.stop()
			for _, e := range whole[:died] {
				o.until(e.At)
				err := o.journal.Do(t.Context(), e.Subject, e.Cause, func(tx *journal.Tx) error { tx.Append(e.Facts...); return nil })
				if err != nil {
					t.Fatal(err)
				}
			}
			o.restart()
			o.goOn(whole[died:])
			o.pass(time.Hour)
			last := whole[died-1].Facts
			o.endsAlike(last[len(last)-1].Type(), want, whole[:died])
		})
	}
}

func (o *office) until(at int64) { o.pass(time.Until(time.UnixMilli(at))) }

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
				o.until(e.At)
				if err := o.objects(alice, f.Attempt, 1); err != nil {
					o.Error(err)
				}
			case fact.AttemptTold, fact.EffectClaimed, fact.EffectRenewed, fact.EffectSettled:
			default:
				o.until(e.At)
				o.decides(e.Subject, f)
			}
		}
	}
	wantDrop(o.T, o.objects(alice, nostr.ID{0xa, 1}, 1), guild.Repeated)
}

// endsAlike checks that both verdicts were told in the same messages and that the objection was accepted once.
func (o *office) endsAlike(died string, want []nostr.ID, before []fact.Entry) {
	o.Helper()
	told := o.all("attempt.told")
	if len(told) != 2 || told[0].(fact.AttemptTold).Message != want[0] || told[1].(fact.AttemptTold).Message != want[1] {
		o.Errorf("after %s: told %+v", died, told)
	}
	if n := len(o.all("attempt.disputed")); n != 1 {
		o.Errorf("after %s: %d objections", died, n)
	}
	for _, id := range o.ids() {
		if !slices.Contains(want, id) {
			o.Errorf("after %s: a message of its own", died)
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
		o.Errorf("after %s: %d messages after %d", died, len(o.ids()), sent)
	}
}
