package verify_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"guild/verify"
)

// sample thins out the corpus of changes for the second verifier, which takes 40 ms for each export. With 1 it gets the
// whole corpus that TestChangedValuesFail gives to the first.
var sample = flag.Int("sample", 120, "give each nth changed export to the second verifier")

// second returns the reports of the other verifier, which shares only docs/VERIFY.md with this one.
func second(t *testing.T, paths []string) []verify.Report {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", append([]string{"page/verify.py", "--json"}, paths...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); err != nil && code != 1 || stderr.Len() > 0 {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var reports []verify.Report
	ok(t, json.Unmarshal(out, &reports))
	if len(reports) != len(paths) {
		t.Fatalf("%d reports on %d exports", len(reports), len(paths))
	}
	return reports
}

// agree compares two reports line by line. The details may differ.
func agree(t *testing.T, what string, a, b verify.Report) {
	t.Helper()
	if a.Receipt != b.Receipt || a.Grade != b.Grade || len(a.Checks) != len(b.Checks) {
		t.Errorf("%s: %s, %s, %d checks, and %s, %s, %d", what, a.Receipt, a.Grade, len(a.Checks), b.Receipt, b.Grade, len(b.Checks))
		return
	}
	for i, c := range a.Checks {
		if d := b.Checks[i]; c.Name != d.Name || c.State != d.State {
			t.Errorf("%s: %s %s (%s), and %s %s (%s)", what, c.Name, c.State, c.Detail, d.Name, d.State, d.Detail)
		}
	}
}

func TestSecondVerifierAgrees(t *testing.T) {
	in := t.TempDir()
	var paths, names []string
	var ours []verify.Report
	add := func(name string, f files) {
		path := filepath.Join(in, fmt.Sprintf("%d.zip", len(paths)))
		b := zipped(t, slices.Sorted(maps.Keys(f)), func(name string) []byte { return f[name] })
		ok(t, os.WriteFile(path, b, 0o644))
		paths, names, ours = append(paths, path), append(names, name), append(ours, must[verify.Report](t)(verify.Archive(b)))
	}
	for name, lie := range lies() {
		add("a lie: "+name, lie.export(t))
	}
	for name, lie := range chainLies(t) {
		add("a lie: "+name, story{rail: "address", chain: lie}.export(t))
	}
	for name, lie := range arbiterLies() {
		add("a lie: "+name, lie.export(t))
	}
	for name, s := range arbiterVariants() {
		add(name, s.export(t))
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(stories())) {
		good := stories()[name].export(t)
		add(name, good)
		for file, b := range good {
			less := maps.Clone(good)
			delete(less, file)
			if n++; n%5 == 0 {
				add(name+" without "+file, less)
			}
			for _, c := range changes(t, file, b) {
				if n++; n%*sample == 0 {
					changed := maps.Clone(good)
					changed[file] = c.file
					add(fmt.Sprintf("%s: %s: %s", name, file, c.what), changed)
				}
			}
		}
	}
	t.Logf("%d exports", len(paths))
	for i, theirs := range second(t, paths) {
		agree(t, names[i], ours[i], theirs)
	}
}

// What an earlier description left open is the same for both: the letters of a key, what is around it, and files that
// another one needs.
func TestVerifiersAgreeOnUnusualExports(t *testing.T) {
	good := story{sealed: true}.export(t)
	var paths, names []string
	var ours []verify.Report
	in := t.TempDir()
	for name, change := range map[string]struct {
		line string // the line that fails
		do   func(files)
	}{
		"a key in capitals":          {"request", func(f files) { f[verify.FileRequestKey] = bytes.ToUpper(f[verify.FileRequestKey]) }},
		"a key with a newline":       {"result", func(f files) { f[verify.FileResultKey] = append(bytes.Clone(f[verify.FileResultKey]), '\n') }},
		"no receipt event":           {"receipt signature", func(f files) { delete(f, verify.FileReceiptEvent) }},
		"a proof without its entry":  {"journal entry", func(f files) { delete(f, verify.FileEntry) }},
		"an entry without its proof": {"", func(f files) { delete(f, verify.FileProof) }},
	} {
		changed := maps.Clone(good)
		change.do(changed)
		b := zipped(t, slices.Sorted(maps.Keys(changed)), func(name string) []byte { return changed[name] })
		path := filepath.Join(in, fmt.Sprintf("%d.zip", len(paths)))
		ok(t, os.WriteFile(path, b, 0o644))
		report := must[verify.Report](t)(verify.Archive(b))
		paths, names, ours = append(paths, path), append(names, name), append(ours, report)
		var failed, want []string
		if change.line != "" {
			want = []string{change.line}
		}
		for _, c := range report.Checks {
			if c.State == verify.Failed {
				failed = append(failed, c.Name)
			}
		}
		if !slices.Equal(failed, want) {
			t.Errorf("%s: %q fail", name, failed)
		}
	}
	for i, theirs := range second(t, paths) {
		agree(t, names[i], ours[i], theirs)
	}
}

func TestSecondVerifierOnVectors(t *testing.T) {
	archives := must[[]string](t)(filepath.Glob(vectorsDir + "/*.zip"))
	for i, theirs := range second(t, archives) {
		agree(t, archives[i], must[verify.Report](t)(verify.Archive(must[[]byte](t)(os.ReadFile(archives[i])))), theirs)
	}
}

func TestSecondVerifierOnDirectory(t *testing.T) {
	in := t.TempDir()
	for name, b := range (story{sealed: true, rail: "lightning"}).export(t) {
		ok(t, os.MkdirAll(filepath.Dir(filepath.Join(in, name)), 0o755))
		ok(t, os.WriteFile(filepath.Join(in, name), b, 0o644))
	}
	ours := verify.Export(os.DirFS(in))
	for _, theirs := range second(t, []string{in, filepath.Join(in, verify.FileReceipt)}) {
		agree(t, "a directory", ours, theirs)
	}
	if !ours.OK() {
		t.Errorf("%v", ours)
	}
}
