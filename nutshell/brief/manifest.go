package brief

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
)

// droppable lists the members of a manifest that are left out, in this order, until the rest fits.
var droppable = []string{
	"files.tree", "compression", "completeness", "extensions", "resources", "publisher", "tags", "credentials", "apis", "acceptance", "harness", "context",
}

// shorten returns the manifest without as many members as necessary to have at most so many tokens, and what it lacks.
func (w *writer) shorten(m *nutshell.Manifest, most int64) (text string, tokens int64, lacks string, err error) {
	short, err := withoutHashes(m)
	if err != nil {
		return "", 0, "", err
	}
	var gone []string
	for next := 0; ; next++ {
		if text, err = compact(short); err != nil {
			return "", 0, "", err
		}
		if tokens, _, err = w.count.countUpTo(text, most); err != nil {
			return "", 0, "", err
		}
		switch {
		case tokens <= most:
			if len(gone) > 0 {
				lacks = "shown without " + strings.Join(gone, ", ")
			}
			return text, tokens, lacks, nil
		case next < len(droppable):
			gone = append(gone, droppable[next])
			err = short.Remove(droppable[next])
		case next == len(droppable):
			gone = []string{"anything but identity and title"}
			short, err = barest(m)
		default:
			if tokens, err = w.count.Count(text); err == nil {
				err = &BudgetError{w.budget, w.budget - most + tokens}
			}
		}
		if err != nil {
			return "", 0, "", err
		}
	}
}

// withoutHashes returns the manifest with a list of files that says only path, size and role: a hash takes forty
// tokens, and an agent has no use for it.
func withoutHashes(m *nutshell.Manifest) (*nutshell.Manifest, error) {
	type line struct {
		Path string `json:"path"`
		Size *int64 `json:"size,omitempty"`
		Role string `json:"role,omitempty"`
	}
	short, err := nutshell.ParseManifest(m.Bytes())
	if err != nil || len(m.Files().Tree) == 0 {
		return short, err
	}
	var tree []line
	for _, e := range m.Files().Tree {
		tree = append(tree, line{e.Path, e.Size, e.Role})
	}
	return short, short.Set("files.tree", tree)
}

// barest returns a manifest with the required fields alone.
func barest(m *nutshell.Manifest) (*nutshell.Manifest, error) {
	return nutshell.ParseManifest(fmt.Appendf(nil, `{"nutshell_version":%s,"bundle_type":%s,"id":%s,"task":{"title":%s}}`,
		quote(m.Version()), quote(m.BundleType()), quote(m.ID()), quote(m.Task().Title)))
}

func quote(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, s) // s was parsed, so it is UTF-8
	return b
}

// compact returns the text of a manifest without white space.
func compact(m *nutshell.Manifest) (string, error) {
	v := jsontext.Value(m.Bytes())
	if err := v.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		return "", fmt.Errorf("%s: %w", nutshell.ManifestFile, err)
	}
	return string(v), nil
}
