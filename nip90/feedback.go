package nip90

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
)

// Status is what feedback says about a job.
type Status string

// The statuses of NIP-90. Other stands for every other word; Feedback.RawStatus has it.
const (
	PaymentRequired Status = "payment-required"
	Processing      Status = "processing"
	Partial         Status = "partial"
	Error           Status = "error"
	Success         Status = "success"
	Other           Status = "other"
)

// Feedback is what a provider says about a job before, or instead of, a result.
type Feedback struct {
	Request   nostr.ID     // the e tag; zero if there is none: see Correlate
	Customer  nostr.PubKey // the p tag; zero if there is none
	Status    Status
	RawStatus string     // the word as received; sent only for Other
	Text      string     // the status tag's extra information
	Amount    guild.Msat // what the provider wants; 0 for nothing
	Invoice   string     // bolt11, for Amount
	Content   string     // a partial result, or a longer text

	Extra     nostr.Tags // tags that are not understood, kept
	Encrypted string     // how it came: "", NIP44 or NIP04; Event and Sealed do not look at it
}

// ParseFeedback reads feedback. If it is encrypted, open decrypts it; a nil open makes that ErrEncrypted. The
// plaintext is a list of tags with the content among them, or the content alone.
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
		w.openFeedback()
	}
	f := Feedback{Status: Other, Content: w.content, Encrypted: w.encrypted}
	for _, tag := range slices.Concat(w.outer, w.inner) {
		if err := f.take(tag); err != nil {
			return Feedback{}, err
		}
	}
	return f, nil
}

// openFeedback takes the tags out of a plaintext that is a list of them. Any other plaintext, a list of other
// things too, is the content.
func (w *wire) openFeedback() {
	tags, err := decodeTags(w.content)
	if err == nil && (tags.Has("status") || tags.Has("content")) {
		w.takeInner(tags)
	}
}

// take reads one tag. A later status or amount replaces an earlier one, and what is encrypted comes later.
func (f *Feedback) take(tag nostr.Tag) (err error) {
	if len(tag) == 0 || tag[0] == "encrypted" {
		return nil
	}
	switch {
	case len(tag) >= 2 && takeReference(tag, &f.Request, &f.Customer):
	case len(tag) >= 2 && tag[0] == "status":
		f.Status, f.RawStatus, f.Text = parseStatus(tag)
	case len(tag) >= 2 && tag[0] == "amount":
		f.Amount, f.Invoice, err = parseAmount(tag)
	default:
		f.Extra = append(f.Extra, tag)
	}
	return err
}

// parseStatus reads ["status", word, text]. Some put the text before the word.
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

// statusOf knows the words of NIP-90, also with an underscore.
func statusOf(word string) (Status, bool) {
	s := Status(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(word)), "_", "-"))
	known := []Status{PaymentRequired, Processing, Partial, Error, Success}
	return s, slices.Contains(known, s)
}

// Busy reports whether f is an error that means no more than: try again later.
func (f Feedback) Busy() bool {
	if f.Status != Error {
		return false
	}
	said := strings.ToLower(f.Text + " " + f.Content)
	return slices.ContainsFunc([]string{"capacity", "overload", "busy"}, func(word string) bool {
		return strings.Contains(said, word)
	})
}

// Event builds the unsigned feedback in clear.
func (f Feedback) Event() nostr.Event {
	tags := slices.Concat(referenceTags(f.Request, f.Customer), f.statusTag(f.Text), amountTag(f.Amount, f.Invoice), f.Extra)
	return unsigned(int(KindFeedback), tags, f.Content)
}

// Sealed builds the unsigned feedback with everything but the status word encrypted by seal.
func (f Feedback) Sealed(seal Sealer) (nostr.Event, error) {
	inner := slices.Concat(f.statusTag(f.Text), amountTag(f.Amount, f.Invoice), f.Extra)
	inner = append(inner, nostr.Tag{"content", f.Content})
	ciphertext, err := seal(encodeTags(cleanTags(inner)))
	if err != nil {
		return nostr.Event{}, fmt.Errorf("feedback: encrypt: %w", err)
	}
	outer := slices.Concat(referenceTags(f.Request, f.Customer), f.statusTag(""), nostr.Tags{{"encrypted"}})
	return unsigned(int(KindFeedback), outer, ciphertext), nil
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
