package work

import (
	"context"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// answer is one message to the customer of a request: the result if there is one, else the feedback.
//
// Every message to a customer goes this way. sign makes the event, in clear or encrypted as the request was. What ends a
// request (its result, an error) goes through end and record: the signed event and the claim to publish it are recorded
// in one entry, so a restart publishes the same event and not another one, and the due runner tries until a relay takes
// it. All other messages (a refusal, an offer, a line of the worker, a heartbeat) are of use only now. They go through
// tell into a queue that Talk publishes, each once, and leave no fact.
type answer struct {
	to       fact.RequestReceived // its Request, Customer, Encrypted, From and Relays say where the answer goes
	result   *nip90.Result
	feedback nip90.Feedback
}

// maxText is the longest error that a customer is told, in bytes.
const maxText = 500

// failure returns the answer that says why nothing comes of a request.
func failure(to fact.RequestReceived, text string) answer {
	return answer{to: to, feedback: nip90.Feedback{Status: nip90.Error, Text: guild.Cut(text, maxText)}}
}

// sign makes the event of an answer. The answer to an encrypted request is always encrypted.
func (w *Work) sign(ctx context.Context, a answer) (nostr.Event, error) {
	seal := func(text string) (string, error) { return w.c.Keyer.Encrypt(ctx, text, a.to.Customer) }
	a.feedback.Request, a.feedback.Customer = a.to.Request, a.to.Customer
	var e nostr.Event
	var err error
	switch {
	case a.result != nil && a.to.Encrypted:
		e, err = a.result.Sealed(seal)
	case a.result != nil:
		e, err = a.result.Event()
	case a.to.Encrypted:
		e, err = a.feedback.Sealed(seal)
	default:
		e = a.feedback.Event()
	}
	if err != nil {
		return nostr.Event{}, fmt.Errorf("answer %.8s: %w", a.to.Request.Hex(), err)
	}
	return w.outbox.Sign(ctx, e)
}

// end signs the answer that ends a request, and returns f with it.
func (w *Work) end(ctx context.Context, f fact.RequestFinished, a answer) (fact.RequestFinished, error) {
	e, err := w.sign(ctx, a)
	f.Answers = []nostr.Event{e}
	return f, err
}

// record returns the decision that a request has ended, with other facts that follow from that. It does nothing if the
// request ended in another way meanwhile.
func (w *Work) record(f fact.RequestFinished, also ...fact.Fact) due.Decision {
	return func(tx *journal.Tx) error {
		r, ok := w.fold.request(f.Request)
		if !ok || r.Ending != "" || r.Withdrew {
			return nil
		}
		tx.Append(append([]fact.Fact{f}, also...)...)
		for _, e := range f.Answers {
			due.Claim(tx, due.Publishing(e.ID), w.c.Node)
		}
		return nil
	}
}

// fail ends a request that no worker is on. The reason is recorded, and the customer reads the text.
func (w *Work) fail(ctx context.Context, r request, reason, text string) (due.Decision, error) {
	f, err := w.end(ctx, fact.RequestFinished{Request: r.ID, Ending: failed, Reason: reason}, failure(*r.Received, text))
	return w.record(f, fact.EffectSettled{Effect: doing(r.ID)}), err
}

// publications lists the recorded answers to a request that no relay has taken yet.
func (w *Work) publications(r request) (all []due.Work) {
	relays := append([]string{r.Received.From}, r.Received.Relays...)
	for _, e := range r.Finished.Answers {
		all = append(all, due.Work{
			Key: due.Publishing(e.ID), Guard: fact.RequestSubject(r.ID), Tries: 8,
			Act: func(ctx context.Context) (due.Decision, error) {
				return func(*journal.Tx) error { return nil }, w.publish(ctx, e, relays, 45*time.Second)
			},
		})
	}
	return all
}

// publish sends an event of ours to relays, and returns nil once a relay took it.
func (w *Work) publish(ctx context.Context, e nostr.Event, relays []string, patience time.Duration) error {
	v, err := w.outbox.Own(e)
	if err != nil {
		return fmt.Errorf("publish %.8s: %w", e.ID.Hex(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.c.Relays.Publish(ctx, v, relays)
}

// tell queues an answer that is not recorded. It reports false, and drops the answer, if the queue is full: then relays
// are slower than we have things to say.
func (w *Work) tell(a answer) bool {
	select {
	case w.queue <- a:
		return true
	default:
		return false
	}
}
