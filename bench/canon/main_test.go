package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestMeasure(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-rounds", "1", "-turn", "1ns", "-largest", "102400", "-json"}, &out); err != nil {
		t.Fatal(err)
	}
	var all []figure
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2*len(contestants) {
		t.Errorf("%d figures", len(all))
	}
	for _, f := range all {
		if f.MBs <= 0 || f.Bytes == 0 {
			t.Errorf("%+v", f)
		}
	}
}

func TestDocumentsHaveTheirSize(t *testing.T) {
	for want, got := range map[int][]byte{1 << 10: batch(1 << 10), 100 << 10: batch(100 << 10)} {
		if len(got) < want/2 || len(got) > want*3/2 || !json.Valid(got) {
			t.Errorf("%d bytes, want some %d", len(got), want)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-turn", "0s"}, {"-largest", "1"}, {"-what"}} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is measured", args)
		}
	}
}
