package judge

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/judging/opinion"
	"guild/internal/judging/typed"
	"guild/nutshell"
	"guild/oa"
)

// rivals opens a job with two providers, whose results are adjudicated together.
func (c *court) rivals(adjudication oa.Adjudication) (a, b nostr.ID) {
	c.Helper()
	verification := oa.Verification{Mode: oa.Subjective, Redundancy: 2, Adjudication: adjudication}
	if adjudication == oa.JudgeModel {
		verification.JudgeModel = "the-best"
	}
	e, err := oa.NewEnvelope(oa.RerankRequest{UserTask: "find it", K: 1, Candidates: []oa.Candidate{{ID: "a", Content: "x"}, {ID: "b", Content: "y"}}, Verification: verification})
	if err != nil {
		c.Fatal(err)
	}
	bundle, err := typed.Bundle(c.Context(), e)
	if err != nil {
		c.Fatal(err)
	}
	job := guild.JobID{1}
	a, b = nostr.ID{10}, nostr.ID{20}
	c.append(job, fact.JobOpened{Job: job, Task: oa.RetrievalRerank, Bundle: c.put(bundle), Criticality: guild.Medium, Compare: string(adjudication)},
		fact.AttemptPlanned{Attempt: a, Job: job, Provider: guild.Service{PubKey: nostr.PubKey{1}}},
		fact.AttemptPlanned{Attempt: b, Job: job, Provider: guild.Service{PubKey: nostr.PubKey{2}}})
	c.does = func(_ context.Context, h Case) (guild.Verdict, Evidence, error) {
		result, err := os.ReadFile(filepath.Join(h.Delivery, nutshell.ArtifactsDir, typed.ResultFile))
		v := guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Weak, Tier: "none", Expected: 1, Passed: 1,
			Tests: []guild.Test{{ID: "schema", State: guild.TestPassed}}}
		if string(result) == "{}" {
			v.Outcome, v.Score, v.Passed = guild.Failure, 0, 0
		}
		return v, Evidence("checked"), err
	}
	return a, b
}

// ranks delivers a result.
func (c *court) ranks(attempt nostr.ID, result string) {
	c.Helper()
	var b bytes.Buffer
	tree := fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-1","task":{"title":"x"}}`)},
		nutshell.ArtifactsDir + "/" + typed.ResultFile: {Data: []byte(result)},
	}
	if _, err := nutshell.Pack(c.Context(), tree, &b, nutshell.Options{}); err != nil {
		c.Fatal(err)
	}
	c.append(guild.JobID{1}, fact.AttemptDelivered{Attempt: attempt, Delivery: c.put(b.Bytes())})
}

// outcomes returns the verdicts so far, by attempt.
func (c *court) outcomes() map[nostr.ID]guild.Verdict {
	all := map[nostr.ID]guild.Verdict{}
	for _, f := range c.written(1) {
		if judged, ok := f.(fact.AttemptJudged); ok {
			all[judged.Attempt] = judged.Verdict
		}
	}
	return all
}

// chooser prefers the second of two results, and counts how often it is asked.
type chooser struct {
	asked  int
	model  string // named by the question
	choice opinion.Choice
	err    error
}

func (c *chooser) Best(_ context.Context, q opinion.Question) (opinion.Choice, error) {
	c.asked, c.model = c.asked+1, q.Model
	return c.choice, c.err
}

const one, other = `{"topk":[{"rank":1,"id":"a","score":1}]}`, `{"topk":[{"rank":1,"id":"b","score":1}]}`

func TestOpinionWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := &chooser{choice: opinion.Choice{Best: []int{1}, Voters: 2, Agreeing: 2, Reason: "b is better"}}
		c := newCourt(t)
		c.step.c.Opinion = who
		a, b := c.rivals(oa.JudgeModel)
		c.ranks(a, one)
		if len(c.outcomes()) > 0 || who.asked > 0 {
			t.Fatal("it was judged before the other answered")
		}
		c.ranks(b, other)
		got := c.outcomes()
		if got[a].Outcome != guild.Partial || got[b].Outcome != guild.Success || got[b].Opinion == nil || got[b].Passed != 2 || got[b].Strength != guild.Unverified || who.asked != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestProviderKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		c.step.c.Opinion = &chooser{choice: opinion.Choice{Best: []int{0}}}
		a, b := c.rivals(oa.JudgeModel)
		examine, makers := c.does, map[string]nostr.PubKey{}
		c.does = func(ctx context.Context, h Case) (guild.Verdict, Evidence, error) {
			result, err := os.ReadFile(filepath.Join(h.Delivery, nutshell.ArtifactsDir, typed.ResultFile))
			if err != nil {
				t.Error(err)
			}
			makers[string(result)] = h.Provider
			return examine(ctx, h)
		}
		c.ranks(a, one)
		c.ranks(b, other)
		if makers[one] != (nostr.PubKey{1}) || makers[other] != (nostr.PubKey{2}) {
			t.Errorf("%v", makers)
		}
	})
}

func TestPersonNeededNotChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := &chooser{choice: opinion.Choice{Best: []int{0}}}
		c := newCourt(t)
		c.step.c.Opinion = who
		a, b := c.rivals(oa.JudgeModel)
		examine := c.does
		c.does = func(ctx context.Context, h Case) (guild.Verdict, Evidence, error) {
			v, evidence, err := examine(ctx, h)
			if h.Provider == (nostr.PubKey{1}) {
				return v, evidence, &PersonNeeded{Reason: "our own run was cut short"}
			}
			return v, evidence, err
		}
		c.ranks(a, one)
		c.ranks(b, other)
		got := c.outcomes()
		if _, judged := got[a]; judged || got[b].Outcome != guild.Success || who.asked > 0 {
			t.Errorf("%+v, asked %d times", got, who.asked)
		}
		if _, held := c.fold.Held(a); !held {
			t.Error("nobody is asked about the first")
		}
	})
}

func TestModelWarning(t *testing.T) {
	for model, warned := range map[string]bool{"the-best": false, "the-second-best": true} {
		synctest.Test(t, func(t *testing.T) {
			who := &chooser{choice: opinion.Choice{Best: []int{1}, Voters: 2, Agreeing: 2, Models: []string{model}}}
			c := newCourt(t)
			c.step.c.Opinion = who
			a, b := c.rivals(oa.JudgeModel)
			c.ranks(a, one)
			c.ranks(b, other)
			got := c.outcomes()[b]
			if text := strings.Join(got.Warnings, " "); who.model != "the-best" || strings.Contains(text, `the judge_model "the-best", and ["the-second-best"] was asked`) != warned {
				t.Errorf("%s: asked for %q, %q", model, who.model, text)
			}
		})
	}
}

func TestOpinionAmongAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := &chooser{choice: opinion.Choice{Best: []int{1}, Voters: 6, Agreeing: 6, Reason: "it is better"}}
		c := newCourt(t)
		c.step.c.Opinion = who
		a, b := c.rivals(oa.JudgeModel)
		third, silent := nostr.ID{30}, nostr.ID{40}
		c.append(guild.JobID{1}, fact.AttemptPlanned{Attempt: third, Job: guild.JobID{1}}, fact.AttemptPlanned{Attempt: silent, Job: guild.JobID{1}})
		c.ranks(a, one)
		c.ranks(third, `{}`)
		c.ranks(b, other)
		if len(c.outcomes()) > 0 {
			t.Fatal("it was judged before the fourth answered")
		}
		c.append(guild.JobID{1}, fact.AttemptExpired{Attempt: silent})
		got := c.outcomes()
		if len(got) != 3 || got[a].Outcome != guild.Partial || got[b].Outcome != guild.Success || got[third].Outcome != guild.Failure || got[third].Opinion != nil || who.asked != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestOpinionWithoutSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := &chooser{}
		c := newCourt(t)
		c.step.c.Opinion = who
		a, b := c.rivals(oa.JudgeModel)
		c.ranks(a, one)
		c.append(guild.JobID{1}, fact.AttemptExpired{Attempt: b})
		if got := c.outcomes(); got[a].Outcome != guild.Success || who.asked > 0 {
			t.Errorf("%+v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		who := &chooser{}
		c := newCourt(t)
		c.step.c.Opinion = who
		a, b := c.rivals(oa.JudgeModel)
		c.ranks(a, one)
		c.ranks(b, `{}`)
		if got := c.outcomes(); got[a].Outcome != guild.Success || got[b].Outcome != guild.Failure || who.asked > 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestPersonChooses(t *testing.T) {
	for name, who := range map[string]opinion.Opinion{
		"no judge is configured": nil,
		"undecided":              &chooser{choice: opinion.Choice{Reason: "who knows"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCourt(t)
			c.step.c.Opinion = who
			a, b := c.rivals(oa.JudgeModel)
			c.ranks(a, one)
			c.ranks(b, other)
			if got := c.outcomes(); len(got) > 0 {
				t.Errorf("%s: %+v", name, got)
			}
			for _, id := range []nostr.ID{a, b} {
				if _, held := c.fold.Held(id); !held {
					t.Errorf("%s: %.8s waits for nobody: %v", name, id.Hex(), types(c.written(1)))
				}
			}
		})
	}
}

func TestMergedResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		a, b := c.rivals(oa.Merge)
		c.ranks(a, one)
		c.ranks(b, other)
		if got := c.outcomes(); got[a].Outcome != guild.Success || got[b].Outcome != guild.Success || got[a].Opinion.Adjudication != string(oa.Merge) {
			t.Errorf("%+v", got)
		}
	})
}

func TestFailingOpinionParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		c.step.c.Opinion = &chooser{err: errors.New("the endpoint is down")}
		a, b := c.rivals(oa.JudgeModel)
		c.ranks(a, one)
		c.ranks(b, other)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := types(c.written(1)); len(got) < 4 || !slices.Contains(got, fact.AttemptParked{}.Type()) || len(c.fold.ready()) > 0 {
			t.Errorf("%v", got)
		}
	})
}
