package oa

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/nip90"
)

// ParseRequest reads a typed job from a request of NIP-90: the job type from the parameter job_type, the payload from
// the first input of type text without a marker. That input can also be an envelope. The parameter job_hash, if any,
// must be the payload's job hash. The payload itself is not checked: see Decode and Schema.Check.
func ParseRequest(r nip90.Request) (Envelope, error) {
	id, err := ParseID(r.Get(nip90.ParamJobType))
	if err != nil {
		return Envelope{}, fmt.Errorf("parameter job_type: %w", err)
	}
	i := 0
	for ; i < len(r.Inputs) && (r.Inputs[i].Type != "text" || r.Inputs[i].Marker != ""); i++ {
	}
	if i == len(r.Inputs) {
		return Envelope{}, fmt.Errorf("request for %s: no input of type text has the payload", id)
	}
	e, err := DecodeAs(id.String(), []byte(r.Inputs[i].Data))
	if err != nil {
		return Envelope{}, fmt.Errorf("request for %s: input: %w", id, err)
	}
	said := r.Get(nip90.ParamJobHash)
	if said == "" {
		return e, nil
	}
	hash, err := guild.ParseHash(said)
	if err != nil {
		return Envelope{}, fmt.Errorf("parameter job_hash: %w", err)
	}
	if err := e.settle(hash); err != nil {
		return Envelope{}, fmt.Errorf("request for %s: parameter job_hash: %w", id, err)
	}
	return e, nil
}

// AddTo writes the typed job into a request of NIP-90: its input, its parameters, and its kind if that is 0.
func (e Envelope) AddTo(r *nip90.Request) {
	if r.Kind == 0 {
		r.Kind = e.JobType.Kind()
	}
	r.Inputs = append(r.Inputs, nip90.Input{Data: Text(e.Payload), Type: "text"})
	r.Set(nip90.ParamJobType, e.JobType.String())
	r.Set(nip90.ParamJobHash, e.JobHash.Hex())
	r.Output = "application/json"
}

// ParseResult reads a result of NIP-90, whose content is the payload, and returns its canonical form. A payload that
// does not fit the description is Faults.
func (s Schema) ParseResult(r nip90.Result) (jsontext.Value, error) {
	payload, err := canonicalPayload([]byte(r.Content))
	if err != nil {
		return nil, fmt.Errorf("result of %s: content: %w", s.ID, err)
	}
	return payload, s.Check(Outputs, payload)
}

// Text returns a payload as it is put into an event or printed: JSON with the same canonical form. It escapes control
// characters, because events lose them and programs spell them differently, which would change the hash. It also
// escapes characters that change the direction of text.
func Text(payload []byte) string {
	s := string(payload)
	if !strings.ContainsFunc(s, isSpelled) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 0x7F && isSpelled(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case unicode.IsControl(r):
			b.WriteByte(' ') // between tokens; inside strings JSON escapes it
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isSpelled reports whether Text escapes or replaces a character.
func isSpelled(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
