package nip90

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
)

// Request is a job request.
type Request struct {
	Kind     int           // 5000 to 5999
	Provider *nostr.PubKey // the first p tag; nil asks every reader
	Job      string        // the d tag: the customer's id of the job
	Inputs   []Input
	Params   []Param    // in the order of the event
	Output   string     // MIME type of the wanted result
	Bid      guild.Msat // the most that the customer pays; 0 for no bid
	Relays   []string   // relays for the answer
	Content  string     // free text

	Extra     nostr.Tags // unknown tags, kept
	Encrypted string     // encryption as received: "", NIP44 or NIP04; Event and Sealed ignore it
}

// Input is one i tag.
type Input struct {
	Data   string
	Type   string // url, event, job or text
	Relay  string // relay of an event or job
	Marker string // purpose of the input
}

// Param is one param tag.
type Param struct {
	Key    string
	Values []string
}

// isSecret reports whether a parameter may be sent only inside an encrypted request.
func isSecret(key string) bool { return key == ParamBundleKey || key == ParamVault }

// Format prints the parameter without its values if they are a key or credentials.
func (p Param) Format(s fmt.State, _ rune) {
	if isSecret(p.Key) {
		fmt.Fprintf(s, "{%s [secret]}", p.Key)
		return
	}
	fmt.Fprintf(s, "{%s %q}", p.Key, p.Values)
}

// ParseRequest reads a job request. open decrypts it if it is encrypted; with a nil open that is ErrEncrypted.
// Encrypted values take precedence over outer ones; relays are merged. A bundle key or a vault in clear is ErrSecret.
func ParseRequest(e nostr.Event, open Opener) (Request, error) {
	r, err := parseRequest(e, open)
	if err != nil {
		return Request{}, fmt.Errorf("request %.8s: %w", e.ID.Hex(), err)
	}
	return r, nil
}

func parseRequest(e nostr.Event, open Opener) (Request, error) {
	if !IsRequest(int(e.Kind)) {
		return Request{}, fmt.Errorf("kind %d: %w", e.Kind, ErrKind)
	}
	w, err := unwrap(e, open)
	if err != nil {
		return Request{}, err
	}
	// A secret in clear is public from the moment the event was published. Refuse the request, so that the customer
	// notices.
	for _, tag := range w.outer {
		if len(tag) > 1 && tag[0] == "param" && isSecret(tag[1]) {
			return Request{}, ErrSecret
		}
	}
	if w.encrypted != "" {
		tags, err := decodeTags(w.content)
		if err != nil {
			return Request{}, err
		}
		w.takeInner(tags)
	}
	r := Request{Kind: int(e.Kind), Content: w.content, Encrypted: w.encrypted}
	for _, tag := range slices.Concat(w.outer, w.inner) {
		if err := r.take(tag); err != nil {
			return Request{}, err
		}
	}
	return r, nil
}

// take reads one tag. A later bid or output replaces an earlier one; encrypted tags come later.
func (r *Request) take(tag nostr.Tag) error {
	if len(tag) == 0 || tag[0] == "encrypted" {
		return nil
	}
	if len(tag) == 1 {
		r.Extra = append(r.Extra, tag)
		return nil
	}
	switch tag[0] {
	case "p":
		p, ok := parsePubKey(tag[1])
		switch {
		case !ok:
			return fmt.Errorf("p tag %.80q: %w", tag[1], ErrMalformed)
		case r.Provider == nil:
			r.Provider = &p
		case *r.Provider != p:
			r.Extra = append(r.Extra, tag)
		}
	case "d":
		r.Job = cmp.Or(r.Job, tag[1])
	case "i":
		r.Inputs = append(r.Inputs, parseInput(tag))
	case "param":
		r.Params = append(r.Params, Param{Key: tag[1], Values: slices.Clone(tag[2:])})
	case "output":
		r.Output = mimeType(tag[1])
	case "bid":
		bid, err := parseMsat(tag[1])
		if err != nil {
			return fmt.Errorf("bid tag: %w", err)
		}
		r.Bid = bid
	case "relays":
		for _, url := range tag[1:] {
			url = strings.TrimSpace(url)
			if len(r.Relays) < MaxRelays && isRelayURL(url) && !slices.Contains(r.Relays, url) {
				r.Relays = append(r.Relays, url)
			}
		}
	default:
		r.Extra = append(r.Extra, tag)
	}
	return nil
}

// parseInput reads ["i", data, type, relay, marker]. An unknown type is read as text. If the relay value is not a
// relay it is the marker: some programs write ["i", data, "json", "spec"].
func parseInput(tag nostr.Tag) Input {
	in := Input{Data: tag[1], Type: value(tag, 2), Relay: value(tag, 3), Marker: value(tag, 4)}
	if !slices.Contains([]string{"url", "event", "job", "text"}, in.Type) {
		in.Type = "text"
	}
	if !isRelayURL(in.Relay) {
		in.Marker = cmp.Or(in.Marker, in.Relay)
		in.Relay = ""
	}
	return in
}

// mimeType expands abbreviations that some programs use for a MIME type.
func mimeType(s string) string {
	switch s {
	case "json":
		return "application/json"
	case "text", "txt":
		return "text/plain"
	case "markdown", "md":
		return "text/markdown"
	}
	return s
}

// Nudges returns the nudges (NIP-AE) that the customer asks for.
func (r Request) Nudges() (ids []nostr.ID) {
	for _, p := range r.Params {
		for _, text := range p.Values {
			if id, err := nostr.IDFromHex(text); err == nil && p.Key == ParamNudge {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Get returns the first value of a parameter, or "".
func (r Request) Get(key string) string {
	for _, p := range r.Params {
		if p.Key == key && len(p.Values) > 0 {
			return p.Values[0]
		}
	}
	return ""
}

// Set sets the values of a parameter and replaces earlier ones.
func (r *Request) Set(key string, values ...string) {
	r.Unset(key)
	r.Params = append(r.Params, Param{Key: key, Values: values})
}

// Unset removes a parameter.
func (r *Request) Unset(key string) {
	r.Params = slices.DeleteFunc(slices.Clone(r.Params), func(p Param) bool { return p.Key == key })
}

// Asks reports whether the request is for p: it names p, or no provider.
func (r Request) Asks(p nostr.PubKey) bool {
	return r.Provider == nil || *r.Provider == p || r.Extra.FindWithValue("p", p.Hex()) != nil
}

// Deadline returns the time at which the customer stops waiting, or the zero time if none is stated.
func (r Request) Deadline() time.Time {
	seconds, err := strconv.ParseInt(r.Get(ParamDeadline), 10, 64)
	if err != nil || seconds <= 0 || seconds > 1<<40 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// TimeLimit returns the time limit of the judged run, or 0 if none is stated.
func (r Request) TimeLimit() time.Duration {
	seconds, err := strconv.ParseUint(r.Get(ParamTimeLimit), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Event returns the unsigned request in clear. For a request with a bundle key or a vault it returns ErrSecret: use
// Sealed.
func (r Request) Event() (nostr.Event, error) {
	if err := r.check(); err != nil {
		return nostr.Event{}, err
	}
	if r.Get(ParamBundleKey) != "" || slices.ContainsFunc(r.Params, Param.isVault) {
		return nostr.Event{}, fmt.Errorf("request of kind %d: %w", r.Kind, ErrSecret)
	}
	tags := slices.Concat(r.address(), r.work(), r.bid(), r.relays(), r.Extra)
	return unsigned(r.Kind, tags, r.Content), nil
}

// Sealed returns the unsigned request. It encrypts everything about the work with seal. The bid and the relays are
// also written in clear, because some providers read only one of the two.
func (r Request) Sealed(seal Sealer) (nostr.Event, error) {
	if err := r.check(); err != nil {
		return nostr.Event{}, err
	}
	inner := slices.Concat(r.work(), r.bid(), r.relays(), r.extra(false))
	if r.Content != "" {
		inner = append(inner, nostr.Tag{"content", r.Content})
	}
	ciphertext, err := seal(encodeTags(cleanTags(inner)))
	if err != nil {
		return nostr.Event{}, fmt.Errorf("request of kind %d: encrypt: %w", r.Kind, err)
	}
	outer := slices.Concat(r.address(), nostr.Tags{{"encrypted"}}, r.bid(), r.relays(), r.extra(true))
	return unsigned(r.Kind, outer, ciphertext), nil
}

func (r Request) check() error {
	if !IsRequest(r.Kind) {
		return fmt.Errorf("request of kind %d: %w", r.Kind, ErrKind)
	}
	if r.Bid < 0 {
		return fmt.Errorf("request of kind %d: bid of %s: %w", r.Kind, r.Bid, ErrMalformed)
	}
	return nil
}

func (r Request) address() (tags nostr.Tags) {
	if r.Provider != nil {
		tags = append(tags, nostr.Tag{"p", r.Provider.Hex()})
	}
	if r.Job != "" {
		tags = append(tags, nostr.Tag{"d", r.Job})
	}
	return tags
}

// work returns the tags that describe the job. An encrypted request hides them.
func (r Request) work() (tags nostr.Tags) {
	for _, in := range r.Inputs {
		tag := nostr.Tag{"i", in.Data, cmp.Or(in.Type, "text")}
		if isRelayURL(in.Relay) {
			tag = append(tag, in.Relay)
		} else if in.Marker != "" {
			tag = append(tag, "")
		}
		if in.Marker != "" {
			tag = append(tag, in.Marker)
		}
		tags = append(tags, tag)
	}
	for _, p := range r.sortedParams() {
		tags = append(tags, append(nostr.Tag{"param", p.Key}, p.Values...))
	}
	if r.Output != "" {
		tags = append(tags, nostr.Tag{"output", r.Output})
	}
	return tags
}

func (r Request) sortedParams() []Param {
	return slices.SortedStableFunc(slices.Values(r.Params), func(a, b Param) int { return cmp.Compare(a.Key, b.Key) })
}

func (r Request) bid() nostr.Tags {
	if r.Bid == 0 {
		return nil
	}
	return nostr.Tags{{"bid", strconv.FormatInt(int64(r.Bid), 10)}}
}

func (r Request) relays() nostr.Tags {
	if len(r.Relays) == 0 {
		return nil
	}
	return nostr.Tags{append(nostr.Tag{"relays"}, r.Relays...)}
}

// extra returns the tags of Extra that relays act on, or the others.
func (r Request) extra(forRelays bool) (tags nostr.Tags) {
	for _, tag := range r.Extra {
		if len(tag) > 0 && slices.Contains([]string{"p", "expiration", "-", "nonce"}, tag[0]) == forRelays {
			tags = append(tags, tag)
		}
	}
	return tags
}

// transport has the parameters that describe the transport of a job, not its work.
var transport = []string{
	ParamJobType, ParamJobHash, ParamBundleSHA256, ParamBundleSize, ParamBundleKey, ParamVault, ParamVaultSHA256, ParamDeadline,
	ParamIdempotencyKey, ParamSolicitation,
}

// JobHash returns the hash that identifies the work of a bundle job: the canonical hash of
//
//	{"bundle_sha256":<hex>,"job_type":<task>,"params":[[<key>,<value>,…],…]}
//
// where params are the other parameters, sorted by key. Parameters of the transport are excluded (job_hash,
// bundle_size, bundle_key, vault, vault_sha256, deadline, idempotency_key, solicitation), so that the same work has
// the same hash however it is sent.
func (r Request) JobHash() (guild.Hash, error) {
	params := [][]string{}
	for _, p := range r.sortedParams() {
		if !slices.Contains(transport, p.Key) {
			params = append(params, append([]string{guild.Clean(p.Key)}, cleanTags(nostr.Tags{p.Values})[0]...))
		}
	}
	h, err := canon.HashValue(map[string]any{
		"job_type":      guild.Clean(r.Get(ParamJobType)),
		"bundle_sha256": strings.ToLower(r.Get(ParamBundleSHA256)),
		"params":        params,
	})
	if err != nil {
		return guild.Hash{}, fmt.Errorf("job hash: %w", err)
	}
	return h, nil
}
