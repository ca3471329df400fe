package page_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"guild/verify/page"
)

// The test builds the verifier again, so that the committed program need not be trusted.
func TestVerifierBuildMatchesSource(t *testing.T) {
	t.Parallel()
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

func TestPageLoadsNothing(t *testing.T) {
	html, err := page.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if len(html) > 6<<20 {
		t.Errorf("the page has %d bytes: see which import of package verify is that big", len(html))
	}
	before, rest, _ := bytes.Cut(html, []byte(`<script id="verifier" type="application/gzip">`))
	_, after, _ := bytes.Cut(rest, []byte("</script>"))
	html = append(before, after...) // without the verifier, which is large and contains only letters
	if bytes.Contains(html, []byte("{{")) {
		t.Error("a part is not filled in")
	}
	if found := regexp.MustCompile(`(?i)\b(src|href|action)=|@import|url\(|https?:|innerHTML|insertAdjacent|document\.write|\beval\(|new Function`).
		FindAllString(string(html), -1); len(found) > 0 {
		t.Errorf("the page loads or writes what it should not: %q", found)
	}
	if n := bytes.Count(html, []byte("</script>")); n != 1 {
		t.Errorf("%d ends of scripts", n)
	}
	policy := regexp.MustCompile(`content="default-src 'none'; script-src 'sha256-[A-Za-z0-9+/]{43}=' 'wasm-unsafe-eval'; style-src 'sha256-[A-Za-z0-9+/]{43}='; ` +
		`base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'">`)
	if !policy.Match(html) {
		t.Errorf("%.400s", html)
	}
}
