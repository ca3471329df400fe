package nutshell

import (
	"cmp"
	"encoding/json"
)

// describe writes the list of files, their totals and the compression into the manifest. Other members of a file in the
// list, such as its role, are kept. It returns the entries of the old list whose files do not exist.
func (m *Manifest) describe(files []Entry, compression string, tokens int64) (dangling []Skipped, err error) {
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
	m.text = m.text.remove("compression", "compressed_size_bytes")
	changes := []change{
		{[]string{"files", "total_count"}, len(files)},
		{[]string{"files", "total_size_bytes"}, total},
		{[]string{"files", "tree"}, tree},
		{[]string{"compression", "algorithm"}, cmp.Or(compression, Gzip)},
		{[]string{"compression", "original_size_bytes"}, total},
	}
	if tokens > 0 {
		changes = append(changes, change{[]string{"compression", "context_tokens_estimate"}, tokens})
	}
	return dangling, m.set(changes...)
}

// knownEntries returns the entries of files.tree as they are written, by path.
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

// listed returns the entry of files.tree for a file; known is the old entry, if there was one.
func listed(known document, e Entry) (json.RawMessage, error) {
	if len(known.raw) == 0 {
		return encode(struct {
			Path string `json:"path"`
			Size int64  `json:"size"`
			Hash string `json:"hash"`
		}{e.Path, e.Size, e.Hash.String()})
	}
	line, err := known.set(change{[]string{"size"}, e.Size}, change{[]string{"hash"}, e.Hash.String()})
	return line.raw, err
}
