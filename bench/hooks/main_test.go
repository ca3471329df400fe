package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestMeasure(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-n", "2", "-waiting", "3", "-dir", t.TempDir(), "-json"}, &out); err != nil {
		t.Fatal(err)
	}
	var all []figure
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 {
		t.Errorf("%d figures", len(all))
	}
	for _, f := range all {
		if f.Without.Least <= 0 || f.With.Median < f.With.Least || f.With.Most < f.With.Median {
			t.Errorf("%+v", f)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, args := range [][]string{{"-n", "0"}, {"-waiting", "-1"}, {"-what"}} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is measured", args)
		}
	}
}
