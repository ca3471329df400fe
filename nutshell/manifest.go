package nutshell

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
)

// ManifestFile is the path of the manifest, the first entry of every bundle.
const ManifestFile = "nutshell.json"

// Manifest is a nutshell.json. It keeps the text: setting a member changes only the bytes of that member, so that unknown
// fields, key order and the spelling of numbers survive. The zero Manifest is not usable: ParseManifest makes one.
type Manifest struct {
	text document
	read Sections
}

// ParseManifest reads a manifest. It is a *ManifestError if the bytes are not one JSON object in UTF-8 without
// byte order mark, comments or duplicate keys, or a known member has the wrong type; a *LimitError if it is
// too large or too deep. It does not check the required fields: Validate does.
func ParseManifest(b []byte) (*Manifest, error) {
	text, err := parseDocument(ManifestFile, b)
	if err != nil {
		return nil, err
	}
	return newManifest(text)
}

// ReadManifest reads the manifest of a tree. It is ErrNoManifest if there is none; the other errors are those of
// ParseManifest and of reading.
func ReadManifest(fsys fs.FS) (*Manifest, error) {
	raw, err := ReadDocument(fsys, ManifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoManifest
	}
	if err != nil {
		return nil, err
	}
	return ParseManifest(raw)
}

// RegularFiles returns the paths of the regular files of a tree, sorted, without the manifest and what exclude, which
// may be nil, reports true for.
func RegularFiles(ctx context.Context, fsys fs.FS, exclude func(path string, isDir bool) bool) ([]string, error) {
	var all []string
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil || p == "." || p == ManifestFile:
			return err
		case exclude != nil && exclude(p, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			all = append(all, p)
		}
		return nil
	})
	slices.Sort(all)
	return all, err
}

func newManifest(text document) (*Manifest, error) {
	m := &Manifest{text: text}
	if err := text.decode(&m.read); err != nil {
		return nil, err
	}
	if isFirst(m.read.Version) {
		m.read.Publisher.Name = cmp.Or(m.read.Publisher.Name, text.string("publisher", "agent_name"))
	}
	return m, nil
}

// Bytes returns the manifest's text.
func (m *Manifest) Bytes() []byte { return append([]byte(nil), m.text.raw...) }

// Set changes one member, or adds it in the specification's order, with the objects and lists that lead to it. If the
// result is not a valid manifest, it is an error and the manifest is unchanged.
//
// The path has names with dots between them, as in "task.title". A name that has dots itself is in quotes, as a
// JSON string: extensions."org.example".level. The elements of a list are numbered from 0, and "-" is the place after
// the last one: Set("context.additional.-", "context/faq.md") adds a file.
func (m *Manifest) Set(path string, value any) error {
	names, err := SplitPath(path)
	if err != nil {
		return &ManifestError{ManifestFile, "", err.Error()}
	}
	return m.set(change{names, value})
}

// SetExtension changes or adds the extension called name (section 10), which may contain dots.
func (m *Manifest) SetExtension(name string, value any) error {
	return m.set(change{[]string{"extensions", name}, value})
}

// Remove removes the member or element at path, if there is one. The rest keeps its bytes. If the result is not a valid
// manifest, it is an error and the manifest is unchanged.
func (m *Manifest) Remove(path string) error {
	names, err := SplitPath(path)
	if err != nil {
		return &ManifestError{ManifestFile, "", err.Error()}
	}
	changed, err := newManifest(m.text.remove(names...))
	if err != nil {
		return err
	}
	*m = *changed
	return nil
}

// Member returns the text of the member at path. It reports false if there is none, or path is not a path.
func (m *Manifest) Member(path string) (json.RawMessage, bool) {
	names, err := SplitPath(path)
	if err != nil {
		return nil, false
	}
	raw, ok := m.text.get(names...)
	return bytes.Clone(raw), ok
}

// set makes all changes, or none if one is an error.
func (m *Manifest) set(changes ...change) error {
	text, err := m.text.set(changes...)
	if err != nil {
		return err
	}
	changed, err := newManifest(text)
	if err != nil {
		return err
	}
	*m = *changed
	return nil
}

// Extension decodes the extension called name into v. It reports false if there is none.
func (m *Manifest) Extension(name string, v any) (bool, error) {
	raw, ok := m.read.Extensions[name]
	if !ok {
		return false, nil
	}
	return true, decode(ManifestFile, raw, v)
}

// Extensions returns all extensions as they are written.
func (m *Manifest) Extensions() map[string]json.RawMessage { return m.read.Extensions }

// Sections returns all members that this package understands. The result must not be changed.
func (m *Manifest) Sections() Sections { return m.read }

// Version returns nutshell_version.
func (m *Manifest) Version() string { return m.read.Version }

// BundleType returns bundle_type: one of the Type constants, or an unknown type.
func (m *Manifest) BundleType() string { return m.read.BundleType }

// ID returns the id of the bundle, "nut-…".
func (m *Manifest) ID() string { return m.read.ID }

// RequestID returns the id of the request that a delivery answers.
func (m *Manifest) RequestID() string { return m.read.RequestID }

// ParentID returns the id of the bundle that this one is a part of, as split makes them.
func (m *Manifest) ParentID() string { return m.read.ParentID }

// CreatedAt returns created_at.
func (m *Manifest) CreatedAt() Timestamp { return m.read.CreatedAt }

// ExpiresAt returns expires_at, the deadline.
func (m *Manifest) ExpiresAt() Timestamp { return m.read.ExpiresAt }

// Task returns what is to be done.
func (m *Manifest) Task() Task { return m.read.Task }

// Tags returns the labels of the task.
func (m *Manifest) Tags() Tags { return m.read.Tags }

// Publisher returns who says that they made the bundle.
func (m *Manifest) Publisher() Publisher { return m.read.Publisher }

// Context returns the pointers to the files that explain the task.
func (m *Manifest) Context() Context { return m.read.Context }

// Files returns the list of files in the manifest. Bundle.Files returns the files of the archive.
func (m *Manifest) Files() Files { return m.read.Files }

// APIs returns the interfaces that the task may call.
func (m *Manifest) APIs() APIs { return m.read.APIs }

// Credentials returns the path of the vault and the credentials in it.
func (m *Manifest) Credentials() Credentials { return m.read.Credentials }

// Acceptance returns how the work will be judged.
func (m *Manifest) Acceptance() Acceptance { return m.read.Acceptance }

// Harness returns the advice to whatever runs the agent.
func (m *Manifest) Harness() Harness { return m.read.Harness }

// Resources returns the things outside the bundle.
func (m *Manifest) Resources() Resources { return m.read.Resources }

// Completeness returns the result of the last check.
func (m *Manifest) Completeness() Completeness { return m.read.Completeness }

// Compression returns the manifest's description of the archive.
func (m *Manifest) Compression() Compression { return m.read.Compression }
