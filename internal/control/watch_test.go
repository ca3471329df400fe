package control_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
)

// life appends the facts of a job from its first attempt to its end, an entry for each step, and calls after
// each of them.
func (d *desk) life(id guild.JobID, after func()) (attempt nostr.ID) {
	d.Helper()
	attempt = nostr.ID{id[0], 1}
	request := nostr.Event{ID: attempt, PubKey: alice.PubKey}
	for _, f := range []fact.Fact{
		fact.AttemptPlanned{Attempt: attempt, Job: id, Provider: alice, Request: request, Unmet: true},
		fact.AttemptRequested{Attempt: attempt, Relays: []string{"wss://a"}},
		fact.AttemptProgressed{Attempt: attempt, Status: "partial", Text: "half way"},
		fact.AttemptDelivered{Attempt: attempt, Size: 3 << 20, LatencyMs: 1500},
		fact.AttemptJudged{Attempt: attempt, Verdict: guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Passed: 3, Expected: 3, Strength: guild.Strong, Tier: "namespaces"}},
		fact.JobClosed{Job: id, Ending: guild.JobAccepted},
		fact.AttemptRecorded{Attempt: attempt, Receipt: "r-" + id.String()[:4], Stored: d.put(`{"a":1}`), Replay: d.put("{}\n")},
	} {
		d.append(fact.JobSubject(id), f)
		after()
	}
	d.append(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: alice, To: 600_000, First: true, Job: id, Attempt: attempt})
	after()
	return attempt
}

func (d *desk) put(text string) guild.Hash {
	d.Helper()
	h, err := d.blobs.PutBytes(d.Context(), []byte(text))
	if err != nil {
		d.Fatal(err)
	}
	return h
}

// lifeTold lists the updates of life.
var lifeTold = []string{
	"bundle done 2.0 KB, ", `discover done `, "request done asked ", "work progress half way", "work done delivery 3.0 MB, 1.5s after the request",
	"judge done SUCCESS: 3 of 3 passed, score 1.00, strong, namespaces", "record progress the job is accepted", "record done receipt r-0100",
	"trust done ", "trust done the job is accepted",
}

func (d *desk) wantTold(updates []control.Update) {
	d.Helper()
	if len(updates) != len(lifeTold) {
		d.Fatalf("%d updates, want %d: %+v", len(updates), len(lifeTold), updates)
	}
	for i, u := range updates {
		if text := u.Step + " " + u.State + " " + u.Text; !strings.HasPrefix(text, lifeTold[i]) {
			d.Errorf("update %d: %q, want %q", i, text, lifeTold[i])
		}
		if !slices.Contains(control.Steps[:], u.Step) || u.Job != (guild.JobID{1}).String() || i > 0 && u.Seq < updates[i-1].Seq {
			d.Errorf("update %d: %+v", i, u)
		}
	}
	last := updates[len(updates)-1]
	if last.Event != "ended" || last.Ended == nil || last.Ended.Ending != guild.JobAccepted || *last.Ended.Attempts[0].TrustTo != 0.6 || last.Ended.Attempts[0].TrustFrom != nil {
		d.Errorf("the last: %+v", last)
	}
}

// watch reads the updates of a job to their end.
func (d *desk) watch(prefix string) (all []control.Update) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	for u, err := range d.Watch(ctx, prefix) {
		if err != nil {
			d.Errorf("watch: %v", err)
			return all
		}
		all = append(all, u)
	}
	return all
}

func TestLateWatcherGetsAllUpdates(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	d.open(guild.JobID{2})
	d.life(guild.JobID{1}, func() { d.append(fact.JobSubject(guild.JobID{2}), fact.EffectSettled{Effect: "x"}) })
	d.wantTold(d.watch("01"))
	d.append(fact.JobSubject(guild.JobID{1}), fact.EffectSettled{Effect: "the deletion is published later"})
	d.wantTold(d.watch("01"))
}

func TestTrustLineSaysThatProviderIsSuspended(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	d.life(guild.JobID{1}, func() {})
	d.append(fact.ProviderSubject(alice.PubKey), fact.ProviderMoved{Service: alice, From: guild.Seen, To: guild.Suspended})
	updates := d.watch("01")
	d.wantTold(updates)
	if text := updates[len(updates)-2].Text; !strings.HasSuffix(text, "now trusted 0.60, suspended") {
		t.Errorf("the trust moved: %q", text)
	}
}

func TestWatcherGetsUpdatesLive(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	heard := make(chan control.Update)
	go func() {
		defer close(heard)
		for u, err := range d.Watch(t.Context(), "01") {
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			heard <- u
		}
	}()
	updates := []control.Update{<-heard}
	d.life(guild.JobID{1}, func() { updates = append(updates, <-heard) }) // one for each, before the next
	updates = append(updates, <-heard)
	if _, more := <-heard; more {
		t.Error("there is more after the end")
	}
	d.wantTold(updates)
}

func TestStreamOfJobWithoutAttempts(t *testing.T) {
	d := openDesk(t)
	id := guild.JobID{1}
	d.open(id)
	d.append(fact.JobSubject(id), fact.JobClosed{Job: id, Ending: guild.JobUnclaimed, Reason: "nobody offers it"})
	updates := d.watch("01")
	if n := len(updates); n != 3 || updates[1].Text != "nobody offers it" || updates[2].State != "failed" {
		t.Errorf("%+v", updates)
	}
}

func TestStreamOfArchivedJob(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	d.life(guild.JobID{1}, func() {})
	nextMillisecond()
	between := time.Now()
	nextMillisecond()
	d.open(guild.JobID{2})
	if _, err := d.journal.Archive(t.Context(), between, nil); err != nil {
		t.Fatal(err)
	}
	updates := d.watch("01")
	if len(updates) != 1 || updates[0].Event != "ended" || updates[0].Ended.Ending != guild.JobAccepted {
		t.Errorf("%+v", updates)
	}
}

func TestLeavingWatcherIsNotCounted(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	ctx, cancel := context.WithCancel(t.Context())
	next := make(chan control.Update)
	go func() {
		defer close(next)
		for u := range d.Watch(ctx, "01") {
			next <- u
		}
	}()
	<-next
	if n := d.server.Clients(); n != 1 {
		t.Errorf("%d clients", n)
	}
	cancel()
	for range next {
	}
	for late := time.After(time.Minute); d.server.Clients() != 0; {
		select {
		case <-late:
			t.Fatal("it is still counted")
		case <-time.After(time.Millisecond):
		}
	}
}
