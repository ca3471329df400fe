package work

import (
	"cmp"
	"context"
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
	Task  string   // what it does; Tasks[0] if empty
	Tasks []string // all that it does, Task first; Task alone if empty
	Kind  int      // NIP-90 request kind; Kinds[0] if zero
	Kinds []int    // all that it takes, Kind first; guild.KindOf of each task if empty
	Name  string   // for people; the node's name if empty
	About string

	Schema string // what its inputs look like, as announced: the id of a JSON schema, or one itself
	Open   bool   // requests that name nobody are worked on, where it costs nothing; else they get an offer

	Slots int           // requests worked on at a time; 2 if zero
	Queue int           // requests that may wait; 32 if zero
	Limit time.Duration // for one request; 30 minutes if zero
	Price guild.Msat    // asked for first; nothing can be paid yet, so a price refuses
	Terms Terms

	Claims Claims // what else its announcement says

	Network Network // what its worker may reach; shown, and kept by whoever made Do
	Walls   string  // what keeps its worker apart, for people: the sandbox's tier, or none

	Secrets []Secret // that its worker knows; what holds one of them is not delivered

	Check func(r nip90.Request) error                   // says why a request is not taken, before it is; any is if nil
	Do    func(ctx context.Context, a Assignment) error // the worker; an error is told to the customer
}

// Network is a policy on what a worker's command may reach.
type Network string

// The policies. There is none between them: no list of hosts, no proxy.
const (
	NetworkNone Network = "none" // nothing, not even this machine
	NetworkFull Network = "full" // whatever the machine reaches
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
	s.Network = cmp.Or(s.Network, NetworkNone)
	s.Terms.Each = cmp.Or(s.Terms.Each, s.Slots+(s.Queue+1)/2)
	return s
}

// kindsOf is the kind that a service names, or the usual ones of its tasks.
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

// unique leaves out what stands before.
func unique(kinds []int) (once []int) {
	for _, kind := range kinds {
		if !slices.Contains(once, kind) {
			once = append(once, kind)
		}
	}
	return once
}

// does reports whether the service takes a task in a kind. A request without a task is for whoever takes its kind.
func (s Service) does(task string, kind int) bool {
	if !slices.Contains(s.Kinds, kind) {
		return false
	}
	if id, err := oa.ParseID(task); err == nil && slices.Contains(s.Tasks, id.String()) {
		return true // others have other names for it
	}
	return task == "" || slices.Contains(s.Tasks, task)
}

// service finds the service that a request is for: the first that takes requests, else the first that would.
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

// Status is one service with what it is doing, and what it has done.
type Status struct {
	Service
	State           State
	Running, Queued int
	Figures
	Customers []Customer // who is served or waits, the one who comes next first
}

// Customer is what a service does for one customer right now.
type Customer struct {
	PubKey          nostr.PubKey
	Running, Queued int
}

// Figures are what a service has done since its first request, repetitions and what was taken back apart.
type Figures struct {
	Delivered, Failed int
	Latency           time.Duration // of what was delivered, on average, from receipt to result
}

// Success is the part of the finished requests that was delivered, from 0 to 1, and whether there is any.
func (f Figures) Success() (part float64, any bool) {
	all := f.Delivered + f.Failed
	if all == 0 {
		return 0, false
	}
	return float64(f.Delivered) / float64(all), true
}

// Services lists the services and what they are doing, in the order in which they were configured.
func (w *Work) Services() []Status {
	now := w.activity()
	waiting := map[string][]request{}
	for _, r := range w.fold.pending() {
		if r.Finished == nil {
			waiting[r.Service] = append(waiting[r.Service], r)
		}
	}
	var all []Status
	for _, d := range w.order {
		st := w.fold.counts(d)
		st.Service, st.State, st.Running, st.Queued = w.services[d], w.state(d), 0, 0
		st.Customers = customersOf(inTurn(waiting[d], now))
		for _, c := range st.Customers {
			st.Running += c.Running
			st.Queued += c.Queued
		}
		all = append(all, st)
	}
	return all
}

// customersOf counts the requests of each customer, in the order in which they stand.
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
