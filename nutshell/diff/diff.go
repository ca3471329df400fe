// Package diff compares two bundles: the members of their manifests, their files, and the lines of text files. A delivery
// is compared with the request that it answers: what was asked for and what was delivered.
//
// Files are read one after the other. Large ones and credentials are compared by their hashes only; a secret that was
// left unencrypted is never shown. The package is pure.
package diff

import (
	"context"
	"fmt"
	"io/fs"

	"guild/nutshell"
)

// Options say which paths are not part of the bundles, as .nutignore does. Either may be nil.
type Options struct {
	ExcludeA, ExcludeB func(path string, isDir bool) bool
}

// Diff is the difference between the bundles A and B.
type Diff struct {
	A        Side      `json:"a"`
	B        Side      `json:"b"`
	Manifest []Member  `json:"manifest"` // in the order of A; nothing if Delivery is set
	Files    []File    `json:"files"`    // by path
	Delivery *Delivery `json:"delivery,omitempty"`
}

// Side identifies a bundle, by its manifest.
type Side struct {
	ID         string `json:"id"`
	BundleType string `json:"bundle_type"`
	Title      string `json:"title"`
	RequestID  string `json:"request_id,omitempty"`
}

// Changes of a member or a file from A to B.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
	Moved   = "moved" // a file: the same content at another path
)

// Differs reports whether there is any difference. A delivery always differs from its request.
func (d Diff) Differs() bool { return len(d.Manifest) > 0 || len(d.Files) > 0 || d.Delivery != nil }

// Bundles compares two bundles. If B is a delivery that answers A, Delivery is set, and Files compares the artifacts with
// the files of the request that have the same names. Its errors are nutshell.ErrNoManifest, those of
// nutshell.ParseManifest, and those of reading.
func Bundles(ctx context.Context, a, b fs.FS, o Options) (Diff, error) {
	before, err := read(ctx, a, o.ExcludeA)
	if err != nil {
		return Diff{}, fmt.Errorf("the first bundle: %w", err)
	}
	after, err := read(ctx, b, o.ExcludeB)
	if err != nil {
		return Diff{}, fmt.Errorf("the second bundle: %w", err)
	}
	d := Diff{A: before.side(), B: after.side()}
	c := contents{ctx: ctx, a: before, b: after}
	if after.answers(before) {
		r := after.result
		d.Delivery = &Delivery{
			Status: r.Status, Percentage: r.CompletionPercentage, Summary: r.Summary,
			Passed: r.AcceptanceResults.TestsPassed, Failed: r.AcceptanceResults.TestsFailed, Skipped: r.AcceptanceResults.TestsSkipped,
			Checklist: answers(before.manifest.Acceptance().Checklist, r.AcceptanceResults.Checklist),
			Artifacts: claims(before, after),
			Scopes:    credentials(before.manifest.Credentials().Scopes, r.ExecutionLog.Uses()),
		}
		d.Files, err = c.compare(artifactChanges(before, after))
		return d, err
	}
	d.Manifest = compareManifests(before.manifest, after.manifest)
	d.Files, err = c.compare(changes(before.files, after.files))
	return d, err
}

// tree is a bundle that is compared.
type tree struct {
	fsys     fs.FS
	manifest *nutshell.Manifest
	files    map[string]entry
	result   *nutshell.Result // of a delivery; nil if there is none or it cannot be read
}

func read(ctx context.Context, fsys fs.FS, exclude func(string, bool) bool) (*tree, error) {
	m, err := nutshell.ReadManifest(fsys)
	if err != nil {
		return nil, err
	}
	files, err := list(ctx, fsys, exclude)
	if err != nil {
		return nil, err
	}
	t := &tree{fsys: fsys, manifest: m, files: files}
	if _, ok := files[nutshell.ResultFile]; ok {
		raw, err := nutshell.ReadDocument(fsys, nutshell.ResultFile)
		if err != nil {
			return nil, err
		}
		t.result, _ = nutshell.ParseResult(raw) // an invalid one is compared as text
	}
	return t, nil
}

func (t *tree) side() Side {
	m := t.manifest
	return Side{ID: m.ID(), BundleType: m.BundleType(), Title: m.Task().Title, RequestID: t.requestID()}
}

func (t *tree) requestID() string {
	if t.manifest.RequestID() == "" && t.result != nil {
		return t.result.RequestID
	}
	return t.manifest.RequestID()
}

// answers reports whether a bundle is a delivery for a request.
func (t *tree) answers(request *tree) bool {
	return t.manifest.BundleType() == nutshell.TypeDelivery && t.result != nil &&
		request.manifest.BundleType() != nutshell.TypeDelivery && request.manifest.ID() != "" && t.requestID() == request.manifest.ID()
}
