package variables

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/policy"
)

// Fold holds the variables beside trust (the partnership protocol, section 5.3): their values, and the observations
// since each was last changed. It keeps a limited number of observations and does not evaluate them. Variables does
// that, asynchronously.
type Fold struct {
	*fold.State[folded]
	policy policy.Policy
}

// Limits of the state.
const (
	maxTimings = 64 // answers of one task
	maxSamples = 64 // of the utilization
	maxExpired = 16 // latest timeouts of all providers
	maxScores  = 16 // verdicts on one service for one task
	maxDone    = 64 // accepted results of one task
	maxAlerts  = 20
	maxModels  = 8 // names in one value
	maxModel   = 100
	maxWhy     = 300
	maxKey     = 2 * fact.MaxTask // bytes of a key
	maxAtOnce  = 1000             // requests
	maxDelta   = 1 << 53          // msats of a month: the largest integer that every reader of JSON can hold
)

// Keys of COST_BUDGET that are not tasks.
const (
	BudgetExperimental = guild.ClassExperimental // for jobs of that class
	BudgetReserve      = "reserve"               // for important jobs
	BudgetContingency  = "contingency"           // for tasks that have used up their own budget
)

// FallbackChain is the key of MODEL_PREFERENCE that applies to every use.
const FallbackChain = "fallback_chain"

// folded is the content of a snapshot. Its slices are replaced, never changed in place.
type folded struct {
	Seq    uint64                              `json:"seq"`   // last entry applied
	Began  int                                 `json:"began"` // month of the first bid; 0 before it
	Values fold.Table[string, setting]         `json:"values"`
	News   fold.Table[string, uint64]          `json:"news"`    // variable → the latest entry with an observation for it
	Moved  fold.Table[string, uint64]          `json:"moved"`   // variable → the latest entry that changed it
	Month  int                                 `json:"month"`   // month of the latest change of a budget
	Fired  fold.Table[string, int]             `json:"fired"`   // rule and task → the month in which it moved that budget
	Alerts []Alert                             `json:"alerts"`  // the latest
	Jobs   fold.Table[string, observedJob]     `json:"jobs"`    // until they are closed
	Asked  fold.Table[string, observedAttempt] `json:"asked"`   // until they are judged, or ended without a verdict
	Timing fold.Table[string, []timing]        `json:"timings"` // by task

	Waiting fold.Table[string, int]      `json:"waiting"` // provider → requests that it has not answered
	Load    busyness                     `json:"load"`
	Reports fold.Table[string, reported] `json:"reports"` // by provider
	Samples []sample                     `json:"samples"`
	Expired []expired                    `json:"expired"`

	Scores fold.Table[string, []scored] `json:"scores"` // by scoreKey(task, service)

	Done      fold.Table[string, []doneWork]   `json:"done"`      // by task
	Important fold.Table[string, int64]        `json:"important"` // task → Unix ms of its latest important job
	Spent     fold.Table[string, spending]     `json:"spent"`     // by task
	Reserved  fold.Table[string, reservedBids] `json:"reserved"`  // by job
}

// setting is a value that differs from the configured one.
type setting struct {
	To      json.RawMessage `json:"to"`
	Number  int64           `json:"number,omitempty"`
	Names   []string        `json:"names,omitempty"`
	Seq     uint64          `json:"seq"` // entry that set it
	Through uint64          `json:"through"`
	Why     string          `json:"why,omitempty"` // rationale of that entry
}

// Alert is a change that a person should know of.
type Alert struct {
	At        int64  `json:"at"` // Unix ms
	Name      string `json:"name"`
	Key       string `json:"key"`
	Rule      string `json:"rule"`
	Rationale string `json:"rationale"`
}

type observedJob struct {
	Task    string     `json:"task"`
	Bid     guild.Msat `json:"bid"`
	Meeting bool       `json:"meeting,omitempty"`
}

type observedAttempt struct {
	Task    string        `json:"task"`
	Service guild.Service `json:"service"`
	Cost    guild.Msat    `json:"cost"`
	Meeting bool          `json:"meeting,omitempty"`
	Asked   int64         `json:"asked,omitempty"` // Unix ms when a relay took the request
	Limit   int64         `json:"limit,omitempty"` // Unix ms of the time-out of its first answer
	Seq     uint64        `json:"seq,omitempty"`   // the entry of the request
	Heard   bool          `json:"heard,omitempty"`
	Waits   bool          `json:"waits,omitempty"` // counted in Waiting
}

// timing is the time that a provider took for its first answer.
type timing struct {
	Seq   uint64      `json:"seq"`
	Share guild.Trust `json:"share"`          // of the time that it had
	Limit int64       `json:"limit"`          // that time, in ms
	Mute  bool        `json:"mute,omitempty"` // no answer came
}

// busyness is the load of all providers that have requests.
type busyness struct {
	Waiting int   `json:"waiting"` // requests
	Own     int64 `json:"own"`     // sum of the limits of providers with a limit of their own
	Others  int   `json:"others"`  // number of the other providers
}

type sample struct {
	Seq uint64 `json:"seq"`
	busyness
}

type reported struct {
	Seq uint64 `json:"seq"`
	fact.Capacity
}

type expired struct {
	Seq      uint64 `json:"seq"`
	At       int64  `json:"at"` // Unix ms
	Provider string `json:"provider"`
}

type scored struct {
	Seq   uint64      `json:"seq"`
	Score guild.Score `json:"score"`
}

type doneWork struct {
	Seq  uint64 `json:"seq"`
	At   int64  `json:"at"` // Unix ms
	Free bool   `json:"free,omitempty"`
}

// spending is the sum of one task's bids in its latest month, and in the month before.
type spending struct {
	Month  int        `json:"month"`
	Now    guild.Msat `json:"now"`
	Before guild.Msat `json:"before"`
}

// reservedBids holds a job's reservations by their turn.
type reservedBids map[string]reservedBid

type reservedBid struct {
	Task   string     `json:"task"`
	Month  int        `json:"month"`
	Amount guild.Msat `json:"amount"`
}

// NewFold returns an empty fold under a policy.
func NewFold(p policy.Policy) *Fold {
	return &Fold{State: fold.NewState[folded]("variables", 2), policy: p}
}

func (f *Fold) value(name, key string) (set setting, ok bool) {
	f.View(func(s *folded) { set, ok = s.Values.Get(keyOf(name, key)) })
	return set, ok
}

// Timeout returns the factor of the configured silence of a task's providers. guild.Micro leaves it as configured.
func (f *Fold) Timeout(task string) guild.Trust {
	if set, ok := f.value(fact.TimeoutConfig, task); ok {
		return guild.Trust(set.Number)
	}
	return guild.Micro
}

// Parallelism returns how many requests a provider may have at once. ok is false if that is as configured.
func (f *Fold) Parallelism(p nostr.PubKey) (int, bool) {
	set, ok := f.value(fact.Parallelism, p.Hex())
	return int(set.Number), ok
}

// AtOnce returns how many requests all providers together may have at once. ok is false if that is as configured.
func (f *Fold) AtOnce() (int, bool) {
	set, ok := f.value(fact.Parallelism, "")
	return int(set.Number), ok
}

// Budget returns the change of a budget in this month, for a task or one of the keys Budget…. It may be negative.
func (f *Fold) Budget(task string) guild.Msat {
	set, _ := f.value(fact.CostBudget, task)
	return guild.Msat(set.Number)
}

// Models returns the models that did well for a use, the best first, followed by the fallback chain.
func (f *Fold) Models(use string) (models []string) {
	f.View(func(s *folded) {
		models = slices.Clone(s.Values.Of(keyOf(fact.ModelPreference, use)).Names)
		for _, m := range s.Values.Of(keyOf(fact.ModelPreference, FallbackChain)).Names {
			if !slices.Contains(models, m) {
				models = append(models, m)
			}
		}
	})
	return models
}

// Alerts returns the latest changes that a person should know of, the oldest first.
func (f *Fold) Alerts() []Alert {
	return fold.Read(f.State, func(s *folded) []Alert { return slices.Clone(s.Alerts) })
}

// Rows returns each value as canonical JSON. Its key is "variable/", the variable's name, a slash and the escaped key.
func (f *Fold) Rows() map[string]json.RawMessage {
	state := f.Copy()
	rows := map[string]json.RawMessage{}
	for k, set := range state.Values.All() {
		name, key := splitKey(k)
		rows[rowName(name, key)] = set.To
	}
	return rows
}

const rowPrefix = "variable/"

func rowName(name, key string) string { return rowPrefix + name + "/" + url.PathEscape(key) }

// readNames decodes a value that is a list of models.
func readNames(raw json.RawMessage) ([]string, bool) {
	var names []string
	err := json.Unmarshal(raw, &names)
	return names, err == nil && names != nil
}

func writeNames(names []string) json.RawMessage {
	b, err := canon.Marshal(names)
	if err != nil { // impossible: modelName accepts only UTF-8
		return json.RawMessage("[]")
	}
	return b
}

// monthOf returns the number of a UTC month.
func monthOf(at int64) int {
	t := time.UnixMilli(at).UTC()
	return t.Year()*12 + int(t.Month()) - 1
}

// lastFew returns all with e appended, cut to the latest most elements. It does not change all.
func lastFew[E any](all []E, e E, most int) []E {
	all = append(slices.Clip(all), e)
	return slices.Clip(all[max(0, len(all)-most):])
}

// newer returns the elements of all that came after an entry.
func newer[E any](all []E, seq func(E) uint64, through uint64) []E {
	at, _ := slices.BinarySearchFunc(all, through+1, func(e E, want uint64) int { return cmp.Compare(seq(e), want) })
	return slices.Clip(all[at:])
}

// Value is the value of one variable for one key.
type Value struct {
	Name, Key string
	Value     json.RawMessage
	Rationale string // of its latest change, cut to 300 bytes
}

// All lists the variables that have a value of their own, by name and key.
func (f *Fold) All() []Value {
	var all []Value
	state := f.Copy()
	for k, set := range state.Values.All() {
		name, key := splitKey(k)
		all = append(all, Value{Name: name, Key: key, Value: set.To, Rationale: set.Why})
	}
	slices.SortFunc(all, func(a, b Value) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key)) })
	return all
}

// keyOf returns the key of a value in the tables.
func keyOf(name, key string) string { return name + "\x00" + key }

// splitKey is the inverse of keyOf.
func splitKey(k string) (name, key string) {
	name, key, _ = strings.Cut(k, "\x00")
	return name, key
}

// scoreKey returns the key of a service's scores.
func scoreKey(task string, s guild.Service) string {
	return task + "\x00" + s.PubKey.Hex() + "\x00" + s.D
}
