package pay

import (
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// escrows are the ways in which money is held until the verdict. What TestEscrow says holds of all of them.
var escrows = map[string]func() fact.Settlement{
	"ecash":                 func() fact.Settlement { return usual },
	"ecash with an arbiter": contested,
	"Lightning":             func() fact.Settlement { return withHold },
}

// books returns what is held and paid by the customer's books, and earned by the provider's, in the unit.
func (w *world) books() (held, paid, earned int64) {
	if w.lightning == nil {
		return w.has(w.customer, wallet.Held), w.has(w.customer, wallet.Paid), -w.has(w.provider, wallet.Earned)
	}
	return w.customer.account(wallet.Held) / 1000, w.customer.account(wallet.Paid) / 1000, -w.provider.account(wallet.Earned) / 1000
}

func (w *world) wantBooks(held, paid, earned int64) {
	w.Helper()
	if h, p, e := w.books(); h != held || p != paid || e != earned {
		w.Errorf("held %d, paid %d, earned %d; want %d, %d and %d", h, p, e, held, paid, earned)
	}
}

// ended checks that the attempt knows, once, what the provider got by a rule, and that there is a proof of it.
func (w *world) ended(paid uint64, rule string) {
	w.Helper()
	released, refunded := facts[fact.AttemptReleased](w, w.customer), facts[fact.AttemptRefunded](w, w.customer)
	switch {
	case len(released)+len(refunded) != 1:
		w.Errorf("%d released, %d refunded", len(released), len(refunded))
	case paid > 0 && (len(released) != 1 || released[0].Rule != rule || released[0].Amount != guild.Msat(paid*1000) || released[0].Proof == ""):
		w.Errorf("released %+v", released)
	case paid == 0 && (len(refunded) != 1 || refunded[0].Rule != rule || refunded[0].Proof == ""):
		w.Errorf("refunded %+v", refunded)
	}
	if open := w.customer.fold.open(); len(open) > 0 {
		w.Errorf("not over: %+v", open)
	}
}

// TestEscrow has one suite for every escrow: it locks before the work, the provider claims what is released, the customer gets the rest
// back, and nobody gets anything twice, or without the other, before the locktime.
func TestEscrow(t *testing.T) {
	lives := map[string]func(w *world){
		"released and claimed": func(w *world) {
			w.judged(guild.Success, guild.Strong)
			w.passes()
			w.wantBooks(0, 500, 500)
			w.ended(500, ruleStrong)
		},
		"refunded": func(w *world) {
			w.judged(guild.Failure, guild.Strong)
			w.passes()
			if _, paid, earned := w.books(); paid+earned != 0 {
				w.Errorf("paid %d, earned %d", paid, earned)
			}
			w.later(objecting)
			w.passes()
			w.wantBooks(0, 0, 0)
			w.ended(0, ruleNothing)
		},
		"not delivered": func(w *world) {
			w.ends(fact.AttemptExpired{Attempt: attempt, Reason: "silence"})
			w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: "failed"})
			w.passes()
			w.wantBooks(0, 0, 0)
			w.ended(0, ruleUndone)
		},
		"both silent until the locktime": func(w *world) {
			w.provider.deaf, w.customer.deaf = true, true
			w.later(25 * time.Hour)
			w.passes()
			w.wantBooks(500, 0, 0)
			w.ends(fact.AttemptExpired{Attempt: attempt, Silent: true})
			for range 10 {
				w.later(ruling)
			}
			w.wantBooks(0, 0, 0)
			if refunded := facts[fact.AttemptRefunded](w, w.customer); len(refunded) != 1 {
				w.Errorf("refunded %+v", refunded)
			}
		},
		"frozen after it was locked": func(w *world) {
			w.ok(w.customer.Freeze(w.Context(), true))
			w.judged(guild.Success, guild.Strong)
			w.passes()
			w.wantBooks(0, 500, 500)
			w.ended(500, ruleStrong)
		},
		"both start anew": func(w *world) {
			w.open(w.customer)
			w.open(w.provider)
			w.judged(guild.Success, guild.Strong)
			w.passes()
			w.wantBooks(0, 500, 500)
			w.ended(500, ruleStrong)
		},
		"a release is told twice, and by another": func(w *world) {
			release := w.unheardRelease()
			w.wantBooks(w.stillHeld(), 500-w.stillHeld(), 0)
			forged := release
			forged.From[0] ^= 1
			if err := w.provider.TakeRelease(w.Context(), forged); err == nil {
				w.Error("somebody else releases it")
			}
			w.provider.deaf = false
			w.ok(w.provider.TakeRelease(w.Context(), release))
			if err := w.provider.TakeRelease(w.Context(), release); err == nil {
				w.Error("it is released twice")
			}
			w.passes()
			w.later(time.Minute)
			w.wantBooks(0, 500, 500)
			w.ended(500, ruleStrong)
		},
		"a release of less than it says": func(w *world) {
			release := w.unheardRelease()
			s, err := dm.DecodeSignatures(release.Content, dm.TypeRelease)
			w.ok(err)
			for y, signature := range s.Signatures {
				s.Signatures[y] = strings.Repeat("0", 2) + signature[2:]
			}
			if s.Preimage != "" {
				s.Preimage = strings.Repeat("0", 2) + s.Preimage[2:]
			}
			release.Content, err = s.Encode()
			w.ok(err)
			if err := w.provider.TakeRelease(w.Context(), release); err == nil {
				w.Error("a false release is taken")
			}
			if len(facts[fact.LockReleased](w, w.provider)) != 0 {
				w.Error("a false release is noted")
			}
		},
	}
	for rail, order := range escrows {
		for name, live := range lives {
			t.Run(rail+"/"+name, func(t *testing.T) {
				w := newWorld(t, order(), 500)
				if w.provider.Funded(attempt) {
					t.Error("the provider would begin before the money is there")
				}
				w.passes()
				if !w.provider.Funded(attempt) {
					t.Fatal("the provider does not begin")
				}
				w.wantBooks(500, 0, 0)
				live(w)
			})
		}
	}
}

// unheardRelease returns the release of all of it, which the provider does not hear.
func (w *world) unheardRelease() (release dm.Message) {
	w.Helper()
	w.provider.deaf = true
	w.change = func(from *party, m *dm.Message) {
		if from == w.customer && dm.TypeOf(m.Content) == dm.TypeRelease {
			release = *m
		}
	}
	w.judged(guild.Success, guild.Strong)
	w.passes()
	return release
}

// stillHeld returns what of a released price is held until the provider takes it: nothing of ecash, and all of a payment over Lightning.
func (w *world) stillHeld() int64 {
	if w.lightning != nil {
		return 500
	}
	return 0
}
