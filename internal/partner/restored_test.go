package partner

import (
	"testing"
	"testing/synctest"
	"time"

	"guild"
)

// TestOfARestoredBackupWhoIsNotAnnouncedBecomesStale is the recovery of section 3.3.4 on a new machine: entries are
// compared with live announcements, once relays have had a minute to give these.
func TestOfARestoredBackupWhoIsNotAnnouncedBecomesStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newLight(t)
		gone, stays, byHand := old.partner(1), old.partner(2), old.partner(3)
		m, _, err := old.fold.order(byHand, Force, "a person")
		if err != nil {
			t.Fatal(err)
		}
		old.append(m)
		w := newWorld(t)
		start := time.Time{}
		w.hears = func() time.Time { return start }
		w.open()
		if err := w.Restore(t.Context(), old.fold.Rows(), "b1"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Hour)
		w.wantState(gone, guild.Active) // no relay has answered: nobody can say who is not announced
		start = time.Now()
		w.announces(newProvider(2), python(stays.D))
		w.sleep(deafness + time.Second) // until it is looked at again
		w.sleep(time.Minute)
		w.wantState(gone, guild.Stale)
		w.wantState(stays, guild.Active)
		w.wantState(byHand, guild.Active)
		if offers := w.registry.Offers("python", 5000); len(offers) != 1 || offers[0].Service != stays {
			t.Errorf("%+v", offers)
		}
		w.announces(newProvider(1), python(gone.D))
		w.works(stays, well)            // the runner looks again with the next fact
		w.wantState(gone, guild.Active) // it was only away
	})
}
