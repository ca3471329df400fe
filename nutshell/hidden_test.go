package nutshell_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"guild"
	"guild/nutshell"
)

// secretive is a request's tree with two hidden tests.
func secretive() fstest.MapFS {
	return fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-1", "task": {"title": "t"},
			"files": {"tree": [{"path": "tests/hidden/b.py", "role": "tests"}, {"path": "tests/a.py", "role": "tests"}]}}`)},
		"tests/a.py":          {Data: []byte("open")},
		"tests/hidden/b.py":   {Data: []byte("secret")},
		"tests/hidden/c/d.py": {Data: []byte("secret too")},
		nutshell.SaltsFile:    {Data: []byte("{}")},
	}
}

func commit(t *testing.T, tree fstest.MapFS, known []guild.Commitment) []guild.Commitment {
	t.Helper()
	c, err := nutshell.Commit(t.Context(), tree, rand.Reader, known)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPackHiddenTests(t *testing.T) {
	tree := secretive()
	commitments := commit(t, tree, nil)
	if len(commitments) != 2 || commitments[0].Path != "tests/hidden/b.py" || commitments[1].Path != "tests/hidden/c/d.py" {
		t.Fatalf("%+v", commitments)
	}
	var packed bytes.Buffer
	info, err := nutshell.Pack(t.Context(), tree, &packed, nutshell.Options{Compression: nutshell.None, Hidden: commitments})
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Files) != 1 || !slices.ContainsFunc(info.Skipped, func(s nutshell.Skipped) bool { return s.Path == nutshell.HiddenDir }) {
		t.Errorf("%+v", info)
	}
	for _, secret := range []string{"secret", commitments[0].Salt, commitments[1].Salt, ".salts.json", `"role":"tests","size":6`} {
		if bytes.Contains(packed.Bytes(), []byte(secret)) {
			t.Errorf("%q is in the bundle", secret)
		}
	}
	b, err := nutshell.Open(bytes.NewReader(packed.Bytes()), int64(packed.Len()), nutshell.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	hidden := b.Manifest().Acceptance().HiddenTests
	if len(hidden) != 2 || hidden[0].Path != commitments[0].Path || hidden[0].Hash != commitments[0].Hash {
		t.Errorf("%+v", hidden)
	}
}

func TestCommitmentOpens(t *testing.T) {
	c := commit(t, secretive(), nil)[0]
	if !nutshell.Opens(c, []byte("secret")) {
		t.Error("it does not open")
	}
	for name, bad := range map[string]guild.Commitment{
		"no salt":        {Path: c.Path, Hash: c.Hash},
		"a short salt":   {Path: c.Path, Hash: c.Hash, Salt: c.Salt[:62]},
		"no hash":        {Path: c.Path, Salt: c.Salt},
		"salt and file":  {Path: c.Path, Hash: guild.Sum([]byte("secret")), Salt: c.Salt},
		"another's salt": {Path: c.Path, Hash: c.Hash, Salt: strings.Repeat("0", 64)},
	} {
		if nutshell.Opens(bad, []byte("secret")) {
			t.Errorf("%s opens", name)
		}
	}
	if nutshell.Opens(c, []byte("secreT")) {
		t.Error("another file opens")
	}
}

func TestCommitAgain(t *testing.T) {
	tree := secretive()
	first := commit(t, tree, nil)
	salts, err := nutshell.Salts(first)
	if err != nil {
		t.Fatal(err)
	}
	known, err := nutshell.ParseSalts(salts)
	if err != nil {
		t.Fatal(err)
	}
	tree["tests/hidden/b.py"].Data = []byte("changed")
	second := commit(t, tree, known)
	if second[0] == first[0] || second[1] != first[1] || second[0].Salt == first[0].Salt {
		t.Errorf("%+v\n%+v", first, second)
	}
}

func TestPackHiddenWithoutCommitments(t *testing.T) {
	tree := secretive()
	good := commit(t, tree, nil)
	for name, hidden := range map[string][]guild.Commitment{
		"none":       nil,
		"too few":    good[:1],
		"too many":   append(slices.Clone(good), guild.Commitment{Path: "tests/hidden/e"}),
		"of another": {good[0], {Path: good[1].Path, Hash: good[0].Hash, Salt: good[0].Salt}},
	} {
		var packed bytes.Buffer
		if _, err := nutshell.Pack(t.Context(), tree, &packed, nutshell.Options{Hidden: hidden}); !errors.Is(err, nutshell.ErrHidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzSalts(f *testing.F) {
	f.Add([]byte(`{"hidden_tests": [{"path": "tests/hidden/a", "hash": "sha256:` + strings.Repeat("0", 64) + `", "salt": "00"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := nutshell.ParseSalts(b)
		for _, c := range list {
			if err == nil && !strings.HasPrefix(c.Path, nutshell.HiddenDir+"/") {
				t.Errorf("%q", c.Path)
			}
			nutshell.Opens(c, b)
		}
	})
}
