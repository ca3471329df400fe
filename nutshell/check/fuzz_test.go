package check_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"guild/nutshell/check"
)

// FuzzTree checks random bytes in every document that is read: the manifest and those that it names.
func FuzzTree(f *testing.F) {
	for _, c := range cases {
		f.Add([]byte(c.manifest), []byte(`{"criteria":[{"id":"a","script":"t.sh"}],"auth":{"credential_ref":"x"},"endpoints":[{"body_schema":"s.json"}]}`), false)
	}
	f.Add([]byte(task(vaultAge)), []byte(ageFile), true)
	f.Add([]byte(task(vaultAge)), []byte("-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n-----END AGE ENCRYPTED FILE-----\n"), true)
	f.Fuzz(func(t *testing.T, manifest, document []byte, packed bool) {
		fsys := fstest.MapFS{"nutshell.json": {Data: manifest}}
		for _, name := range []string{"e.json", "v.json", "c.json", "t.sh", "tests/hidden/a", "delivery/result.json", "context/requirements.md"} {
			fsys[name] = &fstest.MapFile{Data: document}
		}
		o := check.Options{Now: now, Packed: packed}
		r, err := check.Tree(fsys, o)
		again, _ := check.Tree(fsys, o)
		if !reflect.DeepEqual(r, again) {
			t.Error("twice the same tree, and two reports")
		}
		if err == nil {
			sound(t, r)
		}
		if v, err := check.Validate(fsys, o); err == nil {
			sound(t, v)
		}
	})
}

// sound checks the rules that every report follows.
func sound(t interface{ Errorf(string, ...any) }, r check.Report) {
	if len(r.Items) > 500 {
		t.Errorf("%d lines", len(r.Items))
	}
	if r.Ready() && r.Count(check.Missing) > 0 {
		t.Errorf("it is ready, and something is missing")
	}
	for _, i := range r.Items {
		if i.Field == "" || i.Text == "" || i.Mark == "" {
			t.Errorf("a line says nothing: %+v", i)
		}
		if len(i.Text) > 2000 || strings.Contains(i.Fix, "\n\n") {
			t.Errorf("a line is too long: %.80q", i.Text)
		}
	}
}

// TestFixMissingFiles builds trees out of the cases' parts: adding the files that a report names as missing
// leaves none of these lines.
func TestFixMissingFiles(t *testing.T) {
	path := rapid.SampledFrom([]string{"a.md", "context/b.md", "files/c", "tests/scripts/d.sh", "files/assets/e.png"})
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOfN(path, 5, 5).Draw(t, "paths")
		manifest := task(`"context":{"requirements":"` + paths[0] + `","additional":["` + paths[1] + `"]},"files":{"tree":[{"path":"` + paths[2] +
			`"}]},"acceptance":{"test_scripts":["` + paths[3] + `"]},"resources":{"images":[{"path":"` + paths[4] + `"}]}`)
		fsys := tree(manifest)
		r, err := check.Tree(fsys, check.Options{Now: now})
		if err != nil || r.Ready() {
			t.Fatalf("%s, %v", r.Status, err)
		}
		for _, i := range r.Items {
			if i.Mark == check.Missing {
				fsys[i.Path] = &fstest.MapFile{Data: []byte("written\n")}
			}
		}
		if r, err = check.Tree(fsys, check.Options{Now: now}); err != nil || !r.Ready() {
			t.Fatalf("%+v, %v", r, err)
		}
		sound(t, r)
	})
}
