package page_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"guild/verify"
	"guild/verify/page"
)

// TestTheVerifierIsBuiltFromThisSource builds it again, so that nobody needs to trust what is carried inside.
func TestTheVerifierIsBuiltFromThisSource(t *testing.T) {
	version, err := os.ReadFile("verifier_version")
	if err != nil {
		t.Fatal(err)
	}
	if built := strings.TrimSpace(string(version)); built != runtime.Version() {
		t.Skipf("it was built by %s, this is %s", built, runtime.Version())
	}
	fresh := t.TempDir()
	if out, err := exec.Command("go", "run", "build.go", fresh).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"verifier.wasm.gz", "verifier_version"} {
		want, err := os.ReadFile(filepath.Join(fresh, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its source makes (%v): run go generate ./verify/page", name, err)
		}
	}
}

func TestThePageIsWholeAndLoadsNothing(t *testing.T) {
	html, err := page.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(html, []byte("{{")) {
		t.Error("a part is not filled in")
	}
	if found := regexp.MustCompile(`(?i)\b(src|href|action)=|@import|url\(|https?:|innerHTML|insertAdjacent|document\.write|\beval\(|new Function`).
		FindAllString(string(html), -1); len(found) > 0 {
		t.Errorf("the page loads or writes what it should not: %q", found)
	}
	if n := bytes.Count(html, []byte("</script>")); n != 2 {
		t.Errorf("%d ends of scripts", n)
	}
	policy := regexp.MustCompile(`content="default-src 'none'; script-src 'sha256-[A-Za-z0-9+/]{43}=' 'wasm-unsafe-eval'; style-src 'sha256-[A-Za-z0-9+/]{43}='; `)
	if !policy.Match(html) {
		t.Errorf("%.400s", html)
	}
	if len(html) > 6<<20 {
		t.Errorf("the page has %d bytes: see which import of package verify is that big", len(html))
	}
}

func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("Node.js is not here; scripts/needs test says how to install it")
	}
	return path
}

// shown is what is to be read on the page after an export was given to it.
type shown struct {
	ClassName string `json:"className"`
	Status    string `json:"status"`
	Lines     []struct {
		ClassName string   `json:"className"`
		Parts     []string `json:"parts"` // mark, the state in a word, name, detail
	} `json:"lines"`
}

// show opens the page and gives files to it, one after the other.
func show(t *testing.T, files ...string) []shown {
	t.Helper()
	html, err := page.HTML()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, html, 0o600); err != nil {
		t.Fatal(err)
	}
	browser := exec.Command(node(t), append([]string{filepath.Join("testdata", "browser.mjs"), file}, files...)...)
	var complaints strings.Builder
	browser.Stderr = &complaints
	out, err := browser.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints.String())
	}
	all := make([]shown, 0, len(files))
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var s shown
		if err := decoder.Decode(&s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) != len(files) {
		t.Fatalf("%d answers to %d files\n%s", len(all), len(files), complaints.String())
	}
	return all
}

// vectors are the exports beside package verify.
func vectors(t *testing.T) []string {
	t.Helper()
	good, err := filepath.Glob("../testdata/vectors/good-*.zip")
	if err != nil {
		t.Fatal(err)
	}
	bad, err := filepath.Glob("../testdata/vectors/bad-*.zip")
	if err != nil || len(good) < 3 || len(bad) < 10 {
		t.Fatalf("%d good exports, %d bad ones: %v", len(good), len(bad), err)
	}
	return append(good, bad...)
}

func TestThePageSaysWhatTheVerifierSays(t *testing.T) {
	files := vectors(t)
	for i, s := range show(t, files...) {
		b, err := os.ReadFile(files[i])
		if err != nil {
			t.Fatal(err)
		}
		want, err := verify.Archive(b)
		if err != nil {
			t.Fatal(err)
		}
		var got []verify.Check
		for _, l := range s.Lines {
			if len(l.Parts) != 4 {
				t.Fatalf("%q", l.Parts)
			}
			got = append(got, verify.Check{Name: l.Parts[2], State: verify.State(l.ClassName), Detail: l.Parts[3]})
			if mark := map[string]string{"passed": "✓", "failed": "✗", "absent": "–"}[l.ClassName]; l.Parts[0] != mark {
				t.Errorf("%s is marked %s", l.ClassName, l.Parts[0])
			}
		}
		if !reflect.DeepEqual(got, want.Checks) {
			t.Errorf("%s: the page shows\n%q\nthe verifier says\n%q", files[i], got, want.Checks)
		}
		word, ends := "passed", " holds: "
		if !want.OK() {
			word, ends = "failed", " does not hold: "
		}
		if s.ClassName != word || !strings.Contains(s.Status, strings.TrimSpace("receipt "+want.Receipt)+ends) {
			t.Errorf("%s: %s: %s", files[i], s.ClassName, s.Status)
		}
	}
}

func TestThePageSaysThatAFileIsNoExport(t *testing.T) {
	dir := t.TempDir()
	word, empty := filepath.Join(dir, "word.zip"), filepath.Join(dir, "emp\u202ety.zip")
	for name, text := range map[string]string{word: "no archive", empty: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := show(t, word, empty)
	for i, name := range []string{"word.zip", "emp·ty.zip"} {
		s := all[i]
		if s.ClassName != "failed" || len(s.Lines) != 1 || s.Status != name+": the receipt does not hold: 1 failed, 0 passed, 0 not there" {
			t.Errorf("%+v", s)
		}
	}
}
