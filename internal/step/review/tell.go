package review

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// Mail is the part of the step that exchanges private messages with providers: it tells them the verdicts on their
// deliveries and handles their objections.
type Mail struct {
	c    Config
	fold *Letters
	turn sync.Mutex // held while an objection is checked, so that two at once cannot both pass a provider's limit
}

// NewMail returns the step on its fold. Of c it uses Journal, Keyer, PubKey, Policy, Relays, Offer, Publish,
// Letterbox and Quiet.
func NewMail(c Config, f *Letters) *Mail { return &Mail{c: c, fold: f} }

// Due lists the verdicts to send to providers. It implements due.Source.
func (m *Mail) Due(now time.Time) (work []due.Work) {
	if m.c.Quiet {
		return nil
	}
	for _, x := range m.fold.owed() {
		if x.Provider.PubKey != m.c.PubKey && now.UnixMilli()-x.Kept < young { // later it is of no use
			work = append(work, m.tell(x))
		}
	}
	return work
}

// tell sends a provider the verdict on its delivery. The message contains facts only, and its date is that of the
// record. Sent again after a crash it has the same id, so that the provider sees it once.
func (m *Mail) tell(x exchange) due.Work {
	told := func(given string) func(*journal.Tx) error {
		return func(tx *journal.Tx) error {
			if content, err := m.content(x); err == nil && m.fold.owes(x) {
				id := dm.ID(m.c.PubKey, x.Provider.PubKey, content, x.said())
				tx.Append(fact.AttemptTold{Attempt: x.Attempt, Message: id, Given: guild.Cut(given, 500)})
			}
			return nil
		}
	}
	return due.Work{
		Key: x.telling(), Guard: fact.JobSubject(x.Job), Tries: 8, Lease: 2 * time.Minute,
		Act: func(ctx context.Context) (due.Decision, error) {
			if err := m.send(ctx, x); err != nil {
				return nil, fmt.Errorf("tell %.8s of the verdict on %.8s: %w", x.Provider.PubKey.Hex(), x.Attempt.Hex(), err)
			}
			return told(""), nil
		},
		Park: func(tx *journal.Tx, reason string) { _ = told(reason)(tx) }, // it returns no error
	}
}

// send publishes the gift wrap (NIP-59) of a verdict. The wrap differs at each try, but the message in it does not.
func (m *Mail) send(ctx context.Context, x exchange) error {
	content, err := m.content(x)
	if err != nil {
		return err
	}
	wrap, _, err := dm.Wrap(ctx, m.c.Keyer, m.c.PubKey, x.Provider.PubKey, content, x.said())
	if err != nil {
		return err
	}
	v, err := guild.Verify(wrap)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.c.Publish(ctx, v, m.relays(ctx, x.Provider))
}

// relays returns the relays at which a provider reads private messages. If they are unknown, it returns those of the
// provider's announcement and this node's.
func (m *Mail) relays(ctx context.Context, s guild.Service) (urls []string) {
	if m.c.Letterbox != nil {
		if urls = m.c.Letterbox(ctx, s.PubKey); len(urls) > 0 {
			return urls
		}
	}
	offer, _ := m.c.Offer(s)
	for _, url := range slices.Concat(offer.Relays, m.c.Relays()) {
		if !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	return urls
}

// telling returns the key of the effect. Each record of an attempt is told once.
func (x exchange) telling() string {
	if x.Round <= 1 {
		return "tell " + x.Attempt.Hex()
	}
	return fmt.Sprintf("tell %s, for the %d. time", x.Attempt.Hex(), x.Round)
}

// said returns the date of the message.
func (x exchange) said() time.Time { return time.UnixMilli(x.Recorded) }

// until returns when the latest verdict becomes final, or zero if it is final.
func (m *Mail) until(x exchange) time.Time {
	if x.Objected {
		return time.Time{}
	}
	return time.UnixMilli(x.At + m.c.Policy().Review.Objection)
}

// content returns the message to the provider.
func (m *Mail) content(x exchange) (dm.Message, error) {
	v := dm.Verdict{
		Request: x.Attempt, Task: x.Task, Outcome: x.Outcome, Score: x.Score, Passed: x.Passed, Expected: x.Expected, Cause: x.Cause,
		Verdict: x.Verdict, Receipt: x.Receipt, Stored: x.Stored, Text: x.sentence(m.until(x)),
	}
	if until := m.until(x); !until.IsZero() {
		v.Until = until.Unix()
	}
	content, err := v.Encode()
	return dm.Message{Content: content, Subject: fmt.Sprintf("Verdict on request %.8s", x.Attempt.Hex())}, err
}

// sentence tells a person the verdict and until when it can be contested.
func (x exchange) sentence(until time.Time) string {
	found := fmt.Sprintf("%s, with the score %s", x.Outcome, x.Score)
	if x.Cause != "" {
		found += ": " + x.Cause
	}
	what := fmt.Sprintf("Your delivery for request %.8s (%s) was judged", x.Attempt.Hex(), guild.Cut(x.Task, 80))
	switch {
	case x.Failed:
		return fmt.Sprintf("%s %s. It could not be judged again, so this verdict stands.", what, found)
	case until.IsZero():
		return fmt.Sprintf("%s again: %s. This verdict is final.", what, found)
	}
	return fmt.Sprintf("%s %s. If you think that this is wrong, answer this message with your reason before %s: then it is judged again, once.",
		what, found, until.UTC().Format("2006-01-02 15:04 MST"))
}

// publicCause tells the provider why its delivery was not accepted, in fixed words. The cause in a verdict must not be
// sent: it names tests, which may be hidden from providers, and may repeat output of the judged code.
func publicCause(v guild.Verdict) string {
	switch {
	case v.Outcome == guild.Success:
		return ""
	case v.Ruling != nil:
		return "a person has ruled so"
	case v.Outcome == guild.Violation:
		return "it tried to do what the sandbox forbids"
	case v.Outcome == guild.Error:
		return "it crashed or ran over a limit"
	case v.Expected == 0:
		return "nothing in it could be tested"
	case v.Passed == v.Expected:
		return "" // it failed something other than a test
	}
	return fmt.Sprintf("%d of %d tests did not pass", v.Expected-v.Passed, v.Expected)
}
