// Package brief writes a bundle as one text for the context window of an agent (the specification's "Layered Context"):
// the manifest, then as many of the files as fit into a number of tokens, the most important first, and at the end what
// was left out and why, so that the agent knows what it can ask for.
//
// The order is: the manifest; context.requirements, architecture, references and additional; then the files by role:
// specification, scaffold, reference; then what a bundle says about itself (delivery/result.json, the criteria, the
// endpoints); then all others. Within a role files are in the order of files.tree, then by path. A file that does not fit
// is left out, and those after it may still fit: no file is ever cut. The manifest is shown without the hashes in
// files.tree, and if it does not fit, without its longest members.
//
// Credentials, hidden tests, private keys and files whose names begin with a dot are never shown. Every section is
// between two lines with a mark that occurs in no section, so that no file can end its own section or forge another.
//
// The package is pure. It counts tokens with the vocabularies of the models, which are compiled in.
package brief

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"guild/nutshell"
)

// Defaults of Options.
const (
	DefaultWindow = 200_000 // tokens
	DefaultShare  = 0.35    // of the window, if the manifest has no harness.context_budget_hint: the specification's own example
)

// Options are the options of Layers.
type Options struct {
	Budget int64 // tokens at most; if zero, the share of the window that the manifest asks for
	Window int64 // tokens of the window; DefaultWindow if zero

	Exclude func(path string, isDir bool) bool // what is not part of the bundle, as .nutignore says; may be nil
}

// Brief is the text of a bundle and its parts.
type Brief struct {
	Encoding string  `json:"encoding"`
	Budget   int64   `json:"budget"` // tokens
	Used     int64   `json:"used"`   // tokens of Text, never more than Budget
	Layers   []Layer `json:"layers"` // in order
	Text     string  `json:"text"`
}

// Layer is one file of a bundle.
type Layer struct {
	Path     string `json:"path"`
	Role     string `json:"role"`
	Tokens   int64  `json:"tokens"` // of the content; an estimate if it was too large to count, 0 if it is not text
	Included bool   `json:"included"`
	Reason   string `json:"reason,omitempty"` // why it is left out, or what the manifest lacks
}

// LeftOut returns the layers that are not, or not completely, in the text.
func (b Brief) LeftOut() []Layer {
	var out []Layer
	for _, l := range b.Layers {
		if l.Reason != "" {
			out = append(out, l)
		}
	}
	return out
}

// BudgetError is a budget that is too small for the required fields of the manifest. Both are tokens.
type BudgetError struct{ Budget, Need int64 }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("a budget of %d tokens is too small: the shortest manifest takes %d", e.Budget, e.Need)
}

// Layers writes the bundle in fsys as one text. Its errors are nutshell.ErrNoManifest, those of nutshell.ParseManifest and
// Validate, *BudgetError, and those of reading.
func Layers(ctx context.Context, fsys fs.FS, o Options) (Brief, error) {
	m, err := readManifest(fsys)
	if err != nil {
		return Brief{}, err
	}
	count := NewCounter()
	budget, err := o.budget(m)
	if err != nil {
		return Brief{}, err
	}
	files, err := plan(ctx, fsys, m, o.Exclude)
	if err != nil {
		return Brief{}, err
	}
	w := writer{ctx: ctx, fsys: fsys, count: count, budget: budget}
	if err := w.begin(m); err != nil {
		return Brief{}, err
	}
	for _, f := range files {
		if err := w.add(f); err != nil {
			return Brief{}, err
		}
	}
	text, used, err := w.finish()
	layers := make([]Layer, len(w.parts))
	for i, p := range w.parts {
		layers[i] = p.Layer
	}
	return Brief{Encoding: count.codec.GetName(), Budget: budget, Used: used, Layers: layers, Text: text}, err
}

// budget returns how many tokens the text may have.
func (o Options) budget(m *nutshell.Manifest) (int64, error) {
	share := m.Harness().ContextBudgetHint
	window := o.Window
	if window == 0 {
		window = DefaultWindow
	}
	switch {
	case o.Budget < 0 || window < 0:
		return 0, errors.New("negative budget or window")
	case o.Budget > 0:
		return o.Budget, nil
	case share == 0:
		share = DefaultShare
	case share < 0 || share > 1:
		return 0, &nutshell.ManifestError{File: nutshell.ManifestFile, Field: "harness.context_budget_hint", Reason: "is not between 0 and 1"}
	}
	return int64(share * float64(window)), nil
}

func readManifest(fsys fs.FS) (*nutshell.Manifest, error) {
	m, err := nutshell.ReadManifest(fsys)
	if err != nil {
		return nil, err
	}
	_, err = m.Validate()
	return m, err
}
