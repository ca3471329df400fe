package control_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
)

// delivered writes a job with one delivery for each of the attempts.
func (d *desk) delivered(job guild.JobID, attempts ...nostr.ID) {
	d.Helper()
	d.open(job)
	for _, id := range attempts {
		d.append(fact.JobSubject(job), fact.AttemptPlanned{Attempt: id, Job: job, Provider: alice},
			fact.AttemptDelivered{Attempt: id, Delivery: guild.Hash{7}})
	}
}

// keep stores something as JSON.
func (d *desk) keep(v any) guild.Hash {
	d.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		d.Fatal(err)
	}
	h, err := d.blobs.PutBytes(d.Context(), raw)
	if err != nil {
		d.Fatal(err)
	}
	return h
}

func TestEvidenceWithVerdict(t *testing.T) {
	d := openDesk(t)
	job, judged, waits, asked := guild.JobID{1}, nostr.ID{1}, nostr.ID{2}, nostr.ID{3}
	d.delivered(job, judged, waits)
	d.append(fact.JobSubject(job), fact.AttemptPlanned{Attempt: asked, Job: job, Provider: alice})
	v := guild.Verdict{Outcome: guild.Failure, Cause: "1 of 2", Evidence: d.keep(map[string]int{"runs": 3})}
	d.append(fact.JobSubject(job), fact.AttemptJudged{Attempt: judged, Verdict: v})
	v.Outcome = guild.Success
	d.append(fact.JobSubject(job), fact.AttemptUndecided{Attempt: waits, Reason: "a checklist", Held: d.keep(v)})

	exams, err := control.Evidence.Call(t.Context(), d.Client, "01")
	if err != nil || len(exams) != 2 {
		t.Fatalf("%+v, %v", exams, err)
	}
	first, second := exams[0], exams[1]
	if first.Held || first.Verdict.Outcome != guild.Failure || string(first.Evidence) != `{"runs":3}` {
		t.Errorf("judged: %+v", first)
	}
	if !second.Held || second.Verdict.Outcome != guild.Success || second.Reason != "a checklist" || second.Evidence == nil {
		t.Errorf("waiting: %+v", second)
	}
}

func TestAPersonRulesOnWhatWaits(t *testing.T) {
	d := openDesk(t)
	job, one, two := guild.JobID{1}, nostr.ID{0x11}, nostr.ID{0x22}
	d.delivered(job, one, two)
	if _, err := control.RuleJob.Call(t.Context(), d.Client, control.Rule{Outcome: guild.Success}, "01"); err == nil || !strings.Contains(err.Error(), "nothing of job") {
		t.Errorf("before anything waits: %v", err)
	}
	for _, id := range []nostr.ID{one, two} {
		d.append(fact.JobSubject(job), fact.AttemptUndecided{Attempt: id, Held: d.keep(guild.Verdict{Passed: 2, Expected: 2})})
	}
	for name, rule := range map[string]control.Rule{
		"which of two": {Outcome: guild.Success},
		"no outcome":   {Attempt: "11"},
		"a violation":  {Attempt: "11", Outcome: guild.Violation},
	} {
		var problem *control.ProblemError
		if _, err := control.RuleJob.Call(t.Context(), d.Client, rule, "01"); !errors.As(err, &problem) || problem.Problem.Code != "usage" {
			t.Errorf("%s: %v", name, err)
		}
	}
	after, err := control.RuleJob.Call(t.Context(), d.Client, control.Rule{Attempt: "22", Outcome: guild.Partial, Note: "half"}, "01")
	if err != nil {
		t.Fatal(err)
	}
	v := after.Attempts[1].Verdict
	if after.Attempts[1].State != "partial" || v == nil || v.Ruling == nil || v.Ruling.By != "ab" || v.Ruling.Note != "half" || v.Passed != 2 {
		t.Errorf("%+v, %+v", after.Attempts[1], v)
	}
	if after.Attempts[0].State != "undecided" {
		t.Errorf("the other one is %s", after.Attempts[0].State)
	}
}
