package verify_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"guild/verify"
)

var rewrite = flag.Bool("vectors", false, "write the exports in testdata/vectors anew")

const vectorsDir = "testdata/vectors"

// vectorsAnew returns the exports in testdata/vectors: the valid ones, and one for each line that can fail.
func vectorsAnew(t testing.TB) map[string]files {
	all := map[string]files{}
	for name, s := range stories() {
		all["good "+name] = s.export(t)
	}
	all["good unjudged"] = story{unjudged: true}.export(t)
	all["good on a busy machine"] = story{verdict: func(v map[string]any) { ran(v, 1300, 200) }}.export(t)
	all["good without a journal"] = files{}
	for name, b := range all["good in clear"] {
		if !strings.HasPrefix(name, "journal/") {
			all["good without a journal"][name] = b
		}
	}
	for _, name := range []string{"a receipt by somebody else", "a request for another work", "a better score", "a better pace", "a wait that is longer", "a preimage of another invoice",
		"an escrow with another key than the quote's", "an escrow that is not released", "an escrow that another released", "an escrow that one key opens",
		"more than was quoted", "an escrow with a coin twice", "an escrow that another quoted", "an escrow that was quoted to another request",
		"an escrow that was quoted for other work", "play money that is called sat", "play money with a unit that is called sat", "a refund of a coin twice",
		"ecash ahead to another key than the quote's", "ecash ahead to two keys", "ecash ahead that comes back", "ecash ahead for a part of the price",
		"ecash ahead where an escrow was asked", "an escrow where ecash ahead was asked",
		"a record of another attempt", "a record about another job", "an end that is no success", "a verdict of other work", "a result after the receipt", "a worker's trajectory of other work", "a worker's output of no call", "a checkpoint of another tree", "a witness of another root", "a witness that is a stranger", "a review of other bytes", "another provider"} {
		all["bad "+name] = lies()[name].export(t)
	}
	for name, lie := range chainLies(t) {
		all["bad "+name] = story{rail: "address", chain: lie}.export(t)
	}
	for _, name := range arbiterVectors {
		all["bad "+name] = arbiterLies()[name].export(t)
	}
	good := story{sealed: true, worker: true}.export(t)
	for name, file := range good {
		changed := maps.Clone(good)
		some := changes(t, name, file)
		changed[name] = some[len(some)/3].file
		all["bad "+strings.TrimSuffix(strings.ReplaceAll(name, "/", " "), ".json")] = changed
	}
	unknown := maps.Clone(good)
	unknown["notes.txt"] = []byte("x")
	all["bad notes.txt"] = unknown
	return all
}

func TestVectors(t *testing.T) {
	if *rewrite {
		ok(t, os.RemoveAll(vectorsDir))
		ok(t, os.MkdirAll(vectorsDir, 0o755))
		for name, f := range vectorsAnew(t) {
			writeVector(t, filepath.Join(vectorsDir, strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)), f)
		}
	}
	archives, err := filepath.Glob(vectorsDir + "/*.zip")
	if err != nil || len(archives) < 30 {
		t.Fatalf("%d vectors, %v", len(archives), err)
	}
	for _, archive := range archives {
		var want verify.Report
		ok(t, json.Unmarshal(must[[]byte](t)(os.ReadFile(strings.TrimSuffix(archive, ".zip")+".json")), &want))
		got, err := verify.Archive(must[[]byte](t)(os.ReadFile(archive)))
		if err != nil || got.Receipt != want.Receipt || got.Grade != want.Grade || !slices.Equal(got.Checks, want.Checks) {
			t.Errorf("%s: %v, %v, want %v", archive, got, err, want)
		}
		if got.OK() != strings.HasPrefix(filepath.Base(archive), "good-") {
			t.Errorf("%s: it holds: %t", archive, got.OK())
		}
	}
}

func writeVector(t testing.TB, path string, f files) {
	t.Helper()
	b, err := verify.Pack(f)
	if err != nil { // with a file that exports may not have
		b = zipped(t, slices.Sorted(maps.Keys(f)), func(name string) []byte { return f[name] })
	}
	ok(t, os.WriteFile(path+".zip", b, 0o644))
	report := must[verify.Report](t)(verify.Archive(b))
	ok(t, os.WriteFile(path+".json", append(must[[]byte](t)(json.MarshalIndent(report, "", "  ")), '\n'), 0o644))
}
