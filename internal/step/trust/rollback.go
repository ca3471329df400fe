package trust

import (
	"fmt"

	"guild"
	"guild/internal/policy"
)

const (
	dayMs = 24 * 60 * 60 * 1000

	// keptDays limits the days of which a standing keeps the mean, and so how far back a policy can look.
	keptDays = 8
)

// area is the trust of one UTC day, summed over its milliseconds.
type area struct {
	Day  int64 `json:"day"` // days since 1970
	Area int64 `json:"area"`
	Ms   int64 `json:"ms"` // how long there was trust
}

// addArea adds that trust was t between two times in Unix ms. It drops days that are too old to matter.
func addArea(areas []area, t guild.Trust, from, to int64) []area {
	oldest := to/dayMs - keptDays + 1
	var kept []area
	for _, a := range areas {
		if a.Day >= oldest {
			kept = append(kept, a)
		}
	}
	for from = max(from, oldest*dayMs); from < to; {
		day := from / dayMs
		end := min(to, (day+1)*dayMs)
		if len(kept) == 0 || kept[len(kept)-1].Day != day {
			kept = append(kept, area{Day: day})
		}
		last := &kept[len(kept)-1]
		last.Area += int64(t) * (end - from)
		last.Ms += end - from
		from = end
	}
	return kept
}

// meanOf returns the mean of trust over the UTC days up to that of at, weighted by time. over is in ms and rounded up
// to whole days. It returns now if there was no trust on these days.
func meanOf(areas []area, now guild.Trust, at, over int64) guild.Trust {
	days := min((over+dayMs-1)/dayMs, keptDays)
	var sum, ms int64
	for _, a := range areas {
		if a.Day > at/dayMs-days {
			sum += a.Area
			ms += a.Ms
		}
	}
	if ms == 0 {
		return now
	}
	return guild.Trust((sum + ms/2) / ms)
}

// observed returns how good a service was: the mean of its latest outcomes, including e, where a success counts 1, a
// part of the work 0.5 and anything else 0. It uses as many outcomes as oscillation does, none older than the mean that
// would be restored, and stays within the bounds of trust.
func observed(past []Past, e Evidence, p policy.Trust) guild.Trust {
	sum, n := worth(e.Pattern), guild.Trust(1)
	for i := len(past) - 1; i >= 0 && n < guild.Trust(p.Recent); i-- {
		if past[i].Pattern == "" {
			continue
		}
		if past[i].At <= e.At-p.Mean {
			break
		}
		sum, n = sum+worth(past[i].Pattern), n+1
	}
	return clamp(sum/n, p.Floor, p.Ceiling)
}

func worth(pattern string) guild.Trust {
	switch pattern {
	case success:
		return guild.Micro
	case partial:
		return guild.Micro / 2
	}
	return 0
}

// wrongWay counts the changes in a row that were in the wrong direction. That is a change that moves trust away from
// what was observed: down while the latest outcomes are above trust, or up while they are below it. A change of 0
// leaves the count as it is.
func wrongWay(s State, e Evidence, to guild.Trust, p policy.Trust) int {
	by, seen := to-s.Trust, observed(s.Past, e, p)
	switch {
	case by == 0:
		return s.Wrong
	case by < 0 && seen > s.Trust, by > 0 && seen < s.Trust:
		return s.Wrong + 1
	}
	return 0
}

// restored applies the second rule of section 5.5.3: after the policy's number of changes in the wrong direction, the
// last of which is by, trust returns to its mean. Nothing is restored if the mean is further in the wrong direction,
// because the rule exists to undo a mistake.
func restored(s State, by Proposal, p policy.Trust) (Proposal, bool) {
	to, from := clamp(s.Mean, p.Floor, p.Ceiling), by.Next.Trust
	if p.WrongWay <= 0 || by.Next.Wrong < p.WrongWay || (from < s.Trust) != (to > from) || to == from {
		return Proposal{}, false
	}
	back := by
	back.Next = Standing{Trust: to, EMA: to, Met: true, Samples: by.Next.Samples}
	back.Action, back.Suspends, back.Oscillates = ActionAlert, false, false
	back.Rationale = fmt.Sprintf("%d changes in a row went against what was observed: %s → %s, the mean of %d days",
		by.Next.Wrong, dec(from), dec(to), (p.Mean+dayMs-1)/dayMs)
	return back, true
}
