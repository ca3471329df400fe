package pay

import (
	"encoding/hex"
	"testing"
	"time"

	"guild"
	"guild/internal/journal/fact"
)

// vagueWorld is a world whose wallets say little, as some of NIP-47 do.
func vagueWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, withHold, 500)
	w.lightning.vague = true
	return w
}

// TestHeldBeyondTheInvoice checks payments that are held for longer than their invoice is valid, by wallets that say "expired" then.
func TestHeldBeyondTheInvoice(t *testing.T) {
	for name, taken := range map[string]bool{"success": true, "failure": false} {
		t.Run(name, func(t *testing.T) {
			w := vagueWorld(t)
			w.passes()
			w.begun()
			w.later(50 * time.Minute)
			w.account(500_000, 0, 0)
			w.state("held")
			outcome := guild.Failure
			if taken {
				outcome = guild.Success
			}
			w.judged(outcome, guild.Strong)
			w.passes()
			w.later(time.Minute)
			if w.lightning.wants != 1 {
				t.Errorf("ordered %d times", w.lightning.wants)
			}
			if !taken {
				if !w.lightning.bills[0].failed || len(w.provider.fold.locks()) > 0 {
					t.Error("it was not given back")
				}
				w.later(26*time.Hour + unknownAfter) // until then the customer's wallet does not tell this from a payment under way
				w.state(waits + ": the wallet does not say whether it has paid")
				w.ok(w.customer.Approve(t.Context(), attempt, 0))
				w.pump()
				w.account(0, 0, 0)
				w.over()
				return
			}
			w.account(0, 500_000, 500_000)
			w.over()
			if released := facts[fact.AttemptReleased](w, w.customer); len(released) != 1 || released[0].Amount != 500_000 {
				t.Errorf("released: %+v", released)
			}
		})
	}
}

// TestCancelOfAnOpenInvoice checks that a provider which gives up does not forget an invoice that can still be paid.
func TestCancelOfAnOpenInvoice(t *testing.T) {
	gives := func(t *testing.T) *world {
		w := vagueWorld(t)
		w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: failed})
		for range 3 {
			w.now = w.now.Add(3 * time.Second)
			w.step(w.provider)
		}
		if len(w.provider.fold.locks()) != 1 || w.lightning.bills[0].failed {
			t.Error("it forgets an invoice that can still be paid")
		}
		return w
	}
	t.Run("it is paid all the same", func(t *testing.T) {
		w := gives(t)
		w.passes()
		if b := w.lightning.bills[0]; !b.sent || !b.failed || len(w.provider.fold.locks()) > 0 {
			t.Errorf("%+v, %+v", b, w.provider.fold.locks())
		}
		w.account(0, 0, 0)
	})
	t.Run("it expires", func(t *testing.T) {
		w := gives(t)
		w.ends(fact.AttemptCancelled{Attempt: attempt})
		w.later(12 * time.Minute)
		w.over()
		w.account(0, 0, 0)
	})
}

// TestForgottenPayment checks that a payment of which the wallet knows nothing any more counts as held for as long as it could be.
func TestForgottenPayment(t *testing.T) {
	w := begins(t)
	w.provider.deaf = true // it does not take what is released
	w.judged(guild.Success, guild.Strong)
	w.passes()
	w.lightning.forgets = true
	for range 3 {
		w.later(9 * time.Hour)
		w.account(500_000, 0, 0)
	}
	w.later(unknownAfter)
	w.account(0, 0, 0)
	w.over()
}

// TestUnprovenPayment checks that the customer's own preimage proves a payment which its wallet calls settled, once it is released.
func TestUnprovenPayment(t *testing.T) {
	w := begins(t)
	w.lightning.mute = true
	w.lightning.bills[0].paid = true // as the wallet says
	w.later(10 * time.Second)
	if held := w.customer.account("held"); held != 500_000 || len(facts[fact.InvoicePaid](w, w.customer)) != 0 {
		t.Errorf("held %d: it was paid before the release", held)
	}
	w.lightning.bills[0].paid = false

	w = begins(t)
	w.lightning.mute = true
	w.judged(guild.Success, guild.Strong)
	w.passes()
	w.later(time.Minute)
	w.account(0, 500_000, 500_000)
	w.over()
	released := facts[fact.AttemptReleased](w, w.customer)
	if len(released) != 1 {
		t.Fatalf("released: %+v", released)
	}
	preimage, err := hex.DecodeString(released[0].Proof)
	if err != nil || guild.Sum(preimage) != w.lightning.bills[0].inv.PaymentHash {
		t.Errorf("the proof %s is not the preimage: %v", released[0].Proof, err)
	}
}
