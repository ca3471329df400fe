package variables

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// The rows of the tables of section 5.3 of the partnership protocol, as VariableChanged.Rule names them.
const (
	ruleEarly = "early-completion"
	ruleNear  = "near-timeout"
	ruleMute  = "timeout-without-feedback"

	ruleQueue   = "queue-depth"
	ruleIdle    = "idle-capacity"
	ruleUnused  = "low-utilization"
	ruleCascade = "cascade-timeout"

	ruleFree     = "free-tier-abundance"
	ruleScarce   = "quality-scarcity"
	ruleRollover = "underspend"

	ruleModel    = "performance"
	ruleEnsemble = "reliable-family"
)

// sortedKeys returns the keys of a table in order, so that every node makes the same decision.
func sortedKeys[V any](all func(yield func(string, V) bool)) []string {
	var keys []string
	for k := range all {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// timeouts applies section 5.3.2. The timeout of a task limits the wait for a provider's first answer after a relay
// took the request. An observation is the part of that time that the provider took.
func (s *Variables) timeouts(state *folded) []fact.VariableChanged {
	var changes []fact.VariableChanged
	for _, task := range sortedKeys(state.Timing.All()) {
		now := guild.Trust(guild.Micro)
		if set, ok := state.Values.Get(keyOf(fact.TimeoutConfig, task)); ok {
			now = guild.Trust(set.Number)
		}
		seen := state.Timing.Of(task)
		to, rule := adjustTimeout(s.fold.policy.Variables, now, seen)
		if to == now {
			continue
		}
		limit := time.Duration(seen[len(seen)-1].Limit) * time.Millisecond
		changes = append(changes, fact.VariableChanged{
			Key: task, To: fact.Number(int64(to)), Rule: rule, Alert: rule == ruleMute,
			Rationale: fmt.Sprintf("%d observations, the last of a timeout of %s: factor %s to %s", len(seen), limit, now, to),
		})
	}
	return changes
}

// adjustTimeout applies the table of section 5.3.2. If several rows apply, the one with the longest wait is chosen.
// Early answers must be the latest ones, without any other answer between them.
func adjustTimeout(p policy.Variables, now guild.Trust, seen []timing) (to guild.Trust, rule string) {
	early, near, mute := 0, 0, 0
	for _, t := range seen {
		switch {
		case t.Mute:
			mute++
			early = 0
		case t.Share < p.Early:
			early++
		case t.Share >= p.Near:
			near++
			early = 0
		default:
			early = 0
		}
	}
	for _, row := range [...]struct {
		rule        string
		count, from int
		change      guild.Trust
	}{
		{ruleMute, mute, p.MuteCount, p.MuteChange},
		{ruleNear, near, p.NearCount, p.NearChange},
		{ruleEarly, early, p.EarlyCount, p.EarlyChange},
	} {
		to := min(max(now+shareOf(now, row.change), p.TimeoutMin), p.TimeoutMax)
		if row.count >= row.from && to != now {
			return to, row.rule
		}
	}
	return now, ""
}

// shareOf returns a share of a number, both in micro-units, rounded towards zero.
func shareOf(n, share guild.Trust) guild.Trust { return n * share / guild.Micro }

// parallelism applies section 5.3.3.
func (s *Variables) parallelism(state *folded) []fact.VariableChanged {
	p := s.fold.policy.Variables
	changes := s.total(state)
	for _, provider := range sortedKeys(state.Reports.All()) {
		now := s.c.AtOnce
		if set, ok := state.Values.Get(keyOf(fact.Parallelism, provider)); ok {
			now = int(set.Number)
		}
		said := state.Reports.Of(provider)
		to, rule := adjustParallelism(p, now, said.Capacity)
		if to != now {
			changes = append(changes, fact.VariableChanged{Key: provider, To: fact.Number(int64(to)), Rule: rule,
				Rationale: fmt.Sprintf("it reports %d waiting requests and room for %d: %d to %d at once", said.Queue, said.Idle, now, to)})
		}
	}
	return changes
}

// adjustParallelism applies the table of section 5.3.3 to one provider. If a provider reports a full queue and idle
// capacity, the queue counts.
func adjustParallelism(p policy.Variables, now int, said fact.Capacity) (to int, rule string) {
	switch {
	case said.Queue > p.Queue:
		return max(1, now-1), ruleQueue
	case said.Idle > 0:
		return max(now, min(now+1, p.Parallel)), ruleIdle
	}
	return now, ""
}

// total applies the table of section 5.3.3 to all providers together.
func (s *Variables) total(state *folded) []fact.VariableChanged {
	p := s.fold.policy.Variables
	now, limited := s.c.Total, s.c.Total > 0
	if set, ok := state.Values.Get(keyOf(fact.Parallelism, "")); ok {
		now, limited = int(set.Number), true
	}
	if providers := cascade(p, state.Expired); len(providers) > 0 {
		if !limited {
			now = state.Load.Waiting + len(providers) // the number of requests when it happened
		}
		to := max(1, now/2)
		if limited && to == now {
			return nil
		}
		return []fact.VariableChanged{{Key: "", To: fact.Number(int64(to)), Rule: ruleCascade, Alert: true,
			Rationale: fmt.Sprintf("%d providers timed out within %s: %d to %d requests at once in all",
				len(providers), time.Duration(p.CascadeSpan)*time.Millisecond, now, to)}}
	}
	used, most := s.utilization(state.Samples)
	if !limited || len(state.Samples) < p.UtilizationCount || used >= p.Utilization || int64(now) >= most {
		return nil
	}
	return []fact.VariableChanged{{Key: "", To: fact.Number(int64(now + 1)), Rule: ruleUnused,
		Rationale: fmt.Sprintf("over %d requests the providers that had any used %s of their limits: %d to %d requests at once in all",
			len(state.Samples), used, now, now+1)}}
}

// utilization returns the part of the limits that was used, and the mean of the limits. It counts the providers with
// requests, each time another request was sent.
func (s *Variables) utilization(samples []sample) (used guild.Trust, mean int64) {
	var waiting, limits int64
	for _, one := range samples {
		waiting += int64(one.Waiting)
		limits += one.Own + int64(one.Others)*int64(s.c.AtOnce)
	}
	if limits == 0 {
		return guild.Micro, 0
	}
	return guild.Trust(waiting * guild.Micro / limits), limits / int64(len(samples))
}

// cascade returns the providers that timed out within the span, or nil if they are too few for a cascade.
func cascade(p policy.Variables, all []expired) []string {
	for i, last := range all {
		providers := map[string]bool{}
		for _, one := range all[:i+1] {
			if one.At > last.At-p.CascadeSpan {
				providers[one.Provider] = true
			}
		}
		if len(providers) >= max(1, p.Cascade) {
			return slices.Sorted(maps.Keys(providers))
		}
	}
	return nil
}

// modelRecord counts the verdicts on one model.
type modelRecord struct {
	runs int
	sum  guild.Score
}

func (r modelRecord) mean() guild.Score { return r.sum / guild.Score(max(1, r.runs)) }

func (r modelRecord) add(all []scored) modelRecord {
	for _, one := range all {
		r.runs, r.sum = r.runs+1, r.sum+one.Score
	}
	return r
}

// models applies section 5.3.1: the models of providers that did well for a task are preferred for that task. A family
// of models becomes a fallback for everything once several providers do well with it.
func (s *Variables) models(state *folded) []fact.VariableChanged {
	if s.c.Model == nil {
		return nil
	}
	uses, families := map[string]map[string]modelRecord{}, map[string]map[string]modelRecord{} // by model; by provider and model
	for _, key := range sortedKeys(state.Scores.All()) {
		task, service := splitScoreKey(key)
		model := modelName(s.c.Model(service))
		if model == "" {
			continue
		}
		addScores(uses, task, model, state.Scores.Of(key))
		addScores(families, familyOf(model), service.PubKey.Hex()+"\x00"+model, state.Scores.Of(key))
	}
	var changes []fact.VariableChanged
	for _, use := range slices.Sorted(maps.Keys(uses)) {
		before := state.Values.Of(keyOf(fact.ModelPreference, use)).Names
		after := s.preferred(before, uses[use])
		if len(after) > 0 && !slices.Equal(before, after) {
			best := uses[use][after[0]]
			changes = append(changes, fact.VariableChanged{Key: use, To: writeNames(after), Rule: ruleModel,
				Rationale: fmt.Sprintf("%d verdicts on %s come to %s", best.runs, after[0], best.mean())})
		}
	}
	return append(changes, s.fallbacks(state, families)...)
}

func addScores(all map[string]map[string]modelRecord, key, model string, scores []scored) {
	if all[key] == nil {
		all[key] = map[string]modelRecord{}
	}
	all[key][model] = all[key][model].add(scores)
}

// preferred returns the models that did well, the best first, followed by those that were preferred before and have too
// few new verdicts. Differences below one percent do not change the present order.
func (s *Variables) preferred(before []string, models map[string]modelRecord) []string {
	p := s.fold.policy.Variables
	rank := func(m string) int {
		if i := slices.Index(before, m); i >= 0 {
			return i
		}
		return len(before)
	}
	var good, rest []string
	for _, m := range slices.Sorted(maps.Keys(models)) {
		if models[m].runs >= p.ModelRuns && models[m].mean() >= p.ModelScore {
			good = append(good, m)
		}
	}
	slices.SortStableFunc(good, func(a, b string) int {
		return cmp.Or(cmp.Compare(models[b].mean()/10_000, models[a].mean()/10_000), cmp.Compare(rank(a), rank(b)))
	})
	for _, m := range before {
		if models[m].runs < p.ModelRuns {
			rest = append(rest, m)
		}
	}
	all := slices.Concat(good, rest)
	return all[:min(len(all), maxModels)]
}

// fallbacks appends the best model of each family with several good providers to the chain.
func (s *Variables) fallbacks(state *folded, families map[string]map[string]modelRecord) []fact.VariableChanged {
	p := s.fold.policy.Variables
	before := state.Values.Of(keyOf(fact.ModelPreference, FallbackChain)).Names
	after := slices.Clone(before)
	for _, family := range slices.Sorted(maps.Keys(families)) {
		reliable, best, score := map[string]bool{}, "", guild.Score(-1)
		for _, k := range slices.Sorted(maps.Keys(families[family])) {
			provider, model, _ := strings.Cut(k, "\x00")
			r := families[family][k]
			if r.runs < p.ModelRuns || r.mean() < p.ModelScore {
				continue
			}
			reliable[provider] = true
			if r.mean() > score {
				best, score = model, r.mean()
			}
		}
		known := slices.ContainsFunc(after, func(m string) bool { return familyOf(m) == family })
		if len(reliable) >= max(1, p.ModelProviders) && !known && len(after) < maxModels {
			after = append(after, best)
		}
	}
	if slices.Equal(before, after) {
		return nil
	}
	return []fact.VariableChanged{{Key: FallbackChain, To: writeNames(after), Rule: ruleEnsemble,
		Rationale: fmt.Sprintf("at least %d providers each do well with one family: %s", p.ModelProviders, strings.Join(after[len(before):], ", "))}}
}

// modelName returns the name of a model in a stranger's announcement, or "" if it is invalid.
func modelName(said string) string {
	name := strings.TrimSpace(said)
	if len(name) > maxModel || guild.Clean(name) != name || strings.ContainsFunc(name, unicode.IsSpace) {
		return ""
	}
	return name
}

// familyOf returns the first word of a model's name: "claude" of "anthropic/claude-3-opus".
func familyOf(model string) string {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	if i := strings.IndexFunc(model, func(r rune) bool { return !unicode.IsLetter(r) }); i > 0 {
		return model[:i]
	}
	return model
}

// splitScoreKey is the inverse of scoreKey.
func splitScoreKey(k string) (task string, s guild.Service) {
	task, rest, _ := strings.Cut(k, "\x00")
	digits, d, _ := strings.Cut(rest, "\x00")
	key, err := nostr.PubKeyFromHexCheap(digits)
	if err != nil {
		return task, guild.Service{}
	}
	return task, guild.Service{PubKey: key, D: d}
}
