package partner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/market/registry"
	"guild/internal/policy"
)

// Ends of attempts.
var (
	well   = judged(guild.Success, 900_000)
	parted = judged(guild.Partial, 700_000)
	badly  = judged(guild.Failure, 0)
)

// works has a service end one attempt after the other.
func (w *world) works(s guild.Service, ends ...func(nostr.ID) fact.Fact) {
	w.Helper()
	for _, end := range ends {
		w.attempt(s, end)
	}
}

// promised has the provider accept a request and never deliver.
func (w *world) promised(s guild.Service) {
	w.Helper()
	w.attempts++
	id := nostr.ID{byte(w.attempts)}
	w.append(fact.AttemptPlanned{Attempt: id, Provider: s}, fact.AttemptProgressed{Attempt: id}, fact.AttemptExpired{Attempt: id, Reason: "silent for too long"})
}

// delivers has deliveries with a latency accepted.
func (w *world) delivers(s guild.Service, times int, latency time.Duration) {
	w.Helper()
	w.deliversOf(s, 0, times, latency)
}

// deliversOf has deliveries for bundles of a number of bytes accepted.
func (w *world) deliversOf(s guild.Service, bytes int64, times int, latency time.Duration) {
	w.Helper()
	for range times {
		w.attempts++
		id := nostr.ID{byte(w.attempts), byte(w.attempts >> 8)}
		job := guild.JobID{byte(w.attempts), byte(w.attempts >> 8)}
		w.append(fact.JobOpened{Job: job, Size: bytes}, fact.AttemptPlanned{Job: job, Attempt: id, Provider: s}, fact.AttemptDelivered{Attempt: id, LatencyMs: latency.Milliseconds()}, well(id))
	}
}

func repeat[T any](n int, one T) (all []T) {
	for range n {
		all = append(all, one)
	}
	return all
}

// partner returns a service that has passed its benchmark.
func (w *world) partner(n byte) guild.Service {
	w.Helper()
	s := newProvider(n).service("a")
	w.meets(s, guild.Active, well, well, well)
	return s
}

// lastTurn returns the latest transition of a service.
func (w *world) lastTurn(s guild.Service) Transition {
	w.Helper()
	story := w.fold.Story(s)
	if len(story) == 0 {
		w.Fatal("no transition")
	}
	return story[len(story)-1]
}

// TestDegradationTriggers follows the table of section 3.4.1: success rate < 95 % over 7 days, p95 latency > 200 % of
// the baseline, 3 consecutive timeouts.
func TestDegradationTriggers(t *testing.T) {
	type deeds func(w *world, s guild.Service)
	work := func(ends ...func(nostr.ID) fact.Fact) deeds {
		return func(w *world, s guild.Service) { w.works(s, ends...) }
	}
	two := append(repeat(16, well), badly, well, badly, well) // 18 of 20 are 90 %
	for _, c := range []struct {
		name   string
		do     deeds
		want   guild.ProviderState
		signal string // of the latest transition
	}{
		{"18 of 20 accepted is 90 %", work(two...), guild.Suspended, fact.SignalRate},
		{"19 of 20 is 95 %, and not below", work(append(repeat(18, well), badly, well)...), guild.Active, ""},
		{"17 of 19 is too few to say", work(two[1:]...), guild.Active, ""},
		{"in more than 7 days it is forgotten", func(w *world, s guild.Service) {
			w.works(s, badly, well, badly, well)
			w.sleep(7 * day)
			w.works(s, repeat(20, well)...)
		}, guild.Active, ""},
		{"in exactly less it is not", func(w *world, s guild.Service) {
			w.works(s, badly, well, badly, well)
			w.sleep(7*day - time.Millisecond)
			w.works(s, repeat(16, well)...)
		}, guild.Suspended, fact.SignalRate},
		// The 95th percentile of twenty is the second slowest of them; 200 % of 2 s are 4 s.
		{"more than twice as slow as before", func(w *world, s guild.Service) {
			w.delivers(s, 20, 2*time.Second)
			w.sleep(7 * day)
			w.delivers(s, 20, 4001*time.Millisecond)
		}, guild.Suspended, fact.SignalLatency},
		{"twice as slow is not more than that", func(w *world, s guild.Service) {
			w.delivers(s, 20, 2*time.Second)
			w.sleep(7 * day)
			w.delivers(s, 20, 4*time.Second)
		}, guild.Active, ""},
		{"nineteen are too few to say", func(w *world, s guild.Service) {
			w.delivers(s, 20, 2*time.Second)
			w.sleep(7 * day)
			w.delivers(s, 19, 9*time.Second)
		}, guild.Active, ""},
		{"one slow job is no sign", func(w *world, s guild.Service) {
			w.delivers(w.partner(2), 20, 400*time.Millisecond)
			w.delivers(s, 11, 400*time.Millisecond)
			w.delivers(s, 1, 4*time.Second)
			w.delivers(s, 20, 400*time.Millisecond)
		}, guild.Active, ""},
		{"large jobs are not compared with small ones", func(w *world, s guild.Service) {
			w.delivers(s, 20, 2*time.Second)
			w.sleep(7 * day)
			w.deliversOf(s, 1<<20, 20, 9*time.Second)
		}, guild.Active, ""},
		{"large jobs are compared with large ones", func(w *world, s guild.Service) {
			w.deliversOf(s, 1<<20, 20, 2*time.Second)
			w.sleep(7 * day)
			w.deliversOf(s, 1<<20+5000, 20, 9*time.Second)
		}, guild.Suspended, fact.SignalLatency},
		{"a newcomer is compared with others", func(w *world, s guild.Service) {
			w.delivers(w.partner(2), 20, 2*time.Second)
			w.delivers(s, 20, 4001*time.Millisecond)
		}, guild.Suspended, fact.SignalLatency},
		{"without others there is no comparison", func(w *world, s guild.Service) { w.delivers(s, 20, time.Hour) }, guild.Active, ""},
		{"below a second it is the network", func(w *world, s guild.Service) {
			w.delivers(s, 20, 100*time.Millisecond)
			w.sleep(7 * day)
			w.delivers(s, 20, 999*time.Millisecond)
		}, guild.Active, ""},
		{"3 consecutive timeouts", func(w *world, s guild.Service) {
			for range 3 {
				w.promised(s)
			}
		}, guild.Suspended, fact.SignalTimeouts},
		{"2 are not 3", func(w *world, s guild.Service) {
			w.promised(s)
			w.promised(s)
		}, guild.Reduced, fact.SignalTimeout},
		{"a success between them ends the row", func(w *world, s guild.Service) {
			w.promised(s)
			w.works(s, well)
			w.promised(s)
			w.works(s, well)
			w.promised(s)
		}, guild.Warned, fact.SignalTimeout},
		{"trust at its floor", func(w *world, s guild.Service) {
			w.append(fact.TrustChanged{Task: "python", Service: s, To: 100_000, Suspends: true, Attempt: nostr.ID{99}})
		}, guild.Suspended, fact.SignalFloor},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLight(t)
			s := w.partner(1)
			c.do(w, s)
			w.wantState(s, c.want)
			last := w.lastTurn(s)
			if last.Signal != c.signal || last.Cause == "" {
				t.Errorf("%+v, want signal %q", last, c.signal)
			}
			suspected := c.signal == fact.SignalRate || c.signal == fact.SignalLatency || c.signal == fact.SignalTimeouts
			if strings.HasPrefix(last.Cause, "SUSPECTED_DEGRADED") != suspected {
				t.Errorf("%q", last.Cause)
			}
			if c.want == guild.Suspended && last.Until != w.now().Add(30*day).UnixMilli() {
				t.Errorf("suspended until %d", last.Until)
			}
		})
	}
}

// TestRateBelowPolicy: 95 % of 20 ends are 19. 18 accepted ends lack 1, and the standard error is √(0.95 · 0.05 · 20) =
// 0.97; 17 lack 2.
func TestRateBelowPolicy(t *testing.T) {
	for _, c := range []struct {
		done int
		z    guild.Trust
		want bool
	}{
		{19, 0, false}, {18, 0, true}, {18, 1_000_000, true}, {18, 1_100_000, false}, {17, 2_000_000, true}, {17, 2_100_000, false},
	} {
		p := policy.Specification().Lifecycle
		p.RateZ = c.z
		if got := below(c.done, 20, p); got != c.want {
			t.Errorf("%d of 20 is below by %.1f standard errors: %v", c.done, c.z.Float(), got)
		}
	}
	for n := range uint64(2000) {
		if x := root(n * 977); x*x > n*977 || (x+1)*(x+1) <= n*977 {
			t.Fatalf("the root of %d is not %d", n*977, x)
		}
	}
	if x := root(1<<64 - 1); x != 1<<32-1 {
		t.Errorf("%d", x)
	}
}

// TestMonitoring follows the table of section 3.4.1: 24 h of silence lead to a probe, a heartbeat is weekly, and
// outcomes of tasks count at once (TestDegradationTriggers).
func TestMonitoring(t *testing.T) {
	t.Run("", func(t *testing.T) {
		w := newLight(t)
		s := w.partner(1)
		w.sleep(7*day - time.Millisecond)
		w.wantCheckup(s, "")
		w.sleep(time.Millisecond)
		w.wantCheckup(s, guild.PurposeHeartbeat)
		w.append(fact.MeetingBegan{Meeting: "h", Service: s, Purpose: guild.PurposeHeartbeat})
		w.wantCheckup(s, "")
		w.wantState(s, guild.Active)
		w.append(fact.MeetingEnded{Meeting: "h", Service: s, To: guild.Active})
		w.sleep(7 * day)
		w.wantCheckup(s, guild.PurposeHeartbeat)
		w.meetsFor(guild.PurposeHeartbeat, s, guild.Unqualified, badly)
		w.wantState(s, guild.Warned)
		w.meetsFor(guild.PurposeHeartbeat, s, guild.Conditional, parted)
		w.wantState(s, guild.Warned) // a partial result is not a success
		w.meetsFor(guild.PurposeHeartbeat, s, guild.Active, well)
		w.wantState(s, guild.Active)
	})
	t.Run("", func(t *testing.T) {
		w := newLight(t)
		start := w.now()
		w.c.Hears = func() time.Time { return start }
		alice := newProvider(1)
		w.sees(alice, python("a"))
		s := w.partner(1)
		w.sleep(day - time.Millisecond)
		w.wantState(s, guild.Active)
		w.wantCheckup(s, "")
		w.sees(alice, python("a")) // it is reachable
		w.sleep(day - time.Second)
		w.wantState(s, guild.Active)
		w.sleep(time.Second)
		w.wantState(s, guild.Warned)
		if got := w.lastTurn(s).Signal; got != fact.SignalSilence {
			t.Errorf("for %q", got)
		}
		w.wantCheckup(s, guild.PurposeProbe)
		w.meetsFor(guild.PurposeProbe, s, guild.Active, func(id nostr.ID) fact.Fact { return fact.AttemptProgressed{Attempt: id} })
		w.wantState(s, guild.Active)
		w.wantCheckup(s, "")
		w.sleep(day)
		w.meetsFor(guild.PurposeProbe, s, "", silent)
		w.wantState(s, guild.Unresponsive) // the second sign of decline
		w.sleep(quiet)
		w.wantState(s, guild.Reduced)
	})
	t.Run("", func(t *testing.T) { // no silence counts while the node is not connected
		w := newLight(t)
		w.c.Hears = func() time.Time { return time.Time{} }
		w.sees(newProvider(1), python("a"))
		s := w.partner(1)
		w.sleep(3 * day)
		w.wantState(s, guild.Active)
		w.wantCheckup(s, "")
		now := w.now()
		w.c.Hears = func() time.Time { return now }
		w.sleep(day)
		w.wantState(s, guild.Warned)
	})
}

// TestLadder follows the table of section 3.4.2: each stage by its condition, and its recovery path.
func TestLadder(t *testing.T) {
	type deeds func(w *world, s guild.Service)
	work := func(ends ...func(nostr.ID) fact.Fact) deeds {
		return func(w *world, s guild.Service) { w.works(s, ends...) }
	}
	meet := func(purpose string, to guild.ProviderState, ends ...func(nostr.ID) fact.Fact) deeds {
		return func(w *world, s guild.Service) { w.meetsFor(purpose, s, to, ends...) }
	}
	wait := func(d time.Duration) deeds {
		return func(w *world, _ guild.Service) { w.sleep(d) }
	}
	const reverify, retry = guild.PurposeReverify, guild.PurposeRetry
	for _, c := range []struct {
		name string
		do   []deeds
		want guild.ProviderState
		due  string // the benchmark that is due
	}{
		{"1: the first signal warns", []deeds{work(badly)}, guild.Warned, ""},
		{"1: automatic on the next success", []deeds{work(badly, well)}, guild.Active, ""},
		{"1: to where it was before", []deeds{meet("", guild.Conditional, well, badly, badly), work(badly, well)}, guild.Conditional, ""},
		{"1: a part of a delivery is no success", []deeds{work(badly, parted)}, guild.Warned, ""},
		{"2: the second signal reduces", []deeds{work(badly, badly)}, guild.Reduced, reverify},
		{"2: so does a sustained warning", []deeds{work(badly), wait(time.Hour), work(parted), wait(7*day - time.Hour)}, guild.Reduced, reverify},
		{"2: not a moment sooner", []deeds{work(badly), wait(time.Hour), work(parted), wait(7*day - time.Hour - time.Millisecond)}, guild.Warned, ""},
		{"2: nor if it was never asked", []deeds{work(badly), wait(time.Millisecond), wait(8 * day)}, guild.Warned, guild.PurposeHeartbeat},
		{"2: a success is not enough", []deeds{work(badly, badly, well)}, guild.Reduced, reverify},
		{"2: benchmark re-verification", []deeds{work(badly, badly), meet(reverify, guild.Active, well, well, well)}, guild.Active, ""},
		{"2: by its score", []deeds{work(badly, badly), meet(reverify, guild.Conditional, well, badly, badly)}, guild.Conditional, ""},
		{"2: a benchmark that teaches nothing changes nothing", []deeds{work(badly, badly), meet(reverify, "")}, guild.Reduced, reverify},
		{"3: the third signal suspends", []deeds{work(badly, badly, badly)}, guild.Suspended, ""},
		{"3: a failed re-verification is one", []deeds{work(badly, badly), meet(reverify, guild.Unqualified, badly, badly, badly)}, guild.Suspended, ""},
		{"3: so is one that is not answered", []deeds{work(badly, badly), meet(reverify, "", silent)}, guild.Suspended, ""},
		{"3: a success is not enough", []deeds{work(badly, badly, badly, well)}, guild.Suspended, ""},
		{"3: automatic retry after 30 days", []deeds{work(badly, badly, badly), wait(30 * day)}, guild.Suspended, retry},
		{"3: not a moment sooner", []deeds{work(badly, badly, badly), wait(30*day - time.Millisecond)}, guild.Suspended, ""},
		{"3: that brings it back", []deeds{work(badly, badly, badly), wait(30 * day), meet(retry, guild.Active, well, well, well)}, guild.Active, ""},
		{"3: or leaves it there", []deeds{work(badly, badly, badly), wait(30 * day), meet(retry, "", silent)}, guild.Suspended, ""},
		{"4: a failed retry removes", []deeds{work(badly, badly, badly), wait(30 * day), meet(retry, guild.Unqualified, badly, badly, badly)}, guild.Removed, ""},
		{"4: so do 3 suspensions without an accepted job between them", []deeds{
			work(badly, badly, badly), wait(30 * day), meet(retry, guild.Active, well, well, well),
			work(badly, badly, badly), wait(30 * day), meet(retry, guild.Active, well, well, well), work(badly, badly, badly)}, guild.Removed, ""},
		{"4: not with an accepted job between them", []deeds{
			work(badly, badly, badly), wait(30 * day), meet(retry, guild.Active, well, well, well), work(well),
			work(badly, badly, badly), wait(30 * day), meet(retry, guild.Active, well, well, well), work(badly, badly, badly)}, guild.Suspended, ""},
		{"4: a violation removes at once", []deeds{work(judged(guild.Violation, 0))}, guild.Removed, ""},
		{"silence is a quarantine first, and the warning waits", []deeds{work(silent)}, guild.Unresponsive, ""},
		{"the warning comes when the quarantine ends", []deeds{work(silent), wait(quiet)}, guild.Warned, ""},
		{"an answer ends it at once", []deeds{work(silent, well)}, guild.Active, ""},
		{"silence during a quarantine counts once", []deeds{work(silent, silent), wait(quiet)}, guild.Warned, ""},
		{"three silences in a row suspend", []deeds{work(silent, silent, silent)}, guild.Suspended, ""},
		{"silence of a warned one is the second signal", []deeds{work(badly, silent), wait(quiet)}, guild.Reduced, reverify},
		{"three parts in a row make a conditional one", []deeds{work(parted, parted, parted)}, guild.Conditional, ""},
		{"two parts in a row change nothing", []deeds{work(parted, parted)}, guild.Active, ""},
		{"three successes make a conditional one active", []deeds{meet("", guild.Conditional, well, badly, badly), work(well, well, well)}, guild.Active, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLight(t)
			s := w.partner(1)
			for _, do := range c.do {
				do(w, s)
			}
			w.wantState(s, c.want)
			w.wantCheckup(s, c.due)
			if w.leftover() != 0 {
				t.Errorf("left over: %s", foldtest.Snapshot(t, w.fold))
			}
			for _, turn := range w.fold.Story(s) {
				if !turn.From.CanBecome(turn.To) || turn.Cause == "" {
					t.Errorf("%+v", turn)
				}
			}
		})
	}
}

// TestRetryAfterRejection follows the table of section 3.4.3: the cooldown by the number of failed evaluations, and the
// cause of the next evaluation.
func TestRetryAfterRejection(t *testing.T) {
	const none, kinds, patch, minor, other = "nothing", "another task", "1.0.1", "1.1.0", "two"
	for _, c := range []struct {
		failures int
		cooldown time.Duration
		update   string
		want     bool
	}{
		{1, 1 * day, none, true}, // scheduled
		{2, 3 * day, none, true},
		{2, 3 * day, kinds, true},
		{3, 7 * day, none, false}, // only with another announcement
		{3, 7 * day, kinds, true},
		{3, 7 * day, patch, true},
		{4, 30 * day, none, false},
		{4, 30 * day, kinds, false}, // only with a significant change of its version
		{4, 30 * day, patch, false},
		{4, 30 * day, minor, true},
		{4, 30 * day, other, true},
		{5, 30 * day, patch, false},
		{5, 30 * day, minor, true},
	} {
		t.Run(fmt.Sprint(c.failures, " and ", c.update), func(t *testing.T) {
			w, alice := newLight(t), newProvider(1)
			s, h := alice.service("a"), python("a")
			h.Version = "1.0.0"
			w.sees(alice, h)
			for range c.failures {
				w.meets(s, guild.Unqualified, badly, well)
			}
			w.meetsFor(guild.PurposeRetry, s, "") // nothing is learned, and nothing is counted
			rec, _, _ := w.fold.record(registry.IDOf(s))
			if rec.Failed != c.failures {
				t.Fatalf("%d failed evaluations", rec.Failed)
			}
			w.wantState(s, guild.Unqualified)
			switch c.update {
			case none:
			case kinds:
				h.Tasks = append(h.Tasks, "shell")
			default:
				h.Version = c.update
			}
			w.sleep(time.Second)
			w.sees(alice, h)
			w.sleep(c.cooldown / 2)
			w.sees(alice, h) // a new date alone is no other announcement
			w.sleep(c.cooldown / 2)
			want := ""
			if c.want {
				want = guild.PurposeRetry
			}
			w.wantCheckup(s, want)
			if coming := w.Next(s); len(coming) == 0 || coming[len(coming)-1].At.IsZero() == c.want {
				t.Errorf("next: %v", coming)
			}
		})
	}
}

func TestCooldown(t *testing.T) { // section 3.4.3
	t.Run("", func(t *testing.T) {
		w, alice := newLight(t), newProvider(1)
		s, h := alice.service("a"), python("a")
		w.sees(alice, h)
		for n, want := range []time.Duration{day, 3 * day, 7 * day, 30 * day, 30 * day} {
			w.meetsFor(guild.PurposeRetry, s, guild.Unqualified, badly, well)
			h.Version = fmt.Sprint(n, ".0.0")
			w.sleep(time.Second)
			w.sees(alice, h)
			w.sleep(want - time.Second - time.Millisecond)
			w.wantCheckup(s, "")
			w.sleep(time.Millisecond)
			w.wantCheckup(s, guild.PurposeRetry)
		}
	})
	t.Run("", func(t *testing.T) { // section 3.2.3
		w, s := newLight(t), newProvider(1).service("a")
		w.meets(s, guild.Unqualified, badly, badly, badly)
		w.sleep(month - time.Millisecond)
		w.wantCheckup(s, "")
		w.sleep(time.Millisecond)
		w.wantCheckup(s, guild.PurposeRetry)
	})
}

func TestSignificantVersions(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"1.0.0", "1.0.0", false}, {"1.0.0", "1.0.9", false}, {"1.0.0", "1.1.0", true}, {"1.9.0", "2.0.0", true}, {"v1.2.3", "1.2.4-rc.1+b", false},
		{"1.2", "1.2.5", false}, {"1.2", "1.3", true}, {"", "", false}, {"", "1.0.0", true}, {"one", "two", true}, {"1.0.0", "1.0.0.1", true},
		{"2024-01", "2024-01", false}, {"7", "8", true}, {"1.x", "1.y", true},
	} {
		if got := significant(c.from, c.to); got != c.want {
			t.Errorf("%q to %q: %v", c.from, c.to, got)
		}
	}
}

// TestOverturnedVerdict checks that the effects of a verdict end when the delivery is judged again with another
// outcome.
func TestOverturnedVerdict(t *testing.T) {
	again := func(w *world, n int, end func(nostr.ID) fact.Fact) { w.append(end(nostr.ID{byte(w.attempts + n)})) }
	for _, c := range []struct {
		name string
		do   func(w *world, s guild.Service)
		want guild.ProviderState
	}{
		{"a warning", func(w *world, s guild.Service) { w.works(s, badly); again(w, 0, well) }, guild.Active},
		{"the first of two signals", func(w *world, s guild.Service) { w.works(s, badly, badly); again(w, -1, well) }, guild.Warned},
		{"one of three signals", func(w *world, s guild.Service) { w.works(s, badly, badly, badly); again(w, -1, well) }, guild.Reduced},
		{"all three signals", func(w *world, s guild.Service) {
			w.works(s, badly, badly, badly)
			for n := range 3 {
				again(w, -n, well)
			}
		}, guild.Active},
		{"the failure that made the rate too low", func(w *world, s guild.Service) {
			w.works(s, append(repeat(16, well), badly, well, badly, well)...)
			w.wantState(s, guild.Suspended)
			again(w, -1, well)
		}, guild.Active},
		{"a failure for a failure changes nothing", func(w *world, s guild.Service) { w.works(s, badly); again(w, 0, judged(guild.Error, 0)) }, guild.Warned},
		{"a wrong success is a signal", func(w *world, s guild.Service) { w.works(s, well); again(w, 0, badly) }, guild.Warned},
		{"a violation that was none", func(w *world, s guild.Service) {
			w.works(s, judged(guild.Violation, 0))
			w.wantState(newProvider(1).service("other"), guild.Removed)
			again(w, 0, badly)
			w.wantState(newProvider(1).service("other"), guild.Seen)
		}, guild.Active},
		{"a success that was a violation", func(w *world, s guild.Service) { w.works(s, well); again(w, 0, judged(guild.Violation, 0)) }, guild.Removed},
		{"a verdict on something never asked for", func(w *world, s guild.Service) { again(w, 9, badly) }, guild.Active},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLight(t)
			s := w.partner(1)
			c.do(w, s)
			w.wantState(s, c.want)
			if w.leftover() != 0 {
				t.Errorf("left over: %s", foldtest.Snapshot(t, w.fold))
			}
		})
	}
	t.Run("", func(t *testing.T) {
		w, s := newLight(t), newProvider(1).service("a")
		w.works(s, badly)
		w.wantState(s, guild.Unqualified)
		again(w, 0, well)
		w.wantState(s, guild.Active) // as if this had been the first verdict
		if r, _, _ := w.fold.record(registry.IDOf(s)); r.Failed != 0 {
			t.Errorf("%d failed evaluations", r.Failed)
		}
	})
	t.Run("", func(t *testing.T) {
		w, s := newLight(t), newProvider(1).service("a")
		w.meets(s, guild.Unqualified, badly, badly, badly)
		w.wantCheckup(s, "")
		again(w, 0, well)
		w.wantCheckup(s, guild.PurposeRetry) // an evaluation with a wrong verdict is repeated at once
	})
}
