package diff_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"guild/nutshell"
	"guild/nutshell/diff"
)

const head = `"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"T"}`

// tree is a bundle with these members beside the required ones.
func tree(members string, files map[string]string) fstest.MapFS {
	if members != "" {
		members = "," + members
	}
	fsys := fstest.MapFS{nutshell.ManifestFile: {Data: []byte("{" + head + members + "}")}}
	for p, content := range files {
		fsys[p] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return fsys
}

func bundles(t testing.TB, a, b fs.FS) diff.Diff {
	t.Helper()
	d, err := diff.Bundles(context.Background(), a, b, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// words are differences of manifests in one line each.
func words(all []diff.Member) (lines []string) {
	for _, m := range all {
		lines = append(lines, fmt.Sprintf("%s %s %s>%s", m.Change, m.Path, m.Old, m.New))
	}
	return lines
}

func TestManifestChanges(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want []string
	}{
		{`"x":1`, ` "x" : 1 `, nil},
		{`"x":{"a":1,"b":2}`, `"x":{"b":2,"a":1}`, nil},
		{`"x":1.0`, `"x":1`, []string{"changed x 1.0>1"}},
		{`"x":9007199254740992`, `"x":9007199254740993`, []string{"changed x 9007199254740992>9007199254740993"}},
		{`"x":"a & b"`, `"x":"a \u0026 b"`, nil},
		{`"x":["a & b","c"]`, `"x":["a \u0026 b","\u0064"]`, []string{`changed x.1 "c">"d"`}},
		{`"x":1`, `"y":1`, []string{"removed x 1>", "added y >1"}},
		{`"x":{"a.b":{"c":"o"}}`, `"x":{"a.b":{"c":"n"}}`, []string{`changed x."a.b".c "o">"n"`}},
		{`"x":{}`, `"x":[]`, []string{"changed x {}>[]"}},
		{`"x":["a","b","c"]`, `"x":["a","n","b","c"]`, []string{`added x.1 >"n"`}},
		{`"x":["a","b","c"]`, `"x":["a","c"]`, []string{`removed x.1 "b">`}},
		{`"x":["a",{"k":1},"c"]`, `"x":["a",{"k":2},"c","d"]`, []string{"changed x.1.k 1>2", `added x.3 >"d"`}},
		{`"files":{"tree":[{"path":"a","hash":"sha256:0","role":"scaffold"},{"path":"b"}]}`, `"files":{"tree":[{"path":"a","size":3},{"path":"b","role":"reference"}]}`,
			[]string{`removed files.tree.a.role "scaffold">`, `added files.tree.b.role >"reference"`}},
	} {
		got := words(bundles(t, tree(c.a, nil), tree(c.b, nil)).Manifest)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s and %s: got %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

func TestFileChanges(t *testing.T) {
	a := tree("", map[string]string{"same": "s", "gone": "g\n", "text": "one\ntwo\n", "from/name": "moved", "from/other": "moved", "empty": "", "mode": "m", "bin": "\x00a"})
	b := tree("", map[string]string{"same": "s", "new": "n\n", "text": "one\n2\n", "to/name": "moved", "nothing": "", "mode": "m", "bin": "\x00b"})
	b["mode"].Mode = 0o755
	d := bundles(t, a, b)
	var got []string
	for _, f := range d.Files {
		got = append(got, fmt.Sprintf("%s %s<%s +%d-%d %s", f.Change, f.Path, f.OldPath, f.Added, f.Removed, f.Note))
	}
	want := []string{
		"changed bin< +0-0 binary files differ", "removed empty< +0-0 ", "removed from/other< +0-1 ", "removed gone< +0-1 ", "changed mode< +0-0 ",
		"added new< +1-0 ", "added nothing< +0-0 ", "changed text< +1-1 ", "moved to/name<from/name +0-0 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	i := slices.IndexFunc(d.Files, func(f diff.File) bool { return f.Path == "text" })
	if want := "--- a/text\n+++ b/text\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"; d.Files[i].Text != want {
		t.Errorf("%q", d.Files[i].Text)
	}
	i = slices.IndexFunc(d.Files, func(f diff.File) bool { return f.Path == "mode" })
	if f := d.Files[i]; f.Old.Mode != "0644" || f.New.Mode != "0755" || f.Old.Hash != f.New.Hash {
		t.Errorf("%+v, %+v", f.Old, f.New)
	}
}

func TestSecretsNotShown(t *testing.T) {
	files := func(secret string) map[string]string {
		all := map[string]string{}
		for _, p := range []string{"credentials/vault.enc.json", "v/vault.json", "Credentials/x", "files/.env.local", "files/server.KEY", "files/id_rsa"} {
			all[p] = secret
		}
		return all
	}
	manifest := `"credentials":{"vault":"./v/vault.json"}`
	d := bundles(t, tree(manifest, files("secret-a")), tree(manifest, files("secret-b")))
	b, err := json.Marshal(d)
	if err != nil || len(d.Files) != 6 || strings.Contains(string(b), "secret-") {
		t.Errorf("%d files, %v: %s", len(d.Files), err, b)
	}
}

func TestLargeFiles(t *testing.T) {
	large := strings.Repeat("line\n", 1<<18)
	d := bundles(t, tree("", map[string]string{"l": large}), tree("", map[string]string{"l": large + "x"}))
	if len(d.Files) != 1 || d.Files[0].Text != "" || !strings.Contains(d.Files[0].Note, "too large") {
		t.Errorf("%.300v", d.Files)
	}
	a, b := map[string]string{}, map[string]string{}
	for i := range 12 {
		a[fmt.Sprint(i)], b[fmt.Sprint(i)] = strings.Repeat(fmt.Sprint(i, "a\n"), 1<<17), strings.Repeat(fmt.Sprint(i, "b\n"), 1<<17)
	}
	total := 0
	for _, f := range bundles(t, tree("", a), tree("", b)).Files {
		total += len(f.Text)
	}
	if total > 12<<20 || total < 8<<20 {
		t.Errorf("%d bytes of differences", total)
	}
}

func TestExcludedFiles(t *testing.T) {
	skip := func(p string, isDir bool) bool { return p == "x" && isDir || p == "y" }
	d, err := diff.Bundles(context.Background(), tree("", map[string]string{"x/a": "1", "y": "1"}), tree("", nil), diff.Options{ExcludeA: skip})
	if err != nil || d.Differs() {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestDeliveryAndRequest(t *testing.T) {
	request := tree(`"acceptance":{"checklist":["one","two","two"]},"credentials":{"scopes":[{"name":"db"},{"name":"api"}]}`,
		map[string]string{"files/main.go": "old\n", "go.mod": "module x\n", "files/same": "s", "context/r.md": "r"})
	delivery := fstest.MapFS{nutshell.ManifestFile: {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-2","request_id":"nut-1"}`)}}
	for p, content := range map[string]string{
		"delivery/result.json": `{"status":"partial","completion_percentage":50,"summary":"s","acceptance_results":{"tests_passed":2,"tests_failed":1,"tests_skipped":3,
			"checklist":[{"item":"two ","status":"passed"},{"item":"three","status":"failed"}]},
			"artifacts":{"files_created":[{"path":"delivery/artifacts/gone"}],"files_modified":[{"path":"delivery/artifacts/main.go"}]},
			"execution_log":{"credentials_used":["db",{"name":"root","at":"2026-03-14T10:00:00Z"}]}}`,
		"delivery/artifacts/main.go": "new\n", "delivery/artifacts/go.mod": "module y\n", "delivery/artifacts/same": "s", "delivery/artifacts/extra": "e\n",
	} {
		delivery[p] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	d := bundles(t, request, delivery)
	v := d.Delivery
	if v == nil || len(d.Manifest) > 0 || v.Status != "partial" || v.Percentage != 50 || v.Passed != 2 || v.Failed != 1 || v.Skipped != 3 || d.B.RequestID != "nut-1" {
		t.Fatalf("%+v", v)
	}
	if want := []diff.Answer{{"one", true, ""}, {"two", true, "passed"}, {"two", true, ""}, {"three", false, "failed"}}; !slices.Equal(v.Checklist, want) {
		t.Errorf("checklist %+v", v.Checklist)
	}
	if want := []diff.CredentialAnswer{{"db", true, true, ""}, {"api", true, false, ""}, {"root", false, true, "2026-03-14T10:00:00Z"}}; !slices.Equal(v.Scopes, want) {
		t.Errorf("credentials %+v", v.Scopes)
	}
	wantClaims := []diff.ArtifactClaim{
		{"delivery/artifacts/extra", "", true, ""}, {"delivery/artifacts/go.mod", "", true, "go.mod"}, {"delivery/artifacts/gone", "created", false, ""},
		{"delivery/artifacts/main.go", "modified", true, "files/main.go"}, {"delivery/artifacts/same", "", true, "files/same"},
	}
	if !slices.Equal(v.Artifacts, wantClaims) {
		t.Errorf("artifacts %+v", v.Artifacts)
	}
	var files []string
	for _, f := range d.Files {
		files = append(files, f.Change+" "+f.OldPath+">"+f.Path)
	}
	if want := []string{"added >delivery/artifacts/extra", "changed go.mod>delivery/artifacts/go.mod", "changed files/main.go>delivery/artifacts/main.go"}; !slices.Equal(files, want) {
		t.Errorf("files %q", files)
	}
	other := tree("", nil)
	other[nutshell.ManifestFile].Data = []byte(strings.ReplaceAll(string(other[nutshell.ManifestFile].Data), "nut-1", "nut-other"))
	if d := bundles(t, other, delivery); d.Delivery != nil || len(d.Manifest) == 0 {
		t.Error("a delivery is held against another request")
	}
}

func TestErrorNamesBundle(t *testing.T) {
	_, first := diff.Bundles(context.Background(), fstest.MapFS{}, tree("", nil), diff.Options{})
	_, second := diff.Bundles(context.Background(), tree("", nil), fstest.MapFS{}, diff.Options{})
	if !errors.Is(first, nutshell.ErrNoManifest) || !strings.Contains(fmt.Sprint(first), "first") || !strings.Contains(fmt.Sprint(second), "second") {
		t.Errorf("%v, %v", first, second)
	}
}

// Applying all differences to A gives B.
func TestDiffIsComplete(t *testing.T) {
	content := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c", "\n", "é\n", "-x\n", "+y\n", "@@\n"}), 0, 12).Draw(t, "lines"), "")
	})
	files := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b/c", "b/d e", "f\n", "g"}), content, 0, 5)
	rapid.Check(t, func(r *rapid.T) {
		a, b := files.Draw(r, "a"), files.Draw(r, "b")
		d := bundles(t, tree("", a), tree("", b))
		got := maps.Clone(a)
		for _, f := range d.Files {
			switch f.Change {
			case diff.Added:
				got[f.Path] = apply(t, "", f.Text)
			case diff.Removed:
				delete(got, f.Path)
			case diff.Changed:
				got[f.Path] = apply(t, a[f.Path], f.Text)
			case diff.Moved:
				got[f.Path] = a[f.OldPath]
				if got[f.OldPath] == a[f.OldPath] {
					delete(got, f.OldPath)
				}
			}
		}
		if !maps.Equal(got, b) || d.Differs() == maps.Equal(a, b) {
			r.Errorf("%q and the differences are %q, want %q", a, got, b)
		}
		if same := bundles(t, tree("", a), tree("", a)); same.Differs() {
			r.Errorf("a bundle differs from itself: %+v", same)
		}
	})
}

// apply applies a unified diff to a text. It fails the test where the diff does not fit.
func apply(t testing.TB, before, text string) string {
	t.Helper()
	left, at, after := slices.Collect(strings.Lines(before)), 1, ""
	lines := slices.Collect(strings.Lines(text))
	for i, line := range lines[min(2, len(lines)):] {
		body := line[1:]
		if next := i + 3; next < len(lines) && strings.HasPrefix(lines[next], "\\") {
			body = strings.TrimSuffix(body, "\n")
		}
		switch line[0] {
		case '@':
			var start, n int
			if _, err := fmt.Sscanf(line, "@@ -%d,%d", &start, &n); err != nil {
				n = 1
			}
			for ; n > 0 && at < start || n == 0 && at <= start; at++ {
				after, left = after+left[0], left[1:]
			}
		case '+':
			after += body
		case '-', ' ':
			if len(left) == 0 || left[0] != body {
				t.Fatalf("%q does not fit %q", text, before)
			}
			if line[0] == ' ' {
				after += body
			}
			left, at = left[1:], at+1
		}
	}
	return after + strings.Join(left, "")
}

func FuzzBundles(f *testing.F) {
	f.Add([]byte(`{"id":"nut-1","x":[1,{"a":2}]}`), []byte(`{"id":"nut-1","x":[1,{"a":3},4]}`), "a\nb", "a\nc\n")
	f.Add([]byte(`{"bundle_type":"request","id":"nut-1","acceptance":{"checklist":["a"]}}`), []byte(`{"bundle_type":"delivery","request_id":"nut-1"}`), "", `{"status":"completed","artifacts":{"files_created":[{"path":"../x"}]}}`)
	f.Fuzz(func(t *testing.T, a, b []byte, x, y string) {
		before := fstest.MapFS{nutshell.ManifestFile: {Data: a}, "f": {Data: []byte(x)}}
		after := fstest.MapFS{nutshell.ManifestFile: {Data: b}, "f": {Data: []byte(y)}, nutshell.ResultFile: {Data: []byte(y)}}
		d, err := diff.Bundles(context.Background(), before, after, diff.Options{})
		if err != nil {
			return
		}
		if d.Delivery == nil && !d.Differs() {
			t.Error("a file came, and nothing differs")
		}
		if _, err := json.Marshal(d); err != nil {
			t.Error(err)
		}
		for _, m := range d.Manifest {
			if _, err := nutshell.SplitPath(m.Path); err != nil {
				t.Errorf("%q: %v", m.Path, err)
			}
		}
	})
}
