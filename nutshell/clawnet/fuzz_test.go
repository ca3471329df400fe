package clawnet_test

import (
	"bytes"
	"encoding/json"
	"reflect"
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
		m, err := nutshell.ParseManifest([]byte(`{"id":"nut-1","extensions":{"clawnet":` + string(b) + `}}`))
		if err != nil {
			return
		}
		e, found, err := clawnet.FromManifest(m)
		if err != nil {
			return
		}
		before := m.Bytes()
		if err := e.Write(m); err != nil || !bytes.Equal(before, m.Bytes()) {
			t.Fatalf("%s became %s: %v", before, m.Bytes(), err)
		}
		copied, err := nutshell.ParseManifest([]byte(`{"id":"nut-1","extensions":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Write(copied); err != nil || copied.ID() != "nut-1" {
			t.Fatalf("%s was read and cannot be written: %v", b, err)
		}
		again, _, err := clawnet.FromManifest(copied)
		if e.Reward != nil && again.Reward != nil && e.Reward.Amount.Cmp(again.Reward.Amount) == 0 {
			again.Reward.Amount = e.Reward.Amount // a missing amount is written as 0
		}
		if err != nil || found && !reflect.DeepEqual(e, again) {
			t.Fatalf("%s became %s: %v", b, copied.Bytes(), err)
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
