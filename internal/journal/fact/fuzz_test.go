package fact

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzSealed holds that decoding with any private members ends, and that what is read is written as one that reads the same.
func FuzzSealed(f *testing.F) {
	f.Add([]byte(`{"v":2,"at":1,"by":"n","sealed":"AAAA","facts":[{"type":"job.closed","job":"00000000000000000000000000000000","ending":"accepted"}]}`), []byte(`[{"reason":"x"}]`))
	f.Add([]byte(`{"v":2,"sealed":"AAAA","facts":[{"type":"job.opened","release":{"vaults":[]}}]}`), []byte(`[{"release":{"names":["a"]},"inputs":[{"data":"x"}]}]`))
	f.Add([]byte(`{"v":2,"sealed":"AAAA","facts":[{"type":"attempt.judged","verdict":{}}]}`), []byte(`[{"verdict":{"tests":[],"ruling":{"note":"x"}}}]`))
	f.Fuzz(func(t *testing.T, stored, private []byte) {
		e, err := Decode(stored, func([]byte) ([]byte, error) { return private, nil })
		if err != nil {
			return
		}
		again, err := e.Seal(func(b []byte) ([]byte, error) { private = b; return []byte{1}, nil })
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(again, func([]byte) ([]byte, error) { return private, nil })
		if err != nil {
			t.Fatalf("%s with %s cannot be read back: %v", again, private, err)
		}
		first, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if second, err := back.Encode(); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s came back as %s, %v", first, second, err)
		}
	})
}

// FuzzEntry holds that whatever is read as an entry is written as one that reads the same.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"v":1,"at":1,"by":"n","facts":[{"type":"job.closed","job":"00000000000000000000000000000000","ending":"accepted"}]}`))
	f.Add([]byte(`{"v":1,"at":-1,"by":"","cause":"x","prev":"ff","facts":[{"type":"effect.claimed","effect":"publish","node":"n","until":9}]}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"v":1,"facts":[{"type":"moon.landed"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var e Entry
		if json.Unmarshal(text, &e) != nil {
			return
		}
		once, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Entry
		if err := json.Unmarshal(once, &back); err != nil {
			t.Fatalf("%s cannot be read back: %v", once, err)
		}
		twice, err := json.Marshal(back)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s came back as %s, %v", once, twice, err)
		}
	})
}
