package fact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A member of a fact that holds somebody's words has the tag private. Its value "all" marks the whole member; otherwise it lists
// the members within it that are private, as in `private:"content,tags"` of an event. No fold may compute from a private
// member anything that it keeps when the job is shredded: a replay after that finds the zero value.
//
// Private members of facts about a job are stored encrypted: see Entry.Seal.

// IsSealed reports whether the private members of facts under the subject are stored encrypted: those about a job of ours.
func (s Subject) IsSealed() bool { return s.Noun() == "job" }

// Seal returns the stored form of the entry, like Encode, but with the private members of its facts encrypted. They are removed from
// the facts, and encrypt gets all of them as one list of JSON values, with null for a fact without any. If no fact has one,
// encrypt is not called and the form is that of Encode.
func (e Entry) Seal(encrypt func(private []byte) ([]byte, error)) ([]byte, error) {
	open, private, err := e.divide()
	if err != nil {
		return nil, err
	}
	if private == nil {
		return e.encode(open)
	}
	e.V = sealedVersion
	if e.Sealed, err = encrypt(joined(private)); err != nil {
		return nil, err
	}
	return e.encode(open)
}

// joined returns JSON values as a list, with null for one that is nil.
func joined(values []json.RawMessage) []byte {
	list := []byte{'['}
	for i, v := range values {
		if i > 0 {
			list = append(list, ',')
		}
		if v == nil {
			v = json.RawMessage("null")
		}
		list = append(list, v...)
	}
	return append(list, ']')
}

// Exposed reports whether the entry was stored with private members that are not encrypted: an older program wrote it.
func (e Entry) Exposed() (bool, error) {
	if e.Sealed != nil {
		return false, nil
	}
	_, private, err := e.divide()
	return private != nil, err
}

// divide returns the encoded facts without their private members, and those members, which are nil if no fact has one.
func (e Entry) divide() (open, private []json.RawMessage, err error) {
	open, private = make([]json.RawMessage, len(e.Facts)), make([]json.RawMessage, len(e.Facts))
	found := false
	for i, f := range e.Facts {
		body, err := json.Marshal(f)
		if err != nil {
			return nil, nil, fmt.Errorf("fact %s: %w", f.Type(), err)
		}
		open[i] = body
		if names := readers[f.Type()].private; names != nil {
			if open[i], private[i], err = split(body, names); err != nil {
				return nil, nil, fmt.Errorf("fact %s: %w", f.Type(), err)
			}
		}
		found = found || private[i] != nil
	}
	if !found {
		private = nil
	}
	return open, private, nil
}

// Decode decodes a stored entry. decrypt gets what Seal encrypted, and returns it; or nil if its key was erased, and then the
// private members are zero. If decrypt itself is nil, they are zero in every entry that Seal has encrypted.
func Decode(stored []byte, decrypt func(sealed []byte) ([]byte, error)) (Entry, error) {
	type plain Entry
	var wire struct {
		plain
		Facts []json.RawMessage `json:"facts"`
	}
	if err := json.Unmarshal(stored, &wire); err != nil {
		return Entry{}, fmt.Errorf("entry: %w", err)
	}
	if wire.V != Version && wire.V != sealedVersion {
		return Entry{}, fmt.Errorf("entry: format %d, this program reads %d: %w", wire.V, sealedVersion, ErrUnknown)
	}
	e := Entry(wire.plain)
	e.V, e.Facts = Version, make([]Fact, len(wire.Facts))
	private := make([]json.RawMessage, len(wire.Facts))
	if e.Sealed != nil && decrypt != nil {
		if err := unseal(private, e.Sealed, decrypt); err != nil {
			return Entry{}, fmt.Errorf("entry: %w", err)
		}
	}
	for i, raw := range wire.Facts {
		f, err := decode(raw, private[i])
		if err != nil {
			return Entry{}, fmt.Errorf("entry: %w", err)
		}
		e.Facts[i] = f
	}
	return e, nil
}

// unseal decrypts the private members of each fact.
func unseal(private []json.RawMessage, sealed []byte, decrypt func([]byte) ([]byte, error)) error {
	list, err := decrypt(sealed)
	if err != nil || list == nil {
		return err
	}
	var found []json.RawMessage
	if err := json.Unmarshal(list, &found); err != nil {
		return err
	}
	if len(found) != len(private) {
		return fmt.Errorf("private members of %d facts, and there are %d", len(found), len(private))
	}
	copy(private, found)
	return nil
}

// whole puts private members back into an encoded fact of the type. If they are whole members of it, they are only appended, which
// is much cheaper than merge.
func (of entryReader) whole(raw, private json.RawMessage) (json.RawMessage, error) {
	private = bytes.TrimSpace(private)
	if isEmpty(private) {
		return raw, nil
	}
	for _, within := range of.private {
		if within != nil {
			return merge(raw, private)
		}
	}
	end := bytes.LastIndexByte(raw, '}')
	if private[0] != '{' || end < 0 {
		return nil, errors.New("private members that are no object")
	}
	return slices.Concat(raw[:end], []byte{','}, private[1:]), nil
}

// members names private members, each with those within it, which are nil if all of it is private.
type members map[string]members

// membersOf returns the private members of a type of fact by their JSON names. It returns nil for a type without any.
func membersOf(t reflect.Type) (private members) {
	for field := range fieldsOf(t) {
		tag, ok := field.Tag.Lookup("private")
		if !ok {
			continue
		}
		if private == nil {
			private = members{}
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		private[name] = parseMembers(tag)
	}
	return private
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// parseMembers parses the value of a tag: "all", or paths such as "cause,ruling.note".
func parseMembers(tag string) members {
	if tag == "all" {
		return nil
	}
	within := members{}
	for path := range strings.SplitSeq(tag, ",") {
		at := within
		names := strings.Split(path, ".")
		for i, name := range names {
			if i == len(names)-1 {
				at[name] = nil
				break
			}
			if at[name] == nil {
				at[name] = members{}
			}
			at = at[name]
		}
	}
	return within
}

// split divides a JSON value into the part without the private members, and the part with only them, which is nil if there are
// none. An object is divided by its names, and a list by its elements. Empty members stay.
func split(value json.RawMessage, names members) (open, private json.RawMessage, err error) {
	switch {
	case isEmpty(value):
		return value, nil, nil
	case names == nil:
		return nil, value, nil
	case value[0] == '[':
		return splitList(value, names)
	case value[0] != '{':
		return value, nil, nil
	}
	return splitObject(value, names)
}

// splitObject passes the members on as they are written. Decisions on a job wait for it, so it reads the text, which json.Marshal
// has made, only once.
func splitObject(value json.RawMessage, names members) (open, private json.RawMessage, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, err
	}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, nil, err
		}
		name := token.String()
		member, err := d.ReadValue()
		if err != nil {
			return nil, nil, err
		}
		rest, cut := json.RawMessage(member), json.RawMessage(nil)
		if within, ok := names[name]; ok {
			if rest, cut, err = split(rest, within); err != nil {
				return nil, nil, err
			}
		}
		open, private = appendMember(open, name, rest), appendMember(private, name, cut)
	}
	if private == nil {
		return value, nil, nil
	}
	if open == nil {
		open = json.RawMessage{'{'}
	}
	return append(open, '}'), append(private, '}'), nil
}

// appendMember adds a member, unless it is nil, to an object without its end. The first one begins the object.
func appendMember(object json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	if value == nil {
		return object
	}
	object = append(object, "{,"[min(len(object), 1)])
	object, _ = jsontext.AppendQuote(object, name) // fails only for invalid UTF-8, which no name of a fact has
	return append(append(object, ':'), value...)
}

func splitList(value json.RawMessage, names members) (open, private json.RawMessage, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(value, &list); err != nil {
		return nil, nil, err
	}
	hidden, found := make([]json.RawMessage, len(list)), false
	for i := range list {
		if list[i], hidden[i], err = split(list[i], names); err != nil {
			return nil, nil, err
		}
		found = found || hidden[i] != nil
	}
	if !found {
		return value, nil, nil
	}
	return joined(list), joined(hidden), nil
}

// isEmpty reports whether a JSON value is missing or holds no words.
func isEmpty(value json.RawMessage) bool {
	switch string(value) {
	case "", "null", `""`, "[]", "{}":
		return true
	}
	return false
}

// merge is the inverse of split.
func merge(open, private json.RawMessage) (json.RawMessage, error) {
	private = bytes.TrimSpace(private)
	switch {
	case isEmpty(private):
		return open, nil
	case isEmpty(open):
		return private, nil
	case private[0] == '[' && open[0] == '[':
		return mergeLists(open, private)
	case private[0] != '{' || open[0] != '{':
		return private, nil
	}
	var object, hidden map[string]json.RawMessage
	if err := json.Unmarshal(open, &object); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(private, &hidden); err != nil {
		return nil, err
	}
	for name, value := range hidden {
		whole, err := merge(object[name], value)
		if err != nil {
			return nil, err
		}
		object[name] = whole
	}
	return json.Marshal(object)
}

func mergeLists(open, private json.RawMessage) (json.RawMessage, error) {
	var list, hidden []json.RawMessage
	if err := json.Unmarshal(open, &list); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(private, &hidden); err != nil {
		return nil, err
	}
	if len(list) != len(hidden) {
		return nil, fmt.Errorf("a list of %d, and private members of %d", len(list), len(hidden))
	}
	for i := range list {
		whole, err := merge(list[i], hidden[i])
		if err != nil {
			return nil, err
		}
		list[i] = whole
	}
	return json.Marshal(list)
}
