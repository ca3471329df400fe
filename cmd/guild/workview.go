package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/cli"
	"guild/internal/journal/fact"
	"guild/internal/node"
	"guild/internal/step/pay"
	"guild/internal/step/work"
	"guild/nip90"
)

// workEvent is one thing that happened to a service or to a request to it: a line of work --json and up --json.
type workEvent struct {
	At       int64         `json:"at"`    // Unix ms
	Event    string        `json:"event"` // ready, received, waiting, working, said, delivered, failed, refused, unpaid, withdrawn, judged, locked, unlocked, paid, paused, draining, resumed
	Request  string        `json:"request,omitempty"`
	Service  string        `json:"service,omitempty"`
	Customer string        `json:"customer,omitempty"` // npub
	Text     string        `json:"text,omitempty"`     // a line of the worker, or a reason
	TookMs   int64         `json:"took_ms,omitempty"`  // from the request to its end
	Outcome  guild.Outcome `json:"outcome,omitempty"`  // of the customer's verdict
	Score    *guild.Score  `json:"score_micro,omitempty"`
	Amount   uint64        `json:"amount,omitempty"` // of money that was locked or released, in the unit
	Unit     string        `json:"unit,omitempty"`
	UntilMs  int64         `json:"until_ms,omitempty"` // of what is locked: without a verdict until then it is the customer's again
	Payout   *nip90.Payout `json:"payout,omitempty"`   // of a request that came, or of what is locked, if the order says it
	Npub     string        `json:"npub,omitempty"`     // of the node that is ready
	Relays   []string      `json:"relays,omitempty"`   // that it uses

	ahead    bool // Amount was paid before the work
	held     bool // Amount is held over Lightning, and paid whole or not at all
	metered  bool // Amount is the most of a price by usage
	deadline int64
	promised *nip90.Payout
}

// workEvents makes events of the journal's entries and of the updates of a node. It remembers the latest requests, because later
// entries name only their ids. Its methods may be called concurrently.
type workEvents struct {
	mu    sync.Mutex
	known map[nostr.ID]workEvent // how each request came
	order []nostr.ID             // of known, the oldest first
	queue []workEvent
	added chan struct{} // receives when queue is not empty
}

// maxRemembered bounds the requests that are remembered.
const maxRemembered = 1000

func newWorkEvents() *workEvents {
	return &workEvents{known: map[nostr.ID]workEvent{}, added: make(chan struct{}, 1)}
}

// maxQueued bounds the events that wait for a slow terminal; more are dropped.
const maxQueued = 10_000

func (w *workEvents) add(e workEvent) {
	if len(w.queue) >= maxQueued {
		return
	}
	w.queue = append(w.queue, e)
	select {
	case w.added <- struct{}{}:
	default:
	}
}

// ready adds that the node is ready.
func (w *workEvents) ready(r node.Ready, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(workEvent{At: now.UnixMilli(), Event: "ready", Npub: npub(r.PubKey), Relays: r.Relays})
	for _, s := range r.Services {
		if s.State != work.Open { // since an earlier run
			w.add(workEvent{At: now.UnixMilli(), Event: string(s.State), Service: s.D})
		}
	}
}

// update adds the event of something that no fact records.
func (w *workEvents) update(u work.Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(workEvent{At: u.At.UnixMilli(), Event: string(u.Stage), Request: u.Request.Hex(), Service: u.Service, Customer: npub(u.Customer), Text: u.Text})
}

// entry adds the events of an entry of the journal.
func (w *workEvents) entry(e fact.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range e.Facts {
		switch f := f.(type) {
		case fact.RequestReceived:
			came := workEvent{
				At: e.At, Event: "received", Request: f.Request.Hex(), Service: f.Service, Customer: npub(f.Customer), deadline: f.Deadline, promised: f.Payout,
			}
			w.remember(f.Request, came)
			came.Payout = f.Payout
			w.add(came)
		case fact.RequestQuoted:
			if came, ok := w.known[f.Request]; ok {
				came.metered = f.Metered
				w.known[f.Request] = came
			}
		case fact.RequestFinished:
			end := w.of(f.Request, e.At, f.Ending, f.Reason)
			if came, ok := w.known[f.Request]; ok {
				end.TookMs = max(0, e.At-came.At)
			}
			w.add(end)
		case fact.RequestCancelled:
			w.add(w.of(f.Request, e.At, "withdrawn", "by its customer"))
		case fact.RequestJudged:
			score := f.Score
			judged := w.of(f.Request, e.At, "judged", f.Text)
			judged.Outcome, judged.Score = f.Outcome, &score
			w.add(judged)
		case fact.LockOffered:
			came := w.known[f.Request]
			came.Unit = f.Unit
			w.known[f.Request] = came
		case fact.LockAccepted:
			came := w.known[f.Request]
			came.Amount, came.ahead = f.Amount, f.Locktime == 0
			w.known[f.Request] = came
			if !came.ahead {
				w.add(w.locked(f.Request, e.At, time.Unix(f.Locktime, 0)))
			}
		case fact.InvoiceHeld:
			came := w.known[f.Request]
			came.Amount, came.Unit, came.held = (uint64(f.Msat)+999)/1000, "sat", true
			w.known[f.Request] = came
			w.add(w.locked(f.Request, e.At, pay.Locktime(time.UnixMilli(came.deadline))))
		case fact.CoinsReceived:
			paid := w.of(f.Request, e.At, "paid", "")
			paid.Amount, paid.Unit = f.Amount, "sat"
			if came, ok := w.known[f.Request]; ok && f.Exact {
				came.Amount, came.Unit, came.ahead = f.Amount, "sat", true
				w.known[f.Request] = came
			}
			w.add(paid)
		case fact.InvoiceSettled:
			if came, ok := w.known[f.Request]; ok && came.Amount == 0 { // one that was not held is paid before the work
				came.Amount, came.Unit, came.ahead = (uint64(f.Msat)+999)/1000, "sat", true
				w.known[f.Request] = came
			}
		case fact.CoinsLost:
			lost := w.of(f.Request, e.At, "unlocked", "the block with its payment is not in the chain any more")
			if came := w.known[f.Request]; came.Amount == f.Amount {
				came.Amount, came.ahead = 0, false
				w.known[f.Request] = came
			}
			w.add(lost)
		case fact.LockRefused:
			w.add(w.of(f.Request, e.At, "unlocked", f.Reason))
		case fact.LockReleased:
			paid := w.of(f.Request, e.At, "paid", f.Reason)
			paid.Amount = f.Amount
			w.add(paid)
		case fact.ServicePaused:
			event := "paused"
			if f.Drain {
				event = "draining"
			}
			w.add(workEvent{At: e.At, Event: event, Service: f.Service})
		case fact.ServiceResumed:
			w.add(workEvent{At: e.At, Event: "resumed", Service: f.Service})
		}
	}
}

// of returns an event of a request.
func (w *workEvents) of(request nostr.ID, at int64, event, text string) workEvent {
	e := w.known[request]
	e.At, e.Event, e.Request, e.Text = at, event, request.Hex(), text
	return e
}

// locked returns the event that money is locked for a request, or held, until a time.
func (w *workEvents) locked(request nostr.ID, at int64, until time.Time) workEvent {
	e := w.of(request, at, "locked", "")
	e.UntilMs, e.Payout = until.UnixMilli(), e.promised
	return e
}

func (w *workEvents) remember(request nostr.ID, e workEvent) {
	w.known[request] = e
	w.order = append(w.order, request)
	if len(w.order) > maxRemembered {
		delete(w.known, w.order[0])
		w.order = w.order[1:]
	}
}

// take returns the events since the last call.
func (w *workEvents) take() []workEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.queue
	w.queue = nil
	return all
}

// pass passes on the events until done is closed, and then what is left. After an error the rest is dropped.
func (w *workEvents) pass(done <-chan struct{}, to func(workEvent) error) (err error) {
	for over := false; ; {
		for _, e := range w.take() {
			if err == nil {
				err = to(e)
			}
		}
		if over {
			return err
		}
		select {
		case <-w.added:
		case <-done:
			over = true
		}
	}
}

// printWork returns a function that prints events as lines.
func printWork(w io.Writer) func(workEvent) error {
	return func(e workEvent) error {
		if e.Event == "ready" {
			_, err := fmt.Fprintf(w, "ready  %s  %s\n", e.Npub, strings.Join(e.Relays, " "))
			return err
		}
		_, err := fmt.Fprintln(w, workLine(e))
		return err
	}
}

// workLine returns an event as "12:00:01 5f21c9aa delivered  after 8s".
func workLine(e workEvent) string {
	return strings.TrimRight(fmt.Sprintf("%s %-8s %-9s %s", clock(e.At), short(e.Request), e.Event, workText(e)), " ")
}

// verdictReason returns the reason in a customer's text about its verdict. In the text that guild sends, the request and the
// verdict come before the reason, and how to object comes after it.
func verdictReason(text string) string {
	_, found, isOurs := strings.Cut(text, ", with the score ")
	if !isOurs || !strings.HasPrefix(text, "Your delivery for request ") {
		return text
	}
	found, _, _ = strings.Cut(found, ". ")
	_, reason, _ := strings.Cut(found, ": ")
	return reason
}

// lockedText says what is locked until when, and what of it the provider gets by which verdict.
func lockedText(e workEvent) string {
	until := time.UnixMilli(e.UntilMs).Format("2006-01-02 15:04")
	if e.Payout == nil {
		return fmt.Sprintf("%d %s until %s, and by the verdict yours; the order does not say how much", e.Amount, unitName(e.Unit), until)
	}
	return fmt.Sprintf("%d %s until %s, without a verdict nothing; %s", e.Amount, unitName(e.Unit), until, payoutText(*e.Payout, e.Unit, e.held, e.metered))
}

// payoutText says what a provider gets by the verdict, as "SUCCESS strong pays all, mixed 40 %, weak up to 500, PARTIAL nothing".
func payoutText(p nip90.Payout, unit string, whole, metered bool) string {
	share := func(percent int) string {
		switch {
		case percent == 0:
			return "nothing"
		case percent < 100 && whole:
			return "what the customer decides"
		}
		return fmt.Sprintf("%d %%", percent)
	}
	const decided = "what the customer decides"
	all, partial, weak := "all", share(p.Partial), decided
	if metered {
		all = "what you claim of it"
	}
	if p.Partial == 0 {
		partial = decided
	}
	if most := int64(p.Weak); most > 0 {
		if unit != "msat" {
			most /= 1000
		}
		weak = fmt.Sprintf("up to %d", most)
	}
	return fmt.Sprintf("SUCCESS strong pays %s, mixed %s, weak %s, PARTIAL %s", all, share(p.Mixed), weak, partial)
}

// workText describes an event in words.
func workText(e workEvent) string {
	text := cli.Clean(e.Text)
	took := (time.Duration(e.TookMs) * time.Millisecond).Round(100 * time.Millisecond)
	switch e.Event {
	case "received":
		came := fmt.Sprintf("%s, for %s", cli.Clean(e.Service), cli.ShortNpub(e.Customer))
		if e.Payout != nil && e.Payout.How == nip90.Postpaid {
			came += "; paid after the work: " + payoutText(*e.Payout, "sat", true, false)
		}
		return came
	case string(work.Refused):
		if e.TookMs > 0 { // after it was taken
			return text
		}
		return fmt.Sprintf("%s, for %s: %s", cli.Clean(e.Service), cli.ShortNpub(e.Customer), text)
	case "delivered":
		if e.ahead {
			return fmt.Sprintf("after %s; %d %s were paid before", took, e.Amount, unitName(e.Unit))
		}
		if e.Amount > 0 {
			return fmt.Sprintf("after %s; %d %s are locked for it", took, e.Amount, unitName(e.Unit))
		}
		return fmt.Sprintf("after %s; nothing was paid", took)
	case "locked":
		return lockedText(e)
	case "paid":
		if e.Amount == 0 {
			return "nothing: " + text
		}
		return fmt.Sprintf("%d %s", e.Amount, unitName(e.Unit))
	case "failed":
		return fmt.Sprintf("after %s: %s", took, text)
	case "judged":
		judged := fmt.Sprintf("%s, score %s", e.Outcome, *e.Score)
		if why := verdictReason(text); why != "" {
			judged += ": " + why
		}
		return cli.Clean(judged)
	case "paused", "draining", "resumed":
		return cli.Clean(e.Service)
	}
	return cmp.Or(text, cli.Clean(e.Service))
}
