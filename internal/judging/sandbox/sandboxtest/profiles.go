package sandboxtest

import (
	_ "embed"
	"testing"

	"guild/internal/judging/sandbox"
)

// wide does almost everything that honest programs do.
//
//go:embed testdata/wide.py
var wide string

// profiles checks that honest programs work and are not a breach.
func profiles(t *testing.T, r runner) {
	got := py(t, r, wide, func(s *sandbox.Spec) { s.Profile = sandbox.Standard; s.Limits.Pids = 100 })
	got.prints(t, "fine")
	if len(got.Breaches) > 0 {
		t.Errorf("breaches %v", got.Breaches)
	}
	const plain = `
import collections, dataclasses, datetime, decimal, fractions, functools, json, math, os, random, re, sys, tempfile
assert json.loads(json.dumps({"a": [1, 2.5, None]})) == {"a": [1, 2.5, None]}
assert math.factorial(50) % 7 == 0 and sum(random.sample(range(9), 9)) == 36
with tempfile.NamedTemporaryFile("w+") as f: f.write("x"); f.seek(0); assert f.read() == "x"
os.makedirs("a/b"); os.rename("a/b", "a/c"); assert os.listdir("a") == ["c"]
print("fine")
`
	got = py(t, r, plain, func(s *sandbox.Spec) { s.Profile = sandbox.Strict })
	got.prints(t, "fine")
	if len(got.Breaches) > 0 {
		t.Errorf("breaches %v", got.Breaches)
	}
}
