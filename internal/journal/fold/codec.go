package fold

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// Encode writes a state for a snapshot, as encoding/json does, and faster.
func Encode(state any) ([]byte, error) { return json.Marshal(state, v1.DefaultOptionsV1()) }

// Decode reads what Encode wrote, or encoding/json, and faster. Whether there can be such a public key as stands in the
// snapshot is not found out: it was before the fact that brought it was written, and takes longer than all the rest.
func Decode(b []byte, into any) error { return json.Unmarshal(b, into, options()) }

func options(more ...json.Options) json.Options {
	once := v1.ReportErrorsWithLegacySemantics(false) // else everything is read twice, first for its syntax
	keys := json.WithUnmarshalers(json.UnmarshalFromFunc(decodeKey))
	return json.JoinOptions(v1.DefaultOptionsV1(), once, keys, json.JoinOptions(more...))
}

// DecodeWhole is Decode of a whole state: an object with every member that Encode writes of the zero value that into
// points to, a struct, and with no member that into has not. Only what Encode writes as null in the zero value may be
// null. What into points to is undefined after an error.
//
// It reads each member into its field, instead of looking for the members first, since a state may be large.
func DecodeWhole(b []byte, into any) error {
	empty, err := Encode(into)
	if err != nil {
		return err
	}
	var want map[string]jsontext.Value
	if err := Decode(empty, &want); err != nil {
		return err
	}
	fields := map[string]reflect.Value{}
	fieldsOf(reflect.ValueOf(into).Elem(), fields)
	in := jsontext.NewDecoder(bytes.NewBuffer(b), options(json.RejectUnknownMembers(true)))
	if in.PeekKind() != '{' {
		return errors.New("the snapshot is not an object")
	}
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	for in.PeekKind() == '"' {
		name, err := in.ReadToken()
		if err != nil {
			return err
		}
		member := name.String()
		field, ok := fields[member]
		if !ok {
			return fmt.Errorf("the snapshot has an unknown member %q", member)
		}
		if zero, ok := want[member]; ok && in.PeekKind() == 'n' && zero.Kind() != 'n' {
			return fmt.Errorf("member %q of the snapshot is null", member)
		}
		delete(want, member)
		if err := json.UnmarshalDecode(in, field.Addr().Interface()); err != nil {
			return fmt.Errorf("member %q of the snapshot: %w", member, err)
		}
	}
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	for member := range want {
		return fmt.Errorf("the snapshot has no member %q", member)
	}
	if _, err := in.ReadToken(); err != io.EOF {
		return errors.New("the snapshot goes on after its end")
	}
	return nil
}

// fieldsOf collects the fields of a struct by the names of their members, those of embedded structs included.
func fieldsOf(v reflect.Value, fields map[string]reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			fieldsOf(v.Field(i), fields)
		case field.IsExported() && name != "-":
			fields[cmp.Or(name, field.Name)] = v.Field(i)
		}
	}
}

func decodeKey(in *jsontext.Decoder, key *nostr.PubKey) error {
	quoted, err := in.ReadValue()
	if err != nil {
		return err
	}
	if quoted.Kind() != '"' {
		return fmt.Errorf("%.80s is not a public key", quoted)
	}
	return decodeHex(key[:], quoted[1:len(quoted)-1])
}

// decodeHex reads the hex digits of all of dst.
func decodeHex[S ~string | ~[]byte](dst []byte, digits S) error {
	if len(digits) != hex.EncodedLen(len(dst)) {
		return fmt.Errorf("%.80q: want %d hex digits", digits, hex.EncodedLen(len(dst)))
	}
	_, err := hex.Decode(dst, []byte(digits))
	return err
}
