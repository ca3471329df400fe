package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// The parties that can have a verdict judged again, as they are named in facts.
const (
	byProvider = "provider"
	byOwner    = "owner"
)

// The reasons why a verdict is not judged again.
var (
	ErrNoVerdict = errors.New("there is no recorded verdict, or it is too old")
	ErrDisputed  = errors.New("it is already being judged again")
	ErrFinal     = errors.New("the verdict is final")
)

// Read handles a private message: an objection, or an answer to a message about a verdict. It returns a
// *guild.DropError for a message that changes nothing.
func (m *Mail) Read(ctx context.Context, from nostr.PubKey, message, reply nostr.ID, content string) error {
	if dm.TypeOf(content) == dm.TypeObjection {
		o, err := dm.DecodeObjection(content)
		if err != nil {
			return err
		}
		return m.Objected(ctx, from, o.Request, o.Reason, message)
	}
	x, ok := m.fold.about(reply)
	switch {
	case !ok:
		return guild.Drop(guild.Unrequested, "a private message that answers nothing we said")
	case x.Outcome == guild.Success:
		return guild.Drop(guild.Unrequested, "an answer to a verdict of SUCCESS") // usually thanks
	}
	return m.Objected(ctx, from, x.Attempt, content, message)
}

// Objects reports whether feedback (kind 7000) is an objection: it has the status error, comes from the provider of an
// attempt that has a verdict, and is not older than the verdict.
func (m *Mail) Objects(e nostr.Event) bool {
	if e.Kind != nip90.KindFeedback {
		return false
	}
	x, ok := m.named(e)
	if !ok || x.Recorded == 0 && !x.Disputed || x.Provider.PubKey != e.PubKey || int64(e.CreatedAt) < x.At/1000 {
		return false
	}
	status := e.Tags.Find("status")
	return status != nil && status[1] == string(nip90.Error)
}

// named finds the attempt that an event names in its e tag.
func (m *Mail) named(e nostr.Event) (exchange, bool) {
	tag := e.Tags.Find("e")
	if tag == nil {
		return exchange{}, false
	}
	id, err := nostr.IDFromHex(tag[1])
	if err != nil {
		return exchange{}, false
	}
	return m.fold.of(id)
}

// Observe handles feedback for which Objects is true. It returns a *guild.DropError for feedback that changes nothing.
func (m *Mail) Observe(ctx context.Context, v guild.Verified) error {
	e := v.Event()
	x, ok := m.named(e)
	if !ok {
		return guild.Drop(guild.Unrequested, "feedback on no attempt that has a verdict")
	}
	reason := "the reason cannot be read"
	if f, err := nip90.ParseFeedback(e, nip90.OpenWith(ctx, m.c.Keyer)); err == nil {
		reason = cmp.Or(f.Text, f.Content)
	}
	return m.Objected(ctx, e.PubKey, x.Attempt, reason, e.ID)
}

// Objected has a verdict judged again because the provider of the attempt has objected in event. A provider may object
// once to each attempt, within the policy's time after the verdict, and only so often a day. Objected returns a
// *guild.DropError if the objection changes nothing.
//
// Judging costs this node a sandboxed run, so the limits also keep a provider from using it up.
//
// The limit is a provider's, but the decision is guarded by the job alone. Two objections to verdicts on different jobs
// could therefore both pass as a provider's last one. The lock turn prevents that.
func (m *Mail) Objected(ctx context.Context, from nostr.PubKey, request nostr.ID, reason string, event nostr.ID) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	x, ok := m.fold.of(request)
	if !ok {
		return guild.Drop(guild.Unrequested, "an objection to no verdict of ours")
	}
	return m.c.Journal.Do(ctx, fact.JobSubject(x.Job), event.Hex(), func(tx *journal.Tx) error {
		now, _ := m.fold.of(request)
		if err := m.refuse(now, from, tx.Now()); err != nil {
			return err
		}
		tx.Append(fact.AttemptDisputed{Attempt: request, By: byProvider, Reason: clean(reason), Event: event})
		return nil
	})
}

// refuse returns the reason to ignore an objection, or nil.
func (m *Mail) refuse(x exchange, from nostr.PubKey, now time.Time) error {
	rules := m.c.Policy().Review
	switch {
	case x.Provider.PubKey != from:
		return guild.Drop(guild.Stranger, "%.8s objects to a verdict on somebody else", from.Hex())
	case x.Disputed, x.Objected:
		return guild.Drop(guild.Repeated, "the verdict on %.8s was objected to before", x.Attempt.Hex())
	case x.Recorded == 0:
		return guild.Drop(guild.Unrequested, "the verdict on %.8s is not recorded yet", x.Attempt.Hex())
	case now.UnixMilli()-x.At >= rules.Objection:
		return guild.Drop(guild.Late, "the verdict on %.8s is final since %s", x.Attempt.Hex(), m.until(x).UTC().Format(time.RFC3339))
	case m.fold.objections(from, now.UnixMilli()) >= rules.Disputes:
		return guild.Drop(guild.Flood, "%.8s has objected %d times in a day", from.Hex(), rules.Disputes)
	}
	return nil
}

// Dispute has a verdict judged again because the owner doubts it. Errors match ErrNoVerdict, ErrDisputed or ErrFinal.
func (m *Mail) Dispute(ctx context.Context, attempt nostr.ID, reason string) error {
	x, ok := m.fold.of(attempt)
	if !ok {
		return fmt.Errorf("dispute the verdict on %.8s: %w", attempt.Hex(), ErrNoVerdict)
	}
	return m.c.Journal.Do(ctx, fact.JobSubject(x.Job), "", func(tx *journal.Tx) error {
		var err error
		now, _ := m.fold.of(attempt)
		switch {
		case now.Disputed:
			err = ErrDisputed
		case now.Recorded == 0:
			err = ErrNoVerdict
		case tx.Now().UnixMilli()-now.At >= m.c.Policy().Review.Objection:
			err = ErrFinal // the change of trust can no longer be replaced
		}
		if err != nil {
			return fmt.Errorf("dispute the verdict on %.8s: %w", attempt.Hex(), err)
		}
		tx.Append(fact.AttemptDisputed{Attempt: attempt, By: byOwner, Reason: clean(reason)})
		return nil
	})
}

func clean(reason string) string { return guild.Cut(guild.Clean(reason), dm.MaxReason) }
