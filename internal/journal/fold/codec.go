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

// Encode encodes a state for a snapshot. It returns the same bytes as encoding/json, in less time.
func Encode(state any) ([]byte, error) { return json.Marshal(state, v1.DefaultOptionsV1()) }

// Decode decodes what Encode or encoding/json wrote. It does not check that public keys are points of the curve, which would take
// longer than everything else: that was checked before the facts were written.
func Decode(b []byte, into any) error { return json.Unmarshal(b, into, options()) }

func options(more ...json.Options) json.Options {
	once := v1.ReportErrorsWithLegacySemantics(false) // or else the syntax is checked first, in a pass of its own
	keys := json.WithUnmarshalers(json.UnmarshalFromFunc(decodeKey))
	return json.JoinOptions(v1.DefaultOptionsV1(), once, keys, json.JoinOptions(more...))
}

// DecodeWhole decodes a complete state into the zero struct that into points to. The object must have every member that Encode
// writes of the zero struct, and no unknown ones. A member may be null only if Encode writes it so. After an error the struct
// is undefined.
//
// Each member is decoded into its field as it comes, instead of being looked up in a map first, since a state may be large.
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
		return errors.New("data after the snapshot")
	}
	return nil
}

// fieldsOf collects the fields of a struct and its embedded structs by the names of their members.
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

// decodeHex decodes digits into dst, which they must fill.
func decodeHex[S ~string | ~[]byte](dst []byte, digits S) error {
	if len(digits) != hex.EncodedLen(len(dst)) {
		return fmt.Errorf("%.80q: want %d hex digits", digits, hex.EncodedLen(len(dst)))
	}
	_, err := hex.Decode(dst, []byte(digits))
	return err
}
