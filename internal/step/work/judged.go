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
	"guild/internal/letter"
)

// Letter is a private message (NIP-17) that was opened.
type Letter struct {
	From    nostr.PubKey
	Message nostr.ID // inside its wraps
	Content string
}

// Why we do not object.
var (
	ErrUnjudged = errors.New("no customer has said anything of it")
	ErrObjected = errors.New("we have objected already")
	ErrFinal    = errors.New("the customer hears no objection any more")
)

// Judged takes what a customer says of a delivery of ours: only of one that we made for it, each message once, and of a
// delivery no more than a verdict and another one. What changes nothing is a *guild.DropError.
func (w *Work) Judged(ctx context.Context, l Letter) error {
	if w.c.Judgements == nil {
		return guild.Drop(guild.Unexpected, "nobody listens to what customers say")
	}
	v, err := letter.DecodeVerdict(l.Content)
	if err != nil {
		return err
	}
	if _, ok := w.c.Judgements.of(v.Request); !ok {
		return guild.Drop(guild.Unrequested, "a verdict on no delivery of ours")
	}
	judged := fact.RequestJudged{Request: v.Request, Message: l.Message, Outcome: v.Outcome, Score: v.Score, Verdict: v.Verdict,
		Text: cmp.Or(v.Text, v.Cause), Until: v.Until}
	return w.c.Journal.Do(ctx, fact.RequestSubject(v.Request), l.Message.Hex(), func(tx *journal.Tx) error {
		s, _ := w.c.Judgements.of(v.Request)
		switch {
		case s.Customer != l.From:
			return guild.Drop(guild.Stranger, "%.8s judges what was made for somebody else", l.From.Hex())
		case slices.ContainsFunc(s.Said, func(r remark) bool { return r.Message == l.Message }):
			return guild.Drop(guild.Repeated, "a verdict that we have")
		case len(s.Said) >= maxSaid:
			return guild.Drop(guild.Flood, "%d verdicts on request %.8s", len(s.Said)+1, v.Request.Hex())
		}
		tx.Append(judged)
		return nil
	})
}

// Object says to a customer that its latest verdict on a delivery is wrong, once, so that it judges again. The owner
// does that. Errors match ErrUnjudged, ErrObjected or ErrFinal.
func (w *Work) Object(ctx context.Context, request nostr.ID, reason string) error {
	reason = guild.Cut(guild.Clean(reason), letter.MaxReason)
	content, err := letter.Objection{Request: request, Reason: reason}.Encode()
	if err != nil {
		return err
	}
	return w.c.Journal.Do(ctx, fact.RequestSubject(request), "", func(tx *journal.Tx) error {
		var s served
		if w.c.Judgements != nil {
			s, _ = w.c.Judgements.of(request)
		}
		if err := s.objectable(tx.Now()); err != nil {
			return fmt.Errorf("object to the verdict on %.8s: %w", request.Hex(), err)
		}
		id := dm.ID(w.c.PubKey, s.Customer, answer(s.latest(), content), tx.Now())
		tx.Append(fact.RequestObjected{Request: request, Message: id, Reason: reason})
		return nil
	})
}

// objectable says why we cannot object to the latest verdict.
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

// answer is the message that answers a verdict.
func answer(verdict nostr.ID, content string) dm.Message {
	return dm.Message{Content: content, Subject: "Objection", Reply: verdict}
}

func objecting(request string) string { return "object to the verdict on " + request }

// objections lists those that are to be sent.
func (w *Work) objections() (all []due.Work) {
	if w.c.Judgements == nil {
		return nil
	}
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

// sendObjection wraps and publishes the message that was decided: the same one whenever it is sent.
func (w *Work) sendObjection(ctx context.Context, request nostr.ID, s served) error {
	content, err := letter.Objection{Request: request, Reason: s.Against.Reason}.Encode()
	if err != nil {
		return err
	}
	wrap, _, err := dm.Wrap(ctx, w.c.Keyer, w.c.PubKey, s.Customer, answer(s.Against.Answers, content), time.UnixMilli(s.Against.At))
	if err != nil {
		return err
	}
	v, err := guild.Verify(wrap)
	if err != nil {
		return err
	}
	relays := s.Relays
	if w.c.Letterbox != nil {
		if urls := w.c.Letterbox(ctx, s.Customer); len(urls) > 0 {
			relays = urls
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return w.c.Publish(ctx, v, relays)
}
