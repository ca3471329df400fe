package suite

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"guild/nutshell"
)

// files is a tree of files in memory: name → content.
type files map[string][]byte

// tree returns the files as a file system, a zip archive in memory.
func (f files) tree() (fs.FS, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		h := &zip.FileHeader{Name: name, Method: zip.Store}
		h.SetMode(0o644)
		one, err := w.CreateHeader(h)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if _, err := one.Write(f[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
}

// pack packs the files as a bundle.
func (f files) pack(o nutshell.Options) ([]byte, error) {
	tree, err := f.tree()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := nutshell.Pack(context.Background(), tree, &b, o); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// hiddenManifest is the manifest of the bundle with the hidden tests, which never leaves this machine.
const hiddenManifest = `{"nutshell_version": "0.2.0", "bundle_type": "partial", "id": "nut-hidden", "task": {"title": "hidden tests"}}`

// pack packs the request bundle and the hidden tests.
func (b *benchmark) pack() (bundle, hidden []byte, err error) {
	all := b.public()
	secret := b.hidden()
	maps.Copy(all, secret)
	tree, err := all.tree()
	if err != nil {
		return nil, nil, err
	}
	// The salts are as secret as the seed from which they are drawn.
	commitments, err := nutshell.Commit(context.Background(), tree, b.dice, nil)
	if err != nil {
		return nil, nil, err
	}
	bundle, err = all.pack(nutshell.Options{Hidden: commitments})
	if err != nil {
		return nil, nil, err
	}
	salts, err := nutshell.Salts(commitments)
	if err != nil {
		return nil, nil, err
	}
	side := files{nutshell.ManifestFile: []byte(hiddenManifest), "files/" + path.Base(nutshell.SaltsFile): salts}
	for name, content := range secret {
		side["files"+name[len(nutshell.HiddenDir):]] = content
	}
	hidden, err = side.pack(nutshell.Options{})
	return bundle, hidden, err
}

// public returns the files for the provider: the manifest, the requirements, and the examples as tests.
func (b *benchmark) public() files {
	examples := b.examples()
	f := files{
		nutshell.ManifestFile:     b.manifest(),
		"context/requirements.md": b.requirements(),
		nutshell.CriteriaFile:     b.criteria("example ", examples),
	}
	if b.command == nil {
		f["tests/test_example.py"] = pytestFile(examples)
	}
	return f
}

// manifest returns the manifest of the request bundle. It names the suite and its modules, but nothing that was drawn.
func (b *benchmark) manifest() []byte {
	type section = map[string]any
	return encode(section{
		"nutshell_version": "0.2.0",
		"bundle_type":      "request",
		"id":               b.id,
		"task":             section{"title": b.title(), "summary": "Small exercises with exact rules. Hidden tests decide."},
		"tags":             section{"skills_required": []string{b.task}, "domains": []string{"benchmark"}},
		"context":          section{"requirements": "context/requirements.md"},
		"acceptance":       section{"criteria_file": nutshell.CriteriaFile, "auto_verifiable": true},
		"harness": section{"agent_type_hint": "execution", "execution_strategy": "one-shot",
			"constraints": []string{"Deliver " + b.file, "Use nothing but the language and its standard library"}},
		"extensions": section{"guild": section{"task": b.task, "deliver": b.file, "benchmark": section{
			"suite": Name(b.task), "type": b.variant, "modules": b.modules, "iterations": Iterations}}},
	})
}

// encode writes JSON in the form used in the files of a bundle.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		panic(err) // maps, lists and texts can always be encoded
	}
	return b.Bytes()
}
