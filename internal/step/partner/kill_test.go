package partner

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
	"guild/internal/step/steptest"
)

// mortal is a step whose process can be killed.
type mortal struct {
	*steptest.World
	fold *Fold
	step *Partners
}

func (m *mortal) open() {
	m.Helper()
	m.fold = newFold()
	m.OpenJournal(m.fold)
	m.step = New(Config{Journal: m.Journal, Now: time.Now, Latest: func(registry.ID) registry.Latest { return registry.Latest{} }}, m.fold)
}

// decide makes the first due decision, and makes it again, as a process does that was killed after the first time.
func (m *mortal) decide() bool {
	m.Helper()
	work, decided := m.ActOnce(m.step.Due)
	if decided {
		m.Act(work)
	}
	return decided
}

// lives writes a history and makes the decisions that follow. If dies is set, the process is killed after every entry.
// It returns the decisions.
func lives(t *testing.T, history [][]fact.Fact, pauses map[int]time.Duration, dies bool) (rows map[string]string, stories string) {
	m := &mortal{World: steptest.New(t)}
	m.open()
	rest := func() {
		for m.decide() {
			if dies {
				m.open()
			}
		}
	}
	for n, facts := range history {
		time.Sleep(pauses[n])
		rest()
		m.Write(fact.MeetingSubject, facts...)
		if dies {
			m.open()
		}
		rest()
	}
	rows = map[string]string{}
	for name, row := range m.fold.Rows() {
		rows[name] = string(row)
	}
	for n := range byte(5) {
		for _, turn := range m.fold.Story(newProvider(n + 1).service("a")) {
			stories += fmt.Sprintf("%d: %s → %s, %s: %s\n", n, turn.From, turn.To, turn.Signal, turn.Cause) // without times, which differ
		}
	}
	return rows, stories
}

// TestKilledAtEveryEntry compares a process that is killed with one that is not: ladders, heartbeats, removals and
// overturned verdicts.
func TestKilledAtEveryEntry(t *testing.T) {
	var history [][]fact.Fact
	pauses := map[int]time.Duration{}
	ids := byte(0)
	add := func(facts ...fact.Fact) { history = append(history, facts) }
	work := func(s guild.Service, ends ...func(nostr.ID) fact.Fact) (last nostr.ID) {
		for _, end := range ends {
			ids++
			last = nostr.ID{ids}
			add(fact.AttemptPlanned{Attempt: last, Provider: s})
			add(fact.AttemptProgressed{Attempt: last})
			add(end(last))
		}
		return last
	}
	meet := func(s guild.Service, purpose string, to guild.ProviderState, ends ...func(nostr.ID) fact.Fact) {
		ids++
		id, job := fmt.Sprint("m", ids), guild.JobID{ids}
		add(fact.MeetingBegan{Meeting: id, Service: s, Purpose: purpose})
		for n, end := range ends {
			ids++
			add(fact.JobOpened{Job: job, Task: "python", Meeting: &fact.Benchmark{Meeting: id, Run: n + 1}})
			add(fact.AttemptPlanned{Attempt: nostr.ID{ids}, Job: job, Provider: s})
			add(end(nostr.ID{ids}))
			add(fact.JobClosed{Job: job})
		}
		add(fact.MeetingEnded{Meeting: id, Service: s, To: to, Cause: "met"})
	}
	pause := func(d time.Duration) { pauses[len(history)] = d }
	var all []guild.Service
	for n := range byte(5) {
		all = append(all, newProvider(n+1).service("a"))
		meet(all[n], "", guild.Active, well, well, well)
	}
	work(all[0], badly, badly, badly)                                   // the ladder to its end
	work(all[1], badly)                                                 //
	meet(all[1], guild.PurposeHeartbeat, guild.Unqualified, badly)      // a heartbeat that fails
	meet(all[1], guild.PurposeReverify, guild.Conditional, well, badly) // and a re-verification
	work(all[2], well, judged(guild.Violation, 0))                      // a removal
	wrong := work(all[3], badly)
	add(well(wrong)) // an overturned verdict
	work(all[4], silent)
	pause(quiet)
	add(fact.JobOpened{})
	work(all[4], badly, silent)
	pause(time.Hour)
	add(fact.JobOpened{})
	var rows [2]map[string]string
	var stories [2]string
	for n, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { rows[n], stories[n] = lives(t, history, pauses, dies) })
	}
	if !maps.Equal(rows[0], rows[1]) || stories[0] != stories[1] {
		t.Errorf("never killed: %v\n%s\nkilled: %v\n%s", rows[0], stories[0], rows[1], stories[1])
	}
	want := []guild.ProviderState{guild.Suspended, guild.Conditional, guild.Removed, guild.Active, guild.Suspended}
	for n, s := range all {
		if row, err := parseRow([]byte(rows[0][rowPrefix+registry.IDOf(s).String()])); err != nil || row.State != want[n] {
			t.Errorf("%d is %s, want %s: %v", n, row.State, want[n], err)
		}
	}
}
