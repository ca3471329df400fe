package nook

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Split is an amount of sparks by the verification level of the events that earned them.
type Split [3]Sparks

// Total returns the sum.
func (s Split) Total() Sparks { return s[Reported] + s[Judged] + s[ReceiptBound] }

type splitJSON struct {
	Reported     Sparks `json:"reported"`
	Judged       Sparks `json:"judged"`
	ReceiptBound Sparks `json:"receiptBound"`
}

// MarshalJSON writes an object with a member for each level.
func (s Split) MarshalJSON() ([]byte, error) { return json.Marshal(splitJSON{s[0], s[1], s[2]}) }

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Split) UnmarshalJSON(b []byte) error {
	var in splitJSON
	err := strict(b, &in)
	*s = Split{in.Reported, in.Judged, in.ReceiptBound}
	return err
}

func (s *Split) plus(t Split) {
	for i := range s {
		s[i] += t[i]
	}
}

// agent holds the state of one agent of an account.
type agent struct {
	ID     string   `json:"id"`
	Counts Counts   `json:"counts"`
	Sparks Split    `json:"sparks"`
	Hours  []bucket `json:"hours,omitempty"` // in order; only those of the last 7 days matter
	Pulse  Pulse    `json:"pulse"`
}

// Counts are the numbers of an agent's accepted events.
type Counts struct {
	Events    int64 `json:"events"`
	Completed int64 `json:"completed"` // work, not what hooks saw; successful or not
	Failed    int64 `json:"failed"`    // agent.failed, and agent.completed without success
	Tokens    int64 `json:"tokens"`    // of completed events
	First     int64 `json:"first"`     // the earliest timestamp, Unix ms
	Last      int64 `json:"last"`      // the latest
}

// bucket holds the sparks that were earned in one UTC hour.
type bucket struct {
	Hour   int64 `json:"hour"` // since 1970
	Sparks Split `json:"sparks"`
}

// week is the number of buckets of the longest projection.
const week = 7 * 24

func (a *Account) agent(id string) *agent {
	if a.last != nil && a.last.ID == id {
		return a.last
	}
	in := a.agents[id]
	if in == nil {
		in = &agent{ID: id}
		a.agents[id] = in
	}
	a.last = in
	return in
}

func (g *agent) observe(e *Event, k kind) {
	c := &g.Counts
	if c.Events == 0 || e.Timestamp < c.First {
		c.First = e.Timestamp
	}
	c.Last = max(c.Last, e.Timestamp)
	c.Events++
	if k&isFailed != 0 {
		c.Failed++
	}
	if k&isCompleted != 0 {
		c.Completed++
		c.Tokens = plus(c.Tokens, e.Tokens)
	}
	g.Pulse.Observe(e)
}

// earn adds sparks, or takes back what an event earned before another was inserted before it.
func (g *agent) earn(at int64, level Level, more Sparks) {
	g.Sparks[level] += more
	h := at / hour
	i := len(g.Hours) - 1
	if i < 0 || g.Hours[i].Hour != h {
		i = g.bucket(h)
	}
	g.Hours[i].Sparks[level] += more
}

// raise turns judged sparks into receipt-bound ones.
func (g *agent) raise(at int64, earned Sparks) {
	g.earn(at, Judged, -earned)
	g.earn(at, ReceiptBound, earned)
}

// bucket returns the index of an hour's bucket, which it adds if need be.
func (g *agent) bucket(h int64) int {
	i, ok := slices.BinarySearchFunc(g.Hours, h, func(b bucket, h int64) int { return cmp.Compare(b.Hour, h) })
	if ok {
		return i
	}
	g.Hours = slices.Insert(g.Hours, i, bucket{Hour: h})
	old := 0
	for old < i && g.Hours[old].Hour < g.Hours[len(g.Hours)-1].Hour-2*week {
		old++
	}
	g.Hours = slices.Delete(g.Hours, 0, old)
	return i - old
}

// since returns what the agent earned in the last n UTC hours, the one of now included.
func (g *agent) since(now int64, n int64) Split {
	var sum Split
	last := now / hour
	for _, b := range slices.Backward(g.Hours) {
		if b.Hour <= last-n {
			break
		}
		if b.Hour <= last {
			sum.plus(b.Sparks)
		}
	}
	return sum
}

// Projection holds the sparks that were earned in each period, by level.
type Projection struct {
	Lifetime Split `json:"lifetime"`
	Day      Split `json:"day"`  // in the present UTC hour and the 23 before it
	Week     Split `json:"week"` // in the present UTC hour and the 167 before it
}

func (g *agent) projection(now int64) Projection {
	return Projection{Lifetime: g.Sparks, Day: g.since(now, 24), Week: g.since(now, week)}
}

// Sparks returns the sparks of the root identity, by level. Imported history has no part in it.
func (a *Account) Sparks() Split {
	return a.Totals(0).Lifetime
}

// Totals returns the projections of the root identity as of a time, in Unix ms.
func (a *Account) Totals(now int64) Projection {
	var sum Projection
	for _, g := range a.Agents(now) {
		sum.Lifetime.plus(g.Lifetime)
		sum.Day.plus(g.Day)
		sum.Week.plus(g.Week)
	}
	return sum
}

// Agent is one agent of a root identity.
type Agent struct {
	ID    string      `json:"id"`
	State SpriteState `json:"state"`
	Counts
	Projection
}

// Agents returns the agents as of a time, in Unix ms, ordered by id.
func (a *Account) Agents(now int64) []Agent {
	a.Settle()
	all := make([]Agent, 0, len(a.agents))
	for _, g := range a.agents {
		all = append(all, Agent{ID: g.ID, State: g.Pulse.State(now), Counts: g.Counts, Projection: g.projection(now)})
	}
	slices.SortFunc(all, func(x, y Agent) int { return strings.Compare(x.ID, y.ID) })
	return all
}

// HasAgent reports whether the account has events of an agent.
func (a *Account) HasAgent(id string) bool { return a.agents[id] != nil }

// NumAgents returns the number of agents with events.
func (a *Account) NumAgents() int { return len(a.agents) }

// Pulse returns the pulse of an agent, by its recorded events. A caller that wants heartbeats to count keeps a copy, and lets it
// observe them.
func (a *Account) Pulse(agentID string) Pulse {
	if g := a.agents[agentID]; g != nil {
		return g.Pulse
	}
	return Pulse{}
}
