package work

import (
	"testing"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
)

// history draws entries about a few requests. Not all make sense.
func history(t *rapid.T) (all []fact.Entry) {
	for n := range rapid.IntRange(0, 5).Draw(t, "requests") {
		id := nostr.ID{byte(n + 1)}
		event := nostr.Event{ID: id, Kind: 5000, PubKey: customer.key}
		answer := nostr.Event{ID: nostr.ID{byte(n + 1), 1}, Kind: 6000, PubKey: us.key}
		one := rapid.SampledFrom([]fact.Fact{
			fact.RequestReceived{Request: id, Customer: customer.key, Service: "python", Event: event},
			fact.RequestFinished{Request: id, Ending: delivered, Answers: []nostr.Event{answer}},
			fact.RequestFinished{Request: id, Ending: failed}, fact.RequestFinished{Request: id, Ending: unpaid}, fact.RequestCancelled{Request: id},
			fact.EffectSettled{Effect: due.Publishing(answer.ID)}, fact.EffectParked{Effect: due.Publishing(answer.ID), Reason: "x"},
			fact.EffectParked{Effect: doing(id), Reason: "x"}, fact.EffectSettled{Effect: doing(id)},
		})
		for _, f := range rapid.SliceOfN(one, 0, 6).Draw(t, "life") {
			seq := len(all) + 1
			all = append(all, fact.Entry{Seq: uint64(seq), At: int64(seq), Subject: fact.RequestSubject(id), Facts: []fact.Fact{f}})
		}
	}
	return all
}

func TestFoldRestore(t *testing.T) {
	foldtest.GoesOn(t, NewFold, history, func(t *rapid.T, whole, restored *Fold) {
		if a, b := len(whole.pending()), len(restored.pending()); a != b {
			t.Fatalf("%d pending, and %d in the restored fold", a, b)
		}
		if a, b := whole.counts("python"), restored.counts("python"); a.Delivered != b.Delivered || a.Failed != b.Failed {
			t.Fatalf("counts %+v, and %+v in the restored fold", a, b)
		}
	})
}

func TestFoldRefusesGarbledSnapshots(t *testing.T) {
	f := NewFold()
	f.Apply(fact.Entry{Seq: 1, Subject: "request.1", Facts: []fact.Fact{
		fact.RequestReceived{Request: nostr.ID{1}, Customer: customer.key, Event: nostr.Event{PubKey: customer.key}}}})
	foldtest.Refuses(t, f, append(foldtest.Partial(t, f), `7`, `[7]`)...)
	if n := len(f.pending()); n != 1 {
		t.Errorf("%d requests pending, want 1", n)
	}
}
