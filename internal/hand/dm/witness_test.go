package dm

import (
	"reflect"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/seal"
)

func question() Witness {
	path := [][]byte{make([]byte, 32)}
	return Witness{
		Request: nostr.ID{7}, Checkpoint: nostr.Event{Kind: seal.Kind, Content: "{}", Tags: nostr.Tags{{"d", "x"}}}, Entry: []byte("job.1\n{}"),
		Proof: seal.Proof{Index: 1, Size: 2, Path: path}, Consistency: []seal.Consistency{{From: 1, Path: path, To: 2}},
	}
}

func TestWitnessRoundTrip(t *testing.T) {
	w, err := DecodeWitness(encoded(t, question()))
	if err != nil || !reflect.DeepEqual(w, question()) {
		t.Errorf("%+v, %v", w, err)
	}
	large := question()
	large.Entry = []byte(strings.Repeat("x", maxForm))
	if _, err := large.Encode(); err == nil {
		t.Error("an entry that no message can have is written")
	}
}

func TestInvalidWitnesses(t *testing.T) {
	good := encoded(t, question())
	many := question()
	for range MaxConsistency {
		many.Consistency = append(many.Consistency, many.Consistency[0])
	}
	for name, content := range map[string]string{
		"nothing":        "",
		"another type":   strings.Replace(good, TypeWitness, TypeVerdict, 1),
		"no proof":       strings.Replace(good, `"proof":{`, `"prove":{`, 1),
		"a larger tree":  strings.Replace(good, `"size":2`, `"size":0`, 1),
		"no consistency": strings.Replace(good, `"from":1`, `"from":0`, 1),
		"no event":       strings.Replace(good, `"checkpoint":{`, `"checkpoint":[],"x":{`, 1),
		"over the limit": encoded(t, many),
	} {
		_, err := DecodeWitness(content)
		t.Log(name)
		mustDrop(t, err)
	}
}

func FuzzDecodeWitness(f *testing.F) {
	f.Add(encoded(f, question()))
	f.Add(`{"type":"guild.witness","version":1}`)
	f.Fuzz(func(t *testing.T, content string) {
		w, err := DecodeWitness(content)
		if err != nil {
			mustDrop(t, err)
			return
		}
		if len(w.Consistency) > MaxConsistency || len(w.Entry) > maxForm {
			t.Errorf("%d proofs, an entry of %d bytes", len(w.Consistency), len(w.Entry))
		}
	})
}
