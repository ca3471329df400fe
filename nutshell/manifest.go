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

// Manifest is a nutshell.json. Its text is the truth: what is read from it is typed, what is set in it changes
// only the bytes of that member, so that unknown fields, key order and the spelling of numbers survive. The
// zero Manifest is not usable: ParseManifest makes one.
type Manifest struct {
	text document
	read Sections
}

// ParseManifest reads a manifest. It is a *ManifestError if the bytes are not one JSON object in UTF-8 without
// byte order mark, comments or duplicate keys, or a known member has the wrong type; a *LimitError if it is
// too large or too deep. It does not ask for the required fields: Validate does.
func ParseManifest(b []byte) (*Manifest, error) {
	text, err := parseDocument(ManifestFile, b)
	if err != nil {
		return nil, err
	}
	return newManifest(text)
}

// ReadManifest reads the manifest of a tree: ErrNoManifest if there is none. Validate asks whether all is in it.
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

// RegularFiles returns the paths of the regular files of a tree, sorted, without the manifest. exclude says what is no
// part of the tree; it may be nil.
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

// Set changes one member, or adds it where the specification's order wants it. Objects and lists on the way are
// made. The manifest is unchanged when the result would not be one.
//
// The path has names with dots between them, as in "task.title". A name that has dots itself stands in quotes, as a
// JSON string: extensions."org.example".level. Elements of a list have numbers from 0 on, and "-" is the place after
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

// Remove takes out the member or element at path, if it is there. The rest keeps its bytes. The manifest is
// unchanged when the result would not be one.
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

// Member returns what stands at path, as it is written. It reports false if there is nothing, or path is none.
func (m *Manifest) Member(path string) (json.RawMessage, bool) {
	names, err := SplitPath(path)
	if err != nil {
		return nil, false
	}
	raw, ok := m.text.get(names...)
	return bytes.Clone(raw), ok
}

// set makes changes, all or none.
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

// Sections returns all that this package understands of the manifest, in one value. Read it, do not write.
func (m *Manifest) Sections() Sections { return m.read }

// Version returns nutshell_version.
func (m *Manifest) Version() string { return m.read.Version }

// BundleType returns bundle_type: one of the Type constants, or a type that this package does not know.
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

// Publisher returns who made the bundle.
func (m *Manifest) Publisher() Publisher { return m.read.Publisher }

// Context returns the pointers to the files that explain the task.
func (m *Manifest) Context() Context { return m.read.Context }

// Files returns the list of files as the manifest has it. Bundle.Files is what the archive has.
func (m *Manifest) Files() Files { return m.read.Files }

// APIs returns the interfaces that the task may call.
func (m *Manifest) APIs() APIs { return m.read.APIs }

// Credentials returns where the vault is and what is in it.
func (m *Manifest) Credentials() Credentials { return m.read.Credentials }

// Acceptance returns how the work will be judged.
func (m *Manifest) Acceptance() Acceptance { return m.read.Acceptance }

// Harness returns the advice to whatever runs the agent.
func (m *Manifest) Harness() Harness { return m.read.Harness }

// Resources returns the things outside the bundle.
func (m *Manifest) Resources() Resources { return m.read.Resources }

// Completeness returns what the last check found.
func (m *Manifest) Completeness() Completeness { return m.read.Completeness }

// Compression returns what the manifest says about the archive.
func (m *Manifest) Compression() Compression { return m.read.Compression }
