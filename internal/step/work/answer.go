package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// delivery is what a worker left.
type delivery struct {
	packed []byte
	text   *string // what goes to a customer who knows no bundles; nil where the bundle goes

	recording *recording // of the run that left it, or that failed; nil if there was none
}

// answerDelivery signs the result. A request that came encrypted is answered encrypted, always.
func (w *Work) answerDelivery(ctx context.Context, r fact.RequestReceived, f fact.RequestFinished, d delivery) (fact.RequestFinished, error) {
	f.Ending, f.Delivery = delivered, guild.Sum(d.packed)
	var keeping errgroup.Group
	keeping.Go(func() error { return w.keep(ctx, d.packed, d.text == nil && len(d.packed) <= nip90.Inline) })
	e, err := w.result(ctx, r, f.Delivery, d)
	f.Answers = []nostr.Event{e}
	return f, errors.Join(err, keeping.Wait())
}

// result signs the event that carries a delivery.
func (w *Work) result(ctx context.Context, r fact.RequestReceived, hash guild.Hash, d delivery) (nostr.Event, error) {
	result := nip90.Result{Kind: nip90.ResultKind(r.Kind), Request: r.Request, Customer: r.Customer, Status: "success"}
	if d.text != nil {
		err := plainResult(&result, r, *d.text)
		if err != nil {
			return nostr.Event{}, err
		}
		return w.sealed(ctx, r, result.Event, result.Sealed)
	}
	p := nip90.Parcel{Hash: hash, Size: int64(len(d.packed))}
	if len(d.packed) <= nip90.Inline {
		p.Inline = d.packed
	} else {
		var err error
		if p.URL, p.Key, err = w.c.Upload(ctx, d.packed, r.Encrypted); err != nil {
			return nostr.Event{}, fmt.Errorf("upload the delivery: %w", err)
		}
	}
	if err := result.SetDelivery(p); err != nil {
		return nostr.Event{}, err
	}
	return w.sealed(ctx, r, result.Event, result.Sealed)
}

// plainResult makes a result one as NIP-90 has it: the text, the request and its inputs. Of a request that was
// encrypted neither goes along: Sealed leaves them out.
func plainResult(result *nip90.Result, r fact.RequestReceived, text string) error {
	request, err := json.Marshal(r.Event)
	if err != nil {
		return err
	}
	const longest = 48 << 10 // relays take no event of any size
	result.Content = text
	if len(request) > longest {
		return nil
	}
	result.RequestJSON = string(request)
	for tag := range r.Event.Tags.FindAll("i") {
		result.Extra = append(result.Extra, tag)
	}
	return nil
}

func (w *Work) answerFeedback(ctx context.Context, r fact.RequestReceived, f fact.RequestFinished, say nip90.Feedback) (fact.RequestFinished, error) {
	e, err := w.feedback(ctx, r, say)
	f.Answers = []nostr.Event{e}
	return f, err
}

func (w *Work) feedback(ctx context.Context, r fact.RequestReceived, f nip90.Feedback) (nostr.Event, error) {
	f.Request, f.Customer = r.Request, r.Customer
	plain := func() (nostr.Event, error) { return f.Event(), nil }
	return w.sealed(ctx, r, plain, f.Sealed)
}

type seal = func(plaintext string) (string, error)

// sealed builds an answer in clear or encrypted, as the request was, and signs it.
func (w *Work) sealed(ctx context.Context, r fact.RequestReceived, plain func() (nostr.Event, error),
	sealed func(seal) (nostr.Event, error)) (nostr.Event, error) {
	var e nostr.Event
	var err error
	if r.Encrypted {
		e, err = sealed(func(text string) (string, error) { return w.c.Keyer.Encrypt(ctx, text, r.Customer) })
	} else {
		e, err = plain()
	}
	if err != nil {
		return nostr.Event{}, fmt.Errorf("answer %.8s: %w", r.Request.Hex(), err)
	}
	return w.outbox.Sign(ctx, e)
}
