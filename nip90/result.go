package nip90

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
)

// Result is a job result.
type Result struct {
	Kind        int          // 6000 to 6999
	Request     nostr.ID     // the e tag; zero without one: see Correlate
	Customer    nostr.PubKey // the p tag; zero without one
	Amount      guild.Msat   // price; 0 for nothing
	Invoice     string       // bolt11, for Amount
	Content     string       // the result itself
	Status      string       // status tag; some programs write "success"
	RequestJSON string       // the request tag: the request event as JSON, unchecked
	Behaviour   guild.Hash   // the behaviour tag: the agent's behaviour that did the work, as the provider claims; zero without one
	LeftOut     int          // the nudges_left_out tag: how many of the request's nudges the provider's agent did not work by

	Trajectory     guild.Hash // the trajectory_hash tag: canonical hash of the worker's trajectory (package replay); zero without one
	SessionReceipt guild.Hash // the receipt_hash tag: hash of the session receipt that the provider keeps (package replay/session); zero without one

	Usage *Usage // the usage tag: what the work took, as the provider claims; nil without one

	Extra     nostr.Tags // unknown tags, kept
	Encrypted string     // encryption as received: "", NIP44 or NIP04; Event and Sealed ignore it
}

// ParseResult reads a job result. open decrypts the content if it is encrypted; with a nil open that is ErrEncrypted.
func ParseResult(e nostr.Event, open Opener) (Result, error) {
	r, err := parseResult(e, open)
	if err != nil {
		return Result{}, fmt.Errorf("result %.8s: %w", e.ID.Hex(), err)
	}
	return r, nil
}

func parseResult(e nostr.Event, open Opener) (Result, error) {
	if !IsResult(int(e.Kind)) {
		return Result{}, fmt.Errorf("kind %d: %w", e.Kind, ErrKind)
	}
	w, err := unwrap(e, open)
	if err != nil {
		return Result{}, err
	}
	r := Result{Kind: int(e.Kind), Content: w.content, Encrypted: w.encrypted}
	for _, tag := range w.outer {
		if len(tag) == 0 || tag[0] == "encrypted" {
			continue
		}
		switch {
		case len(tag) >= 2 && takeReference(tag, &r.Request, &r.Customer):
		case len(tag) >= 2 && tag[0] == "request":
			r.RequestJSON = tag[1]
		case len(tag) >= 2 && tag[0] == "status":
			r.Status = tag[1]
		case len(tag) >= 2 && r.takeHash(tag):
		case len(tag) >= 2 && takeLeftOut(tag, &r.LeftOut):
		case takeUsage(tag, &r.Usage):
		case len(tag) >= 2 && tag[0] == "amount":
			if r.Amount, r.Invoice, err = parseAmount(tag); err != nil {
				return Result{}, err
			}
		default:
			r.Extra = append(r.Extra, tag)
		}
	}
	return r, nil
}

// takeReference reads the first valid e tag and the first valid p tag, and reports whether tag was one of them.
func takeReference(tag nostr.Tag, request *nostr.ID, customer *nostr.PubKey) bool {
	switch tag[0] {
	case "e":
		id, ok := parseID(tag[1])
		return ok && setOnce(request, id)
	case "p":
		p, ok := parsePubKey(tag[1])
		return ok && setOnce(customer, p)
	}
	return false
}

// hashes returns the fields that are tags with a hash, by the names of the tags.
func (r *Result) hashes() []hashField {
	return []hashField{{"behaviour", &r.Behaviour}, {"trajectory_hash", &r.Trajectory}, {"receipt_hash", &r.SessionReceipt}}
}

type hashField struct {
	tag   string
	field *guild.Hash
}

// takeHash reads the first valid tag of each name that hashes lists, and reports whether tag was one of them.
func (r *Result) takeHash(tag nostr.Tag) bool {
	h, err := guild.ParseHash(tag[1])
	if err != nil || h.IsZero() || h.String() != tag[1] {
		return false
	}
	for _, f := range r.hashes() {
		if f.tag == tag[0] {
			return setOnce(f.field, h)
		}
	}
	return false
}

const (
	leftOutTag = "nudges_left_out"
	maxLeftOut = 1000
)

// takeLeftOut reads the first valid tag about left out nudges, and reports whether tag was it.
func takeLeftOut(tag nostr.Tag, left *int) bool {
	n, err := strconv.Atoi(tag[1])
	return tag[0] == leftOutTag && err == nil && n > 0 && n <= maxLeftOut && strconv.Itoa(n) == tag[1] && setOnce(left, n)
}

// setOnce sets a zero field and reports whether the field has the value v now.
func setOnce[T comparable](field *T, v T) bool {
	var zero T
	if *field == zero {
		*field = v
	}
	return *field == v
}

func referenceTags(request nostr.ID, customer nostr.PubKey) (tags nostr.Tags) {
	if request != (nostr.ID{}) {
		tags = append(tags, nostr.Tag{"e", request.Hex()})
	}
	if customer != (nostr.PubKey{}) {
		tags = append(tags, nostr.Tag{"p", customer.Hex()})
	}
	return tags
}

// Event returns the unsigned result in clear. For a delivery with a key it returns ErrSecret: use Sealed.
func (r Result) Event() (nostr.Event, error) {
	if !IsResult(r.Kind) {
		return nostr.Event{}, fmt.Errorf("result of kind %d: %w", r.Kind, ErrKind)
	}
	if holdsKey(r.Content) {
		return nostr.Event{}, fmt.Errorf("result of kind %d: %w", r.Kind, ErrSecret)
	}
	tags := referenceTags(r.Request, r.Customer)
	if r.RequestJSON != "" {
		tags = append(tags, nostr.Tag{"request", r.RequestJSON})
	}
	tags = slices.Concat(tags, amountTag(r.Amount, r.Invoice))
	if r.Status != "" {
		tags = append(tags, nostr.Tag{"status", r.Status})
	}
	return unsigned(r.Kind, slices.Concat(tags, r.agentTags(), r.Extra), r.Content), nil
}

// agentTags returns the tags about the work of the provider's agent.
func (r *Result) agentTags() (tags nostr.Tags) {
	for _, f := range r.hashes() {
		if !f.field.IsZero() {
			tags = append(tags, nostr.Tag{f.tag, f.field.String()})
		}
	}
	if r.LeftOut > 0 {
		tags = append(tags, nostr.Tag{leftOutTag, strconv.Itoa(min(r.LeftOut, maxLeftOut))})
	}
	return append(tags, r.Usage.tag()...)
}

// Sealed returns the unsigned result. It encrypts the content with seal; only the references, the price, the hashes, the
// number of left out nudges and the usage are in clear.
func (r Result) Sealed(seal Sealer) (nostr.Event, error) {
	if !IsResult(r.Kind) {
		return nostr.Event{}, fmt.Errorf("result of kind %d: %w", r.Kind, ErrKind)
	}
	ciphertext, err := seal(guild.Clean(r.Content))
	if err != nil {
		return nostr.Event{}, fmt.Errorf("result of kind %d: encrypt: %w", r.Kind, err)
	}
	tags := slices.Concat(referenceTags(r.Request, r.Customer), nostr.Tags{{"encrypted"}}, amountTag(r.Amount, r.Invoice), r.agentTags())
	return unsigned(r.Kind, tags, ciphertext), nil
}

// Reference has the references of a result or feedback to its request, the most reliable first. An absent one is zero.
// An answer is valid only if its author was asked, whatever reference matches.
type Reference struct {
	Request   nostr.ID     // the e tag
	Customer  nostr.PubKey // the p tag: with the provider and the time it can identify the request
	Mentioned nostr.ID     // a request id in the request tag or in a JSON content
}

// Correlate returns the clear references of a result or feedback.
func Correlate(e nostr.Event) Reference {
	var ref Reference
	if checkSize(e) != nil {
		return ref
	}
	for _, tag := range e.Tags {
		if len(tag) >= 2 {
			takeReference(tag, &ref.Request, &ref.Customer)
		}
	}
	if tag := e.Tags.Find("request"); tag != nil {
		ref.Mentioned = mentioned(tag[1], "id")
	}
	if ref.Mentioned == (nostr.ID{}) {
		ref.Mentioned = mentioned(e.Content, "request_id", "request_event", "request")
	}
	return ref
}

// CorrelateInside returns the encrypted references of a result or feedback. If it cannot be decrypted, all are zero.
func CorrelateInside(e nostr.Event, open Opener) Reference {
	w, err := unwrap(e, open)
	if err != nil || w.encrypted == "" {
		return Reference{}
	}
	if tags, err := decodeTags(w.content); err == nil {
		w.takeInner(tags)
	}
	return Correlate(nostr.Event{Kind: e.Kind, Tags: w.inner, Content: w.content})
}

// mentioned returns the event id under the first key that has one, in a JSON object.
func mentioned(text string, keys ...string) nostr.ID {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil {
		return nostr.ID{}
	}
	for _, key := range keys {
		if id, ok := parseID(textOf(fields[key])); ok {
			return id
		}
	}
	return nostr.ID{}
}
