package guild_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
)

// states are all states of an attempt.
var states = []guild.State{
	guild.Planned, guild.Requested, guild.Quoted, guild.Delivered, guild.Accepted, guild.Partially, guild.Rejected, guild.Violated,
	guild.Undecided, guild.Refused, guild.Expired, guild.Cancelled, guild.Parked, guild.Disputed, guild.Paid, guild.Released,
	guild.Refunded, guild.Recorded,
}

func TestRecordedIsFinalUnlessDisputed(t *testing.T) {
	for _, to := range states {
		if guild.Recorded.CanBecome(to) != (to == guild.Disputed) {
			t.Errorf("a recorded attempt can become %s", to)
		}
	}
}

func TestSettledStatesAreRecorded(t *testing.T) {
	for _, s := range states {
		if got, want := s.Settled(), s.CanBecome(guild.Recorded); got != want {
			t.Errorf("%s is settled: %v, can be recorded: %v", s, got, want)
		}
	}
}

func TestEveryAttemptReachesRecord(t *testing.T) {
	reached := map[guild.State]bool{guild.Planned: true}
	for range states {
		for from := range reached {
			for _, to := range states {
				if from.CanBecome(to) {
					reached[to] = true
				}
			}
		}
	}
	for _, s := range states {
		if !reached[s] {
			t.Errorf("nothing leads from planned to %s", s)
		}
		if s != guild.Recorded && !leadsTo(s, guild.Recorded, map[guild.State]bool{}) {
			t.Errorf("%s never comes to its record", s)
		}
	}
}

func leadsTo(from, to guild.State, seen map[guild.State]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	return from.CanBecome(to) || slices.ContainsFunc(states, func(s guild.State) bool {
		return from.CanBecome(s) && leadsTo(s, to, seen)
	})
}

func TestWaitingStates(t *testing.T) {
	for _, s := range states {
		if s.Waiting() != (s.CanBecome(guild.Delivered) && s.CanBecome(guild.Expired)) {
			t.Errorf("%s: waiting is %v", s, s.Waiting())
		}
		if s.Judged() && !guild.Delivered.CanBecome(s) {
			t.Errorf("%s is a verdict that no delivery can come to", s)
		}
	}
}

func TestAttemptTransitions(t *testing.T) {
	for _, from := range states {
		for _, to := range states {
			a := guild.Attempt{ID: nostr.ID{0xab}, State: from}
			err := a.Move(to)
			wrong, refused := errors.AsType[*guild.TransitionError](err)
			switch {
			case from.CanBecome(to) && (err != nil || a.State != to):
				t.Errorf("%s to %s: %v", from, to, err)
			case !from.CanBecome(to) && (!refused || a.State != from || wrong.From != from || wrong.To != to):
				t.Errorf("%s to %s: %v, now %s", from, to, err, a.State)
			}
		}
	}
}

func TestRecordedAttemptOutcome(t *testing.T) {
	a := guild.Attempt{State: guild.Accepted}
	if err := a.Move(guild.Recorded); err != nil {
		t.Fatal(err)
	}
	if a.Outcome() != guild.Accepted || a.State != guild.Recorded {
		t.Errorf("%s, %s", a.State, a.Outcome())
	}
}

func TestStateFor(t *testing.T) {
	for outcome, want := range map[guild.Outcome]guild.State{
		guild.Success: guild.Accepted, guild.Partial: guild.Partially, guild.Failure: guild.Rejected,
		guild.Error: guild.Rejected, guild.Violation: guild.Violated, "MOON": guild.Rejected,
	} {
		if got := guild.StateFor(outcome); got != want {
			t.Errorf("%s leads to %s, want %s", outcome, got, want)
		}
	}
}

func TestEndingOf(t *testing.T) {
	for _, c := range []struct {
		attempts []guild.State
		want     guild.Ending
	}{
		{nil, guild.JobUnclaimed},
		{[]guild.State{guild.Refused}, guild.JobUnclaimed},
		{[]guild.State{guild.Refused, guild.Expired}, guild.JobTimedOut},
		{[]guild.State{guild.Expired, guild.Rejected}, guild.JobRejected},
		{[]guild.State{guild.Rejected, guild.Partially}, guild.JobPartial},
		{[]guild.State{guild.Rejected, guild.Accepted}, guild.JobAccepted},
		{[]guild.State{guild.Violated, guild.Partially}, guild.JobViolated},
		{[]guild.State{guild.Violated, guild.Accepted}, guild.JobAccepted},
		{[]guild.State{guild.Expired, guild.Parked}, guild.JobParked},
		{[]guild.State{guild.Refused, guild.Cancelled}, guild.JobUnclaimed},
		{[]guild.State{guild.Paid}, guild.JobAccepted},
		{[]guild.State{guild.Rejected, guild.Released}, guild.JobAccepted},
	} {
		var attempts, recorded []guild.Attempt
		for _, s := range c.attempts {
			attempts = append(attempts, guild.Attempt{State: s})
			recorded = append(recorded, guild.Attempt{State: guild.Recorded, Ended: s})
		}
		if got := guild.EndingOf(attempts); got != c.want {
			t.Errorf("%v: %s, want %s", c.attempts, got, c.want)
		}
		if got := guild.EndingOf(recorded); got != c.want {
			t.Errorf("%v, recorded: %s, want %s", c.attempts, got, c.want)
		}
		slices.Reverse(attempts)
		if got := guild.EndingOf(attempts); got != c.want {
			t.Errorf("%v, in another order: %s, want %s", c.attempts, got, c.want)
		}
	}
}

// providerStates are all states of a provider.
var providerStates = []guild.ProviderState{
	guild.Seen, guild.Benchmarking, guild.Active, guild.Conditional, guild.Unqualified, guild.Unresponsive, guild.Warned,
	guild.Reduced, guild.Suspended, guild.Removed, guild.Stale, guild.Archived,
}

func TestEveryProviderCanBeRemoved(t *testing.T) {
	for _, s := range providerStates {
		if s.CanBecome(guild.Removed) != (s != guild.Removed) {
			t.Errorf("%s", s)
		}
	}
}

func TestEveryProviderCanBecomeActive(t *testing.T) {
	for _, from := range providerStates {
		reached := map[guild.ProviderState]bool{from: true}
		for range providerStates {
			for s := range reached {
				for _, to := range providerStates {
					if s.CanBecome(to) {
						reached[to] = true
					}
				}
			}
		}
		if !reached[guild.Active] {
			t.Errorf("nothing leads from %s to work", from)
		}
	}
}

// The table of section 3.4.2 of the partnership protocol.
func TestProviderLadder(t *testing.T) {
	ladder := []guild.ProviderState{guild.Active, guild.Warned, guild.Reduced, guild.Suspended, guild.Removed}
	for i, from := range ladder[:len(ladder)-1] {
		if !from.CanBecome(ladder[i+1]) {
			t.Errorf("%s does not lead to %s", from, ladder[i+1])
		}
	}
	for _, s := range []guild.ProviderState{guild.Warned, guild.Reduced, guild.Suspended} {
		if !s.CanBecome(guild.Active) || !s.CanBecome(guild.Conditional) {
			t.Errorf("there is no way back from %s", s)
		}
	}
	if guild.Active.CanBecome(guild.Reduced) || guild.Conditional.CanBecome(guild.Reduced) {
		t.Error("somebody is reduced without a warning")
	}
}

func TestRejectedProviderNeedsBenchmark(t *testing.T) {
	for _, s := range []guild.ProviderState{guild.Unqualified, guild.Suspended} {
		if s.CanBecome(guild.Seen) || !s.CanBecome(guild.Benchmarking) {
			t.Errorf("%s", s)
		}
	}
}

func TestProviderTransitions(t *testing.T) {
	for _, from := range providerStates {
		for _, to := range providerStates {
			p := guild.Provider{State: from}
			if err := p.Move(to); (err == nil) != from.CanBecome(to) || err == nil && p.State != to || err != nil && p.State != from {
				t.Errorf("%s to %s: %v, now %s", from, to, err, p.State)
			}
		}
	}
}

func TestHashText(t *testing.T) {
	h := guild.Sum([]byte("abc")) // FIPS 180-2, appendix B.1
	const digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if h.Hex() != digits || h.String() != "sha256:"+digits || h.IsZero() {
		t.Errorf("%s", h)
	}
	for _, text := range []string{digits, "sha256:" + digits} {
		if got, err := guild.ParseHash(text); err != nil || got != h {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "sha256:", digits[1:], digits + "0", "sha1:" + digits, strings.Repeat("x", 64), strings.Repeat("a", 1<<20)} {
		if got, err := guild.ParseHash(bad); err == nil || !got.IsZero() || len(err.Error()) > 300 {
			t.Errorf("%.20q: %s, %v", bad, got, err)
		}
	}
}

func TestZeroHashJSON(t *testing.T) {
	b, err := json.Marshal(map[string]guild.Hash{"h": {}})
	if err != nil || string(b) != `{"h":""}` {
		t.Errorf("%s, %v", b, err)
	}
	back := map[string]guild.Hash{}
	if err := json.Unmarshal(b, &back); err != nil || !back["h"].IsZero() {
		t.Errorf("%v, %v", back, err)
	}
}

func TestHashAndJobIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := guild.Sum(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		id := guild.JobID(h[:16])
		b, err := json.Marshal(map[guild.JobID]guild.Hash{id: h})
		if err != nil {
			t.Fatal(err)
		}
		back := map[guild.JobID]guild.Hash{}
		if err := json.Unmarshal(b, &back); err != nil || len(back) != 1 || back[id] != h {
			t.Fatalf("%s: %v, %v", b, back, err)
		}
	})
}

func TestJobID(t *testing.T) {
	id := guild.NewJobID()
	if id == guild.NewJobID() {
		t.Error("two new jobs have the same id")
	}
	if len(id.String()) != 32 || !strings.HasPrefix(id.String(), id.Short()) || len(id.Short()) != 8 {
		t.Errorf("%s, %s", id, id.Short())
	}
	for _, bad := range []string{"", id.Short(), id.String() + "00", strings.Repeat("g", 32)} {
		if _, err := guild.ParseJobID(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestKindOf(t *testing.T) {
	if guild.KindOf("oa.embedding.v1") != 5050 || guild.KindOf("python") != 5000 || guild.KindOf("boa.constrictor") != 5000 {
		t.Error(guild.KindOf("oa.embedding.v1"), guild.KindOf("python"), guild.KindOf("boa.constrictor"))
	}
}

func TestNumberStrings(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{guild.Trust(621_600).String(), "0.62"}, {guild.Trust(0).String(), "0.00"}, {guild.Score(guild.Micro).String(), "1.00"},
		{guild.Score(999_999).String(), "1.00"}, {guild.Msat(21_000).String(), "21000 msat"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"", 5, ""},
		{"grün", 3, "gr"}, {"grün", 4, "grü"}, {"日本", 5, "日"}, {"🙂", 3, ""}, {"a\xff\xfeb", 10, "ab"}, {"\xff", 0, ""},
	} {
		if got := guild.Cut(c.text, c.n); got != c.want {
			t.Errorf("%q to %d bytes: %q, want %q", c.text, c.n, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text, n := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")), rapid.IntRange(0, 50).Draw(t, "n")
		got := guild.Cut(text, n)
		if len(got) > n || !utf8.ValidString(got) || guild.Cut(got, n) != got {
			t.Fatalf("%q", got)
		}
		if utf8.ValidString(text) && !strings.HasPrefix(text, got) {
			t.Fatalf("%q does not begin with %q", text, got)
		}
	})
}

func TestDrop(t *testing.T) {
	err := guild.Drop(guild.Stranger, "%s answered", "mallory")
	dropped, ok := errors.AsType[*guild.DropError](err)
	if !ok || dropped.Reason != guild.Stranger || err.Error() != "dropped: stranger: mallory answered" {
		t.Errorf("%v", err)
	}
}
