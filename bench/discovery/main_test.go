package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second run reads the stored announcements
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-n", "200", "-relays", "3", "-dir", dir, "-settle", "0", "-json"}, &out); err != nil {
			t.Fatal(err)
		}
		var r report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.In != 200 || r.Kept != 200 || r.Recalled != 200 || r.Offers == 0 || r.TakeIn <= 0 || r.Restart <= 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, args := range [][]string{{"-n", "0"}, {"-relays", "0"}, {"-what"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is measured", args)
		}
	}
}
