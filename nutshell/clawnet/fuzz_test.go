package clawnet_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"guild/nutshell"
	"guild/nutshell/clawnet"
)

func FuzzExtension(f *testing.F) {
	f.Add([]byte(specified))
	f.Add([]byte(`{"reward":{"amount":1e64,"x":[]},"task_id":null,"zone":{"a":1.0}}`))
	f.Add([]byte(`{"peer_id":"\u0041","peer_id":"b"}`))
	f.Add([]byte(`{"reputation":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e clawnet.Extension
		if e.UnmarshalJSON(b) != nil {
			return
		}
		once, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", b, err)
		}
		var again clawnet.Extension
		if err := again.UnmarshalJSON(once); err != nil {
			t.Fatalf("%q became %q: %v", b, once, err)
		}
		if twice, err := json.Marshal(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q became %q and then %q: %v", b, once, twice, err)
		}
		m, err := nutshell.ParseManifest([]byte(`{"id":"nut-1","extensions":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.SetExtension(clawnet.Name, e); err == nil && m.ID() != "nut-1" {
			t.Fatalf("%q changed the core", b)
		}
	})
}

func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "5e2", "1E-64", "99999999999999999999.5", "1e99999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := clawnet.ParseDecimal(s)
		if err != nil {
			return
		}
		if d.String() != s || d.Cmp(d) != 0 || len(d.Plain()) > 200 || !json.Valid([]byte(d.Plain())) {
			t.Fatalf("%q is %s, plainly %s", s, d, d.Plain())
		}
	})
}
