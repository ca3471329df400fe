package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
)

// solver returns a command that solves benchmarks with no more than a provider gets.
func solver(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../internal/judging/suite/testdata/solver.py")
	if err != nil {
		t.Fatal(err)
	}
	return path + " . $GUILD_DELIVERY"
}

// theMeeting returns the only meeting of a node.
func theMeeting(ctx context.Context, c *control.Client) (control.Meeting, error) {
	all, err := control.Meetings.Call(ctx, c)
	if err != nil {
		return control.Meeting{}, err
	}
	if len(all) != 1 {
		return control.Meeting{}, fmt.Errorf("%d meetings", len(all))
	}
	return all[0], nil
}

// TestMeetingSurvivesKills kills the node after every few entries that it writes, from the meeting's first to its last:
// each effect has one claim and one result.
func TestMeetingSurvivesKills(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	provider, home := w.settle("provider"), w.settle("customer")
	w.bySpecification(home) // three runs
	w.work(provider, "python", solver(t))
	customer := w.client(home)

	w.adopts(home)
	p := w.mortalUp(home, 1)
	p.says(t, "ready")
	meet(t, customer, "python")
	known, err := control.Providers.Call(t.Context(), customer, "python")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = control.BeginMeeting.Call(t.Context(), customer, control.Bench{Provider: known[0].Npub}) // it may die before it answers
	deaths := 0
	for over := false; !over; {
		const most = 200 // entries
		if deaths > most {
			t.Fatal("it never ends")
		}
		eventually(t, "its death, or the end", func(ctx context.Context) error {
			select {
			case <-p.ended:
				return nil
			default:
			}
			if m, err := theMeeting(ctx, customer); err != nil || m.Ended == 0 || !settled(ctx, customer, m) {
				return fmt.Errorf("neither yet, after %d deaths: %s, %+v, %w", deaths, p.errs.String(), m, err)
			}
			over = true
			return nil
		})
		if !over {
			deaths++
			p = w.mortalUp(home, 3+deaths%3)
		}
	}

	p.kill() // or it dies of what follows later
	w.up(home)
	m, err := theMeeting(t.Context(), customer)
	if err != nil || m.To != guild.Active || len(m.Runs) != 3 {
		t.Errorf("%+v, %v", m, err)
	}
	all := entries(t, customer)
	counts := map[string]int{}
	for _, e := range all {
		for _, f := range e.Facts {
			counts[f.Type()]++
		}
	}
	for name, want := range map[string]int{"meeting.began": 1, "meeting.ended": 1, "job.opened": 3, "job.closed": 3, "attempt.planned": 3, "attempt.judged": 3} {
		if counts[name] != want {
			t.Errorf("%d times %s, want %d", counts[name], name, want)
		}
	}
	if deaths < 8 {
		t.Errorf("it died %d times only: %v", deaths, counts)
	}
	mustHoldWhatWasNoted(t, customer, home)
	worked := 0
	for _, e := range entries(t, w.client(provider)) {
		for _, f := range e.Facts {
			if _, ok := f.(fact.RequestReceived); ok {
				worked++
			}
		}
	}
	if worked != 3 {
		t.Errorf("the provider was asked %d times, want 3", worked)
	}
	t.Logf("it died %d times", deaths)
}

// settled reports whether a meeting has had all its effects: each of its jobs has its receipt, and the provider is in the
// state that the meeting gave it.
func settled(ctx context.Context, c *control.Client, m control.Meeting) bool {
	for _, r := range m.Runs {
		job, err := control.OneJob.Call(ctx, c, r.Job)
		if err != nil || len(job.Attempts) != 1 || job.Attempts[0].Receipt == "" {
			return false
		}
	}
	known, err := control.Providers.Call(ctx, c, m.Task)
	return err == nil && len(known) == 1 && known[0].State == string(m.To)
}
