package fold

import (
	"encoding/hex"
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
func Decode(b []byte, into any) error {
	once := v1.ReportErrorsWithLegacySemantics(false) // else everything is read twice, first for its syntax
	return json.Unmarshal(b, into, v1.DefaultOptionsV1(), once, json.WithUnmarshalers(json.UnmarshalFromFunc(decodeKey)))
}

func decodeKey(in *jsontext.Decoder, key *nostr.PubKey) error {
	quoted, err := in.ReadValue()
	if err != nil {
		return err
	}
	if len(quoted) != len(`""`)+hex.EncodedLen(len(key)) || quoted.Kind() != '"' {
		return fmt.Errorf("%.80s is no public key", quoted)
	}
	_, err = hex.Decode(key[:], quoted[1:len(quoted)-1])
	return err
}
