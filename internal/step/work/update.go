package work

import (
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal/fact"
)

// Happening is a moment of a request that no fact records, for the owner to watch.
type Happening struct {
	At       time.Time
	Stage    Stage
	Request  nostr.ID
	Customer nostr.PubKey
	Service  string // d; the task if no service offers it
	Text     string // of the customer or a worker, unless the stage says otherwise
}

// Stage is a kind of Happening.
type Stage string

// The stages.
const (
	Refused Stage = "refused" // it is not taken; Text says why, in our words
	Waiting Stage = "waiting" // it was taken and is not worked on; Text says why, in our words
	Working Stage = "working" // a worker began
	Said    Stage = "said"    // the customer is told Text, a line of the worker
)

// show passes on what happens to a request.
func (w *Work) show(stage Stage, r fact.RequestReceived, text string) {
	if w.c.Watch == nil {
		return
	}
	h := Happening{At: w.c.Now(), Stage: stage, Request: r.Request, Customer: r.Customer, Service: r.Service, Text: text}
	if h.Service == "" {
		h.Service = r.Task
	}
	w.c.Watch(h)
}

// wait shows why requests wait, when the reason changes.
func (t *talk) wait() {
	if t.c.Watch == nil {
		return
	}
	pending, now := t.fold.pending(), t.activity()
	running := map[string]int{} // by service
	for _, r := range pending {
		if now.running[r.ID] {
			running[r.Service]++
		}
	}
	reasons := map[nostr.ID]string{}
	for _, r := range pending {
		if now.running[r.ID] || r.Finished != nil || r.Parked != "" {
			continue
		}
		reasons[r.ID] = t.reason(r, running[r.Service])
		if reasons[r.ID] != t.reasons[r.ID] {
			t.show(Waiting, *r.Received, reasons[r.ID])
		}
	}
	t.reasons = reasons
}

// reason returns why a request to a service with so many running workers is not worked on.
func (w *Work) reason(r request, running int) string {
	slots := w.services[r.Service].Slots
	switch {
	case w.Draining():
		return "this node is closing"
	case w.state(r.Service) == Paused:
		return "the service is paused"
	case r.repeats():
		return fmt.Sprintf("it repeats %.8s, and gets the same answer", r.Received.Repeats.Hex())
	case running >= slots:
		return fmt.Sprintf("%d of %d jobs are running", running, slots)
	}
	return "it is about to begin"
}
