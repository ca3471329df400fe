package relayd

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxFilters = 16 // in one REQ or COUNT
	maxSubID   = 64 // characters (NIP-01)
)

// message is a message of a client: a JSON array that begins with a label.
type message struct {
	label string
	args  []jsontext.Value
}

// parseMessage reads the outer array. It refuses duplicate names and invalid UTF-8.
func parseMessage(b []byte) (message, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(b))
	if open, err := d.ReadToken(); err != nil || open.Kind() != '[' {
		return message{}, errors.New("not a JSON array")
	}
	label, err := d.ReadToken()
	if err != nil || label.Kind() != '"' {
		return message{}, errors.New("no label")
	}
	m := message{label: label.String()}
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return message{}, fmt.Errorf("not JSON: %w", err)
		}
		if len(m.args) > maxFilters {
			return message{}, errors.New("too many elements")
		}
		m.args = append(m.args, value.Clone())
	}
	return m, nil
}

// request is a REQ or a COUNT.
type request struct {
	id      string
	filters []nostr.Filter
}

// subID returns the first argument of REQ, COUNT and CLOSE.
func (m message) subID() (string, error) {
	if len(m.args) == 0 {
		return "", errors.New("no subscription id")
	}
	quoted, err := jsontext.AppendUnquote(nil, m.args[0])
	if n := utf8.RuneCount(quoted); err != nil || n == 0 || n > maxSubID {
		return "", fmt.Errorf("a subscription id is a string of 1 to %d characters", maxSubID)
	}
	return string(quoted), nil
}

func (m message) request() (request, error) {
	id, err := m.subID()
	if err != nil {
		return request{}, err
	}
	r := request{id: id}
	for _, raw := range m.args[1:] {
		filter, err := parseFilter(raw)
		if err != nil {
			return r, err
		}
		r.filters = append(r.filters, filter)
	}
	if len(r.filters) == 0 {
		return r, errors.New("invalid: no filter")
	}
	return r, nil
}

func parseEvent(m message) (nostr.Event, error) {
	var e nostr.Event
	if len(m.args) != 1 || m.args[0].Kind() != '{' {
		return e, errors.New("no event")
	}
	if err := e.UnmarshalJSON(m.args[0]); err != nil {
		return e, errors.New("malformed event")
	}
	return e, nil
}

// The messages of the relay (NIP-01, 42 and 45).

func sayOK(id nostr.ID, ok bool, reason string) []byte {
	b := append([]byte(`["OK","`), id.Hex()...)
	b = strconv.AppendBool(append(b, `",`...), ok)
	return append(quote(append(b, ','), reason), ']')
}

func sayEOSE(id string) []byte { return append(quote([]byte(`["EOSE",`), id), ']') }

func sayNotice(text string) []byte { return append(quote([]byte(`["NOTICE",`), text), ']') }

func sayChallenge(text string) []byte { return append(quote([]byte(`["AUTH",`), text), ']') }

func sayClosed(id, reason string) []byte {
	b := append(quote([]byte(`["CLOSED",`), id), ',')
	return append(quote(b, reason), ']')
}

func sayCount(id string, n int) []byte {
	b := append(quote([]byte(`["COUNT",`), id), `,{"count":`...)
	return append(strconv.AppendInt(b, int64(n), 10), `}]`...)
}

// eventPrefix returns the beginning of the EVENT messages of a subscription. The event and a bracket follow.
func eventPrefix(id string) []byte { return append(quote([]byte(`["EVENT",`), id), ',') }

func sayEvent(prefix, encoded []byte) []byte {
	b := make([]byte, 0, len(prefix)+len(encoded)+1)
	return append(append(append(b, prefix...), encoded...), ']')
}

// quote appends a JSON string. Invalid UTF-8 is replaced; AppendQuote reports it as an error all the same.
func quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
