package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/fact"
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
	if result.Content = text; len(request) > longest {
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

// told is feedback on its way to a customer. It is not kept: what counts is the result.
type told struct {
	request fact.RequestReceived
	say     nip90.Feedback
}

// say tells the customer how it goes. When the relay is slower than the worker, lines are left out.
func (w *Work) say(r fact.RequestReceived, s nip90.Status, line string) {
	w.tellLater(told{r, nip90.Feedback{Status: s, Content: guild.Cut(line, 2000)}})
}

func (w *Work) tellLater(t told) {
	select {
	case w.talk <- t:
	default:
	}
}

// pause is the least time between two partial feedback events on one request.
const pause = 500 * time.Millisecond

// Talk publishes feedback until ctx ends. Of the lines that a worker prints within a pause, the last is told.
func (w *Work) Talk(ctx context.Context) error {
	last, held := map[nostr.ID]time.Time{}, map[nostr.ID]told{}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-w.talk:
			id := t.request.Request
			if t.say.Status == nip90.Partial && w.c.Now().Sub(last[id]) < pause {
				held[id] = t
				continue
			}
			delete(held, id)
			last[id] = w.c.Now()
			w.try(ctx, t)
		case <-tick.C:
			w.flush(ctx, last, held)
		}
	}
}

// flush tells what was held back and still interests somebody, and forgets who was told long ago.
func (w *Work) flush(ctx context.Context, last map[nostr.ID]time.Time, held map[nostr.ID]told) {
	now := w.c.Now()
	for id, t := range held {
		if now.Sub(last[id]) < pause {
			continue
		}
		delete(held, id)
		if r, ok := w.fold.request(id); ok && r.Ending == "" && !r.Withdrew {
			last[id] = now
			w.try(ctx, t)
		}
	}
	for id, at := range last {
		if now.Sub(at) > time.Minute {
			delete(last, id)
		}
	}
}

func (w *Work) try(ctx context.Context, t told) {
	if err := w.tell(ctx, t); err != nil && ctx.Err() == nil {
		w.c.Log.Debug("feedback was not published", "request", t.request.Request.Hex(), "err", err)
	}
}

func (w *Work) tell(ctx context.Context, t told) error {
	e, err := w.feedback(ctx, t.request, t.say)
	if err != nil {
		return err
	}
	v, err := w.outbox.Own(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return w.c.Publish(ctx, v, []string{t.request.From}) // one relay: a slow one must not hold up the others' feedback
}
