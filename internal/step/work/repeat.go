package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fiatjaf.com/nostr"

	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// maxKey is the longest idempotency key that is taken, in bytes.
const maxKey = 256

// keyed is an idempotency key with its customer. Two customers may use the same key for different work.
type keyed struct {
	customer nostr.PubKey
	key      string
}

// MarshalText writes the customer in hex, a space and the key.
func (k keyed) MarshalText() ([]byte, error) { return []byte(k.customer.Hex() + " " + k.key), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *keyed) UnmarshalText(b []byte) (err error) {
	customer, key, _ := bytes.Cut(b, []byte{' '})
	k.key = string(key)
	k.customer, err = nostr.PubKeyFromHexCheap(string(customer))
	return err
}

// again lists what is due for a request that repeats another one: nothing until the first is answered, and then the same
// answer, signed for this one. No worker runs.
func (w *Work) again(r request) []due.Work {
	first, known := w.fold.request(r.Received.Repeats)
	switch {
	case !known || first.Withdrew:
		return []due.Work{w.giveUp(r, fmt.Sprintf("the request %.8s, which it repeats, was taken back", r.Received.Repeats.Hex()))}
	case first.Ending == "":
		return []due.Work{w.late(r)}
	}
	return []due.Work{{
		Key: "answer again " + r.ID.Hex(), Guard: fact.RequestSubject(r.ID), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			finished, err := w.repeated(ctx, r, first)
			if errors.Is(err, errUnrepeatable) {
				return w.fail(ctx, r, err.Error(), err.Error())
			}
			return w.record(finished, fact.EffectSettled{Effect: doing(r.ID)}), err
		},
	}}
}

// errUnrepeatable is matched by errors that say why the answer to the first request cannot be used.
var errUnrepeatable = errors.New("the answer cannot be given again")

// repeated ends a request as the first one ended, with events of its own.
func (w *Work) repeated(ctx context.Context, r, first request) (fact.RequestFinished, error) {
	was, err := w.ended(ctx, first)
	if err != nil {
		return fact.RequestFinished{}, err
	}
	finished := was
	finished.Request, finished.Answers = r.ID, nil
	for _, e := range was.Answers {
		if r.Received.Encrypted && !e.Tags.Has("encrypted") {
			return finished, fmt.Errorf("%w: the request %.8s, which it repeats, was in clear", errUnrepeatable, first.ID.Hex())
		}
		again, err := w.outbox.Sign(ctx, readdressed(e, r.Received.Event))
		if err != nil {
			return finished, err
		}
		finished.Answers = append(finished.Answers, again)
	}
	return finished, nil
}

// ended reads from the journal how a request ended. The fold does not keep the answers of ended requests.
func (w *Work) ended(ctx context.Context, first request) (fact.RequestFinished, error) {
	e, err := w.c.Journal.Entry(ctx, first.Ended)
	if errors.Is(err, journal.ErrNoEntry) {
		return fact.RequestFinished{}, fmt.Errorf("%w: the entry about %.8s is archived", errUnrepeatable, first.ID.Hex())
	}
	if err != nil {
		return fact.RequestFinished{}, fmt.Errorf("the answer to %.8s: %w", first.ID.Hex(), err)
	}
	for _, f := range e.Facts {
		if f, ok := f.(fact.RequestFinished); ok {
			return f, nil
		}
	}
	return fact.RequestFinished{}, fmt.Errorf("%w: %.8s was not answered", errUnrepeatable, first.ID.Hex())
}

// readdressed turns an answer into one to another request of the same customer. Encrypted content needs no change, since
// it is for the same two keys.
func readdressed(answer, to nostr.Event) nostr.Event {
	e := nostr.Event{Kind: answer.Kind, Content: answer.Content}
	for _, tag := range answer.Tags {
		switch {
		case len(tag) > 1 && tag[0] == "e":
			tag = nostr.Tag{"e", to.ID.Hex()}
		case len(tag) > 1 && tag[0] == "request":
			text, _ := json.Marshal(to) // a received event always can be
			tag = nostr.Tag{"request", string(text)}
		}
		e.Tags = append(e.Tags, tag)
	}
	return e
}
