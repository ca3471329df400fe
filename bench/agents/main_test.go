package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestMeasure(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-n", "300", "-rounds", "2", "-json"}, &out); err != nil {
		t.Fatal(err)
	}
	var f figures
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	if f.Lessons != 300 || f.FirstMs <= 0 || f.Later.Median <= 0 || f.Changed.Most <= 0 || f.Text < 300 || f.Memory < f.Text || f.Applied < 20 {
		t.Errorf("%+v", f)
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, args := range [][]string{{"-n", "0"}, {"-rounds", "0"}, {"-what"}} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is measured", args)
		}
	}
}
