// Package policy holds every number that determines the node's decisions about providers: how trust moves, how a
// provider is chosen, when one is suspended, what is bid, when a review is published. The numbers of the partnership
// protocol are the default; others ship under a name. A policy is data: canonical JSON, whose hash is in each decision
// that was made by it and in each receipt, so that anyone can recompute the decision. The package computes nothing
// except that hash.
package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"guild"
	"guild/canon"
)

// Policy holds all numbers. Shares, factors and trust are in micro-units (guild.Micro is one), times in milliseconds.
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

// Trust determines how trust moves (the partnership protocol, sections 3.3.2, 5.1.3, 5.2 and 5.5.3).
type Trust struct {
	Floor   guild.Trust `json:"floor_micro"`
	Ceiling guild.Trust `json:"ceiling_micro"`
	Step    guild.Trust `json:"step_micro"`  // maximum change by one verdict
	Daily   guild.Trust `json:"daily_micro"` // maximum change for one task in a UTC day

	Initial     [3]guild.Trust `json:"initial_micro"`      // first trust: exceptional, standard, conditional
	InitialFrom [3]guild.Score `json:"initial_from_micro"` // minimum scores for these
	Growth      guild.Trust    `json:"growth_micro"`       // share of the headroom that a success adds
	Bonus       guild.Trust    `json:"bonus_micro"`        // added for a score above BonusFrom
	BonusFrom   guild.Score    `json:"bonus_from_micro"`
	Fast        guild.Trust    `json:"fast_micro"`      // added for a latency below FastFrom of the baseline
	FastFrom    guild.Trust    `json:"fast_from_micro"` // share of the baseline; an exceptional first verdict also requires it
	Damping     guild.Trust    `json:"damping_micro"`   // reduction of the factor on an increase for each further success in a row
	Dampest     guild.Trust    `json:"dampest_micro"`   // minimum of that factor
	Alpha       guild.Trust    `json:"alpha_micro"`     // of the moving average

	Decay       map[string]guild.Trust `json:"decay_micro"`       // by kind of failure
	Multipliers map[string]guild.Trust `json:"multipliers_micro"` // by the class of a task; one if absent

	Reversals   int         `json:"reversals"`         // changes of direction among Recent changes that count as an oscillation
	Recent      int         `json:"recent"`            // number of latest changes that are considered
	Oscillating guild.Trust `json:"oscillating_micro"` // share of a change that remains during an oscillation

	Contradicted []string `json:"contradicted"` // decreases that a success right after them reverses
	WrongWay     int      `json:"wrong_way"`    // consecutive changes against the observations after which the mean is restored
	Mean         int64    `json:"mean_ms"`      // period of that mean

	Latencies int         `json:"latency_sample"` // accepted deliveries of a task before their latencies form a baseline
	Sampled   int         `json:"sampled"`        // pieces of evidence at which the confidence in a change is one half
	Hedged    guild.Trust `json:"hedged_micro"`   // share of the confidence that remains if a limit held the change back or trust oscillates
	Sure      guild.Trust `json:"sure_micro"`     // confidence above which no person needs to check a change
	Large     guild.Trust `json:"large_micro"`    // size from which a person must check a change anyway
	Alerts    Alerts      `json:"alerts"`

	Alphas map[string]guild.Trust `json:"alphas_micro,omitempty"` // instead of Alpha, by the class of a task

	Strengths map[string]guild.Trust `json:"strengths_micro,omitempty"` // share of an increase that a verdict of this strength makes; all if absent

	DailyOf string `json:"daily_of,omitempty"` // limit that decreases count against: OfTask (if empty, as older policies) or OfService
}

// Alerts determines which events about trust are reported to a person (section 5.5.4).
type Alerts struct {
	Often      int         `json:"often"`           // changes for one task in an hour; more are an alert
	Saturated  guild.Trust `json:"saturated_micro"` // share of the entries at a bound; more is an alert
	Suppressed int64       `json:"suppressed_ms"`   // time without a change for a task although verdicts arrive
	Unsure     guild.Trust `json:"unsure_micro"`    // median confidence in the changes; less is an alert
	UnsureFor  int64       `json:"unsure_ms"`       // period of that median
}

// Routing determines how a provider is chosen (sections 3.3.3 and 4.1.1).
type Routing struct {
	Weights   Weights     `json:"weights_micro"`
	Tiers     [3]Tier     `json:"tiers"`
	Threshold guild.Trust `json:"threshold_micro"` // trust below which a provider gets no ordinary work, unless its task has its own threshold
	Lowest    guild.Trust `json:"lowest_micro"`    // trust below which a provider gets no work
	Share     guild.Trust `json:"share_micro"`     // maximum share of a task's jobs in Window for one provider
	Window    int64       `json:"window_ms"`
	Providers int         `json:"providers"`     // minimum number of providers for a task
	Reduced   guild.Trust `json:"reduced_micro"` // share of its work that a reduced provider keeps

	Epsilon      guild.Trust `json:"epsilon_micro"`       // initial share of decisions that explore
	EpsilonHalf  int         `json:"epsilon_half"`        // decisions for a task after which that share is halved
	EpsilonFloor guild.Trust `json:"epsilon_floor_micro"` // minimum of that share
	Samples      int         `json:"samples"`             // ended requests below which a provider is explored

	// Thompson replaces tiers and ε: if it is positive, trust counts in a provider's score as a share of accepted deliveries
	// that is drawn from its latest ended requests, this many and at most 63, and the highest score is chosen.
	Thompson int `json:"thompson,omitempty"`
	Span     int `json:"span,omitempty"` // multiple of the median from which a cost or latency gets no points; 2 if absent
}

// Weights holds the weights of the terms of a candidate's score. Their sum is one.
type Weights struct {
	Trust       guild.Trust `json:"trust"`
	Cost        guild.Trust `json:"cost"`
	Latency     guild.Trust `json:"latency"`
	Load        guild.Trust `json:"load"`
	Exploration guild.Trust `json:"exploration"`
}

// Tier contains the providers with a minimum trust, and has a share of the work.
type Tier struct {
	Name  string      `json:"name"`
	From  guild.Trust `json:"from_micro"`
	Share guild.Trust `json:"share_micro"`
}

// Lifecycle determines when a provider's state changes (sections 2.3.3, 3.2.3 and 3.4).
type Lifecycle struct {
	Window    int64       `json:"window_ms"`             // period of the success rate
	Rate      guild.Trust `json:"rate_micro"`            // rate below which a provider is suspended
	Sample    int         `json:"sample"`                // ended requests in the window before the rate counts; 20 is the smallest number of which one failure is not below 95 %
	RateZ     guild.Trust `json:"rate_z_micro"`          // standard errors by which the rate must be below; 0 for none
	Slow      guild.Trust `json:"slow_micro"`            // ratio of p95 to the baseline that suspends
	SlowRuns  int         `json:"slow_sample"`           // latencies of like work before p95 counts; of fewer than 20 it is the longest
	Timeouts  int         `json:"timeouts"`              // consecutive timeouts that suspend
	Silence   int64       `json:"silence_ms"`            // time without an event of the provider before it is probed
	Heartbeat int64       `json:"heartbeat_ms"`          // interval of benchmarks for a provider that works for us
	Cooldowns []int64     `json:"cooldowns_ms"`          // by number of failed evaluations; the last one for all further ones
	Hopeless  int64       `json:"hopeless_ms"`           // after an evaluation in which every run failed
	Quiet     int64       `json:"quiet_ms"`              // quarantine of a provider that did not answer
	Quietest  int64       `json:"quietest_ms,omitempty"` // up to which each further quarantine without a success is doubled; never if absent
	Retry     int64       `json:"retry_ms"`              // time from a suspension to the next benchmark
	Persist   int         `json:"persistent"`            // suspensions without an acceptance in between that remove a provider
	Stale     int64       `json:"stale_ms"`              // time without a sign of life
	Archived  int64       `json:"archived_ms"`           // the same

	Sustained int64       `json:"sustained_ms"`    // time as warned with requests but without a success, after which it is reduced
	SlowFrom  int64       `json:"slow_from_ms"`    // p95 that is never slow if below, because such differences come from the network
	Newcomers guild.Trust `json:"newcomers_micro"` // share of a day's benchmarks reserved for providers that were never tried
	Meetings  int         `json:"meetings"`        // meetings that may begin in a UTC day, unless the owner sets another number
	Enough    int         `json:"enough"`          // successes without a failure that make an active provider (section 3.2.3)
}

// Bids determines the bid if the customer names none (section 4.1.4).
type Bids struct {
	Base      guild.Msat             `json:"base_msat"` // for a task without history
	Urgency   map[string]guild.Trust `json:"urgency_micro"`
	BaseTrust guild.Trust            `json:"base_trust_micro"` // trust without a premium
	MarketMin guild.Trust            `json:"market_min_micro"`
	MarketMax guild.Trust            `json:"market_max_micro"`
}

// Variables determines how the variables beside trust move (section 5.3).
type Variables struct {
	Early       guild.Trust `json:"early_micro"` // share of the timeout below which an end counts as early
	EarlyCount  int         `json:"early_count"`
	EarlyChange guild.Trust `json:"early_change_micro"`
	Near        guild.Trust `json:"near_micro"` // share of the timeout from which an end is near it
	NearCount   int         `json:"near_count"`
	NearChange  guild.Trust `json:"near_change_micro"`
	MuteCount   int         `json:"mute_count"` // timeouts without feedback
	MuteChange  guild.Trust `json:"mute_change_micro"`
	TimeoutMin  guild.Trust `json:"timeout_min_micro"` // minimum share of the configured timeout
	TimeoutMax  guild.Trust `json:"timeout_max_micro"` // maximum multiple of the configured timeout
	Queue       int         `json:"queue"`             // queue length above which a provider gets fewer concurrent requests
	Parallel    int         `json:"parallel"`          // maximum concurrent requests to a provider
	Utilization guild.Trust `json:"utilization_micro"` // utilization below which all providers get more requests
	Cascade     int         `json:"cascade"`           // timeouts of different providers within CascadeSpan
	CascadeSpan int64       `json:"cascade_ms"`
	FreeShift   guild.Trust `json:"free_shift_micro"`   // part of a paid budget that moves to experiments
	ScarceShift guild.Trust `json:"scarce_shift_micro"` // part of the budget for unimportant work that moves to important work
	Rollover    guild.Trust `json:"rollover_micro"`     // part of the rest of a month
	ModelRuns   int         `json:"model_runs"`         // verdicts of one model before it is preferred
	ModelScore  guild.Score `json:"model_score_micro"`  // their minimum score

	UtilizationCount int         `json:"utilization_count"` // requests over which utilization is measured
	ModelProviders   int         `json:"model_providers"`   // providers of one family that make it a fallback
	Recent           int64       `json:"recent_ms"`         // period of the work that counts for budgets
	FreeCount        int         `json:"free_count"`        // accepted results in that period before they count
	FreeShare        guild.Trust `json:"free_share_micro"`  // share of free results that means abundance
	ScarceTrust      guild.Trust `json:"scarce_trust_micro"`
	ScarceProviders  int         `json:"scarce_providers"`  // minimum number with that trust; fewer mean scarcity for a task with important work
	Contingency      guild.Trust `json:"contingency_micro"` // share of the rolled over budget that belongs to no task
}

// Review determines when reviews are published, and how others' reviews count (section 4.3).
type Review struct {
	Delay     int64       `json:"delay_ms"`       // after a benchmark
	Delta     guild.Trust `json:"delta_micro"`    // change of trust that is published at once
	Objection int64       `json:"objection_ms"`   // time in which a provider may object
	HalfLife  int64       `json:"half_life_ms"`   // of others' reviews
	Unproven  guild.Trust `json:"unproven_micro"` // weight of a review without a receipt that verifies
	Disputes  int         `json:"disputes"`       // verdicts per day that one provider may have judged again
}

// Backup determines when the matrix is backed up (section 3.3.4).
type Backup struct {
	Delta guild.Trust `json:"delta_micro"` // change of trust that is significant
	Every int64       `json:"every_ms"`    // minimum interval
}

// Customers determines how a provider scores its customers: by their good and bad requests, to which Prior of each are
// added, so that a stranger starts in the middle and a few requests change little.
type Customers struct {
	Prior     int         `json:"prior"`
	Accepted  int         `json:"accepted"`     // number of good requests that an accepted delivery counts as
	Withdrawn int         `json:"withdrawn"`    // number of bad requests that a withdrawal before the delivery counts as
	Disputed  int         `json:"disputed"`     // the same for a verdict that we object to
	Spam      int         `json:"spam"`         // refusals for too many requests that count as one bad request
	Low       guild.Trust `json:"low_micro"`    // score below which a customer gets one request at a time
	Lowest    guild.Trust `json:"lowest_micro"` // score below which a customer gets none
	Remember  int         `json:"remember"`     // requests after which earlier ones count half
}

// Values of Trust.DailyOf.
const (
	OfTask    = "task"    // all changes for the task together, as in the specification
	OfService = "service" // the decreases of that service for the task, so that others' failures do not protect it; violations have no limit
)

func ms(d time.Duration) int64 { return d.Milliseconds() }

const day = 24 * time.Hour

// The names of the policies that ship.
const (
	Partnership = "partnership" // the numbers of the specification
	Measured    = "measured"    // better results in bench/marketsim
)

// Names returns the names of the policies that ship, the default first.
func Names() []string { return []string{Measured, Partnership} }

// Default returns the policy that applies where none is named.
func Default() Policy { return measured() }

// Specification returns the policy with the partnership protocol's own numbers.
func Specification() Policy {
	return Policy{
		Version: 1, Name: Partnership,
		Trust: Trust{
			Floor: 100_000, Ceiling: 900_000, Step: 200_000, Daily: 300_000, DailyOf: OfService,
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
			Strengths: map[string]guild.Trust{
				string(guild.Mixed): 500_000, string(guild.Weak): 250_000, string(guild.Unverified): 0,
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
			Window: ms(7 * day), Rate: 950_000, Sample: 20, Slow: 2_000_000, SlowRuns: 20, Timeouts: 3,
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

// Named returns a policy that ships, by its name.
func Named(name string) (Policy, error) {
	switch name {
	case "", Measured:
		return measured(), nil
	case Partnership:
		return Specification(), nil
	}
	return Policy{}, fmt.Errorf("no policy %.40q: there are %s", name, strings.Join(Names(), ", "))
}

// Encode returns the policy as canonical JSON.
func (p Policy) Encode() ([]byte, error) {
	b, err := canon.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	return b, nil
}

// Hash returns the hash of the canonical form. Policies of this package always have one.
func (p Policy) Hash() (guild.Hash, error) {
	b, err := p.Encode()
	if err != nil {
		return guild.Hash{}, err
	}
	return guild.Sum(b), nil
}

// maxSize limits a policy that is read, in bytes.
const maxSize = 64 << 10

// Decode parses a policy that Encode wrote.
func Decode(b []byte) (Policy, error) {
	if len(b) > maxSize {
		return Policy{}, fmt.Errorf("policy: %d bytes, at most %d", len(b), maxSize)
	}
	var p Policy
	if err := json.Unmarshal(b, &p); err != nil {
		return Policy{}, fmt.Errorf("policy: %w", err)
	}
	return p, nil
}

// Cooldown returns the time without requests to a provider after a number of consecutive failed evaluations.
func (l Lifecycle) Cooldown(failed int) time.Duration {
	if len(l.Cooldowns) == 0 {
		return 0
	}
	return time.Duration(l.Cooldowns[min(max(failed, 1), len(l.Cooldowns))-1]) * time.Millisecond
}
