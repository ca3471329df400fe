package work

import (
	"testing"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/fold"
)

// history draws entries about a few requests, of which not all make sense.
func history(t *rapid.T) (all []fact.Entry) {
	for n := range rapid.IntRange(0, 5).Draw(t, "requests") {
		id := nostr.ID{byte(n + 1)}
		event := nostr.Event{ID: id, Kind: 5000, PubKey: customer.key}
		answer := nostr.Event{ID: nostr.ID{byte(n + 1), 1}, Kind: 6000, PubKey: us.key}
		one := rapid.SampledFrom([]fact.Fact{
			fact.RequestReceived{Request: id, Customer: customer.key, Service: "python", Event: event},
			fact.RequestFinished{Request: id, Ending: delivered, Answers: []nostr.Event{answer}},
			fact.RequestFinished{Request: id, Ending: failed}, fact.RequestCancelled{Request: id},
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

func TestARestoredFoldGoesOnAsIfNothingHadHappened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := history(t)
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		whole, before, after := NewFold(), NewFold(), NewFold()
		for i, e := range all {
			whole.Apply(e)
			if i < cut {
				before.Apply(e)
			}
		}
		if err := after.Restore([]byte(snapshot(t, before))); err != nil {
			t.Fatal(err)
		}
		for _, e := range all[cut:] {
			after.Apply(e)
		}
		if a, b := snapshot(t, whole), snapshot(t, after); a != b {
			t.Fatalf("%s\n%s", a, b)
		}
		if a, b := len(whole.pending()), len(after.pending()); a != b {
			t.Fatalf("%d and %d pending", a, b)
		}
		if a, b := whole.counts("python"), after.counts("python"); a.Queued != b.Queued || a.Delivered != b.Delivered || a.Failed != b.Failed {
			t.Fatalf("%+v and %+v", a, b)
		}
	})
}

func snapshot(t interface{ Fatal(...any) }, f fold.Fold) string {
	b, err := f.Freeze()()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAnEmptyFoldCanBeRestored(t *testing.T) {
	if err := NewFold().Restore([]byte(snapshot(t, NewFold()))); err != nil {
		t.Error(err)
	}
}

func TestAGarbledSnapshotIsRefusedAndChangesNothing(t *testing.T) {
	f := NewFold()
	f.Apply(fact.Entry{Seq: 1, Subject: "request.1", Facts: []fact.Fact{
		fact.RequestReceived{Request: nostr.ID{1}, Customer: customer.key, Event: nostr.Event{PubKey: customer.key}}}})
	before := snapshot(t, f)
	for _, garbage := range []string{``, `null`, `{}`, `7`, `[7]`, before[:len(before)-1]} {
		if err := f.Restore([]byte(garbage)); err == nil || snapshot(t, f) != before || len(f.pending()) != 1 {
			t.Errorf("%q: %v", garbage, err)
		}
	}
}
