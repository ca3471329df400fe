package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// Why an objection is refused.
var (
	ErrUnjudged = errors.New("no customer has said anything of it")
	ErrObjected = errors.New("we have objected already")
	ErrFinal    = errors.New("the customer hears no objection any more")
)

// Judged records a customer's verdict on a delivery of ours, out of a private message. It must be on one that we made for
// this customer. Each message counts once, and of a delivery at most two: a verdict, and another one after our objection.
// The error is a *guild.DropError if nothing was recorded.
func (w *Work) Judged(ctx context.Context, m dm.Message) error {
	v, err := dm.DecodeVerdict(m.Content)
	if err != nil {
		return err
	}
	if _, ok := w.c.Judgements.of(v.Request); !ok {
		return guild.Drop(guild.Unrequested, "a verdict on no delivery of ours")
	}
	judged := fact.RequestJudged{Request: v.Request, Message: m.ID, Outcome: v.Outcome, Score: v.Score, Verdict: v.Verdict,
		Text: cmp.Or(v.Text, v.Cause), Until: v.Until}
	return w.c.Journal.Do(ctx, fact.RequestSubject(v.Request), m.ID.Hex(), func(tx *journal.Tx) error {
		s, _ := w.c.Judgements.of(v.Request)
		switch {
		case s.Customer != m.From:
			return guild.Drop(guild.Stranger, "%.8s judges what was made for somebody else", m.From.Hex())
		case slices.ContainsFunc(s.Said, func(r remark) bool { return r.Message == m.ID }):
			return guild.Drop(guild.Repeated, "a verdict that we have")
		case len(s.Said) >= maxSaid:
			return guild.Drop(guild.Flood, "%d verdicts on request %.8s", len(s.Said)+1, v.Request.Hex())
		}
		tx.Append(judged)
		return nil
	})
}

// Delivered returns the customer of a request, and the relays at which it was asked, if we have delivered. It knows the
// latest deliveries.
func (w *Work) Delivered(request nostr.ID) (customer nostr.PubKey, relays []string, ok bool) {
	s, ok := w.c.Judgements.of(request)
	return s.Customer, s.Relays, ok
}

// Object tells a customer, once, that its latest verdict on a delivery is wrong, so that it judges again. The owner of the
// node decides that. The error matches ErrUnjudged, ErrObjected or ErrFinal if there is nothing to object to any more.
func (w *Work) Object(ctx context.Context, request nostr.ID, reason string) error {
	reason = guild.Cut(guild.Clean(reason), dm.MaxReason)
	content, err := dm.Objection{Request: request, Reason: reason}.Encode()
	if err != nil {
		return err
	}
	return w.c.Journal.Do(ctx, fact.RequestSubject(request), "", func(tx *journal.Tx) error {
		s, _ := w.c.Judgements.of(request)
		if err := s.objectable(tx.Now()); err != nil {
			return fmt.Errorf("object to the verdict on %.8s: %w", request.Hex(), err)
		}
		id := dm.ID(w.c.PubKey, s.Customer, objectionTo(s.latest(), content), tx.Now())
		tx.Append(fact.RequestObjected{Request: request, Message: id, Reason: reason})
		return nil
	})
}

// objectable returns why we cannot object to the latest verdict.
func (s served) objectable(now time.Time) error {
	switch {
	case len(s.Said) == 0:
		return ErrUnjudged
	case s.Against != nil:
		return ErrObjected
	case now.Unix() >= s.Said[len(s.Said)-1].Until:
		return ErrFinal
	}
	return nil
}

// objectionTo returns the message with our objection to a verdict.
func objectionTo(verdict nostr.ID, content string) dm.Message {
	return dm.Message{Content: content, Subject: "Objection", Reply: verdict}
}

// objecting is the key of the effect that sends an objection.
func objecting(request string) string { return "object to the verdict on " + request }

// objections lists the objections to send.
func (w *Work) objections() (all []due.Work) {
	for request, s := range w.c.Judgements.pending() {
		id, err := nostr.IDFromHex(request)
		if err != nil || s.Against == nil {
			continue
		}
		all = append(all, due.Work{
			Key: objecting(request), Guard: fact.RequestSubject(id), Tries: 8, Lease: 2 * time.Minute,
			Act: func(ctx context.Context) (due.Decision, error) {
				if err := w.sendObjection(ctx, id, s); err != nil {
					return nil, fmt.Errorf("object to the verdict on %.8s: %w", request, err)
				}
				return func(tx *journal.Tx) error {
					if now, _ := w.c.Judgements.of(id); now.Against != nil && !now.Against.Sent {
						tx.Append(fact.RequestObjected{Request: id, Message: s.Against.Message, Reason: s.Against.Reason, Sent: true})
					}
					return nil
				}, nil
			},
		})
	}
	return all
}

// sendObjection publishes the message whose id was recorded. Its gift wrap is another one at every try, and the customer
// knows by the id of the message in it that it is the same.
func (w *Work) sendObjection(ctx context.Context, request nostr.ID, s served) error {
	content, err := dm.Objection{Request: request, Reason: s.Against.Reason}.Encode()
	if err != nil {
		return err
	}
	wrap, _, err := dm.Wrap(ctx, w.c.Keyer, w.c.PubKey, s.Customer, objectionTo(s.Against.Answers, content), time.UnixMilli(s.Against.At))
	if err != nil {
		return err
	}
	relays := w.c.Relays.InboxOf(ctx, s.Customer)
	if len(relays) == 0 {
		relays = s.Relays
	}
	return w.publish(ctx, wrap, relays, 20*time.Second)
}
