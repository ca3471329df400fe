package nip90_test

import (
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

// TestHold checks that a payment hash is read again, and that the job is the same one with it.
func TestHold(t *testing.T) {
	hash := guild.Sum([]byte("x"))
	r := nip90.Request{Kind: 5050}
	r.Set(nip90.ParamJobType, "python")
	before, err := r.JobHash()
	if err != nil {
		t.Fatal(err)
	}
	r.SetHold(hash)
	if after, err := r.JobHash(); err != nil || after != before {
		t.Error("it is another job:", err)
	}
	e, err := r.Event()
	if err != nil {
		t.Fatal(err)
	}
	back, err := nip90.ParseRequest(e, nil)
	if err != nil || nip90.HoldOf(back.Extra) != hash || !nip90.IsHeld(back.Extra) {
		t.Errorf("%q, %v", back.Extra, err)
	}
	f, err := nip90.ParseFeedback(nip90.Feedback{Status: nip90.PaymentRequired, Extra: nostr.Tags{nip90.Hold(hash)}}.Event(), nil)
	if err != nil || nip90.HoldOf(f.Extra) != hash {
		t.Errorf("%q, %v", f.Extra, err)
	}
	for _, tags := range []nostr.Tags{nil, {{"hold"}}, {{"hold", "x"}}, {{"held", hash.Hex()}}} {
		if got := nip90.HoldOf(tags); got != (guild.Hash{}) {
			t.Error(tags, got)
		}
	}
}
