package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/route"
	"guild/internal/policy"
)

// RouterSettings is the body of POST /v1/market/replay: how the router would decide. What is absent is as in the policy in
// force, or in the one that is named.
type RouterSettings struct {
	Policy  string             `json:"policy,omitempty"`  // by name
	Task    string             `json:"task,omitempty"`    // only its decisions
	Since   int64              `json:"since,omitempty"`   // Unix ms: only those from then on
	Epsilon *float64           `json:"epsilon,omitempty"` // share of exploring at first, 0 to 1
	Weights map[string]float64 `json:"weights,omitempty"` // trust, cost, latency, load, exploration; together one, or scaled to it
	Tiers   []float64          `json:"tiers,omitempty"`   // shares of primary, secondary and tertiary
}

// RouterReplay compares past choices with those that other settings would have made, in cost and score.
type RouterReplay struct {
	Decisions  int           `json:"decisions"` // the router's own, of which enough is known
	Changed    int           `json:"changed"`   // that choose somebody else
	Kept       int           `json:"kept"`      // that were not the router's: named, offered, benchmarks
	Explored   int           `json:"explored"`
	DidBefore  int           `json:"explored_before"`
	Ended      int           `json:"ended"`           // of the decisions: the sums and means below are of these
	Cost       int64         `json:"cost_msat"`       // of the real choices
	WouldCost  int64         `json:"would_cost_msat"` // of the others, as estimated then
	Score      float64       `json:"score"`           // these four are the next four in decimal form, deprecated
	Would      float64       `json:"would_score"`
	WouldThen  float64       `json:"would_score_then"`
	Sure       float64       `json:"sure"`
	ScoreMicro guild.Score   `json:"score_micro"`            // their mean score
	WouldMicro guild.Score   `json:"would_score_micro"`      // of the others, by those providers' other verdicts
	ThenMicro  guild.Score   `json:"would_score_then_micro"` // the same, by the verdicts that were known at each decision
	SureMicro  guild.Trust   `json:"sure_micro"`             // how sure that is: how many verdicts it rests on
	Exact      bool          `json:"exact"`                  // every term could be computed anew
	Choices    []OtherChoice `json:"choices"`
}

// OtherChoice is one decision that other settings would have made otherwise.
type OtherChoice struct {
	At         int64       `json:"at"` // Unix ms
	Job        string      `json:"job"`
	Task       string      `json:"task"`
	Chosen     string      `json:"chosen"` // npub
	Instead    string      `json:"instead"`
	Name       string      `json:"name,omitempty"` // of the other one
	Rule       string      `json:"rule"`
	Would      float64     `json:"would_score"` // WouldMicro in decimal form, deprecated
	WouldMicro guild.Score `json:"would_score_micro"`
	WouldFor   int64       `json:"would_cost_msat"`
}

// maxChoices is the number of choices that are listed, the latest ones.
const maxChoices = 200

func (s *Server) postReplay(r *http.Request, how RouterSettings) (RouterReplay, error) {
	routing, err := how.routing(s.c.Policy)
	if err != nil {
		return RouterReplay{}, wrongUsage("guild market replay --epsilon 0 --weights trust=0.5,cost=0.3", err)
	}
	history, err := s.decisions(r.Context(), how)
	if err != nil {
		return RouterReplay{}, err
	}
	return s.replayed(route.Replay(history, routing)), nil
}

// routing returns the policy with the changed settings.
func (how RouterSettings) routing(in policy.Policy) (policy.Routing, error) {
	if how.Policy != "" {
		named, err := policy.Named(how.Policy)
		if err != nil {
			return policy.Routing{}, err
		}
		in = named
	}
	by := in.Routing
	if e := how.Epsilon; e != nil {
		if !(*e >= 0 && *e <= 1) {
			return by, fmt.Errorf("epsilon %v is not in 0..1", *e)
		}
		by.Epsilon = guild.Trust(*e*guild.Micro + 0.5)
		by.EpsilonFloor = min(by.EpsilonFloor, by.Epsilon)
	}
	if len(how.Tiers) > 0 {
		if len(how.Tiers) != len(by.Tiers) {
			return by, fmt.Errorf("%d shares of tiers, want %d", len(how.Tiers), len(by.Tiers))
		}
		for i, share := range how.Tiers {
			if !(share >= 0 && share <= 1) {
				return by, fmt.Errorf("share %v of a tier is not in 0..1", share)
			}
			by.Tiers[i].Share = guild.Trust(share*guild.Micro + 0.5)
		}
	}
	return how.weighted(by)
}

// weighted sets the weights that are named, the others to zero, and scales them to one.
func (how RouterSettings) weighted(by policy.Routing) (policy.Routing, error) {
	if len(how.Weights) == 0 {
		return by, nil
	}
	sum := 0.0
	for name, weight := range how.Weights {
		if !slices.Contains([]string{"trust", "cost", "latency", "load", "exploration"}, name) {
			return by, fmt.Errorf("weight %.40q: there are trust, cost, latency, load and exploration", name)
		}
		if !(weight >= 0 && weight <= 1e6) {
			return by, fmt.Errorf("weight %s=%v: want a number from 0 on", name, weight)
		}
		sum += weight
	}
	if sum == 0 {
		return by, errors.New("all weights are zero")
	}
	share := func(name string) guild.Trust { return guild.Trust(how.Weights[name]/sum*guild.Micro + 0.5) }
	by.Weights = policy.Weights{Trust: share("trust"), Cost: share("cost"), Latency: share("latency"), Load: share("load"), Exploration: share("exploration")}
	return by, nil
}

// decisions reads the routing decisions of the journal, with their results.
func (s *Server) decisions(ctx context.Context, how RouterSettings) ([]route.Decision, error) {
	var all []route.Decision
	place, jobs := map[string]int{}, map[guild.JobID]string{} // of attempts in all, and tasks
	turns := map[guild.JobID]int{}
	rules, err := s.policies(ctx)
	if err != nil {
		return nil, err
	}
	for e, err := range s.c.Journal.Of(ctx, "job") {
		if err != nil {
			return nil, err
		}
		for _, f := range e.Facts {
			switch f := f.(type) {
			case fact.JobOpened:
				jobs[f.Job] = f.Task
			case fact.AttemptPlanned:
				task := jobs[f.Job]
				turns[f.Job]++
				if f.Choice == nil || how.Task != "" && task != how.Task || e.At < how.Since {
					continue
				}
				place[f.Attempt.Hex()] = len(all)
				all = append(all, route.Decision{Job: f.Job, Turn: turns[f.Job], Task: task, At: e.At, Service: f.Provider, Choice: *f.Choice,
					Routing: rules[f.Choice.Policy], Cost: f.Bid})
			default:
				if id, score, ended := endOf(f); ended {
					if i, known := place[id]; known && all[i].Ended == 0 {
						all[i].Ended, all[i].Score = e.At, score
					}
				}
			}
		}
	}
	return all, nil
}

// endOf returns the attempt that a fact ends in a way for which its provider answers, with the score of its verdict.
func endOf(f fact.Fact) (attempt string, score guild.Score, ended bool) {
	switch f := f.(type) {
	case fact.AttemptJudged:
		return f.Attempt.Hex(), f.Verdict.Score, true
	case fact.AttemptExpired:
		return f.Attempt.Hex(), 0, true
	case fact.AttemptRefused:
		return f.Attempt.Hex(), 0, !f.Later
	}
	return "", 0, false
}

// policies returns the routing rules of all policies that were ever in force, by their hash.
func (s *Server) policies(ctx context.Context) (map[guild.Hash]policy.Routing, error) {
	all := map[guild.Hash]policy.Routing{s.c.Trust.Policy(): s.c.Policy.Routing}
	for e, err := range s.c.Journal.Of(ctx, fact.PolicySubject) {
		if err != nil {
			return nil, err
		}
		for _, f := range e.Facts {
			if adopted, ok := f.(fact.PolicyAdopted); ok {
				if p, err := policy.Decode(adopted.Document); err == nil {
					all[adopted.Policy] = p.Routing
				}
			}
		}
	}
	return all, nil
}

func (s *Server) replayed(r route.Report) RouterReplay {
	view := RouterReplay{
		Decisions: len(r.Decisions) - r.Kept, Changed: r.Changed, Kept: r.Kept, Explored: r.Explored, DidBefore: r.DidBefore, Ended: r.Ended,
		Cost: int64(r.Cost), WouldCost: int64(r.WouldCost), Score: r.Score.Float(), Would: r.Would.Float(), WouldThen: r.WouldThen.Float(),
		Sure: r.Sure.Float(), ScoreMicro: r.Score, WouldMicro: r.Would, ThenMicro: r.WouldThen, SureMicro: r.Sure, Exact: r.Exact, Choices: []OtherChoice{},
	}
	for _, d := range r.Decisions {
		if d.Same {
			continue
		}
		view.Choices = append(view.Choices, OtherChoice{
			At: d.At, Job: d.Job.String(), Task: d.Task, Chosen: nip19.EncodeNpub(d.Service.PubKey),
			Instead: nip19.EncodeNpub(d.Again.Service.PubKey), Name: cmp.Or(s.c.Registry.Name(d.Again.Service), d.Again.Name),
			Rule: d.Rule, Would: d.Overall.Score.Float(), WouldMicro: d.Overall.Score, WouldFor: int64(d.WouldCost),
		})
	}
	view.Choices = view.Choices[max(0, len(view.Choices)-maxChoices):]
	return view
}
