package relayd

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json/jsontext"
)

// parseFilter reads a filter of NIP-01. It is strict. The library drops parts that it cannot read, so the filter would match
// events that the client did not ask for. A null counts as absent.
func parseFilter(raw jsontext.Value) (nostr.Filter, error) {
	var fields map[string]json.RawMessage
	if raw.Kind() != '{' || json.Unmarshal(raw, &fields) != nil {
		return nostr.Filter{}, errors.New("invalid: a filter is an object")
	}
	var f nostr.Filter
	for name, value := range fields {
		if string(value) == "null" {
			continue
		}
		if err := setField(&f, name, value); err != nil {
			return nostr.Filter{}, err
		}
	}
	if size := sizeOf(f); size > maxPrefixes {
		return nostr.Filter{}, fmt.Errorf("invalid: more than %d values in a filter", maxPrefixes)
	}
	return f, nil
}

func setField(f *nostr.Filter, name string, value json.RawMessage) (err error) {
	switch name {
	case "ids":
		f.IDs, err = parseHexes[nostr.ID](value)
	case "authors":
		f.Authors, err = parseHexes[nostr.PubKey](value)
	case "kinds":
		err = json.Unmarshal(value, &f.Kinds)
	case "since":
		err = json.Unmarshal(value, &f.Since)
	case "until":
		err = json.Unmarshal(value, &f.Until)
		if f.Until == 0 {
			f.Until = -1 // matches no event; 0 would mean any time
		}
	case "limit":
		err = json.Unmarshal(value, &f.Limit)
		f.LimitZero = f.Limit == 0
	default:
		return setTag(f, name, value)
	}
	if err != nil {
		return fmt.Errorf("invalid: %s in a filter", name)
	}
	return nil
}

// setTag reads a condition on a tag. Only tags of one letter are indexed.
func setTag(f *nostr.Filter, name string, value json.RawMessage) error {
	letter, isTag := strings.CutPrefix(name, "#")
	if !isTag || len(letter) != 1 || !isLetter(letter[0]) {
		return fmt.Errorf("unsupported: %.20q in a filter", name)
	}
	var values []string
	if json.Unmarshal(value, &values) != nil {
		return fmt.Errorf("invalid: %s in a filter", name)
	}
	if f.Tags == nil {
		f.Tags = make(nostr.TagMap)
	}
	f.Tags[letter] = values
	return nil
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// parseHexes reads a list of strings of 64 lower-case hex digits. The list is not nil: an empty one matches no event.
func parseHexes[T ~[32]byte](raw json.RawMessage) ([]T, error) {
	var texts []string
	if err := json.Unmarshal(raw, &texts); err != nil {
		return nil, err
	}
	list := make([]T, len(texts))
	for i, text := range texts {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != len(list[i]) || strings.ToLower(text) != text {
			return nil, errors.New("not 64 lower-case hex digits")
		}
		list[i] = T(b)
	}
	return list, nil
}

func sizeOf(f nostr.Filter) int {
	size := len(f.IDs) + len(f.Authors) + len(f.Kinds)
	for _, values := range f.Tags {
		size += len(values)
	}
	return size
}
