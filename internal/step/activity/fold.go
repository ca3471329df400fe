package activity

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

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
	Requests fold.Table[nostr.ID, request]       `json:"requests"` // to us, until they are judged and paid
	Jobs     fold.Table[guild.JobID, bool]       `json:"jobs"`     // that are open: whether one has a receipt already
	Claims   fold.Table[string, claim]           `json:"claims"`   // see keyOfClaim: the newest

	accounts map[string]*nook.Account
	changed  map[string]bool // accounts that differ from Accounts
	changes  int             // of the account of Own, since the start
}

// request is a request to us that may still be judged or paid.
type request struct {
	Service  string `json:"service"`
	Tokens   int64  `json:"tokens"`
	At       int64  `json:"at"` // Unix ms
	Accepted bool   `json:"accepted,omitempty"`
	Paid     bool   `json:"paid,omitempty"`
}

// A request that the customer has not judged and paid after unjudged is forgotten as soon as there are more than mostRequests.
const (
	unjudged     = 30 * 24 * 3600 * 1000 // ms
	mostRequests = 10_000
)

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("activity", 2)} }

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
	done := s.effects(e)
	if len(done) == 0 && e.Subject != fact.ActivitySubject {
		return
	}
	entry := HashOf(e)
	for _, one := range done {
		if one.raises {
			s.account(one.root).Raise(one.recorded.Event.ID)
			continue
		}
		one.recorded.Entry = entry
		s.account(one.root).Add(one.recorded)
	}
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.ActivityImported:
			_ = s.account(one.Root).Import(one.Event) // refused when it was recorded, if at all
		case fact.AgentsOnboarded:
			_ = s.account(one.Root).Onboard(e.At, entry)
		case fact.SpriteEvolved:
			_ = s.account(one.Root).Evolve(one.Choice, e.At)
		case fact.AgentClaimed:
			s.Claims.Set(keyOfClaim(one.Event.Kind, one.Event.PubKey), claimOf(one.Event))
		}
	}
}

// HashOf returns the hash of an entry from which chests are drawn: that of its stored form, or for an entry of no journal that of
// Encode.
func HashOf(e fact.Entry) guild.Hash {
	if !e.Hash.IsZero() {
		return e.Hash
	}
	b, err := e.Encode()
	if err != nil {
		return guild.Hash{} // it was decoded from what Encode wrote
	}
	return guild.Sum(b)
}

// effect is one change of a root's account by a fact.
type effect struct {
	root     string
	recorded nook.Recorded
	raises   bool // the event with this id, which was recorded before, has a receipt now
}

// effects returns the changes of the accounts by an entry. Jobs and requests are activity of the node's own agents; of work for
// others only the customer's verdict counts, and that it has paid.
func (s *state) effects(e fact.Entry) (all []effect) {
	add := func(level nook.Level, agent string, event nook.Event, id string) {
		event.ID, event.AgentID, event.Timestamp = nook.OwnID+event.Type+" "+id, agent, e.At
		if event.Trigger != "" {
			event.ID = nook.OwnID + event.Trigger + " " + id
		}
		all = append(all, effect{recorded: nook.Recorded{Event: event, Arrived: e.At, Level: level}})
	}
	raise := func(id string) {
		all = append(all, effect{recorded: nook.Recorded{Event: nook.Event{ID: nook.OwnID + nook.TypeCompleted + " " + id}}, raises: true})
	}
	bounty := nook.Event{Type: nook.TypeCompleted, Trigger: nook.TriggerBounty}
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.ActivityReported:
			all = append(all, effect{root: one.Root, recorded: nook.Recorded{Event: one.Event, Arrived: e.At}})
		case fact.JobOpened:
			s.Jobs.Set(one.Job, false)
			add(nook.Reported, Customer, nook.Event{Type: nook.TypeStarted, WorkUnitID: one.Job.String()}, one.Job.String())
		case fact.AttemptRecorded:
			job, err := guild.ParseJobID(strings.TrimPrefix(string(e.Subject), "job."))
			_, open := s.Jobs.Get(job)
			switch {
			case err != nil || one.Receipt == "" || one.Unjudged:
			case open:
				s.Jobs.Set(job, true)
			default:
				raise(job.String())
			}
		case fact.JobClosed:
			success, level := one.Ending == guild.JobAccepted, nook.Judged
			if receipt, _ := s.Jobs.Get(one.Job); receipt {
				level = nook.ReceiptBound
			}
			s.Jobs.Delete(one.Job)
			add(level, Customer, nook.Event{Type: nook.TypeCompleted, WorkUnitID: one.Job.String(), Success: &success}, one.Job.String())
		case fact.RequestReceived:
			s.expect(one.Request, request{Service: one.Service, At: e.At})
			add(nook.Reported, one.Service, nook.Event{Type: nook.TypeStarted, WorkUnitID: one.Request.Hex()}, one.Request.Hex())
		case fact.RequestFinished:
			s.finish(one, add)
		case fact.RequestJudged:
			asked, known := s.Requests.Get(one.Request)
			if !known || asked.Accepted {
				continue
			}
			level, success := nook.Judged, one.Outcome == guild.Success
			if asked.Paid {
				level = nook.ReceiptBound
			}
			add(level, asked.Service, nook.Event{Type: nook.TypeCompleted, WorkUnitID: one.Request.Hex(), Tokens: asked.Tokens, Success: &success}, one.Request.Hex())
			if asked.Accepted = success; success && asked.Paid {
				add(nook.ReceiptBound, asked.Service, bounty, one.Request.Hex())
			}
			s.keep(one.Request, asked, success && !asked.Paid)
		case fact.RequestPaid:
			asked, known := s.Requests.Get(one.Request)
			if known && asked.Accepted {
				raise(one.Request.Hex())
				add(nook.ReceiptBound, asked.Service, bounty, one.Request.Hex())
			}
			asked.Paid = true
			s.keep(one.Request, asked, known && !asked.Accepted)
		}
	}
	return all
}

// finish takes the end of our work on a request, which is kept if it can still be judged.
func (s *state) finish(one fact.RequestFinished, add func(level nook.Level, agent string, event nook.Event, id string)) {
	asked, known := s.Requests.Get(one.Request)
	if !known {
		return
	}
	asked.Tokens = one.Tokens
	s.keep(one.Request, asked, !one.Delivery.IsZero())
	event := nook.Event{Type: nook.TypeIdle}
	if one.Delivery.IsZero() {
		event = nook.Event{Type: nook.TypeFailed, Error: guild.Cut(one.Reason, 200)}
	}
	add(nook.Reported, asked.Service, event, one.Request.Hex())
}

// keep keeps a request, or forgets it.
func (s *state) keep(id nostr.ID, asked request, wanted bool) {
	if wanted {
		s.Requests.Set(id, asked)
	} else {
		s.Requests.Delete(id)
	}
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
