package fact

import (
	"bytes"
	"encoding/json"
	"testing"
)

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
