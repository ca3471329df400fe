package jobs

import (
	"fmt"
	"slices"
	"strings"

	"guild/internal/market/route"
)

// reason is why some services must not be asked for a job.
type reason struct {
	by    string
	count int
	one   string // explains it for one of them
}

// reasons are the reasons of all services of a task, each once.
type reasons []reason

// add counts n services that are excluded by the same word. explain is called for the first only.
func (r *reasons) add(by string, n int, explain func() string) {
	if at := slices.IndexFunc(*r, func(known reason) bool { return known.by == by }); at >= 0 {
		(*r)[at].count += n
		return
	}
	*r = append(*r, reason{by, n, explain()})
}

// remedies has the words for several services with the same reason, and the command that helps.
var remedies = map[string]struct{ many, command string }{
	byItself:            {"are this node's own", ""},
	route.ByState:       {"are suspended, rejected, stale or removed", "guild market show NAME says which"},
	byOthers:            {"are not named", ""},
	byService:           {"are not the service of this benchmark", ""},
	byAsked:             {"were asked already", "guild job show JOB says how that ended"},
	byEncryption:        {"do not read encrypted requests", "hire without --private"},
	byForm:              {"do not read what the job sends", "guild market show NAME says what they read"},
	byCredentials:       {"have no credentials sealed for them", "hire --release"},
	byQuarantine:        {"are in quarantine", "guild market show NAME says until when"},
	byPrice:             {"ask more than is bid", "hire --bid"},
	byClass:             {"are on probation", "hire --class experimental"},
	byCapacity:          {"have no capacity before the deadline", "hire --timeout"},
	route.ByTrust:       {"are trusted too little", "guild trust set NAME"},
	route.ByAgain:       {"are being tried once more", "guild market show NAME"},
	route.ByUnconfirmed: {"are unconfirmed: no benchmark passed, and the announcement does not confirm the kind", "guild market bench NAME"},
	route.ByCriticality: {"are not qualified for this criticality", "guild market bench NAME, or a lower --criticality"},
}

// String explains the exclusions, the most frequent reason first, each with the command that helps. A single service has its
// name; several with the same reason are counted, with an example.
func (r reasons) String() string {
	all := slices.SortedStableFunc(slices.Values(r), func(a, b reason) int { return b.count - a.count })
	var parts []string
	for _, one := range all {
		remedy, text := remedies[one.by], one.one
		if one.count > 1 && remedy.many != "" {
			text = fmt.Sprintf("%d %s", one.count, remedy.many)
		}
		if remedy.command != "" {
			text += " (" + remedy.command + ")"
		}
		if one.count > 1 {
			text += ", for example " + one.one
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
