package check

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"guild/nutshell"
)

// Tree says whether the tree of a bundle has all that an agent needs to start (section 4 of the specification). It is
// an error if there is no manifest (nutshell.ErrNoManifest), or one that cannot be read (*nutshell.ManifestError,
// *nutshell.LimitError).
func Tree(fsys fs.FS, o Options) (Report, error) {
	c, err := look(fsys, o)
	if err != nil {
		return Report{}, err
	}
	return c.report(func(k kind) Mark { m, _ := k.marks(); return m }), nil
}

// Validate says whether an agent or a reader would fail with the tree of a bundle: a version that is not known, a
// bundle that has expired, a path that leads nowhere, a document that cannot be read, or, in a directory, a file that
// is not the one listed with its hash. What would only make the work harder is not its matter. The bytes of a packed
// bundle are nutshell.Open's. It is an error only if the tree cannot be read.
func Validate(fsys fs.FS, o Options) (Report, error) {
	c, err := look(fsys, o)
	if fault, ok := unusable(err); ok {
		return Report{Status: Incomplete, Items: []Item{fault}}, nil
	}
	if err != nil {
		return Report{}, err
	}
	if !o.Packed {
		c.section(c.hashes)
	}
	return c.report(func(k kind) Mark { _, m := k.marks(); return m }), nil
}

// unusable is the fault of a manifest that cannot be read at all.
func unusable(err error) (Item, bool) {
	fault := Item{Field: nutshell.ManifestFile, Mark: Missing, Path: nutshell.ManifestFile}
	if wrong, ok := errors.AsType[*nutshell.ManifestError](err); ok {
		fault.Field = cmp.Or(wrong.Field, fault.Field)
		fault.Text = wrong.Error()
		return fault, true
	}
	_, large := errors.AsType[*nutshell.LimitError](err)
	fault.Text = fmt.Sprint(err)
	return fault, large
}

// checker goes through a bundle, section by section.
type checker struct {
	o     Options
	fsys  fs.FS
	m     *nutshell.Manifest
	odd   []string // what nutshell.Manifest.Validate warns about, not told yet
	found []finding
	seen  map[string]bool // paths that have been told
}

// finding is an item before it is known who asks.
type finding struct {
	Item
	kind kind
}

// kind is what a finding means to Tree and to Validate.
type kind int

const (
	fine     kind = iota // nothing is wrong
	gap                  // an agent cannot start, and a reader fails
	implied              // an agent cannot start, but a reader has nothing to fail at
	outdated             // a reader fails; it was complete once
	strange              // nobody fails
	advice               // it would go better otherwise
)

// marks returns the marks for Tree and for Validate. An empty one is that it does not matter.
func (k kind) marks() (tree, valid Mark) {
	switch k {
	case fine:
		return OK, OK
	case gap:
		return Missing, Missing
	case implied:
		return Missing, Warning
	case outdated:
		return Warning, Missing
	case strange:
		return Warning, Warning
	}
	return Warning, ""
}

// look goes through everything.
func look(fsys fs.FS, o Options) (*checker, error) {
	o.Program = cmp.Or(o.Program, "nutshell")
	c := &checker{o: o, fsys: fsys, seen: make(map[string]bool)}
	raw, err := nutshell.ReadDocument(fsys, nutshell.ManifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nutshell.ErrNoManifest
	}
	if err != nil {
		return nil, err
	}
	if c.m, err = nutshell.ParseManifest(raw); err != nil {
		return nil, err
	}
	c.sections()
	return c, nil
}

// sections goes through the manifest in the specification's order. Only the list of files comes last, and is then put
// in its place: a file that is missing is told where the manifest says what it is for.
func (c *checker) sections() {
	for _, section := range []func(){c.identity, c.task, c.context} {
		c.section(section)
	}
	before := c.found
	c.found = nil
	for _, section := range []func(){c.apis, c.credentials, c.acceptance, c.harness, c.resources, c.delivery} {
		c.section(section)
	}
	c.unknownValues("")
	after := c.found
	c.found = nil
	c.section(c.files)
	c.found = slices.Concat(before, c.found, after)
}

// maxLines is how many lines one section of a report has at most. A stranger's manifest could fill a screen forever.
const maxLines = 40

// section adds what one section finds. Of too many lines, those that are fine go first.
func (c *checker) section(find func()) {
	start := len(c.found)
	find()
	lines := c.found[start:]
	if len(lines) <= maxLines {
		return
	}
	kept := make([]finding, 0, maxLines)
	var left []finding
	room := maxLines - 1
	for _, f := range lines {
		if f.kind != fine && len(kept) < room {
			kept = append(kept, f)
		} else {
			left = append(left, f)
		}
	}
	c.found = append(c.found[:start], append(kept, rest(left))...)
}

// rest is the line for those that are not told. It is as grave as the gravest of them.
func rest(left []finding) finding {
	worst := left[0]
	for _, f := range left {
		if worst.kind == fine || f.kind == gap || f.kind == implied && worst.kind != gap {
			worst = f
		}
	}
	name, _, _ := strings.Cut(worst.Field, ".")
	text := fmt.Sprintf("%s: %s like these", name, plural(len(left), "more line", "more lines"))
	return finding{Item{Field: worst.Field, Text: text}, worst.kind}
}

// report puts together what matters to who asks.
func (c *checker) report(mark func(kind) Mark) Report {
	r := Report{Status: Ready, Items: []Item{}, Delivery: c.m.BundleType() == nutshell.TypeDelivery}
	for _, f := range c.found {
		if f.Mark = mark(f.kind); f.Mark != "" {
			r.Items = append(r.Items, f.Item)
		}
	}
	switch {
	case blank(c.m.Task().Title) && !r.Delivery:
		r.Status = Draft
	case r.Count(Missing) > 0:
		r.Status = Incomplete
	}
	return r
}

// add tells a finding that is not about a file.
func (c *checker) add(k kind, field, text, fix string) {
	c.found = append(c.found, finding{Item{Field: field, Text: text, Fix: fix}, k})
}

// unknownValues tells the warnings of the manifest about the members of one section, unless more has been said.
func (c *checker) unknownValues(section string) {
	var left []string
	for _, w := range c.odd {
		field, _, ok := strings.Cut(w, ": ")
		switch {
		case !ok || !strings.HasPrefix(w, section):
			left = append(left, w)
		case !slices.ContainsFunc(c.found, func(f finding) bool { return f.Field == field }):
			c.add(strange, field, w, "")
		}
	}
	c.odd = left
}
