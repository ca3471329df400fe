package pay

import (
	"strings"
	"testing"

	"guild"
	"guild/internal/journal/fact"
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

func TestKillAtEveryAppend(t *testing.T) {
	all := wholeEscrow(t, "")
	for _, at := range all {
		t.Run(at, func(t *testing.T) { wholeEscrow(t, at) })
	}
	t.Logf("%d points:\n  %s", len(all), strings.Join(all, "\n  "))
	if len(all) < 26 {
		t.Error("they are too few")
	}
}
