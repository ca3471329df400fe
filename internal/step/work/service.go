package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
	"guild/oa"
)

// Service is one thing that this node does for others.
type Service struct {
	D     string   // the announcement's d tag; Task if empty
	Task  string   // Tasks[0] if empty
	Tasks []string // all its tasks, Task first; Task alone if empty
	Kind  int      // NIP-90 request kind; Kinds[0] if zero
	Kinds []int    // all its request kinds, Kind first; guild.KindOf of each task if empty
	Name  string   // for people; the node's name if empty
	About string

	Schema string // of its inputs, as announced: the id of a JSON schema, or a schema itself
	Open   bool   // works on requests that name no provider if Price is zero; else they get an offer

	Slots int           // requests worked on at a time; 2 if zero
	Queue int           // requests that may wait; 32 if zero
	Limit time.Duration // for one request; 30 minutes if zero
	Price guild.Msat    // to be locked before the work begins (Config.Money); without that, requests are refused if it is not zero
	Unit  string        // of ecash, of which Price is thousandths; sat if empty
	Rates *nip90.Rates  // the price by usage, of which Price is the most; nil for a fixed price
	Terms Terms

	Claims Claims // for its announcement

	Network Network // policy of its worker; only shown here: Do has to enforce it
	Walls   string  // the sandbox's tier, or none; for people

	Untried bool     // its worker passed no try, so it is only offered if it has delivered before (CheckTried)
	Secrets []Secret // that its worker knows; a delivery with one of them is not sent

	Trajectory bool // deliveries have the worker's trajectory, redacted (nutshell.TrajectoryFile)

	NoCredentials bool // its worker gets no customer's credentials, because it would show them to somebody else

	// Behave returns the behaviour of the agent that does the service, for one request. It is called once when the work begins,
	// and with a zero request for the announcement. nil if the service is not done by an agent of this node.
	Behave func(ctx context.Context, r nip90.Request) (*Behaviour, error)

	// Learned is called with what the agent left as lessons/*.md, which is not delivered, once the work has
	// ended; optional.
	Learned func(ctx context.Context, request nostr.ID, agent nostr.PubKey, lessons []Lesson)

	Check func(r nip90.Request) error                   // returns why a request is not taken; all are taken if nil
	Do    func(ctx context.Context, a Assignment) error // the worker; its error is told to the customer
}

// Network is the policy for the connections of a worker's command.
type Network string

// The policies. There is no list of allowed hosts, and no proxy.
const (
	NetworkNone Network = "none" // no connections, not even to this machine
	NetworkFull Network = "full" // all connections that the machine can make
)

func (s Service) withDefaults() Service {
	if len(s.Tasks) == 0 {
		s.Tasks = []string{s.Task}
	}
	s.Task = cmp.Or(s.Task, s.Tasks[0])
	s.D = cmp.Or(s.D, s.Task)
	if len(s.Kinds) == 0 {
		s.Kinds = kindsOf(s)
	}
	s.Kinds = unique(s.Kinds)
	s.Kind = cmp.Or(s.Kind, s.Kinds[0])
	s.Slots = cmp.Or(s.Slots, 2)
	s.Queue = cmp.Or(s.Queue, 32)
	s.Limit = cmp.Or(s.Limit, 30*time.Minute)
	s.Unit = cmp.Or(s.Unit, "sat")
	s.Network = cmp.Or(s.Network, NetworkNone)
	s.Terms.Each = cmp.Or(s.Terms.Each, s.Slots+(s.Queue+1)/2)
	return s
}

// kindsOf returns the kind of a service, or the usual kinds of its tasks.
func kindsOf(s Service) []int {
	if s.Kind != 0 {
		return []int{s.Kind}
	}
	var kinds []int
	for _, task := range s.Tasks {
		kinds = append(kinds, guild.KindOf(task))
	}
	return kinds
}

// unique drops repeated kinds.
func unique(kinds []int) (once []int) {
	for _, kind := range kinds {
		if !slices.Contains(once, kind) {
			once = append(once, kind)
		}
	}
	return once
}

// does reports whether the service takes a task in a kind. A request without a task is for any service of its kind.
func (s Service) does(task string, kind int) bool {
	if !slices.Contains(s.Kinds, kind) {
		return false
	}
	if id, err := oa.ParseID(task); err == nil && slices.Contains(s.Tasks, id.String()) {
		return true // another spelling of the same job type
	}
	return task == "" || slices.Contains(s.Tasks, task)
}

// service finds the service for a request: the first that is open, else the first that is not.
func (w *Work) service(task string, kind int) (found Service, ok bool) {
	for _, d := range w.order {
		s := w.services[d]
		if !s.does(task, kind) {
			continue
		}
		if w.open(d) {
			return s, true
		}
		if !ok {
			found, ok = s, true
		}
	}
	return found, ok
}

// UntriedError reports a service whose worker never passed a try, or failed its latest.
type UntriedError struct{ Service string }

func (e *UntriedError) Error() string {
	return fmt.Sprintf("the service %.80q is not announced: its worker must pass a try first", e.Service)
}

// CheckTried returns an *UntriedError for a service that is Untried and never delivered anything to a customer.
func (w *Work) CheckTried() error {
	for _, d := range w.order {
		if w.services[d].Untried && w.fold.counts(d).Delivered == 0 {
			return &UntriedError{d}
		}
	}
	return nil
}

// Status is one service with its current and its ended work.
type Status struct {
	Service
	State           State
	Running, Queued int
	Unpaid          int // requests that wait for their price
	Figures
	Customers []Customer // with unfinished requests, the next one to be served first
}

// Customer counts the unfinished requests of one customer to a service.
type Customer struct {
	PubKey          nostr.PubKey
	Running, Queued int
}

// Figures count the ended requests to a service since its first one. Repetitions do not count, nor what was withdrawn or never paid.
type Figures struct {
	Delivered, Failed int
	Latency           time.Duration // average from receipt to result, of delivered requests
}

// Success returns the delivered part of the ended requests, from 0 to 1. any is false if no request has ended.
func (f Figures) Success() (part float64, any bool) {
	all := f.Delivered + f.Failed
	if all == 0 {
		return 0, false
	}
	return float64(f.Delivered) / float64(all), true
}

// Services lists the services with their work, in the order in which they were configured.
func (w *Work) Services() []Status {
	now := w.activity()
	waiting, unpaid := map[string][]request{}, map[string]int{}
	for _, r := range w.fold.pending() {
		switch {
		case r.Finished != nil:
		case w.awaitsMoney(r):
			unpaid[r.Service]++
		default:
			waiting[r.Service] = append(waiting[r.Service], r)
		}
	}
	var all []Status
	for _, d := range w.order {
		st := w.fold.counts(d)
		st.Service, st.State, st.Unpaid = w.services[d], w.state(d), unpaid[d]
		st.Customers = customersOf(inTurn(waiting[d], now))
		for _, c := range st.Customers {
			st.Running += c.Running
			st.Queued += c.Queued
		}
		all = append(all, st)
	}
	return all
}

// customersOf counts the requests of each customer. Customers are in the order of their first requests.
func customersOf(all []turn) (customers []Customer) {
	at := map[nostr.PubKey]int{}
	for _, t := range all {
		i, known := at[t.Customer]
		if !known {
			i = len(customers)
			at[t.Customer] = i
			customers = append(customers, Customer{PubKey: t.Customer})
		}
		if t.running {
			customers[i].Running++
		} else {
			customers[i].Queued++
		}
	}
	return customers
}

// CustomerOf returns the customer of a request to us.
func (w *Work) CustomerOf(request nostr.ID) (nostr.PubKey, bool) {
	r, ok := w.fold.request(request)
	return r.Customer, ok
}
