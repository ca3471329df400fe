package work

import (
	"encoding/json"

	"guild/internal/journal/fact"
	"guild/nip90"
)

// capacity returns how many requests to a service wait, and how many more it could begin at once.
func (w *Work) capacity(s Service) fact.Capacity {
	here, running, waiting := w.activity(), 0, 0
	for _, r := range w.fold.pending() {
		switch {
		case r.Service != s.D || r.Finished != nil || w.awaitsMoney(r):
		case here.running[r.ID]:
			running++
		default:
			waiting++
		}
	}
	if !w.open(s.D) {
		return fact.Capacity{Queue: waiting}
	}
	return fact.Capacity{Queue: waiting, Idle: max(0, s.Slots-running-waiting)}
}

// tellBegun tells the customer that its request is being worked on, and how busy the service is: as text beside the
// status, which every client shows, and as JSON in the content (the partnership protocol, section 5.3.3).
func (w *Work) tellBegun(s Service, r fact.RequestReceived) {
	c := w.capacity(s)
	content, err := json.Marshal(c)
	if err != nil {
		w.c.Log.Warn("the capacity of a service cannot be encoded", "err", err)
	}
	w.tell(answer{to: r, feedback: nip90.Feedback{Status: nip90.Processing, Text: c.String(), Content: string(content)}})
}
