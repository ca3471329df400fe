package nutshell

import (
	"encoding/json"
	"strings"
)

// list writes files.tree with the totals: what the tree already says of a file stays, beside size and hash. It
// returns the lines of the old tree whose file is not there.
func (m *Manifest) list(files []Entry) (dangling []Skipped, err error) {
	known, err := m.knownEntries()
	if err != nil {
		return nil, err
	}
	tree := make([]json.RawMessage, 0, len(files))
	total := int64(0)
	for _, e := range files {
		line, err := listed(known[e.Path], e)
		if err != nil {
			return nil, err
		}
		tree = append(tree, line)
		total += e.Size
		delete(known, e.Path)
	}
	for _, e := range m.read.Files.Tree {
		if _, left := known[e.Path]; left && e.Path != ManifestFile {
			dangling = append(dangling, Skipped{e.Path, "is in files.tree of the manifest, but not there"})
		}
	}
	return dangling, m.setAll([]change{
		{"files.total_count", len(files)},
		{"files.total_size_bytes", total},
		{"files.tree", tree},
	})
}

// describe writes the compression section: the form, and the bytes of all files.
func (m *Manifest) describe(files []Entry, form string) error {
	if form == "" {
		form = Gzip
	}
	total := int64(0)
	for _, e := range files {
		total += e.Size
	}
	m.remove("compression", "compressed_size_bytes")
	return m.setAll([]change{
		{"compression.algorithm", form},
		{"compression.original_size_bytes", total},
	})
}

// change is a member and its new value.
type change struct {
	path  string
	value any
}

// setAll makes several changes and checks the result once.
func (m *Manifest) setAll(changes []change) error {
	text := m.text
	for _, c := range changes {
		var err error
		if text, err = text.set(strings.Split(c.path, "."), c.value); err != nil {
			return err
		}
	}
	changed, err := newManifest(text)
	if err != nil {
		return err
	}
	*m = *changed
	return nil
}

// knownEntries returns the lines of files.tree as they are written, by path.
func (m *Manifest) knownEntries() (map[string]document, error) {
	raw, ok := m.text.get("files", "tree")
	if !ok {
		return nil, nil
	}
	var lines []json.RawMessage
	if err := decode(ManifestFile, raw, &lines); err != nil {
		return nil, err
	}
	known := make(map[string]document, len(lines))
	for i, line := range lines {
		known[m.read.Files.Tree[i].Path] = document{ManifestFile, line}
	}
	return known, nil
}

// listed returns the line of files.tree for a file; known is the line there was, if any.
func listed(known document, e Entry) (json.RawMessage, error) {
	if len(known.raw) == 0 {
		return encode(struct {
			Path string `json:"path"`
			Size int64  `json:"size"`
			Hash string `json:"hash"`
		}{e.Path, e.Size, e.Hash.String()})
	}
	sized, err := known.set([]string{"size"}, e.Size)
	if err != nil {
		return nil, err
	}
	line, err := sized.set([]string{"hash"}, e.Hash.String())
	return line.raw, err
}
