package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild/internal/journal/journaltest"
	"guild/internal/step/activity"
	"guild/nook"
)

// workedAccount returns a step with some work and a history from before, and its clock.
func workedAccount(t *testing.T) (s *activity.Step, clock *time.Time) {
	t.Helper()
	f, now := activity.NewFold(), time.Now()
	s = activity.New(activity.Config{Journal: journaltest.Open(t, f), Now: func() time.Time { return now }, Owner: "node", Key: "npub1ours"}, f)
	event := func(id string) nook.Event {
		return nook.Event{ID: id, Type: nook.TypeCompleted, AgentID: "ada", WorkUnitID: id, Tokens: 5000, Timestamp: now.UnixMilli()}
	}
	if err := s.Import(t.Context(), activity.Own, []nook.Event{event("old")}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := s.Report(t.Context(), activity.Own, []nook.Event{event(fmt.Sprint("event-", i))}); err != nil {
			t.Fatal(err)
		}
	}
	return s, &now
}

func exportsOf(t *testing.T, s *activity.Step) map[string]string {
	t.Helper()
	raw, err := s.Exports(t.Context(), activity.Own)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for name, b := range raw {
		all[name] = string(b)
	}
	return all
}

func TestTamperedFilesAreFound(t *testing.T) {
	s, clock := workedAccount(t)
	want := exportsOf(t, s)
	decode := func(name string, edit func(*nook.Profile, *[]nook.EventLog, *nook.Ledger)) string {
		t.Helper()
		p, err := nook.DecodeProfile([]byte(want["profile.json"]))
		logs, err2 := nook.DecodeEvents([]byte(want["events.json"]))
		ledger, err3 := nook.DecodeLedger([]byte(want["sparks.json"]))
		if err != nil || err2 != nil || err3 != nil {
			t.Fatal(err, err2, err3)
		}
		edit(&p, &logs, &ledger)
		b, err := nook.EncodeExport(map[string]any{"profile.json": p, "events.json": logs, "sparks.json": ledger}[name])
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	type edit = func(*nook.Profile, *[]nook.EventLog, *nook.Ledger)
	for _, c := range []struct {
		file, what string
		edit       edit
		want       string
	}{
		{"events.json", "deletion", func(_ *nook.Profile, l *[]nook.EventLog, _ *nook.Ledger) { *l = append((*l)[:2], (*l)[3:]...) }, "event 3 of the journal, event-2, is missing"},
		{"events.json", "edit", func(_ *nook.Profile, l *[]nook.EventLog, _ *nook.Ledger) { (*l)[1].Event.Tokens++ }, "event 2, event-1, was edited"},
		{"events.json", "sparks", func(_ *nook.Profile, l *[]nook.EventLog, _ *nook.Ledger) { (*l)[1].Sparks++ }, "event 2, event-1, was edited"},
		{"events.json", "reorder", func(_ *nook.Profile, l *[]nook.EventLog, _ *nook.Ledger) { (*l)[0], (*l)[1] = (*l)[1], (*l)[0] }, "event 2, event-0, is out of order"},
		{"events.json", "truncation", func(_ *nook.Profile, l *[]nook.EventLog, _ *nook.Ledger) { *l = (*l)[:4] }, "event 5 of the journal, event-4, is missing"},
		{"events.json", "all deleted", func(_ *nook.Profile, l *[]nook.EventLog, _ *nook.Ledger) { *l = []nook.EventLog{} }, "event 1 of the journal"},
		{"events.json", "repetition", func(_ *nook.Profile, l *[]nook.EventLog, _ *nook.Ledger) { *l = append(*l, (*l)[4]) }, "event 6, event-4, is there twice"},
		{"events.json", "addition", func(_ *nook.Profile, l *[]nook.EventLog, _ *nook.Ledger) {
			*l = append(*l, (*l)[4])
			(*l)[5].ID, (*l)[5].Event.ID = "x", "x"
		}, "event 6, x, is not in the journal"},
		{"sparks.json", "deletion", func(_ *nook.Profile, _ *[]nook.EventLog, l *nook.Ledger) {
			l.Traces = append(l.Traces[:2], l.Traces[3:]...)
		}, "trace 3, of event-3"},
		{"sparks.json", "edit", func(_ *nook.Profile, _ *[]nook.EventLog, l *nook.Ledger) { l.Traces[1].Earned++ }, "trace 2, of event-1"},
		{"sparks.json", "reorder", func(_ *nook.Profile, _ *[]nook.EventLog, l *nook.Ledger) {
			l.Traces[0], l.Traces[1] = l.Traces[1], l.Traces[0]
		}, "trace 1, of event-1"},
		{"sparks.json", "truncation", func(_ *nook.Profile, _ *[]nook.EventLog, l *nook.Ledger) { l.Traces = l.Traces[:4] }, "the last 1 traces are missing"},
		{"sparks.json", "totals", func(_ *nook.Profile, _ *[]nook.EventLog, l *nook.Ledger) { l.Totals.Lifetime[0]++ }, "totals"},
		{"profile.json", "sparks", func(p *nook.Profile, _ *[]nook.EventLog, _ *nook.Ledger) { p.Sparks++ }, "profile.json"},
		{"profile.json", "an agent deleted", func(p *nook.Profile, _ *[]nook.EventLog, _ *nook.Ledger) { p.Agents = []nook.AgentProfile{} }, "profile.json"},
		{"profile.json", "achievements moved", func(p *nook.Profile, _ *[]nook.EventLog, _ *nook.Ledger) {
			p.Achievements[0], p.Achievements[1] = p.Achievements[1], p.Achievements[0]
		}, "profile.json"},
		{"profile.json", "a chest deleted", func(p *nook.Profile, _ *[]nook.EventLog, _ *nook.Ledger) { p.Inventory.Chests = []nook.Chest{} }, "profile.json"},
		{"profile.json", "bits", func(p *nook.Profile, _ *[]nook.EventLog, _ *nook.Ledger) { p.Bits += 100 }, "profile.json"},
		{"profile.json", "an item", func(p *nook.Profile, _ *[]nook.EventLog, _ *nook.Ledger) { p.Inventory.Items[0].Tier = nook.Legendary }, "profile.json"},
	} {
		dir := t.TempDir()
		for name, b := range want {
			if name == c.file {
				b = decode(name, c.edit)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := compareExports(dir, want)
		if err != nil || !strings.Contains(strings.Join(got.Faults, "\n"), c.want) {
			t.Errorf("%s: %s: %q, %v, want %q", c.file, c.what, got.Faults, err, c.want)
		}
	}
	for name := range want {
		dir := t.TempDir()
		for other, b := range want {
			if other == name {
				b = b[:len(b)/2]
			}
			if err := os.WriteFile(filepath.Join(dir, other), []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := compareExports(dir, want); err != nil || len(got.Faults) != 1 || !strings.HasPrefix(got.Faults[0], name) {
			t.Errorf("%s cut in half: %q, %v", name, got.Faults, err)
		}
	}

	// The files are those of the journal also later, when states, recent sparks and streaks have changed.
	dir := t.TempDir()
	for name, b := range want {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	*clock = clock.Add(9 * 24 * time.Hour)
	if got, err := compareExports(dir, exportsOf(t, s)); err != nil || len(got.Faults) > 0 || got.Events != 5 {
		t.Errorf("nine days later: %+v, %v", got, err)
	}
}
