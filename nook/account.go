package nook

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"

	"guild/digest"
)

// Level says how an event was verified. Only guild's own jobs are more than reported.
type Level uint8

// The levels of verification.
const (
	Reported     Level = iota // somebody says so
	Judged                    // guild has judged the work
	ReceiptBound              // the work has a receipt
)

var levelNames = [...]string{"reported", "judged", "receipt-bound"}

// String returns reported, judged or receipt-bound.
func (l Level) String() string { return levelNames[min(int(l), len(levelNames)-1)] }

// MarshalText writes the form of String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the form of String.
func (l *Level) UnmarshalText(b []byte) error {
	i := slices.Index(levelNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("unknown verification level %.40q", b)
	}
	*l = Level(i)
	return nil
}

// Recorded is an event in the journal of its root identity.
type Recorded struct {
	Event   Event         // as Received returned it
	Arrived int64         // Unix ms
	Level   Level         // how it was verified
	Entry   digest.SHA256 // the hash of the journal's entry, from which chests are drawn
}

// Status says what Add did with an event.
type Status uint8

// What Add does with an event.
const (
	Accepted  Status = iota
	Duplicate        // the account has an event with this id that can still change
	Outside          // older than 24 h at arrival, or before a sealed time, or in the future: it counts for nothing
	Transient        // a heartbeat, which is not recorded
)

// Account is the state of one root identity: a fold of its recorded events. New makes one. It is not safe for concurrent use, and
// reading may complete a computation that Add has put off; see Settle.
//
// An event is accepted if it is not older than 24 h at the latest arrival that the account has seen. So everything before that
// horizon is sealed: no event can be inserted there. Accepted events are kept in the order (timestamp, id), and what they earn
// is computed in this order. Those before the horizon are firm: of them only sums are kept, and for another 24 h what the number
// of distinct work units needs. An event that arrives out of order makes the account compute again from the horizon on. This
// happens when somebody reads, or when many such events have come. So Add takes the same time whatever the length of the
// history, and the result does not depend on the order in which events arrive within 24 hours.
//
// A clock that was once ahead seals the time up to there: until that time has come, nothing earns.
type Account struct {
	root  string
	clock int64 // the latest arrival

	entries []entry // those from the horizon on, after what forget has not dropped yet
	firm    int     // entries[:firm] are before the horizon
	late    int     // how many entries at the end are not yet sorted and computed

	known, before map[string]int64 // the ids of entries, with their timestamps; before has those of before turned
	units         map[string]*unit // those that mentions and entries name
	turned        int64            // the clock when forget was called

	// What follows from the entries, in order. Firm entries have led to base, mentions[:named] and rewards[:sure].
	base, tip cursor
	mentions  []mention
	named     int
	rewards   []reward
	sure      int

	left   int // mentions[left:] are in the 24 hours up to the last computed entry
	active int // how many units these name

	agents map[string]*agent
	last   *agent // of the last event, which is often that of the next

	choices  []Choice
	heritage *Heritage
	imported *Account // nil if no history was imported
	judged   []work   // what firm entries of level Judged have earned in the last 30 days, in order

	sealed func(*entry, *cursor) // if not nil, called with each entry that becomes firm and the cursor before it
}

// entry holds the parts of an event that the account needs.
type entry struct {
	at     int64
	id     string
	agent  *agent
	unit   *unit // nil if it names none
	tokens int64
	earned Sparks
	active int32 // distinct work units
	kind   kind
	level  Level
	hash   digest.SHA256
}

// mention says when an entry has named a work unit.
type mention struct {
	at   int64
	unit *unit
}

// unit is a work unit.
type unit struct {
	name   string
	latest int64 // the largest timestamp of the entries that name it
	active int32 // how many of mentions[left:] name it
}

// work is a firm entry that a receipt can still raise.
type work struct {
	At     int64  `json:"at"`
	ID     string `json:"id"`
	Agent  string `json:"agent"`
	Earned Sparks `json:"earned"`
}

// raisable is the time after its event in which a receipt still counts, in ms.
const raisable = 30 * day

// kind says what an event counts for.
type kind uint16

const (
	isCompleted kind = 1 << iota // counts tokens
	earns
	isWork // makes a streak's day
	isBounty
	isCommit
	isFix
	isPR
	isRelease
	isFailed
)

// kindOf returns what an event counts for.
func kindOf(e *Event) kind {
	fails := e.Success != nil && !*e.Success
	var k kind
	switch {
	case e.Type == TypeFailed:
		return isFailed
	case e.Type != TypeCompleted:
	case e.Trigger == "":
		k |= isCompleted
		if fails {
			return k | isFailed
		}
		k |= earns
		if e.WorkUnitID != "" {
			k |= isWork
		}
	case !fails:
		k |= triggers[e.Trigger]
	}
	return k
}

var triggers = map[string]kind{TriggerCommit: isCommit, TriggerBugFix: isFix, TriggerPR: isPR, TriggerRelease: isRelease, TriggerBounty: isBounty}

// New returns the account of a root identity, which may be any string.
func New(root string) *Account {
	return &Account{root: root, known: map[string]int64{}, units: map[string]*unit{}, agents: map[string]*agent{}}
}

// Root returns the root identity.
func (a *Account) Root() string { return a.root }

// Add adds a recorded event. Adding the event again changes nothing.
func (a *Account) Add(r Recorded) Status {
	e := &r.Event
	if e.Type == TypeHeartbeat {
		return Transient
	}
	a.clock = max(a.clock, r.Arrived)
	if a.late == 0 {
		a.seal()
	}
	horizon := a.clock - day
	if e.Timestamp < horizon || e.Timestamp > r.Arrived+maxAhead {
		return Outside
	}
	if a.knows(e.ID, horizon) {
		return Duplicate
	}
	a.known[e.ID] = e.Timestamp
	a.insert(&r)
	return Accepted
}

// Has reports whether the account has an event with this id that an event with the same id would duplicate.
func (a *Account) Has(id string) bool {
	return a.knows(id, a.clock-day)
}

// IsEmpty reports whether a history can still be imported: the account has no events and no heritage.
func (a *Account) IsEmpty() bool { return len(a.agents) == 0 && a.heritage == nil }

// knows reports whether an entry from a horizon on has an id.
func (a *Account) knows(id string, horizon int64) bool {
	at, ok := a.recorded(id)
	return ok && at >= horizon
}

// recorded returns the timestamp of the latest entry with an id.
func (a *Account) recorded(id string) (at int64, ok bool) {
	if at, ok = a.known[id]; !ok {
		at, ok = a.before[id]
	}
	return at, ok
}

// insert inserts an accepted event.
func (a *Account) insert(r *Recorded) {
	e := &r.Event
	in := entry{at: e.Timestamp, id: e.ID, agent: a.agent(e.AgentID), tokens: e.Tokens, kind: kindOf(e), level: r.Level, hash: r.Entry}
	in.agent.observe(e, in.kind)
	if e.WorkUnitID != "" && e.Trigger == "" {
		in.unit = a.unit(e.WorkUnitID)
		in.unit.latest = max(in.unit.latest, in.at)
	}
	n := len(a.entries)
	inOrder := a.late == 0 && (n == a.firm || inTime(&a.entries[n-1], &in) < 0)
	a.entries = append(a.entries, in)
	if inOrder {
		a.compute(n)
		return
	}
	a.late++
	if a.late > 1024+n/4 {
		a.Settle()
	}
}

func inTime(x, y *entry) int {
	if x.at != y.at {
		return cmp.Compare(x.at, y.at)
	}
	return strings.Compare(x.id, y.id)
}

func (a *Account) unit(name string) *unit {
	u := a.units[name]
	if u == nil {
		u = &unit{name: name}
		a.units[name] = u
	}
	return u
}

// compute computes entry i. All entries before it are computed.
func (a *Account) compute(i int) {
	e := &a.entries[i]
	if e.unit != nil {
		a.mentions = append(a.mentions, mention{e.at, e.unit})
		a.enter(e.unit)
	}
	a.leave(e.at - day)
	a.tip.enter(e.at)
	e.active = int32(a.active)
	var earned Sparks
	if e.kind&earns != 0 {
		earned = Compute(e.tokens, a.active, a.tip.HourSum, a.tip.DaySum).Earned
	}
	if earned != e.earned {
		e.agent.earn(e.at, e.level, earned-e.earned)
		e.earned = earned
	}
	for m := a.tip.add(e); m != 0; m &= m - 1 {
		a.rewards = append(a.rewards, reward{What: lowest(m), At: e.at, Event: e.id, Entry: e.hash})
	}
}

// enter counts a mention of a unit in the 24 hours of the distinct work units.
func (a *Account) enter(u *unit) {
	if u.active == 0 {
		a.active++
	}
	u.active++
}

// leave takes the mentions up to a time out of these 24 hours.
func (a *Account) leave(until int64) {
	for ; a.left < len(a.mentions) && a.mentions[a.left].at <= until; a.left++ {
		u := a.mentions[a.left].unit
		u.active--
		if u.active == 0 {
			a.active--
		}
	}
}

// Raise raises the level of a judged event to ReceiptBound: its work has got a receipt. It does so up to 30 days after the event.
func (a *Account) Raise(id string) {
	a.Settle()
	at, waits := a.recorded(id)
	i, found := slices.BinarySearchFunc(a.entries[a.firm:], entry{at: at, id: id}, func(x, y entry) int { return inTime(&x, &y) })
	if waits && found {
		if e := &a.entries[a.firm+i]; e.level == Judged {
			e.level = ReceiptBound
			e.agent.raise(at, e.earned)
		}
		return
	}
	if i := slices.IndexFunc(a.judged, func(w work) bool { return w.ID == id }); i >= 0 {
		a.agents[a.judged[i].Agent].raise(a.judged[i].At, a.judged[i].Earned)
		a.judged = slices.Delete(a.judged, i, i+1)
	}
}

// Settled reports whether reading changes nothing until the next Add.
func (a *Account) Settled() bool { return a.late == 0 && (a.imported == nil || a.imported.Settled()) }

// Settle sorts and computes the events that came out of order. Everything that reads the account does this first.
func (a *Account) Settle() {
	if a.imported != nil {
		a.imported.Settle()
	}
	if a.late == 0 {
		return
	}
	a.late = 0
	slices.SortFunc(a.entries[a.firm:], func(x, y entry) int { return inTime(&x, &y) })
	a.recompute()
	a.seal()
}

// recompute computes everything that is not firm.
func (a *Account) recompute() {
	for _, u := range a.units {
		u.active = 0
	}
	a.tip, a.rewards, a.mentions, a.left, a.active = a.base, a.rewards[:a.sure], a.mentions[:a.named], 0, 0
	for _, m := range a.mentions {
		a.enter(m.unit)
	}
	for i := a.firm; i < len(a.entries); i++ {
		a.compute(i)
	}
}

// seal makes the entries before the horizon firm.
func (a *Account) seal() {
	horizon := a.clock - day
	for a.firm < len(a.entries) && a.entries[a.firm].at < horizon {
		e := &a.entries[a.firm]
		a.base.enter(e.at)
		if a.sealed != nil {
			a.sealed(e, &a.base)
		}
		for m := a.base.add(e); m != 0; m &= m - 1 {
			a.sure++
		}
		if e.level == Judged && e.earned > 0 {
			a.judged = append(a.judged, work{At: e.at, ID: e.id, Agent: e.agent.ID, Earned: e.earned})
		}
		if e.unit != nil {
			a.named++
		}
		a.firm++
	}
	for len(a.judged) > 0 && a.judged[0].At < a.clock-raisable {
		a.judged = a.judged[1:]
	}
	if horizon > a.turned+maxAhead {
		a.forget()
	}
}

// forget drops what has no effect any more. It is called once in 24 hours, and nothing survives three calls without an effect. So
// it takes each event the same time.
func (a *Account) forget() {
	a.turned = a.clock
	a.before, a.known = a.known, make(map[string]int64, len(a.known)) // none of before is from the horizon on
	a.entries = slices.Delete(a.entries, 0, a.firm)
	a.firm = 0
	old := min(a.expired(), a.left)
	a.mentions = slices.Delete(a.mentions, 0, old)
	a.named, a.left = a.named-old, a.left-old
	maps.DeleteFunc(a.units, func(_ string, u *unit) bool { return u.active == 0 && u.latest <= a.clock-2*day })
}

// expired returns how many mentions are older than 48 hours. They have no effect on entries from the horizon on.
func (a *Account) expired() int {
	return sort.Search(a.named, func(i int) bool { return a.mentions[i].at > a.clock-2*day })
}

// Trace says what became of one event, for `nook explain`.
type Trace struct {
	ID        string `json:"id"`
	AgentID   string `json:"agentId"`
	Timestamp int64  `json:"timestamp"`
	Level     Level  `json:"level"`
	Zero      string `json:"zero,omitempty"` // why it cannot earn; then Steps is zero
	Steps
}

// Traces returns the trace of each event of a history, which is in the order of the journal. They come in the order in which they
// become final, and the rest at the end.
func Traces(root string, history iter.Seq[Recorded]) iter.Seq[Trace] {
	return func(yield func(Trace) bool) {
		stopped := false
		emit := func(t Trace) {
			if !stopped {
				stopped = !yield(t)
			}
		}
		a := New(root)
		a.sealed = func(e *entry, before *cursor) { emit(e.trace(before)) }
		for r := range history {
			switch a.Add(r) {
			case Duplicate:
				emit(unearned(&r, "duplicate: the id was recorded before"))
			case Outside:
				emit(unearned(&r, "older than 24 h when it arrived"))
			case Accepted, Transient:
			}
			if stopped {
				return
			}
		}
		a.Settle()
		for i := a.firm; i < len(a.entries); i++ {
			e := &a.entries[i]
			a.base.enter(e.at)
			emit(e.trace(&a.base))
			a.base.add(e)
		}
	}
}

func unearned(r *Recorded, why string) Trace {
	return Trace{ID: r.Event.ID, AgentID: r.Event.AgentID, Timestamp: r.Event.Timestamp, Level: r.Level, Zero: why}
}

// trace returns the trace of a computed entry. before is the cursor before it, in its hour and day.
func (e *entry) trace(before *cursor) Trace {
	t := Trace{ID: e.id, AgentID: e.agent.ID, Timestamp: e.at, Level: e.level}
	switch {
	case e.kind&earns != 0:
		t.Steps = Compute(e.tokens, int(e.active), before.HourSum, before.DaySum)
		if t.Raw == 0 && e.tokens == 0 {
			t.Zero = "no tokens"
		} else if t.Raw == 0 {
			t.Zero = "no work unit in the last 24 h"
		}
	case e.kind&isFailed != 0:
		t.Zero = "failed"
	case e.kind != 0:
		t.Zero = "a trigger is not work"
	default:
		t.Zero = "only completed work earns"
	}
	return t
}
