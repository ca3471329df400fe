package pay

import (
	"strings"
	"testing"
	"time"

	"guild"
	"guild/bolt11"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// wholeEscrow lives one escrow of which the provider gets a share, in which a process dies at a point, and returns all points.
func wholeEscrow(t *testing.T, at string) []string {
	t.Helper()
	w := newWorld(t, usual, 500)
	w.at, w.points = at, nil
	w.pump()
	w.judged(guild.Success, guild.Mixed)
	w.pump()
	w.want(9800, 0, 200)
	w.over()
	if w.at != "" {
		t.Errorf("nobody died at %q", at)
	}
	if n := len(facts[fact.PaymentReserved](w, w.customer)); n != 1 {
		t.Errorf("%d reserves", n)
	}
	if n := len(facts[fact.AttemptReleased](w, w.customer)); n != 1 {
		t.Errorf("%d releases in the attempt", n)
	}
	return w.points
}

func TestKillInAnEscrow(t *testing.T) {
	killAtEveryPoint(t, 56, wholeEscrow)
}

func TestKillWithABill(t *testing.T) {
	killAtEveryPoint(t, 14, func(t *testing.T, at string) []string {
		after := ahead
		after.How = postpaid
		w := newWorld(t, after, 500)
		w.at, w.points = at, nil
		w.pump()
		text := w.lightning.sign(bolt11.Invoice{Amount: 500_000, Expiry: time.Hour, Description: "x"}, nil)
		w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptDelivered{Attempt: attempt, Bill: &fact.Bill{Amount: 500_000, Invoice: text}})
		w.judged(guild.Success, guild.Strong)
		w.pump()
		if w.at != "" {
			t.Errorf("nobody died at %q", at)
		}
		if paid := w.customer.account(wallet.Paid); paid != 500_000 || w.lightning.wants != 1 {
			t.Errorf("paid %d, ordered %d times", paid, w.lightning.wants)
		}
		return w.points
	})
}

// killAtEveryPoint has one life with a death at each of its points, of which there must be some number.
func killAtEveryPoint(t *testing.T, least int, live func(t *testing.T, at string) []string) {
	t.Helper()
	all := live(t, "")
	for _, at := range all {
		t.Run(at, func(t *testing.T) { live(t, at) })
	}
	t.Logf("%d points:\n  %s", len(all), strings.Join(all, "\n  "))
	if len(all) < least {
		t.Error("they are too few")
	}
}
