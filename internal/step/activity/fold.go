package activity

import (
	"encoding/json"
	"fmt"
	"maps"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/nook"
)

// Own is the root identity of the node's own agents, which is the node's key.
const Own = ""

// Customer is the agent that stands for our own jobs as a customer. An agent of a service has the name of the service.
const Customer = "customer"

// Fold holds the account of each root identity.
type Fold struct{ *fold.State[state] }

type state struct {
	Accounts fold.Table[string, json.RawMessage] `json:"accounts"` // by root: nook.Account as of the last snapshot
	Requests fold.Table[nostr.ID, request]       `json:"requests"` // to us, until the customer's verdict

	accounts map[string]*nook.Account
	changed  map[string]bool // accounts that differ from Accounts
	changes  int             // of the account of Own, since the start
}

// ours begins the ids of the events of our own jobs. No id of a report can begin so: they are ASCII.
const ours = "§"

// request is a request to us that may still be judged.
type request struct {
	Service string `json:"service"`
	Tokens  int64  `json:"tokens"`
	At      int64  `json:"at"` // Unix ms
}

// A request that the customer has not judged after unjudged is forgotten as soon as there are more than mostRequests.
const (
	unjudged     = 30 * 24 * 3600 * 1000 // ms
	mostRequests = 10_000
)

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("activity", 1)} }

// Freeze implements fold.Fold.
func (f *Fold) Freeze() func() ([]byte, error) {
	f.Change(func(s *state) {
		for root := range s.changed {
			b, err := json.Marshal(s.accounts[root])
			if err != nil {
				panic(fmt.Sprintf("activity: the account of %q: %v", root, err)) // it has only plain members
			}
			s.Accounts.Set(root, b)
		}
		clear(s.changed)
	})
	return f.State.Freeze()
}

// Check reads the accounts of a snapshot.
func (s *state) Check() error {
	for root, b := range s.Accounts.All() {
		if err := json.Unmarshal(b, nook.New(root)); err != nil {
			return fmt.Errorf("the account of %.80q: %w", root, err)
		}
	}
	return nil
}

// Derive decodes the accounts, which Check has found valid.
func (s *state) Derive() {
	s.accounts, s.changed = map[string]*nook.Account{}, map[string]bool{}
	for root, b := range s.Accounts.All() {
		account := nook.New(root)
		if json.Unmarshal(b, account) == nil {
			s.accounts[root] = account
		}
	}
}

// account returns the account of a root, which is going to change.
func (s *state) account(root string) *nook.Account {
	s.changed[root] = true
	if root == Own {
		s.changes++
	}
	if s.accounts[root] == nil {
		s.accounts[root] = nook.New(root)
	}
	return s.accounts[root]
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) { f.Change(func(s *state) { s.apply(e) }) }

func (s *state) apply(e fact.Entry) {
	var entry guild.Hash
	for _, one := range e.Facts {
		root, r, ok := s.recorded(e.At, one)
		if entry.IsZero() && (ok || e.Subject == fact.ActivitySubject) {
			entry = HashOf(e)
		}
		if ok {
			r.Entry = entry
			s.account(root).Add(r)
			continue
		}
		switch one := one.(type) {
		case fact.ActivityImported:
			_ = s.account(one.Root).Import(one.Event) // refused when it was recorded, if at all
		case fact.AgentsOnboarded:
			_ = s.account(one.Root).Onboard(e.At, entry)
		case fact.SpriteEvolved:
			_ = s.account(one.Root).Evolve(one.Choice, e.At)
		}
	}
}

// HashOf returns the hash of an entry from which chests are drawn.
func HashOf(e fact.Entry) guild.Hash {
	b, err := e.Encode()
	if err != nil {
		return guild.Hash{} // it was decoded from what Encode wrote
	}
	return guild.Sum(b)
}

// recorded returns the activity that a fact means, and its root. Jobs and requests are activity of the node's own
// agents; of work for others only the customer's verdict counts.
func (s *state) recorded(at int64, one fact.Fact) (root string, r nook.Recorded, ok bool) {
	event := func(typ, agent, unit string) nook.Event {
		return nook.Event{ID: ours + typ + " " + unit, Type: typ, AgentID: agent, WorkUnitID: unit, Timestamp: at}
	}
	r.Arrived = at
	switch one := one.(type) {
	case fact.ActivityReported:
		return one.Root, nook.Recorded{Event: one.Event, Arrived: at}, true
	case fact.JobOpened:
		r.Event = event(nook.TypeStarted, Customer, one.Job.String())
	case fact.JobClosed:
		success := one.Ending == guild.JobAccepted
		r.Event, r.Level = event(nook.TypeCompleted, Customer, one.Job.String()), nook.Judged
		r.Event.Success = &success
	case fact.RequestReceived:
		s.expect(one.Request, request{Service: one.Service, At: at})
		r.Event = event(nook.TypeStarted, one.Service, one.Request.Hex())
	case fact.RequestFinished:
		asked, known := s.Requests.Get(one.Request)
		if !known {
			return "", r, false
		}
		if one.Delivery.IsZero() {
			s.Requests.Delete(one.Request)
			r.Event = nook.Event{ID: ours + "ended " + one.Request.Hex(), Type: nook.TypeFailed, AgentID: asked.Service, Error: guild.Cut(one.Reason, 200), Timestamp: at}
			break
		}
		asked.Tokens = one.Tokens
		s.Requests.Set(one.Request, asked)
		r.Event = nook.Event{ID: ours + "ended " + one.Request.Hex(), Type: nook.TypeIdle, AgentID: asked.Service, Timestamp: at}
	case fact.RequestJudged:
		asked, known := s.Requests.Get(one.Request)
		if !known {
			return "", r, false
		}
		s.Requests.Delete(one.Request)
		success := one.Outcome == guild.Success
		r.Event, r.Level = event(nook.TypeCompleted, asked.Service, one.Request.Hex()), nook.Judged
		r.Event.Tokens, r.Event.Success = asked.Tokens, &success
	default:
		return "", r, false
	}
	return root, r, true
}

// expect keeps a request until the customer's verdict.
func (s *state) expect(id nostr.ID, asked request) {
	if s.Requests.Len() >= mostRequests {
		for old, one := range maps.Collect(s.Requests.All()) {
			if one.At < asked.At-unjudged {
				s.Requests.Delete(old)
			}
		}
	}
	s.Requests.Set(id, asked)
}
