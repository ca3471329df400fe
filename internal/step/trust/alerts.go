package trust

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/policy"
)

// The rules of alerts (the partnership protocol, section 5.5.4).
const (
	AlertFrequency   = "mutation frequency"
	AlertOscillation = "oscillation"
	AlertSaturation  = "boundary saturation"
	AlertSuppression = "suppression"
	AlertConfidence  = "confidence"
	AlertLimit       = "daily limit"
)

// Alert reports a state of trust that a person should look at.
type Alert struct {
	Rule    string        `json:"rule"`             // one of the constants Alert…
	Task    string        `json:"task,omitempty"`   // "" if it is about all tasks
	Service guild.Service `json:"service,omitzero"` // zero if it is about no single service
	Text    string        `json:"text"`             // what was found
	Means   string        `json:"means"`            // its likely cause
	Advice  string        `json:"advice"`           // what to do
}

// seen summarizes one task for its alerts.
type seen struct {
	hour  int   // changes in the last hour
	moved int64 // Unix ms of the latest change that moved trust
	heard int64 // Unix ms of the latest verdict on a service whose trust was within the bounds
}

// Alerts lists what a person should look at now. It depends on the fold's state alone.
func (f *Fold) Alerts(now time.Time) []Alert {
	rows, p := f.rows(), f.policy.Trust
	tasks, sure := map[string]seen{}, []guild.Trust(nil)
	var found []Alert
	bound, entries := 0, 0
	for _, r := range rows.All() {
		if !r.Met {
			continue
		}
		entries++
		if r.Trust <= p.Floor || r.Trust >= p.Ceiling {
			bound++
		}
		tasks[r.Task] = tasks[r.Task].add(r, now.UnixMilli(), p)
		for _, c := range r.Past {
			if c.Pattern != "" && c.At > now.UnixMilli()-p.Alerts.UnsureFor {
				sure = append(sure, c.Confidence)
			}
		}
		if w, ok := oscillating(r, p); ok {
			found = append(found, w)
		}
		if w, ok := heldBack(r, now.UnixMilli(), p); ok {
			found = append(found, w)
		}
	}
	slices.SortFunc(found, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(serviceKey(a.Service), serviceKey(b.Service)))
	})
	for _, task := range slices.Sorted(maps.Keys(tasks)) {
		found = append(found, tasks[task].warn(task, now.UnixMilli(), p.Alerts)...)
	}
	return append(found, overall(bound, entries, sure, p)...)
}

func (t seen) add(r row, now int64, p policy.Trust) seen {
	for _, c := range r.Past {
		if c.First || c.To != c.From {
			t.moved = max(t.moved, c.At)
			if c.At > now-time.Hour.Milliseconds() {
				t.hour++
			}
		}
		if c.Pattern != "" && r.Trust > p.Floor && r.Trust < p.Ceiling {
			t.heard = max(t.heard, c.At)
		}
	}
	return t
}

// warn returns the alerts about one task.
func (t seen) warn(task string, now int64, p policy.Alerts) (found []Alert) {
	if t.hour > p.Often {
		found = append(found, Alert{Rule: AlertFrequency, Task: task,
			Text:   fmt.Sprintf("trust for %s changed %d times within an hour, more than %d", task, t.hour, p.Often),
			Means:  "so many verdicts move the choice of providers faster than anybody can follow",
			Advice: "see guild trust ls --task " + task + " for who moved; guild trust rollback takes it back if the criteria were wrong"})
	}
	if t.moved > 0 && t.moved <= now-p.Suppressed && t.heard > now-p.Suppressed {
		found = append(found, Alert{Rule: AlertSuppression, Task: task,
			Text: fmt.Sprintf("trust for %s has not moved since %s, although verdicts come", task,
				time.UnixMilli(t.moved).UTC().Format(time.DateOnly)),
			Means:  "something holds it: a limit, or evidence that outweighs itself",
			Advice: "see the arithmetic with guild trust history --verbose"})
	}
	return found
}

// heldBack returns an alert if the daily limit prevented a decrease of trust in one service within the last day.
// Changes from before trust was set outright do not count.
func heldBack(r row, now int64, p policy.Trust) (Alert, bool) {
	held := guild.Trust(0)
	for _, c := range r.relevant() {
		if c.At > now-dayMs {
			held += c.Held
		}
	}
	return Alert{Rule: AlertLimit, Task: r.Task, Service: r.Service,
		Text: fmt.Sprintf("trust in %.12s… for %s would be lower by up to %s without the limit of %s a day", nip19.EncodeNpub(r.Service.PubKey), r.Task,
			dec(held), dec(p.Daily)),
		Means:  "it failed more often on one day than a day's limit counts",
		Advice: "lower it or suspend the provider with guild trust set, if those failures were its fault",
	}, held > 0
}

// oscillating returns an alert if trust in one service changed direction often lately.
func oscillating(r row, p policy.Trust) (Alert, bool) {
	past := r.relevant()
	i := len(past) - 1
	for i >= 0 && past[i].by() == 0 {
		i--
	}
	if i < 0 {
		return Alert{}, false
	}
	turns := reversals(past[:i], past[i].by(), p.Recent)
	return Alert{Rule: AlertOscillation, Task: r.Task, Service: r.Service,
		Text:   fmt.Sprintf("trust in %.12s… for %s reversed %d times in its last %d changes", nip19.EncodeNpub(r.Service.PubKey), r.Task, turns, p.Recent),
		Means:  "the provider works by turns, or the criteria do not judge the same each time; changes are halved meanwhile",
		Advice: "judge one delivery twice with guild judge; if the verdicts agree, set trust or suspend the provider with guild trust set",
	}, turns >= p.Reversals
}

// overall returns the alerts about all tasks together.
func overall(bound, entries int, sure []guild.Trust, p policy.Trust) (found []Alert) {
	if entries > 0 && int64(bound)*guild.Micro > int64(p.Alerts.Saturated)*int64(entries) {
		found = append(found, Alert{Rule: AlertSaturation,
			Text:   fmt.Sprintf("%d of %d entries are at %s or %s", bound, entries, dec(p.Floor), dec(p.Ceiling)),
			Means:  "trust says little about who is better: all are as good, or as bad, as it can tell",
			Advice: "make the criteria harder or easier, or look for other providers"})
	}
	if len(sure) > 0 {
		slices.Sort(sure)
		if median := sure[(len(sure)+1)/2-1]; median < p.Alerts.Unsure {
			found = append(found, Alert{Rule: AlertConfidence,
				Text:   fmt.Sprintf("the median confidence in the last %d changes is %s, below %s", len(sure), dec(median), dec(p.Alerts.Unsure)),
				Means:  "most verdicts are on services that few verdicts are known of, or limits held the changes back",
				Advice: "nothing while providers are new; else see guild trust history --verbose for the limits"})
		}
	}
	return found
}
