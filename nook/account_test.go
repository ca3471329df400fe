package nook_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"guild/nook"
)

// start is a midnight UTC, in Unix ms.
const start = 1_764_201_600_000

// work returns a completed event that arrives at once.
func work(id string, at int64, unit string, tokens int64) nook.Recorded {
	e := nook.Event{ID: id, Type: nook.TypeCompleted, AgentID: "a", WorkUnitID: unit, Tokens: tokens, Timestamp: at}
	return nook.Recorded{Event: e, Arrived: at}
}

// hook returns an event of a hook that arrives at once.
func hook(at int64, trigger string) nook.Recorded {
	e := nook.Event{ID: fmt.Sprint(trigger, at), Type: nook.TypeCompleted, AgentID: "git", Trigger: trigger, Timestamp: at}
	return nook.Recorded{Event: e, Arrived: at}
}

func fold(history ...nook.Recorded) *nook.Account {
	a := nook.New("root")
	for _, r := range history {
		a.Add(r)
	}
	return a
}

func lifetime(a *nook.Account) nook.Sparks { return a.Sparks().Total() }

func snapshot(t rapid.TB, a *nook.Account) string {
	t.Helper()
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// somewhat returns any recorded event of some days.
func somewhat(t *rapid.T, i int) nook.Recorded {
	e := nook.Event{ID: fmt.Sprint(i), Timestamp: start + rapid.Int64Range(0, 3*oracleDay).Draw(t, "at"),
		AgentID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "agent"), Type: nook.TypeCompleted}
	switch rapid.IntRange(0, 9).Draw(t, "type") {
	case 0:
		e.Type = nook.TypeFailed
	case 1:
		e.Type, e.WorkUnitID = nook.TypeStarted, rapid.SampledFrom([]string{"u", "v", "w"}).Draw(t, "unit")
	case 2:
		e.Trigger = rapid.SampledFrom([]string{nook.TriggerCommit, nook.TriggerBugFix, nook.TriggerPR, nook.TriggerBounty}).Draw(t, "trigger")
	case 3:
		e.Type, e.State = nook.TypeState, "sleeping"
	default:
		e.WorkUnitID = fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "unit"))
		e.Tokens = rapid.Int64Range(0, 100_000_000).Draw(t, "tokens")
	}
	return nook.Recorded{Event: e, Level: nook.Level(rapid.IntRange(0, 2).Draw(t, "level"))}
}

// arrive returns the events in the order in which they arrive, each within 24 hours.
func arrive(t *rapid.T, events []nook.Recorded) []nook.Recorded {
	all := slices.Clone(events)
	for i := range all {
		all[i].Arrived = all[i].Event.Timestamp + rapid.Int64Range(0, oracleDay).Draw(t, "delay")
	}
	slices.SortStableFunc(all, func(x, y nook.Recorded) int { return int(x.Arrived - y.Arrived) })
	end := work("end", start+5*oracleDay, "end", 1)
	return append(all, end)
}

func TestOrderOfArrivalDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []nook.Recorded
		for i := range rapid.IntRange(0, 80).Draw(t, "events") {
			events = append(events, somewhat(t, i))
		}
		one, other := nook.New("root"), nook.New("root")
		for _, r := range arrive(t, events) {
			if got := one.Add(r); got != nook.Accepted {
				t.Fatalf("%+v: %v", r, got)
			}
		}
		for _, r := range arrive(t, events) {
			other.Add(r)
			if rapid.IntRange(0, 5).Draw(t, "read") == 0 {
				other.Add(r) // twice
				other.Streak(r.Arrived)
			}
		}
		if a, b := snapshot(t, one), snapshot(t, other); a != b {
			t.Fatalf("the order of arrival matters:\n%s\n%s", a, b)
		}
	})
}

// TestSameEventsSameResult lets the same events arrive in two orders, of several roots at once: with ties of timestamps and of ids,
// repetitions, a clock that is moved back and forward, reads, and restarts from snapshots. Days of work come before and after, so that
// the window moves over everything.
func TestSameEventsSameResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roots := []string{"root", "other"}
		var events []nook.Recorded
		var of []string
		for i := range rapid.IntRange(1, 60).Draw(t, "events") {
			r := somewhat(t, i)
			if rapid.Bool().Draw(t, "tie") {
				r.Event.Timestamp = start + oracleDay + r.Event.Timestamp%3*oracleHour
			}
			r.Event.ID = fmt.Sprint(rapid.SampledFrom([]string{"", "z", "a"}).Draw(t, "id"), i)
			events, of = append(events, r), append(of, rapid.SampledFrom(roots).Draw(t, "root"))
		}
		live := func() string {
			accounts := map[string]*nook.Account{}
			add := func(root string, r nook.Recorded, want ...nook.Status) {
				a := accounts[root]
				if a == nil {
					a = nook.New(root)
				}
				known := a.Has(r.Event.ID)
				if got := a.Add(r); !slices.Contains(want, got) || known && got == nook.Accepted {
					t.Fatalf("%+v: %v, known: %v", r, got, known)
				}
				switch rapid.IntRange(0, 9).Draw(t, "what else") {
				case 0:
					next := new(nook.Account)
					if err := json.Unmarshal([]byte(snapshot(t, a)), next); err != nil {
						t.Fatal(err)
					}
					a = next
				case 1:
					a.Streak(r.Arrived)
				case 2:
					if got := a.Add(r); got == nook.Accepted {
						t.Fatalf("%+v was accepted twice", r)
					}
				}
				accounts[root] = a
			}
			for _, root := range roots {
				for d := range int64(4) {
					add(root, work(fmt.Sprint("before ", d), start-(4-d)*oracleDay, "u", 9000), nook.Accepted)
				}
			}
			order := make([]int, len(events))
			for i := range order {
				order[i] = i
			}
			arrived := make([]int64, len(events))
			for i, r := range events {
				arrived[i] = r.Event.Timestamp + rapid.Int64Range(0, oracleDay).Draw(t, "delay")
			}
			slices.SortStableFunc(order, func(x, y int) int { return int(arrived[x] - arrived[y]) })
			for _, i := range order {
				r := events[i]
				r.Arrived = arrived[i]
				// A clock that is moved back changes what it shows, and nothing before it.
				r.Arrived -= rapid.Int64Range(0, r.Arrived-r.Event.Timestamp).Draw(t, "back")
				add(of[i], r, nook.Accepted)
			}
			for _, root := range roots {
				for d := range int64(4) {
					add(root, work(fmt.Sprint("after ", d), start+(5+d)*oracleDay, "u", 9000), nook.Accepted)
				}
			}
			return snapshot(t, accounts["root"]) + snapshot(t, accounts["other"])
		}
		if a, b := live(), live(); a != b {
			t.Fatalf("the order of arrival matters:\n%s\n%s", a, b)
		}
	})
}

// TestClockAheadSealsTheTime moves the clock ahead and back: what is older than a day before the latest time counts no more,
// whatever the clock shows then, and counts again when that time has come.
func TestClockAheadSealsTheTime(t *testing.T) {
	ahead := work("ahead", start+30*oracleDay, "u", 1000)
	back := work("back", start, "u", 1000)
	a := fold(work("first", start, "u", 1000), ahead)
	if got := a.Add(back); got != nook.Outside || a.Has("back") {
		t.Errorf("back again: %v", got)
	}
	if a.Has("first") || !a.Has("ahead") {
		t.Error("an id is known for 24 hours before the latest time")
	}
	if got := a.Add(work("then", start+29*oracleDay, "u", 1000)); got != nook.Accepted {
		t.Errorf("when the time has come: %v", got)
	}
	if got := a.Add(ahead); got != nook.Duplicate {
		t.Error(got)
	}
}

// TestKnownIDs checks that an id is known for 24 hours and not longer, over many days.
func TestKnownIDs(t *testing.T) {
	a := nook.New("root")
	for i := range int64(500) {
		at := start + i*oracleHour
		if got := a.Add(work(fmt.Sprint(i), at, "u", 1)); got != nook.Accepted {
			t.Fatalf("%d: %v", i, got)
		}
		for k := range i + 1 {
			if got, want := a.Has(fmt.Sprint(k)), i-k <= 24; got != want {
				t.Fatalf("%d hours later event %d is known: %v", i-k, k, got)
			}
		}
	}
}

func TestMoreEventsNeverEarnLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := nook.New("root")
		before := nook.Sparks(0)
		for i := range rapid.IntRange(0, 40).Draw(t, "events") {
			r := somewhat(t, i)
			r.Event.Timestamp = start + r.Event.Timestamp%oracleDay
			r.Arrived = start + oracleDay
			a.Add(r)
			if after := lifetime(a); after < before {
				t.Fatalf("%+v: %s, before it %s", r, after, before)
			}
			before = lifetime(a)
		}
	})
}

func TestSnapshotContinues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []nook.Recorded
		for i := range rapid.IntRange(1, 60).Draw(t, "events") {
			events = append(events, somewhat(t, i))
		}
		one := nook.New("root")
		other := one
		for _, r := range arrive(t, events) {
			one.Add(r)
			if other.Add(r); rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				next := new(nook.Account)
				if err := json.Unmarshal([]byte(snapshot(t, other)), next); err != nil {
					t.Fatal(err)
				}
				if a, b := snapshot(t, other), snapshot(t, next); a != b {
					t.Fatalf("decoded otherwise:\n%s\n%s", a, b)
				}
				other = next
			}
		}
		if a, b := snapshot(t, one), snapshot(t, other); a != b {
			t.Fatalf("a restart changes the result:\n%s\n%s", a, b)
		}
	})
}

// farm folds a history and returns what it earned.
func farm(t *testing.T, what string, history []nook.Recorded, most nook.Sparks) {
	t.Helper()
	got := lifetime(fold(history...))
	t.Logf("%s: %d events earn %s sparks, at most %s", what, len(history), got, most)
	if got > most {
		t.Errorf("%s: %s sparks, more than %s", what, got, most)
	}
}

func TestFarmingGainsNothingBeyondCaps(t *testing.T) {
	var crowd, replay, tiny, huge, made, back, forth []nook.Recorded
	for i := range 10_000 {
		at := start + int64(i)*8640 // one day
		r := work(fmt.Sprint(i), at, fmt.Sprint(i%50), 5_000_000)
		r.Event.AgentID = fmt.Sprint("agent ", i)
		crowd = append(crowd, r)
		replay = append(replay, work("same", start+oracleHour, "u", 5_000_000))
		tiny = append(tiny, work(fmt.Sprint(i), at, "u", 1))
		huge = append(huge, work(fmt.Sprint(i), at, fmt.Sprint(i), nook.MaxTokens))
		made = append(made, work(fmt.Sprint(i), start+int64(i), fmt.Sprint(i), nook.MaxTokens)) // in ten seconds
	}
	for d := range int64(30) {
		for h := range int64(24) {
			// Backdated into each of the last 30 days, all of it sent now; and with the clock set back to that day.
			at := start + (30-d)*oracleDay - (h+1)*oracleHour
			r := work(fmt.Sprint("b", d, h), at, fmt.Sprint(h), nook.MaxTokens)
			set := r
			r.Arrived = start + 30*oracleDay
			back = append(back, r)
			forth = append(forth, set)
		}
	}
	farm(t, "10,000 agents of one root in a day", crowd, nook.DailyCap)
	farm(t, "one event replayed", replay, lifetime(fold(replay[0])))
	farm(t, "tiny repeated work in a day", tiny, nook.DailyCap)
	farm(t, "huge token counts in a day", huge, nook.DailyCap)
	farm(t, "self-made completions in ten seconds", made, nook.HourlyCap)
	farm(t, "backdated into 30 days", back, nook.DailyCap)
	farm(t, "clock moved back day by day", forth, 2*nook.DailyCap)

	there := slices.Clone(forth)
	slices.Reverse(there)
	farm(t, "clock moved forward 30 days, and back again", append(there, forth...), 30*nook.DailyCap)
	once := lifetime(fold(there...))
	for i := range forth {
		forth[i].Event.ID += " again"
	}
	if again := lifetime(fold(append(there, forth...)...)); again != once {
		t.Errorf("the way back earns %s more", again-once)
	}
}

func TestFailedWorkEarnsNothing(t *testing.T) {
	r := work("1", start, "u", 1_000_000)
	r.Event.Success = no()
	failed := nook.Recorded{Event: nook.Event{ID: "2", Type: nook.TypeFailed, AgentID: "a", Timestamp: start}, Arrived: start}
	a := fold(r, failed, hook(start, nook.TriggerCommit))
	if got := lifetime(a); got != 0 {
		t.Error(got)
	}
	if agents := a.Agents(start); agents[0].Failed != 2 || agents[0].Completed != 1 || agents[0].Tokens != 1_000_000 {
		t.Errorf("%+v", agents)
	}
}

func TestDistinctWorkUnits(t *testing.T) {
	now := int64(start + 2*oracleDay)
	begun := nook.Recorded{Event: nook.Event{ID: "begun", Type: nook.TypeStarted, AgentID: "b", WorkUnitID: "w", Timestamp: now - 5}, Arrived: now}
	commit := hook(now-4, nook.TriggerCommit)
	commit.Event.WorkUnitID = "not work"
	for _, c := range []struct {
		name   string
		before []nook.Recorded
		unit   string
		want   int
	}{
		{"its own", nil, "u", 1},
		{"none", nil, "", 0},
		{"of others, but not twice", []nook.Recorded{work("1", now-3, "v", 0), work("2", now-2, "v", 0), work("3", now-1, "u", 0)}, "u", 2},
		{"an unnamed event adds none", []nook.Recorded{work("1", now-3, "v", 0)}, "", 1},
		{"almost 24 hours ago", []nook.Recorded{work("1", now-oracleDay+1, "v", 0)}, "u", 2},
		{"24 hours ago", []nook.Recorded{work("1", now-oracleDay, "v", 0)}, "u", 1},
		{"of another agent, not yet completed", []nook.Recorded{begun}, "u", 2},
		{"what a hook saw", []nook.Recorded{commit}, "u", 1},
		{"at the same time, with a larger id", []nook.Recorded{work("z", now, "v", 0)}, "u", 1},
		{"at the same time, with a smaller id", []nook.Recorded{work("a", now, "v", 0)}, "u", 2},
	} {
		history := append(c.before, work("last", now, c.unit, 1000))
		for tr := range nook.Traces("root", slices.Values(history)) {
			if tr.ID == "last" && (tr.Units != c.want || tr.Earned != nook.Raw(1000, c.want)) {
				t.Errorf("%s: %+v, want %d", c.name, tr, c.want)
			}
		}
	}
}

func TestReusedIDIsKnownAgain(t *testing.T) {
	late := work("late", start+5*oracleHour, "u", 1)
	late.Arrived = start + 11*oracleHour
	a := fold(work("x", start, "u", 1), work("y", start+10*oracleHour, "u", 1), late)
	again := work("x", start+25*oracleHour, "u", 1)
	if got := a.Add(again); got != nook.Accepted {
		t.Errorf("%v: an id can be used again when its event is firm", got)
	}
	a.Sparks()
	if got := a.Add(again); got != nook.Duplicate {
		t.Error(got)
	}
}

func TestAddSaysWhatItDid(t *testing.T) {
	a := nook.New("root")
	now := work("now", start+oracleDay, "u", 1)
	old := work("old", start-1, "u", 1)
	old.Arrived = start
	soon := work("soon", now.Arrived+60_001, "u", 1)
	soon.Arrived = now.Arrived
	beat := nook.Recorded{Event: nook.Event{Type: nook.TypeHeartbeat, AgentID: "a", Timestamp: start}, Arrived: start}
	edge := work("edge", start, "u", 1)
	for i, c := range []struct {
		r    nook.Recorded
		want nook.Status
	}{
		{now, nook.Accepted}, {now, nook.Duplicate}, {old, nook.Outside}, {soon, nook.Outside}, {beat, nook.Transient}, {edge, nook.Accepted},
	} {
		if got := a.Add(c.r); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}

func TestProjectionsSplitByAgentAndLevel(t *testing.T) {
	a := nook.New("root")
	for i, level := range []nook.Level{nook.Reported, nook.Judged, nook.ReceiptBound} {
		r := work(fmt.Sprint(i), start+int64(i)*3*oracleDay, "u", 1000)
		r.Event.AgentID, r.Level = fmt.Sprint("agent ", i%2), level
		a.Add(r)
	}
	one := nook.Raw(1000, 1)
	now := int64(start + 6*oracleDay + oracleHour)
	want := nook.Projection{Lifetime: nook.Split{one, one, one}, Day: nook.Split{0, 0, one}, Week: nook.Split{one, one, one}}
	if got := a.Totals(now); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := a.Totals(now + oracleDay).Week; got != (nook.Split{0, one, one}) {
		t.Errorf("a day later %v", got)
	}
	agents := a.Agents(now)
	if len(agents) != 2 || agents[0].Lifetime != (nook.Split{one, 0, one}) || agents[1].Day != (nook.Split{}) {
		t.Errorf("%+v", agents)
	}
}

func TestReceiptRaisesWhatJudgedWorkHasEarned(t *testing.T) {
	judged := func(id string, at int64) nook.Recorded {
		r := work(id, at, id, 50_000)
		r.Level = nook.Judged
		return r
	}
	for name, later := range map[string]int64{"at once": 0, "when it can still change": oracleDay / 2, "when it is firm": 2 * oracleDay, "a month later": 29 * oracleDay, "too late": 32 * oracleDay} {
		a := fold(judged("paid", start), judged("unpaid", start+1), work("later", start+later+2, "later", 1))
		before := a.Sparks()
		copied := new(nook.Account)
		if err := json.Unmarshal([]byte(snapshot(t, a)), copied); err != nil {
			t.Fatal(err)
		}
		for _, account := range []*nook.Account{a, copied} {
			for range 2 {
				account.Raise("paid")
				account.Raise("unknown")
				account.Raise("later") // it is only reported
			}
		}
		got := a.Sparks()
		if want := nook.Raw(50_000, 1); name != "too late" && got[nook.ReceiptBound] != want || name == "too late" && got != before {
			t.Errorf("%s: %v, before it %v", name, got, before)
		}
		if got.Total() != before.Total() || got[nook.Reported] != before[nook.Reported] {
			t.Errorf("%s: %v, before it %v", name, got, before)
		}
		if snapshot(t, a) != snapshot(t, copied) {
			t.Errorf("%s: a restart changes\n%s\nto\n%s", name, snapshot(t, a), snapshot(t, copied))
		}
	}
}
