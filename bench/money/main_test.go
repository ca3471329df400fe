package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMeasure(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-n", "4", "-c", "2", "-proofs", "2", "-rounds", "1", "-dir", t.TempDir(), "-json"}, &out); err != nil {
		t.Fatal(err)
	}
	var all []figure
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, f := range all {
		rows = append(rows, fmt.Sprint(f.What, f.Clients))
	}
	if !slices.Equal(rows, []string{"swap1", "escrow1", "swap2", "escrow2"}) {
		t.Fatalf("%+v", all)
	}
	for _, f := range all {
		if f.Floor.Median <= 0 || f.Mint.Median <= 0 || f.Ratio.Median <= 0 {
			t.Errorf("%+v", f)
		}
	}
	out.Reset()
	if err := print(&out, options{}, all); err != nil || !strings.Contains(out.String(), "times the floor") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, args := range [][]string{{"-n", "0"}, {"-c", "97"}, {"-proofs", "0"}, {"-rounds", "0"}, {"-what"}} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is measured", args)
		}
	}
}
