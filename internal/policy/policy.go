// Package policy holds every number that the node decides by about providers: how trust moves, how a provider is
// chosen, when one is suspended, what is bid, when a review is published. The numbers of the partnership protocol are
// the default; others ship under a name. A policy is data: canonical JSON, whose hash stands in each decision that was
// made by it and in each receipt, so that anybody can redo the arithmetic. The package computes nothing but that hash.
package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"guild"
	"guild/canon"
)

// Policy is the whole of it. Shares, factors and trust are in micro-units (guild.Micro is one), times in milliseconds.
type Policy struct {
	Version   int       `json:"version"`
	Name      string    `json:"name"`
	Trust     Trust     `json:"trust"`
	Routing   Routing   `json:"routing"`
	Lifecycle Lifecycle `json:"lifecycle"`
	Bids      Bids      `json:"bids"`
	Variables Variables `json:"variables"`
	Review    Review    `json:"review"`
	Backup    Backup    `json:"backup"`
	Customers Customers `json:"customers"`
}

// Trust is how trust moves (the partnership protocol, sections 3.3.2, 5.1.3, 5.2 and 5.5.3).
type Trust struct {
	Floor   guild.Trust `json:"floor_micro"`
	Ceiling guild.Trust `json:"ceiling_micro"`
	Step    guild.Trust `json:"step_micro"`  // most by one verdict
	Daily   guild.Trust `json:"daily_micro"` // most for one task in a UTC day

	Initial     [3]guild.Trust `json:"initial_micro"`      // exceptional, standard, conditional
	InitialFrom [3]guild.Score `json:"initial_from_micro"` // the scores that these take
	Growth      guild.Trust    `json:"growth_micro"`       // share of the headroom that a success adds
	Bonus       guild.Trust    `json:"bonus_micro"`        // for a score above BonusFrom
	BonusFrom   guild.Score    `json:"bonus_from_micro"`
	Fast        guild.Trust    `json:"fast_micro"`      // for a latency below FastFrom of the baseline
	FastFrom    guild.Trust    `json:"fast_from_micro"` // as above; an exceptional first verdict takes it too
	Damping     guild.Trust    `json:"damping_micro"`   // that each further success in a row takes away
	Dampest     guild.Trust    `json:"dampest_micro"`   // what is left at least
	Alpha       guild.Trust    `json:"alpha_micro"`     // of the moving average

	Decay       map[string]guild.Trust `json:"decay_micro"`       // by what went wrong
	Multipliers map[string]guild.Trust `json:"multipliers_micro"` // by the class of a task; one if absent

	Reversals   int         `json:"reversals"`         // changes of direction among Recent that are an oscillation
	Recent      int         `json:"recent"`            // changes that are looked at
	Oscillating guild.Trust `json:"oscillating_micro"` // what is left of a change then

	Contradicted []string `json:"contradicted"` // decreases that a success right after them takes back
	WrongWay     int      `json:"wrong_way"`    // changes in a row against what was observed, that restore the mean
	Mean         int64    `json:"mean_ms"`      // of that long

	Latencies int         `json:"latency_sample"` // accepted deliveries of a task before their latencies are a baseline
	Sampled   int         `json:"sampled"`        // pieces of evidence with which confidence in a change is half
	Hedged    guild.Trust `json:"hedged_micro"`   // of confidence, that is left where a limit held the change back or trust oscillates
	Sure      guild.Trust `json:"sure_micro"`     // confidence above which a change needs nobody's look
	Large     guild.Trust `json:"large_micro"`    // change from which it needs one all the same
	Alerts    Alerts      `json:"alerts"`

	Alphas map[string]guild.Trust `json:"alphas_micro,omitempty"` // instead of Alpha, by the class of a task

	DailyOf string `json:"daily_of,omitempty"` // whose limit Daily is for decreases: OfTask if empty, or OfService
}

// Alerts is what about trust a person is told of (section 5.5.4).
type Alerts struct {
	Often      int         `json:"often"`           // changes for one task in an hour; more alert
	Saturated  guild.Trust `json:"saturated_micro"` // share of the entries at a bound; more alert
	Suppressed int64       `json:"suppressed_ms"`   // without a change of a task, although verdicts come
	Unsure     guild.Trust `json:"unsure_micro"`    // median confidence in the changes; less alerts
	UnsureFor  int64       `json:"unsure_ms"`       // of that long
}

// Routing is how a provider is chosen (sections 3.3.3 and 4.1.1).
type Routing struct {
	Weights   Weights     `json:"weights_micro"`
	Tiers     [3]Tier     `json:"tiers"`
	Threshold guild.Trust `json:"threshold_micro"` // below it a provider gets no ordinary work, unless its task has its own
	Lowest    guild.Trust `json:"lowest_micro"`    // below it a provider gets none
	Share     guild.Trust `json:"share_micro"`     // most of a task's jobs in Window that one provider gets
	Window    int64       `json:"window_ms"`
	Providers int         `json:"providers"`     // that a task should have
	Reduced   guild.Trust `json:"reduced_micro"` // share that is left to a provider that is reduced

	Epsilon      guild.Trust `json:"epsilon_micro"`       // share of decisions that explore, at first
	EpsilonHalf  int         `json:"epsilon_half"`        // decisions for a task until that is half
	EpsilonFloor guild.Trust `json:"epsilon_floor_micro"` // what it never falls below
	Samples      int         `json:"samples"`             // ends of requests, below which a provider is explored
}

// Weights are the terms of a candidate's score; together they are one.
type Weights struct {
	Trust       guild.Trust `json:"trust"`
	Cost        guild.Trust `json:"cost"`
	Latency     guild.Trust `json:"latency"`
	Load        guild.Trust `json:"load"`
	Exploration guild.Trust `json:"exploration"`
}

// Tier is providers that are trusted at least so far, and the share of the work that is for them.
type Tier struct {
	Name  string      `json:"name"`
	From  guild.Trust `json:"from_micro"`
	Share guild.Trust `json:"share_micro"`
}

// Lifecycle is when a provider's state changes (sections 2.3.3, 3.2.3 and 3.4).
type Lifecycle struct {
	Window    int64       `json:"window_ms"`    // of the success rate
	Rate      guild.Trust `json:"rate_micro"`   // below it a provider is suspended
	Sample    int         `json:"sample"`       // ends in the window before its rate says anything; 20 is the fewest of which one failure is not below 95 %
	RateZ     guild.Trust `json:"rate_z_micro"` // standard errors by which the rate must be below; 0 for none
	Slow      guild.Trust `json:"slow_micro"`   // p95 over the baseline that suspends
	SlowRuns  int         `json:"slow_sample"`  // latencies, before p95 says anything
	Timeouts  int         `json:"timeouts"`     // in a row, that suspend
	Silence   int64       `json:"silence_ms"`   // without an event of the provider, before it is probed
	Heartbeat int64       `json:"heartbeat_ms"` // between benchmarks of a provider that works for us
	Cooldowns []int64     `json:"cooldowns_ms"` // after so many failed evaluations; the last for all further ones
	Hopeless  int64       `json:"hopeless_ms"`  // after an evaluation in which everything failed
	Quiet     int64       `json:"quiet_ms"`     // quarantine of one that did not answer
	Retry     int64       `json:"retry_ms"`     // after a suspension
	Persist   int         `json:"persistent"`   // suspensions without an acceptance between them, that remove
	Stale     int64       `json:"stale_ms"`     // without being heard of
	Archived  int64       `json:"archived_ms"`  // as above

	Sustained int64       `json:"sustained_ms"`    // warned and asked, without a success, that reduces
	SlowFrom  int64       `json:"slow_from_ms"`    // p95 below it is never slow: what differs there is the network
	Newcomers guild.Trust `json:"newcomers_micro"` // share of a day's benchmarks that is kept for providers never tried
	Meetings  int         `json:"meetings"`        // that may begin on a UTC day, unless the owner says otherwise
	Enough    int         `json:"enough"`          // successes at once that make an active partner (section 3.2.3)
}

// Bids is how much is bid where the customer does not say (section 4.1.4).
type Bids struct {
	Base      guild.Msat             `json:"base_msat"` // for a task without history
	Urgency   map[string]guild.Trust `json:"urgency_micro"`
	BaseTrust guild.Trust            `json:"base_trust_micro"` // trust that has no premium
	MarketMin guild.Trust            `json:"market_min_micro"`
	MarketMax guild.Trust            `json:"market_max_micro"`
}

// Variables is how the variables beside trust move (section 5.3).
type Variables struct {
	Early       guild.Trust `json:"early_micro"` // share of the timeout below which an end is early
	EarlyCount  int         `json:"early_count"`
	EarlyChange guild.Trust `json:"early_change_micro"`
	Near        guild.Trust `json:"near_micro"` // share of the timeout from which an end is near it
	NearCount   int         `json:"near_count"`
	NearChange  guild.Trust `json:"near_change_micro"`
	MuteCount   int         `json:"mute_count"` // timeouts without feedback
	MuteChange  guild.Trust `json:"mute_change_micro"`
	TimeoutMin  guild.Trust `json:"timeout_min_micro"` // of the configured timeout, that is never gone below
	TimeoutMax  guild.Trust `json:"timeout_max_micro"` // as above
	Queue       int         `json:"queue"`             // depth above which a provider is asked less at once
	Parallel    int         `json:"parallel"`          // most that a provider is ever asked at once
	Utilization guild.Trust `json:"utilization_micro"` // below which more is asked of all
	Cascade     int         `json:"cascade"`           // timeouts of different providers in CascadeSpan
	CascadeSpan int64       `json:"cascade_ms"`
	FreeShift   guild.Trust `json:"free_shift_micro"`   // of a paid budget to experiments
	ScarceShift guild.Trust `json:"scarce_shift_micro"` // of unimportant work's budget to important work
	Rollover    guild.Trust `json:"rollover_micro"`     // of what is left of a month
	ModelRuns   int         `json:"model_runs"`         // verdicts of one model before it is preferred
	ModelScore  guild.Score `json:"model_score_micro"`  // that they come to

	UtilizationCount int         `json:"utilization_count"` // requests over which utilization is measured
	ModelProviders   int         `json:"model_providers"`   // of one family that make it a fallback
	Recent           int64       `json:"recent_ms"`         // how far back work counts for budgets
	FreeCount        int         `json:"free_count"`        // accepted results in that time before they say anything
	FreeShare        guild.Trust `json:"free_share_micro"`  // of them for nothing, that is abundance
	ScarceTrust      guild.Trust `json:"scarce_trust_micro"`
	ScarceProviders  int         `json:"scarce_providers"`  // with that trust; fewer for a task with important work are scarcity
	Contingency      guild.Trust `json:"contingency_micro"` // share of what is rolled over that no task has for itself
}

// Review is when reviews are published and how others' count (section 4.3).
type Review struct {
	Delay     int64       `json:"delay_ms"`       // after a benchmark
	Delta     guild.Trust `json:"delta_micro"`    // of trust, that is published at once
	Objection int64       `json:"objection_ms"`   // how long a provider may object
	HalfLife  int64       `json:"half_life_ms"`   // of others' reviews
	Unproven  guild.Trust `json:"unproven_micro"` // weight of a review without a receipt that verifies
	Disputes  int         `json:"disputes"`       // verdicts that one provider may have judged again in a day
}

// Backup is when the matrix is sent to ourselves (section 3.3.4).
type Backup struct {
	Delta guild.Trust `json:"delta_micro"` // of trust, that is significant
	Every int64       `json:"every_ms"`    // at most
}

// Customers is how a provider scores those who ask it. What somebody did is counted against a stranger's record of Prior
// good and Prior bad requests.
type Customers struct {
	Prior     int         `json:"prior"`
	Accepted  int         `json:"accepted"`     // good requests that one counts as whose delivery was accepted
	Withdrawn int         `json:"withdrawn"`    // bad ones that one counts as that was taken back before it was done
	Disputed  int         `json:"disputed"`     // as above, whose verdict we object to
	Spam      int         `json:"spam"`         // refusals for asking too often that count as a bad one
	Low       guild.Trust `json:"low_micro"`    // below it a customer has one request at a time
	Lowest    guild.Trust `json:"lowest_micro"` // below it none
	Remember  int         `json:"remember"`     // requests after which what was before counts half
}

// Whose limit of a day a decrease counts against.
const (
	OfTask    = "task"    // all changes for the task together, as the specification has it
	OfService = "service" // the decreases of that service for the task: what others do wrong protects nobody
)

func ms(d time.Duration) int64 { return d.Milliseconds() }

const day = 24 * time.Hour

// The names of the policies that ship.
const (
	Partnership = "partnership" // the numbers of the specification
	Measured    = "measured"    // what does better in bench/marketsim
)

// Names lists the policies that ship, the default first.
func Names() []string { return []string{Partnership, Measured} }

// Default is the partnership protocol's own numbers.
func Default() Policy {
	return Policy{
		Version: 1, Name: Partnership,
		Trust: Trust{
			Floor: 100_000, Ceiling: 900_000, Step: 200_000, Daily: 300_000,
			Initial: [3]guild.Trust{750_000, 600_000, 450_000}, InitialFrom: [3]guild.Score{950_000, 800_000, 600_000},
			Growth: 100_000, Bonus: 50_000, BonusFrom: 950_000, Fast: 30_000, FastFrom: 500_000,
			Damping: 100_000, Dampest: 500_000, Alpha: 300_000,
			Decay: map[string]guild.Trust{
				"VALIDATION_FAIL": 150_000, "TIMEOUT": 200_000, "SECURITY_VIOLATION": 300_000, "ERROR": 100_000, "PARTIAL": 80_000,
			},
			Multipliers: map[string]guild.Trust{
				guild.ClassBenchmark: 1_000_000, guild.ClassCriticalPath: 1_500_000, guild.ClassExperimental: 600_000,
				guild.ClassBackground: 800_000, guild.ClassFinancial: 1_500_000,
			},
			Reversals: 3, Recent: 10, Oscillating: 500_000,
			Contradicted: []string{"TIMEOUT", "ERROR"}, WrongWay: 3, Mean: ms(7 * day),
			Latencies: 3, Sampled: 3, Hedged: 500_000, Sure: 800_000, Large: 150_000,
			Alerts: Alerts{Often: 10, Saturated: 500_000, Suppressed: ms(7 * day), Unsure: 500_000, UnsureFor: ms(day)},
		},
		Routing: Routing{
			Weights:   Weights{Trust: 400_000, Cost: 250_000, Latency: 200_000, Load: 100_000, Exploration: 50_000},
			Tiers:     [3]Tier{{"primary", 800_000, 700_000}, {"secondary", 500_000, 250_000}, {"tertiary", 300_000, 50_000}},
			Threshold: 500_000, Lowest: 300_000, Share: 500_000, Window: ms(time.Hour), Providers: 3, Reduced: 500_000,
			Epsilon: 100_000, EpsilonHalf: 100, EpsilonFloor: 10_000, Samples: 10,
		},
		Lifecycle: Lifecycle{
			Window: ms(7 * day), Rate: 950_000, Sample: 20, Slow: 2_000_000, SlowRuns: 10, Timeouts: 3,
			Silence: ms(day), Heartbeat: ms(7 * day), Cooldowns: []int64{ms(day), ms(3 * day), ms(7 * day), ms(30 * day)},
			Hopeless: ms(30 * day), Quiet: ms(day), Retry: ms(30 * day), Persist: 3, Stale: ms(30 * day), Archived: ms(90 * day),
			Sustained: ms(7 * day), SlowFrom: 1_000, Newcomers: 250_000, Meetings: 20, Enough: 3,
		},
		Bids: Bids{
			Base: 1_000, Urgency: map[string]guild.Trust{"normal": 1_000_000, "urgent": 1_500_000, "critical": 2_000_000},
			BaseTrust: 500_000, MarketMin: 500_000, MarketMax: 2_000_000,
		},
		Variables: Variables{
			Early: 500_000, EarlyCount: 10, EarlyChange: -200_000, Near: 800_000, NearCount: 5, NearChange: 300_000,
			MuteCount: 3, MuteChange: 500_000, TimeoutMin: 250_000, TimeoutMax: 4_000_000,
			Queue: 10, Parallel: 10, Utilization: 500_000, Cascade: 3, CascadeSpan: ms(time.Minute),
			FreeShift: 200_000, ScarceShift: 300_000, Rollover: 500_000, ModelRuns: 10, ModelScore: 900_000,
			UtilizationCount: 10, ModelProviders: 2, Recent: ms(7 * day), FreeCount: 10, FreeShare: 500_000,
			ScarceTrust: 800_000, ScarceProviders: 3, Contingency: 500_000,
		},
		Review: Review{Delay: ms(day), Delta: 200_000, Objection: ms(day), HalfLife: ms(90 * day), Unproven: 500_000, Disputes: 3},
		Backup: Backup{Delta: 100_000, Every: ms(time.Hour)},
		Customers: Customers{
			Prior: 2, Accepted: 1, Withdrawn: 1, Disputed: 2, Spam: 10, Low: 300_000, Lowest: 100_000, Remember: 64,
		},
	}
}

// Named returns a policy that ships.
func Named(name string) (Policy, error) {
	switch name {
	case "", Partnership:
		return Default(), nil
	case Measured:
		return measured(), nil
	}
	return Policy{}, fmt.Errorf("policy %.40q: there are %s", name, strings.Join(Names(), ", "))
}

// Encode writes the policy as canonical JSON.
func (p Policy) Encode() ([]byte, error) {
	b, err := canon.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	return b, nil
}

// Hash is the hash of the canonical form. A policy of this package always has one.
func (p Policy) Hash() (guild.Hash, error) {
	b, err := p.Encode()
	if err != nil {
		return guild.Hash{}, err
	}
	return guild.Sum(b), nil
}

// MaxSize is the largest policy that is read, in bytes.
const MaxSize = 64 << 10

// Decode reads a policy that Encode wrote.
func Decode(b []byte) (Policy, error) {
	if len(b) > MaxSize {
		return Policy{}, fmt.Errorf("policy: %d bytes, at most %d", len(b), MaxSize)
	}
	var p Policy
	if err := json.Unmarshal(b, &p); err != nil {
		return Policy{}, fmt.Errorf("policy: %w", err)
	}
	return p, nil
}

// Cooldown is how long a provider is left alone after so many failed evaluations in a row.
func (l Lifecycle) Cooldown(failed int) time.Duration {
	if len(l.Cooldowns) == 0 {
		return 0
	}
	return time.Duration(l.Cooldowns[min(max(failed, 1), len(l.Cooldowns))-1]) * time.Millisecond
}
