package work

import (
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal/fact"
)

// Update is something that happens to a request and that no fact records. The owner can watch it.
type Update struct {
	At       time.Time
	Stage    Stage
	Request  nostr.ID
	Customer nostr.PubKey
	Service  string // d; the task if no service offers it
	Text     string // of the customer or a worker, unless the stage says otherwise
}

// Stage is the kind of an Update.
type Stage string

// The stages.
const (
	Refused Stage = "refused" // it is not accepted; Text says why, in our words
	Waiting Stage = "waiting" // it was accepted and is not worked on; Text says why, in our words
	Working Stage = "working" // a worker began
	Said    Stage = "said"    // Text is a line of the worker, which its customer gets
)

// notify passes an update on, if the owner watches.
func (w *Work) notify(stage Stage, r fact.RequestReceived, text string) {
	if w.c.Watch == nil {
		return
	}
	u := Update{At: w.c.Now(), Stage: stage, Request: r.Request, Customer: r.Customer, Service: r.Service, Text: text}
	if u.Service == "" {
		u.Service = r.Task
	}
	w.c.Watch(u)
}

// showWaiting tells the owner why requests wait, when the reason changes.
func (t *talk) showWaiting() {
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
			t.notify(Waiting, *r.Received, reasons[r.ID])
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
	case w.awaitsMoney(r):
		return "its payment has not arrived yet"
	case running >= slots:
		return fmt.Sprintf("%d of %d jobs are running", running, slots)
	}
	return "it is about to begin"
}
