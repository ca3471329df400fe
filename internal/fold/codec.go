package fold

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// Encode writes a state for a snapshot, as encoding/json does, and faster.
func Encode(state any) ([]byte, error) { return json.Marshal(state, v1.DefaultOptionsV1()) }

// Decode reads what Encode wrote, or encoding/json, and faster. Whether there can be such a public key as stands in the
// snapshot is not found out: it was before the fact that brought it was written, and takes longer than all the rest.
func Decode(b []byte, into any) error { return decode(b, into) }

func decode(b []byte, into any, more ...json.Options) error {
	once := v1.ReportErrorsWithLegacySemantics(false) // else everything is read twice, first for its syntax
	keys := json.WithUnmarshalers(json.UnmarshalFromFunc(decodeKey))
	return json.Unmarshal(b, into, v1.DefaultOptionsV1(), once, keys, json.JoinOptions(more...))
}

// DecodeWhole is Decode of a whole state: an object with every member that Encode writes of the zero value that into
// points to, and with no member that into has not. Only what Encode writes as null in the zero value may be null. What
// into points to is undefined after an error.
func DecodeWhole(b []byte, into any) error {
	empty, err := Encode(into)
	if err != nil {
		return err
	}
	want, err := membersOf(empty)
	if err != nil {
		return err
	}
	got, err := membersOf(b)
	if err != nil {
		return err
	}
	for name, kind := range want {
		is, ok := got[name]
		if !ok {
			return fmt.Errorf("the snapshot has no member %q", name)
		}
		if is == 'n' && kind != 'n' {
			return fmt.Errorf("member %q of the snapshot is null", name)
		}
	}
	return decode(b, into, json.RejectUnknownMembers(true))
}

// membersOf returns the kind of each member of an object.
func membersOf(b []byte) (map[string]jsontext.Kind, error) {
	in := jsontext.NewDecoder(bytes.NewBuffer(b), v1.DefaultOptionsV1())
	if in.PeekKind() != '{' {
		return nil, errors.New("the snapshot is not an object")
	}
	if _, err := in.ReadToken(); err != nil {
		return nil, err
	}
	members := map[string]jsontext.Kind{}
	for in.PeekKind() == '"' {
		name, err := in.ReadToken()
		if err != nil {
			return nil, err
		}
		members[name.String()] = in.PeekKind()
		if err := in.SkipValue(); err != nil {
			return nil, err
		}
	}
	_, err := in.ReadToken()
	return members, err
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
