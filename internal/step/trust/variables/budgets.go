package variables

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"guild"
	"guild/internal/journal/fact"
)

// budgets applies section 5.3.4. Its values apply to one month. Amounts that are shifted between tasks add up to 0.
// When the month ends every budget is as configured again, apart from the share of the rest that is carried over.
func (s *Variables) budgets(state *folded, at int64) []fact.VariableChanged {
	month := monthOf(at)
	if last := cmp.Or(state.Month, state.Began); last != 0 && month > last {
		if changes := s.rollover(state, month); len(changes) > 0 {
			return changes // the other rules run once these are applied
		}
	}
	if changes := s.abundance(state, at); len(changes) > 0 {
		return changes
	}
	return s.scarcity(state, at)
}

// rollover ends a month (underspend detected). A share of a task's rest is carried over, part of it to the task and
// part to the contingency. The remainder lapses.
func (s *Variables) rollover(state *folded, month int) []fact.VariableChanged {
	p := s.fold.policy.Variables
	after, why := map[string]guild.Msat{BudgetExperimental: 0, BudgetReserve: 0, BudgetContingency: 0}, map[string]string{}
	for task, configured := range s.c.Budgets {
		sp := state.Spent.Of(task)
		spent := guild.Msat(0)
		switch sp.Month {
		case month:
			spent = sp.Before
		case month - 1:
			spent = sp.Now
		}
		left := max(0, configured+state.budget(task)-spent)
		carried := portion(left, p.Rollover)
		common := portion(carried, p.Contingency)
		after[task] += carried - common
		after[BudgetContingency] += common
		why[task] = fmt.Sprintf("%s were left, of which %s go on: %s to itself and %s to the contingency", left, carried, carried-common, common)
	}
	for k := range state.Values.All() { // shifts end with the month
		if name, key := splitKey(k); name == fact.CostBudget {
			after[key] += 0
		}
	}
	var changes []fact.VariableChanged
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if after[key] != state.budget(key) {
			changes = append(changes, fact.VariableChanged{Key: key, To: fact.Number(int64(after[key])), Rule: ruleRollover,
				Rationale: cmp.Or(why[key], "the month ended, and with it what was shifted")})
		}
	}
	return changes
}

// abundance shifts part of a paid budget to experiments if much of the accepted work was free.
func (s *Variables) abundance(state *folded, at int64) []fact.VariableChanged {
	p := s.fold.policy.Variables
	for _, task := range slices.Sorted(maps.Keys(s.c.Budgets)) {
		free, all := 0, 0
		for _, d := range state.Done.Of(task) {
			if d.At > at-p.Recent {
				all++
				if d.Free {
					free++
				}
			}
		}
		moved := portion(max(0, s.c.Budgets[task]+state.budget(task)), p.FreeShift)
		if all < max(1, p.FreeCount) || guild.Trust(free)*guild.Micro < p.FreeShare*guild.Trust(all) || moved == 0 ||
			task == BudgetExperimental || state.fired(ruleFree, task, at) {
			continue
		}
		why := fmt.Sprintf("%d of %d accepted results for %s cost nothing: %s go to experiments", free, all, task, moved)
		return []fact.VariableChanged{
			{Key: task, To: fact.Number(int64(state.budget(task) - moved)), Rule: ruleFree, Rationale: why},
			{Key: BudgetExperimental, To: fact.Number(int64(state.budget(BudgetExperimental) + moved)), Rule: ruleFree, Rationale: why},
		}
	}
	return nil
}

// scarcity shifts part of the budgets of tasks without important work to the reserve if a task with important work has
// too few good providers.
func (s *Variables) scarcity(state *folded, at int64) []fact.VariableChanged {
	p := s.fold.policy.Variables
	if s.c.Trusted == nil {
		return nil
	}
	lacking, few := "", 0
	for _, task := range sortedKeys(state.Important.All()) {
		if state.Important.Of(task) <= at-p.Recent {
			continue
		}
		if few = s.c.Trusted(task, p.ScarceTrust); few < p.ScarceProviders {
			lacking = task
			break
		}
	}
	if lacking == "" {
		return nil
	}
	why := fmt.Sprintf("%s has important work and %d providers trusted with %s or more, wants %d", lacking, few, p.ScarceTrust, p.ScarceProviders)
	var changes []fact.VariableChanged
	reserve := state.budget(BudgetReserve)
	for _, task := range slices.Sorted(maps.Keys(s.c.Budgets)) {
		moved := portion(max(0, s.c.Budgets[task]+state.budget(task)), p.ScarceShift)
		important, ok := state.Important.Get(task)
		if ok && important > at-p.Recent || moved == 0 || task == BudgetReserve || state.fired(ruleScarce, task, at) {
			continue
		}
		reserve += moved
		changes = append(changes, fact.VariableChanged{Key: task, To: fact.Number(int64(state.budget(task) - moved)), Rule: ruleScarce,
			Rationale: fmt.Sprintf("%s: %s go to the reserve", why, moved)})
	}
	if len(changes) == 0 {
		return nil
	}
	return append(changes, fact.VariableChanged{Key: BudgetReserve, To: fact.Number(int64(reserve)), Rule: ruleScarce, Rationale: why})
}

func (s *folded) budget(key string) guild.Msat {
	return guild.Msat(s.Values.Of(keyOf(fact.CostBudget, key)).Number)
}

// fired reports whether a rule has moved a task's budget in this month.
func (s *folded) fired(rule, task string, at int64) bool {
	return s.Fired.Of(rule+"\x00"+task) == monthOf(at)
}

// portion returns a share (in micro-units) of an amount, rounded down.
func portion(amount guild.Msat, share guild.Trust) guild.Msat {
	whole, rest := amount/guild.Micro, amount%guild.Micro // amount times share may overflow an int64
	return whole*guild.Msat(share) + rest*guild.Msat(share)/guild.Micro
}
