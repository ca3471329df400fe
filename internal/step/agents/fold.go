package agents

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/nip90"
	"guild/nipae"
)

// Fold holds the agents of this node, what they and the owner signed, the nudges, and the lessons with their drafts.
type Fold struct{ *fold.State[state] }

type state struct {
	Agents  fold.Table[string, fact.AgentInstalled] `json:"agents"`  // by name
	Signed  fold.Table[string, nostr.Event]         `json:"signed"`  // by id; of a replaceable kind the latest only
	Pending fold.Table[string, bool]                `json:"pending"` // ids of Signed that no relay has yet
	Missing fold.Table[string, missing]             `json:"missing"` // by id of Signed: the relays that it is sent to later
	Nudges  fold.Table[string, nostr.Event]         `json:"nudges"`  // by name
	Drafts  fold.Table[string, fact.LessonDrafted]  `json:"drafts"`  // not ruled yet, by id
	Ruled   fold.Table[string, bool]                `json:"ruled"`   // accepted, by draft
	Retired fold.Table[string, string]              `json:"retired"` // reason, by lesson
	Trials  fold.Table[string, []Trials]            `json:"trials"`  // by lesson; never changed in place
	Done    fold.Table[string, Judged]              `json:"done"`    // requests that an agent did, by id, until they are asked about
	Order   []string                                `json:"order"`   // of these, the oldest first; only appended to and cut at the front
}

// missing says which relays did not get an event that others have.
type missing struct {
	Relays []string `json:"relays"`
	Times  int      `json:"times"` // that it was sent
	At     int64    `json:"at"`    // Unix ms, of the last
}

// ready returns when the event is sent to them again: after 1, 2, 4 … hours.
func (m missing) ready() time.Time { return time.UnixMilli(m.At).Add(time.Hour << (m.Times - 1)) }

// maxTimes limits how often an event is sent to the relays that did not get it: for about ten days.
const maxTimes = 9

// Trials counts pairs of tries of a bundle, one with a lesson and one without it.
type Trials struct {
	Bundle  string `json:"bundle"`
	Both    int    `json:"both"`    // pairs in which both tries passed
	With    int    `json:"with"`    // pairs in which only the try with the lesson passed
	Without int    `json:"without"` // pairs in which only the try without it passed
	Neither int    `json:"neither"`
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("agents", 2)} }

// Judged is a request that an agent of this node did, with the customer's verdict.
type Judged struct {
	Request  nostr.ID      `json:"request"`
	Customer nostr.PubKey  `json:"customer"`
	Agent    nostr.PubKey  `json:"agent"`
	Task     string        `json:"task"`
	Service  string        `json:"service"` // d
	Replay   guild.Hash    `json:"replay"`  // blob: the trajectory
	Outcome  guild.Outcome `json:"outcome"` // empty before the verdict
	Score    guild.Score   `json:"score"`
	Text     string        `json:"text"` // the customer's words
}

// maxDone limits the requests that wait for a verdict.
const maxDone = 1000

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	if e.Subject != fact.AgentsSubject && e.Subject.Noun() != "request" {
		return
	}
	f.Change(func(st *state) {
		for _, one := range e.Facts {
			st.apply(one)
		}
	})
}

func (st *state) apply(one fact.Fact) {
	switch one := one.(type) {
	case fact.AgentInstalled:
		st.Agents.Set(one.Name, one)
	case fact.AgentRemoved:
		st.Agents.Delete(one.Name)
	case fact.AgentSigned:
		st.sign(one.Event)
	case fact.AgentPublished:
		st.publish(one)
	case fact.NudgeKept:
		st.Nudges.Set(one.Name, one.Nudge)
	case fact.NudgeRemoved:
		st.Nudges.Delete(one.Name)
	case fact.RequestReceived:
		st.Done.Set(one.Request.Hex(), Judged{Request: one.Request, Customer: one.Customer, Task: one.Task, Service: one.Service})
	case fact.RequestCancelled:
		st.Done.Delete(one.Request.Hex())
	case fact.RequestFinished:
		st.finish(one)
	case fact.RequestJudged:
		if j, ok := st.Done.Get(one.Request.Hex()); ok {
			j.Outcome, j.Score, j.Text = one.Outcome, one.Score, one.Text
			st.Done.Set(one.Request.Hex(), j)
		}
	case fact.LessonAsked:
		st.Done.Delete(one.Request.Hex())
	case fact.LessonDrafted:
		st.Drafts.Set(one.Draft, one)
	case fact.LessonAccepted:
		st.Drafts.Delete(one.Draft)
		st.Ruled.Set(one.Draft, true)
	case fact.LessonRejected:
		st.Drafts.Delete(one.Draft)
		st.Ruled.Set(one.Draft, false)
	case fact.LessonMeasured:
		st.measure(one)
	case fact.LessonRetired:
		st.Retired.Set(one.Lesson.Hex(), one.Reason)
	}
}

// sign keeps a signed event. One of a replaceable kind takes the place of the one before, which need not be published
// any more.
func (st *state) sign(e nostr.Event) {
	if e.Kind.IsReplaceable() {
		for id, old := range st.Signed.All() {
			if old.Kind == e.Kind && old.PubKey == e.PubKey {
				st.Signed.Delete(id)
				st.Pending.Delete(id)
				st.Missing.Delete(id)
			}
		}
	}
	st.Signed.Set(e.ID.Hex(), e)
	st.Pending.Set(e.ID.Hex(), true)
}

// publish keeps which relays an event is sent to later.
func (st *state) publish(p fact.AgentPublished) {
	id := p.Event.Hex()
	st.Pending.Delete(id)
	times := st.Missing.Of(id).Times + 1
	if len(p.Missing) == 0 || times >= maxTimes || !st.Signed.Has(id) {
		st.Missing.Delete(id)
		return
	}
	st.Missing.Set(id, missing{Relays: p.Missing, Times: times, At: p.At})
}

// finish keeps a request that an agent did, and forgets any other.
func (st *state) finish(f fact.RequestFinished) {
	id := f.Request.Hex()
	j, ok := st.Done.Get(id)
	if !ok || f.Agent == (nostr.PubKey{}) || f.Delivery.IsZero() {
		st.Done.Delete(id)
		return
	}
	j.Agent, j.Replay = f.Agent, f.Replay
	st.Done.Set(id, j)
	st.Order = append(st.Order, id)
	for len(st.Order) > maxDone {
		st.Done.Delete(st.Order[0])
		st.Order = st.Order[1:]
	}
}

func (st *state) measure(m fact.LessonMeasured) {
	id := m.Lesson.Hex()
	all := slices.Clone(st.Trials.Of(id))
	i := slices.IndexFunc(all, func(t Trials) bool { return t.Bundle == m.Bundle })
	if i < 0 {
		all, i = append(all, Trials{Bundle: m.Bundle}), len(all)
	}
	t := &all[i]
	t.Both, t.With, t.Without, t.Neither = t.Both+m.Both, t.With+m.With, t.Without+m.Without, t.Neither+m.Neither
	st.Trials.Set(id, all)
}

// agents returns the agents of this node, by name.
func (f *Fold) agents() []fact.AgentInstalled {
	var all []fact.AgentInstalled
	f.View(func(st *state) {
		for _, a := range st.Agents.All() {
			all = append(all, a)
		}
	})
	slices.SortFunc(all, func(a, b fact.AgentInstalled) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func (f *Fold) agent(name string) (fact.AgentInstalled, bool) {
	var a fact.AgentInstalled
	var ok bool
	f.View(func(st *state) { a, ok = st.Agents.Get(name) })
	return a, ok
}

// events returns the events that the library needs: definitions of installed agents, nudges, and what was signed here.
func (f *Fold) events() []nostr.Event {
	var all []nostr.Event
	f.View(func(st *state) {
		for _, a := range st.Agents.All() {
			all = append(all, a.Definition)
		}
		for _, e := range st.Nudges.All() {
			all = append(all, e)
		}
		for _, e := range st.Signed.All() {
			if !isBeside(e.Kind) {
				all = append(all, e)
			}
		}
	})
	return all
}

const kindRelays nostr.Kind = 10002

// isBeside reports whether events of a kind are published with those of NIP-AE, and are not in the library.
func isBeside(kind nostr.Kind) bool { return kind == kindRelays || kind == nip90.KindFile }

// holds reports whether the owner signed, installed or kept an event.
func (f *Fold) holds(id nostr.ID) bool {
	return slices.ContainsFunc(f.events(), func(e nostr.Event) bool { return e.ID == id })
}

// ruled reports whether a draft waits, or was accepted or rejected.
func (f *Fold) ruled(draft string) bool {
	st := f.Copy()
	return st.Drafts.Has(draft) || st.Ruled.Has(draft)
}

// unpublished returns the signed events that no relay has yet, the oldest first.
func (f *Fold) unpublished() []nostr.Event {
	var all []nostr.Event
	f.View(func(st *state) {
		for id := range st.Pending.All() {
			all = append(all, st.Signed.Of(id))
		}
	})
	slices.SortFunc(all, func(a, b nostr.Event) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return all
}

// gap is a signed event that some relays do not have yet.
type gap struct {
	event nostr.Event
	missing
}

func (f *Fold) gaps() (all []gap) {
	f.View(func(st *state) {
		for id, m := range st.Missing.All() {
			all = append(all, gap{st.Signed.Of(id), m})
		}
	})
	return all
}

// signed returns an event that was signed here.
func (f *Fold) signed(id nostr.ID) (e nostr.Event, ok bool) {
	f.View(func(st *state) { e, ok = st.Signed.Get(id.Hex()) })
	return e, ok
}

// file returns the metadata of a file that was attached under a name.
func (f *Fold) file(name string, hash guild.Hash) (id nostr.ID, ok bool) {
	st := f.Copy()
	for _, e := range st.Signed.All() {
		if e.Kind == nip90.KindFile && e.Tags.FindWithValue("alt", name) != nil && e.Tags.FindWithValue("x", hash.Hex()) != nil {
			return e.ID, true
		}
	}
	return id, false
}

// latest returns the latest event of a replaceable kind that a key signed here.
func (f *Fold) latest(kind nostr.Kind, key nostr.PubKey) (latest nostr.Event, ok bool) {
	f.View(func(st *state) {
		for _, e := range st.Signed.All() {
			if e.Kind == kind && e.PubKey == key {
				latest, ok = e, true
			}
		}
	})
	return latest, ok
}

// nudge returns a nudge of the library by its name.
func (f *Fold) nudge(name string) (nipae.Nudge, bool) {
	st := f.Copy()
	e, ok := st.Nudges.Get(name)
	if !ok {
		return nipae.Nudge{}, false
	}
	n, err := nipae.ParseNudge(e)
	return n, err == nil
}
