package control_test

import (
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// decided appends a job whose attempt the router gave to alice, who costs more and is trusted more than the other.
func (d *desk) decided(id guild.JobID, rule string, other guild.Service) {
	d.Helper()
	hash, err := policy.Specification().Hash()
	if err != nil {
		d.Fatal(err)
	}
	d.open(id)
	attempt := nostr.ID{id[0], 1}
	choice := fact.Choice{Policy: hash, Rule: rule, Tier: "primary", Dice: [3]guild.Trust{900_000, 100_000, 0}, Count: 2, Candidates: []fact.Candidate{
		{Service: alice, Tier: "primary", Trust: 900_000, Cost: 2_000, Terms: fact.Terms{Trust: 360_000, Cost: 50_000}, Score: 410_000},
		{Service: other, Name: "cheap", Tier: "primary", Trust: 800_000, Cost: 1_000, Terms: fact.Terms{Trust: 320_000, Cost: 75_000}, Score: 395_000},
	}}
	d.append(fact.JobSubject(id), fact.AttemptPlanned{Attempt: attempt, Job: id, Provider: alice, Bid: 2_000, Choice: &choice})
	d.append(fact.JobSubject(id), fact.AttemptJudged{Attempt: attempt, Verdict: guild.Verdict{Outcome: guild.Success, Score: 900_000}})
}

func TestChoices(t *testing.T) {
	d := openDesk(t)
	other := guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 3}), D: "python"}
	d.decided(guild.JobID{0xab}, "best", other)
	all, err := control.Choices.Call(t.Context(), d.Client, "ab")
	if err != nil || len(all) != 1 || all[0].Choice == nil || all[0].Provider != nip19.EncodeNpub(alice.PubKey) || all[0].Bid != 2_000 || all[0].Task != "python" ||
		len(all[0].Choice.Candidates) != 2 || all[0].Choice.Candidates[0].Score != 410_000 || all[0].State == "" {
		t.Errorf("%+v, %v", all, err)
	}
	d.open(guild.JobID{0xcd})
	if none, err := control.Choices.Call(t.Context(), d.Client, "cd"); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	d.wantProblem("GET", "/v1/jobs/ef/choices", nil, 404, "missing")
}

// TestOtherSettingsWouldHaveChosenOtherwise: by cost alone the terms are 0.05/0.25 = 0.2 and 0.075/0.25 = 0.3, so that
// the cheap one is first.
func TestOtherSettingsWouldHaveChosenOtherwise(t *testing.T) {
	d := openDesk(t)
	other := guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 3}), D: "python"}
	d.decided(guild.JobID{0xab}, "best", other)
	d.decided(guild.JobID{0xcd}, "named", other)
	before := d.journal.Last()
	for _, c := range []struct {
		name      string
		how       control.RouterSettings
		decisions int
		changed   int
		kept      int
	}{
		{"as it was", control.RouterSettings{}, 1, 0, 1},
		{"by cost alone", control.RouterSettings{Weights: map[string]float64{"cost": 4}}, 1, 1, 1},
		{"of another task", control.RouterSettings{Task: "go"}, 0, 0, 0},
		{"of what is to come", control.RouterSettings{Since: time.Now().Add(time.Hour).UnixMilli()}, 0, 0, 0},
	} {
		r, err := control.ReplayRouting.Call(t.Context(), d.Client, c.how)
		if err != nil || r.Decisions != c.decisions || r.Changed != c.changed || r.Kept != c.kept || len(r.Choices) != c.changed {
			t.Errorf("%s: %+v, %v", c.name, r, err)
			continue
		}
		if c.changed > 0 && (r.Choices[0].Instead != nip19.EncodeNpub(other.PubKey) || r.Choices[0].Name != "cheap" || r.Choices[0].WouldFor != 1_000) {
			t.Errorf("%s: %+v", c.name, r.Choices[0])
		}
	}
	if d.journal.Last() != before {
		t.Error("a replay wrote something")
	}
}

func TestWrongRouterSettings(t *testing.T) {
	d := openDesk(t)
	const path = "/v1/market/replay"
	all := bodies(path)
	for what, body := range map[string]string{
		"an unknown policy":         `{"policy":"mine"}`,
		"epsilon above one":         `{"epsilon":1.5}`,
		"epsilon below zero":        `{"epsilon":-0.1}`,
		"an unknown weight":         `{"weights":{"luck":1}}`,
		"a weight below zero":       `{"weights":{"cost":-1}}`,
		"weights of nothing":        `{"weights":{"cost":0}}`,
		"two tiers":                 `{"tiers":[0.5,0.5]}`,
		"a tier above one":          `{"tiers":[2,0,0]}`,
		"a weight beyond all bound": `{"weights":{"cost":1e300}}`,
	} {
		all = append(all, wrong{what, path, body, 400, "usage"})
	}
	d.refuses(all)
}
