package judge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// undecided stands in for a judge whose criteria ask for a person.
func undecided(context.Context, Case) (guild.Verdict, Evidence, error) {
	v := guild.Verdict{Outcome: guild.Success, Score: 700_000, Strength: guild.Strong, Tier: "none", Expected: 2, Passed: 2}
	return v, Evidence("so far"), &PersonNeeded{"the checklist has 3 points"}
}

func TestRuling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		c.does = undecided
		id := c.delivered(1, c.put(packed(t, "delivery", "delivery/x", "done")), nil)
		time.Sleep(time.Hour)
		want := []string{"effect.claimed", "effect.settled", "attempt.undecided"}
		if got := types(c.written(1)); !slices.Equal(got, want) || c.runs != 1 {
			t.Fatalf("facts %v after %d runs", got, c.runs)
		}
		step := NewStep(StepConfig{Blobs: c.blobs}, c.fold)
		ruled := Ruled{guild.Partial, guild.Ruling{By: "ab", Note: "the third is missing", At: 7}}
		if err := step.Rule(t.Context(), c.Journal, id, ruled); err != nil {
			t.Fatal(err)
		}
		facts := c.written(1)
		judged, ok := facts[len(facts)-1].(fact.AttemptJudged)
		v := judged.Verdict
		if !ok || v.Outcome != guild.Partial || v.Score != guild.Micro/2 || v.Ruling == nil || *v.Ruling != ruled.Ruling || v.Passed != 2 {
			t.Errorf("%v: %+v", types(facts), v)
		}
		whole, err := c.blobs.ReadAll(judged.Stored, 1<<20)
		var stored guild.Verdict
		if err != nil || json.Unmarshal(whole, &stored) != nil || stored.Ruling == nil {
			t.Errorf("%+v, %v", stored, err)
		}
		if err := step.Rule(t.Context(), c.Journal, id, ruled); !errors.Is(err, ErrNotHeld) {
			t.Errorf("a second ruling: %v", err)
		}
	})
}

func TestRulingRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		step := NewStep(StepConfig{Blobs: c.blobs}, c.fold)
		id := c.delivered(1, c.put(packed(t, "delivery", "delivery/x", "done")), nil)
		if err := step.Rule(t.Context(), c.Journal, id, Ruled{Outcome: guild.Failure}); !errors.Is(err, ErrNotHeld) {
			t.Errorf("%v", err)
		}
		for _, outcome := range []guild.Outcome{guild.Error, guild.Violation, "", "fine"} {
			if err := step.Rule(t.Context(), c.Journal, id, Ruled{Outcome: outcome}); err == nil || errors.Is(err, ErrNotHeld) {
				t.Errorf("%q: %v", outcome, err)
			}
		}
	})
}

func TestJudgesOnTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		c.does = func(context.Context, Case) (guild.Verdict, Evidence, error) {
			time.Sleep(10 * time.Minute) // longer than several leases
			return guild.Verdict{Outcome: guild.Success, Strength: guild.Strong}, nil, nil
		}
		step := NewStep(StepConfig{Blobs: c.blobs, Scratch: c.scratch, Examine: c.examine}, c.fold)
		c.RunWith(&due.Runner{Node: "second", Limits: map[string]int{Class: 1}, Sources: []due.Source{step.Due}})
		delivery := c.put(packed(t, "delivery", "delivery/x", "done"))
		for n := range byte(4) {
			c.delivered(n+1, delivery, nil)
		}
		time.Sleep(21 * time.Minute) // two at a time: half of the time that one node would take
		synctest.Wait()
		nodes := map[string]int{}
		for n := range byte(4) {
			judged := 0
			for _, f := range c.written(n + 1) {
				switch f := f.(type) {
				case fact.EffectClaimed:
					nodes[f.Node]++
				case fact.AttemptJudged:
					judged++
				}
			}
			if judged != 1 {
				t.Errorf("delivery %d has %d verdicts", n+1, judged)
			}
		}
		if c.runs != 4 || nodes["test"] != 2 || nodes["second"] != 2 {
			t.Errorf("%d runs, claimed by %v", c.runs, nodes)
		}
	})
}

func TestManyDeliveries(t *testing.T) {
	f := NewFold()
	at := int64(0)
	deliver := func(job, attempt byte) {
		at++
		id := guild.JobID{job}
		f.Apply(fact.Entry{At: at, Subject: fact.JobSubject(id), Facts: []fact.Fact{
			fact.AttemptPlanned{Attempt: [32]byte{attempt}, Job: id}, fact.AttemptDelivered{Attempt: [32]byte{attempt}},
		}})
	}
	deliver(1, 1)
	deliver(1, 2)
	deliver(1, 3)
	deliver(2, 4)
	deliver(3, 5)
	var order []byte
	for _, c := range f.ready() {
		order = append(order, c.Attempt[0])
	}
	if want := []byte{1, 4, 5, 2, 3}; !slices.Equal(order, want) {
		t.Errorf("judged in the order %v, want %v", order, want)
	}
}
