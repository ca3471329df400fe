package nutshell_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"guild/nutshell"
)

func paths(files []nutshell.Entry) []string {
	var all []string
	for _, e := range files {
		all = append(all, e.Path)
	}
	return all
}

func TestPackIncludedFiles(t *testing.T) {
	tree := fstest.MapFS{
		"nutshell.json":     {Data: []byte(someManifest)},
		".env":              {Data: []byte("A=1")},
		"files/.env":        {Data: []byte("B=2")},
		"files/test.pem":    {Data: []byte("-----BEGIN PRIVATE KEY-----\n")},
		"out/log/a.txt":     {Data: []byte("a")},
		"out/log/b.txt":     {Data: []byte("b")},
		"out/c.txt":         {Data: []byte("c")},
		".git/config":       {Data: []byte("x")},
		"CVS/Root":          {Data: []byte("x")},
		"CVS/hooks/pre":     {Mode: fs.ModeSymlink},
		".nutignore":        {Data: []byte("out/\n")},
		"earlier.nut":       {Data: []byte("NUT\x01")},
		"earlier.nut.sig":   {},
		"earlier.nut.vault": {},
		"kept.sig":          {},
	}
	o := nutshell.Options{Exclude: func(p string, isDir bool) bool { return isDir && p == "out" }}
	_, info := pack(t, tree, o)
	if got := paths(info.Files); !slices.Equal(got, []string{"kept.sig"}) {
		t.Errorf("with no names: %q", got)
	}
	o.Include = []string{".env", "files/test.pem", "out/log/a.txt", "CVS/Root", ".nutignore", "earlier.nut", "earlier.nut.sig"}
	_, info = pack(t, tree, o)
	want := []string{".env", ".nutignore", "CVS/Root", "earlier.nut", "earlier.nut.sig", "files/test.pem", "kept.sig", "out/log/a.txt"}
	if got := paths(info.Files); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var skipped []string
	for _, s := range info.Skipped {
		skipped = append(skipped, s.Path)
	}
	slices.Sort(skipped)
	if want := []string{".git", "CVS", "earlier.nut.vault", "files/.env", "out"}; !slices.Equal(skipped, want) {
		t.Errorf("skipped %q, want %q", skipped, want)
	}
	o.Include = []string{".git/config"}
	if _, err := nutshell.Pack(t.Context(), tree, io.Discard, o); !entryError(".git/config", "version control")(err) {
		t.Errorf("a repository: %v", err)
	}
}

func TestIncludeWithoutFile(t *testing.T) {
	tree := someTree()
	tree["tests/hidden/x"] = &fstest.MapFile{Data: []byte("h")}
	hidden := commit(t, tree, nil)
	for _, name := range []string{"gone", "context", "../x", "tests/hidden/x", ""} {
		_, err := nutshell.Pack(t.Context(), tree, io.Discard, nutshell.Options{Include: []string{name}, Hidden: hidden})
		if !entryError(name, "named")(err) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := nutshell.Pack(t.Context(), tree, io.Discard, nutshell.Options{Include: []string{"nutshell.json"}, Hidden: hidden}); err != nil {
		t.Error(err)
	}
}

// withVault is a tree whose manifest has these credentials.
func withVault(credentials string) fstest.MapFS {
	return fstest.MapFS{
		"nutshell.json":              {Data: []byte(strings.TrimSuffix(someManifest, "}") + `,"credentials":` + credentials + `}`)},
		"credentials/vault.enc.json": {Data: []byte("age-encryption.org/v1\n")},
		"a":                          {Data: []byte("A")},
	}
}

func TestPackVaultBeside(t *testing.T) {
	o := nutshell.Options{VaultBeside: true}
	tree := withVault(`{"vault":"credentials/vault.enc.json","encryption":"age"}`)
	packed, info := pack(t, tree, o)
	b, err := open(packed)
	if err != nil {
		t.Fatal(err)
	}
	if !b.Manifest().Credentials().Beside || !slices.Equal(paths(info.Files), []string{"a"}) {
		t.Errorf("%+v, %q", b.Manifest().Credentials(), paths(info.Files))
	}
	if len(info.Skipped) != 1 || info.Skipped[0].Path != "credentials/vault.enc.json" {
		t.Errorf("%+v", info.Skipped)
	}
	tree["credentials/vault.enc.json"].Data = []byte("sealed again")
	if again, _ := pack(t, tree, o); !bytes.Equal(again, packed) {
		t.Error("sealing the vault again changes the bundle")
	}
	manifest := b.Manifest().Bytes()
	tree["nutshell.json"] = &fstest.MapFile{Data: manifest}
	if again, _ := pack(t, tree, nutshell.Options{}); !bytes.Equal(again, packed) {
		t.Error("what the manifest says already is forgotten")
	}
	delete(tree, "credentials/vault.enc.json")
	if again, _ := pack(t, tree, nutshell.Options{}); !bytes.Equal(again, packed) {
		t.Error("a vault that is not even there changes the bundle")
	}
	if _, err := nutshell.Pack(t.Context(), someTree(), io.Discard, o); !manifestError("credentials.vault", "no vault")(err) {
		t.Error(err)
	}
}

func TestPackPlaintextVault(t *testing.T) {
	clear := withVault(`{"vault":"credentials/vault.enc.json","encryption":"none"}`)
	for _, beside := range []bool{false, true} {
		_, err := nutshell.Pack(t.Context(), clear, io.Discard, nutshell.Options{VaultBeside: beside})
		if e, ok := errors.AsType[*nutshell.PlaintextError](err); !ok || e.Vault != "credentials/vault.enc.json" || !strings.Contains(err.Error(), "not encrypted") {
			t.Error(err)
		}
	}
	if _, info := pack(t, clear, nutshell.Options{InsecurePlaintext: true}); len(info.Files) != 2 {
		t.Errorf("%q", paths(info.Files))
	}
	delete(clear, "credentials/vault.enc.json")
	pack(t, clear, nutshell.Options{}) // there is none
}

func TestPlaintextVaultDetected(t *testing.T) {
	tree := fstest.MapFS{
		"nutshell.json":              {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"T"},"credentials":{"vault":"credentials/vault.enc.json","encryption":"age"}}`)},
		"credentials/vault.enc.json": {Data: []byte(`{"vault_version":"0.2.0","credentials":[{"name":"db","value":"hunter2hunter2"}]}`)},
	}
	_, err := nutshell.Pack(t.Context(), tree, io.Discard, nutshell.Options{})
	if _, ok := errors.AsType[*nutshell.PlaintextError](err); !ok {
		t.Errorf("got %v, want a PlaintextError", err)
	}
}

func TestTokenEstimateInManifest(t *testing.T) {
	for tokens, want := range map[int64]int64{0: 0, -1: 0, 4711: 4711} {
		packed, _ := pack(t, someTree(), nutshell.Options{Tokens: func() (int64, error) { return tokens, nil }})
		b, err := open(packed)
		if err != nil || b.Manifest().Compression().ContextTokensEstimate != want {
			t.Errorf("%d: %v, %v", tokens, b.Manifest().Compression(), err)
		}
	}
}

func TestExtract(t *testing.T) {
	raw := readTestdata(t, "reference/full-request.nut")
	got := map[string]int{}
	b, err := nutshell.Extract(bytes.NewReader(raw), int64(len(raw)), nutshell.Limits{}, func(e nutshell.Entry, r io.Reader) error {
		content, err := io.ReadAll(r)
		got[e.Path] = len(content)
		return err
	})
	if err != nil || len(got) != len(b.Files()) {
		t.Fatalf("%d files, %v", len(got), err)
	}
	for _, e := range b.Files() {
		if got[e.Path] != int(e.Size) {
			t.Errorf("%s: %d bytes of %d", e.Path, got[e.Path], e.Size)
		}
	}
	mine := errors.New("enough")
	if _, err := nutshell.Extract(bytes.NewReader(raw), int64(len(raw)), nutshell.Limits{}, func(nutshell.Entry, io.Reader) error { return mine }); err != mine {
		t.Error(err)
	}
}
