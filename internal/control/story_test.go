package control_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
	"guild/nip89"
)

// asks appends a job with a request to a provider, and the facts that follow.
func (d *desk) asks(job guild.JobID, p guild.Service, attempt nostr.ID, then ...fact.Fact) {
	d.Helper()
	d.open(job)
	d.append(fact.JobSubject(job), fact.AttemptPlanned{Attempt: attempt, Job: job, Provider: p,
		Choice: &fact.Choice{Candidates: []fact.Candidate{{Service: p, Name: "Ada"}}}})
	d.append(fact.JobSubject(job), fact.AttemptRequested{Attempt: attempt})
	for _, f := range then {
		d.append(fact.JobSubject(job), f)
	}
}

func TestWhoDidNothingHasAStory(t *testing.T) {
	d := openDesk(t)
	bob, other := guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 5}), D: "b"}, guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 6}), D: "o"}
	for i, then := range [][]fact.Fact{
		{fact.AttemptRefused{Attempt: nostr.ID{1}, Reason: "it costs 3 sats"}},
		{fact.AttemptRefused{Attempt: nostr.ID{2}, Reason: "queue 9", Later: true}},
		{fact.AttemptRefused{Attempt: nostr.ID{3}, Reason: "no bundle", Fault: true}},
		{fact.AttemptExpired{Attempt: nostr.ID{4}, Reason: "silent for too long", Silent: true}},
		{fact.AttemptProgressed{Attempt: nostr.ID{5}, Status: "processing"}, fact.AttemptExpired{Attempt: nostr.ID{5}, Reason: "the deadline passed"}},
		{fact.AttemptCancelled{Attempt: nostr.ID{6}}},
		nil,
		{fact.AttemptProgressed{Attempt: nostr.ID{8}, Status: "processing"}},
		{fact.AttemptDelivered{Attempt: nostr.ID{9}},
			fact.AttemptJudged{Attempt: nostr.ID{9}, Verdict: guild.Verdict{Outcome: guild.Failure}},
			fact.AttemptTold{Attempt: nostr.ID{9}}, fact.AttemptDisputed{Attempt: nostr.ID{9}, By: "provider", Reason: "it is right"}},
		{fact.AttemptDelivered{Attempt: nostr.ID{10}}, fact.AttemptUndecided{Attempt: nostr.ID{10}, Reason: "no sandbox"}},
		{fact.AttemptDelivered{Attempt: nostr.ID{11}},
			fact.AttemptJudged{Attempt: nostr.ID{11}, Verdict: guild.Verdict{Outcome: guild.Success}},
			fact.AttemptTold{Attempt: nostr.ID{11}, Given: "it has no inbox"}, fact.AttemptDisputed{Attempt: nostr.ID{11}, By: "owner", Reason: "odd"}},
	} {
		d.asks(guild.JobID{byte(i + 1)}, bob, nostr.ID{byte(i + 1)}, then...)
	}
	d.asks(guild.JobID{99}, other, nostr.ID{99}, fact.AttemptRefused{Attempt: nostr.ID{99}, Reason: "somebody else"})
	want := []string{
		"the request was refused: it costs 3 sats",
		"it had no capacity: queue 9",
		"it did not answer as agreed: no bundle",
		"it said not a word: silent for too long",
		"it did not deliver: the deadline passed",
		"we took the request back",
		"it was asked, and has said nothing yet",
		"it was asked, and works on it",
		"it was told the verdict",
		"it objects to the verdict: it is right",
		"its delivery has no verdict yet: no sandbox",
		"it could not be told the verdict: it has no inbox",
		"we doubt the verdict: odd",
	}
	story, err := control.Story.Call(t.Context(), d.Client, bob.PubKey.Hex(), "python")
	var got []string
	for _, c := range story {
		got = append(got, c.Text)
		if c.Seq == 0 || c.At == 0 || c.Task != "python" || c.D != "b" || c.Job == "" || c.Attempt == "" || !strings.HasPrefix(c.Type, "attempt.") {
			t.Errorf("%+v", c)
		}
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if story, err := control.Story.Call(t.Context(), d.Client, bob.PubKey.Hex(), "go"); err != nil || len(story) != 0 {
		t.Errorf("of another task: %+v, %v", story, err)
	}
}

func TestLongStoryHasLatestJobs(t *testing.T) {
	d := openDesk(t)
	bob := guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 5}), D: "b"}
	for n := range byte(210) {
		d.asks(guild.JobID{n, 1}, bob, nostr.ID{n, 1}, fact.AttemptRefused{Attempt: nostr.ID{n, 1}, Reason: fmt.Sprint("no ", n)})
	}
	story, err := control.Story.Call(t.Context(), d.Client, bob.PubKey.Hex())
	if err != nil || len(story) != 200 || !strings.HasSuffix(story[0].Text, "no 10") || !strings.HasSuffix(story[199].Text, "no 209") {
		t.Errorf("%d chapters, %v", len(story), err)
	}
}

func TestTaskSelectsService(t *testing.T) {
	d := openDesk(t)
	for _, h := range []nip89.Handler{{D: "py", Tasks: []string{"python"}}, {D: "sh", Tasks: []string{"shell"}}, {D: "sh-2", Tasks: []string{"zsh"}}} {
		h.Kinds = []int{5000}
		d.announces(7, h)
	}
	key := nostr.GetPublicKey(nostr.SecretKey{31: 7})
	value := 0.5
	set := func(task string) ([]control.Standing, error) {
		return control.ChangeTrust.Call(t.Context(), d.Client, control.SetTrust{Task: task, Trust: &value, Reason: "x"}, key.Hex())
	}
	if all, err := set("shell"); err != nil || len(all) != 1 || all[0].D != "sh" || len(all[0].Trust) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := control.ChangeReview.Call(t.Context(), d.Client, control.ReviewAct{Task: "shell", Reason: "x"}, key.Hex(), "hold"); err != nil {
		t.Errorf("hold: %v", err)
	}
	p := d.wantProblem("POST", "/v1/trust/"+key.Hex(), strings.NewReader(`{"task":"cobol","trust":0.5,"reason":"x"}`), 409, "ambiguous")
	if p.Hint != `name one with --d: "py", "sh", "sh-2"` || !strings.HasSuffix(p.Error, " has 3 services") {
		t.Errorf("%+v", p)
	}
	d.append(fact.TrustSubject("shell"), fact.TrustChanged{Task: "shell", Service: guild.Service{PubKey: key, D: "sh-2"}, To: 500_000, First: true})
	p = d.wantProblem("POST", "/v1/trust/"+key.Hex(), strings.NewReader(`{"task":"shell","trust":0.5,"reason":"x"}`), 409, "ambiguous")
	if p.Hint != `name one with --d: "sh", "sh-2"` || !strings.HasSuffix(p.Error, ` has 2 services for "shell"`) {
		t.Errorf("%+v", p)
	}
}

func TestVariableWithOwnerAndReason(t *testing.T) {
	d := openDesk(t)
	bob := guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 5}), D: "b"}
	d.asks(guild.JobID{1}, bob, nostr.ID{1})
	d.append(fact.VariableSubject(fact.Parallelism), fact.VariableChanged{Name: fact.Parallelism, Key: bob.PubKey.Hex(), To: json.RawMessage("2"),
		Rationale: "its queue is long", Alert: true}, fact.VariableChanged{Name: fact.Parallelism, To: json.RawMessage("9"), Rationale: "too many timed out"})
	d.append(fact.VariableSubject(fact.CostBudget), fact.VariableChanged{Name: fact.CostBudget, Key: "python", To: json.RawMessage("-500"), Rationale: "it is free"})
	m, err := control.Trust.Call(t.Context(), d.Client)
	want := []control.Variable{
		{Name: fact.CostBudget, Key: "python", Value: json.RawMessage("-500"), Why: "it is free"},
		{Name: fact.Parallelism, Value: json.RawMessage("9"), Why: "too many timed out"},
		{Name: fact.Parallelism, Key: bob.PubKey.Hex(), Value: json.RawMessage("2"), Why: "its queue is long", Provider: "Ada", Npub: nip19.EncodeNpub(bob.PubKey)},
	}
	if err != nil || fmt.Sprint(m.Variables) != fmt.Sprint(want) {
		t.Errorf("%+v, %v", m.Variables, err)
	}
	if len(m.Alerts) != 1 || strings.Contains(m.Alerts[0].Text, bob.PubKey.Hex()) || !strings.Contains(m.Alerts[0].Text, "Ada npub1") {
		t.Errorf("%+v", m.Alerts)
	}
}
