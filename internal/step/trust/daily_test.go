package trust

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// worldWithLimit is a world with a daily limit of 0.045, which one failure at 0.6 uses up: 0.3·0.15.
func worldWithLimit(t *testing.T, of string) *world {
	t.Helper()
	w := stillWorld(t)
	w.policy.Trust.Daily, w.policy.Trust.DailyOf = 45_000, of
	w.Run(w.step.Due)
	w.attempt(service(1), judged(guild.Success, 900_000))
	w.attempt(service(2), judged(guild.Success, 900_000))
	return w
}

func limits(all []Alert) (of []guild.Service) {
	for _, a := range all {
		if a.Rule == AlertLimit {
			of = append(of, a.Service)
		}
	}
	return of
}

func TestDailyLimitIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithLimit(t, policy.OfTask)
		w.attempt(service(1), judged(guild.Failure, 0))
		w.wants(service(1), 555_000)
		if got := limits(w.Alerts(time.Now())); got != nil {
			t.Errorf("an alert about %v, and nothing was held back", got)
		}
		w.attempt(service(2), judged(guild.Failure, 0))
		w.wants(service(2), 600_000)
		if c := w.lastChange(); c.Held != 45_000 {
			t.Errorf("%d was held back, want 45000", c.Held)
		}
		if got := limits(w.Alerts(time.Now())); !slices.Equal(got, []guild.Service{service(2)}) {
			t.Errorf("alerts about %v", got)
		}
		time.Sleep(24 * time.Hour)
		if got := limits(w.Alerts(time.Now())); got != nil {
			t.Errorf("a day later: %v", got)
		}
	})
}

func TestDailyLimitOfService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithLimit(t, policy.OfService)
		w.attempt(service(1), judged(guild.Failure, 0))
		w.wants(service(1), 555_000)
		w.attempt(service(2), judged(guild.Failure, 0))
		w.wants(service(2), 555_000)
		w.attempt(service(2), judged(guild.Failure, 0)) // its own limit is used up
		w.wants(service(2), 555_000)
		if got := limits(w.Alerts(time.Now())); !slices.Equal(got, []guild.Service{service(2)}) {
			t.Errorf("alerts about %v", got)
		}
		if got := w.inside().Days.Of("python").Spent; got != 0 {
			t.Errorf("decreases took %d of what the task may gain", got)
		}
		time.Sleep(24 * time.Hour)
		w.attempt(service(2), judged(guild.Failure, 0))
		if got, _ := w.Trust("python", service(2)); got >= 555_000 {
			t.Errorf("on the next day it is %s", got)
		}
	})
}

// Twenty-five failures of others must not shield the next one, and nothing shields a violation.
func TestOthersFailuresShieldNobody(t *testing.T) {
	p := policy.Specification().Trust
	s := at(660_000, 0)
	s.Spent = p.Daily
	if got := Adjust(s, Evidence{Pattern: failed}, p).Next.Trust; got != 615_000 {
		t.Errorf("after a day of others' failures its own leads to %s, want 0.615", got)
	}
	s.Fell = p.Daily
	if got := Adjust(s, Evidence{Pattern: failed}, p).Next.Trust; got != 660_000 {
		t.Errorf("after its own limit it is %s, want 0.66", got)
	}
	if got := Adjust(s, Evidence{Pattern: violation}, p).Next.Trust; got != 570_000 {
		t.Errorf("after a violation it is %s, want 0.57", got)
	}
}

// A change that a success or a second verdict takes back is refunded to the service's own limit.
func TestServiceLimitRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stillWorld(t)
		w.policy.Trust.DailyOf = policy.OfService
		w.Run(w.step.Due)
		w.attempt(service(1), judged(guild.Success, 900_000))
		fell := func(want guild.Trust) {
			t.Helper()
			if got := w.inside().Table.Of(key("python", service(1))).Fell.Spent; got != want {
				t.Errorf("it fell by %d, want %d", got, want)
			}
		}
		w.attempt(service(1), silent()...) // 0.3·0.2
		fell(60_000)
		w.attempt(service(1), judged(guild.Success, 900_000))
		fell(0)
		id := w.attempt(service(1), judged(guild.Failure, 0))
		fell(45_000)
		w.judgeAgain(w.attempts, id, guild.Success)
		fell(0)
	})
}

func TestSnapshotKeepsHeld(t *testing.T) {
	want := pasts{{Seq: 3, At: 5, From: 600_000, To: 600_000, Pattern: failed, Held: 45_000}, {Seq: 4, At: 6, From: 1, To: 2, First: true, Rule: fact.RuleOwner}}
	text, err := want.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var got pasts
	if err := got.UnmarshalText(text); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
