package nip90

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
)

// Status is the state of a job in feedback.
type Status string

// Statuses of NIP-90. Other means any other word, which Feedback.RawStatus has.
const (
	PaymentRequired Status = "payment-required"
	Processing      Status = "processing"
	Partial         Status = "partial"
	Error           Status = "error"
	Success         Status = "success"
	Other           Status = "other"
)

// Feedback is a provider's message about a job before, or instead of, a result.
type Feedback struct {
	Request   nostr.ID     // the e tag; zero without one: see Correlate
	Customer  nostr.PubKey // the p tag; zero without one
	Status    Status
	RawStatus string     // the word as received; sent only for Other
	Text      string     // the status tag's extra information
	Amount    guild.Msat // price; 0 for nothing
	Invoice   string     // bolt11, for Amount
	Terms     string     // a payment request for ecash (NUT-18), in a cashu tag of guild's; "" for none
	Rates     *Rates     // the price by usage, of which Terms and Amount are the most; nil for a fixed price
	Content   string     // a partial result, or a longer text

	Extra     nostr.Tags // unknown tags, kept
	Encrypted string     // encryption as received: "", NIP44 or NIP04; Event and Sealed ignore it
}

// ParseFeedback reads feedback. open decrypts it if it is encrypted; with a nil open that is ErrEncrypted. The
// plaintext is a list of tags that includes the content, or only the content.
func ParseFeedback(e nostr.Event, open Opener) (Feedback, error) {
	f, err := parseFeedback(e, open)
	if err != nil {
		return Feedback{}, fmt.Errorf("feedback %.8s: %w", e.ID.Hex(), err)
	}
	return f, nil
}

func parseFeedback(e nostr.Event, open Opener) (Feedback, error) {
	if e.Kind != KindFeedback {
		return Feedback{}, fmt.Errorf("kind %d: %w", e.Kind, ErrKind)
	}
	w, err := unwrap(e, open)
	if err != nil {
		return Feedback{}, err
	}
	if w.encrypted != "" {
		// A plaintext that is not a list of tags is the content, also if it is a list of other values.
		tags, err := decodeTags(w.content)
		if err == nil && (tags.Has("status") || tags.Has("content")) {
			w.takeInner(tags)
		}
	}
	f := Feedback{Status: Other, Content: w.content, Encrypted: w.encrypted}
	// A later status or amount replaces an earlier one; encrypted tags come later.
	for _, tag := range slices.Concat(w.outer, w.inner) {
		if len(tag) == 0 || tag[0] == "encrypted" {
			continue
		}
		switch {
		case len(tag) >= 2 && takeReference(tag, &f.Request, &f.Customer):
		case len(tag) >= 2 && tag[0] == "status":
			f.Status, f.RawStatus, f.Text = parseStatus(tag)
		case len(tag) >= 2 && tag[0] == "amount":
			if f.Amount, f.Invoice, err = parseAmount(tag); err != nil {
				return Feedback{}, err
			}
		case len(tag) >= 2 && tag[0] == "cashu":
			f.Terms = tag[1]
		case tag[0] == ratesTag:
			if f.Rates, err = parseRates(tag); err != nil {
				return Feedback{}, err
			}
		default:
			f.Extra = append(f.Extra, tag)
		}
	}
	return f, nil
}

// parseStatus reads ["status", word, text]. Some programs put the text before the word.
func parseStatus(tag nostr.Tag) (status Status, raw, text string) {
	raw, text = tag[1], value(tag, 2)
	if status, ok := statusOf(raw); ok {
		return status, raw, text
	}
	if status, ok := statusOf(text); ok {
		return status, text, raw
	}
	return Other, raw, text
}

// statusOf parses a status of NIP-90, also with an underscore.
func statusOf(word string) (Status, bool) {
	s := Status(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(word)), "_", "-"))
	known := []Status{PaymentRequired, Processing, Partial, Error, Success}
	return s, slices.Contains(known, s)
}

// Busy reports whether f is an error that only means: try again later.
func (f Feedback) Busy() bool {
	if f.Status != Error {
		return false
	}
	said := strings.ToLower(f.Text + " " + f.Content)
	return slices.ContainsFunc([]string{"capacity", "overload", "busy"}, func(word string) bool {
		return strings.Contains(said, word)
	})
}

// Event returns the unsigned feedback in clear.
func (f Feedback) Event() nostr.Event {
	tags := slices.Concat(referenceTags(f.Request, f.Customer), f.statusTag(f.Text), amountTag(f.Amount, f.Invoice), f.termsTag(), f.Rates.tag(), f.Extra)
	return unsigned(int(KindFeedback), tags, f.Content)
}

// Sealed returns the unsigned feedback. It encrypts everything but the status word with seal.
func (f Feedback) Sealed(seal Sealer) (nostr.Event, error) {
	inner := slices.Concat(f.statusTag(f.Text), amountTag(f.Amount, f.Invoice), f.termsTag(), f.Rates.tag(), f.Extra)
	inner = append(inner, nostr.Tag{"content", f.Content})
	ciphertext, err := seal(encodeTags(cleanTags(inner)))
	if err != nil {
		return nostr.Event{}, fmt.Errorf("feedback: encrypt: %w", err)
	}
	outer := slices.Concat(referenceTags(f.Request, f.Customer), f.statusTag(""), nostr.Tags{{"encrypted"}})
	return unsigned(int(KindFeedback), outer, ciphertext), nil
}

func (f Feedback) termsTag() nostr.Tags {
	if f.Terms == "" {
		return nil
	}
	return nostr.Tags{{"cashu", f.Terms}}
}

func (f Feedback) statusTag(text string) nostr.Tags {
	word := string(f.Status)
	if f.Status == Other {
		word = cmp.Or(f.RawStatus, word)
	}
	tag := nostr.Tag{"status", word}
	if text != "" {
		tag = append(tag, text)
	}
	return nostr.Tags{tag}
}
