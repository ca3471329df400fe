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

// Tree reports whether the tree of a bundle has all that an agent needs to start (section 4 of the specification). It is
// an error if there is no manifest (nutshell.ErrNoManifest), or it cannot be read (*nutshell.ManifestError,
// *nutshell.LimitError).
func Tree(fsys fs.FS, o Options) (Report, error) {
	c, err := look(fsys, o)
	if err != nil {
		return Report{}, err
	}
	return c.report(func(k kind) Mark { m, _ := k.marks(); return m }), nil
}

// Validate reports whether an agent or a reader would fail with the tree of a bundle: an unknown version, a bundle that
// has expired, a missing file, a document that cannot be read, or, in a directory, a file whose hash is not the listed
// one. Advice is left out. nutshell.Open checks the bytes of a packed bundle. It is an error only if the tree cannot be
// read.
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
	return c.report(validMark), nil
}

// unusable returns the item for a manifest that cannot be parsed. It reports false for other errors.
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

// checker checks a bundle section by section.
type checker struct {
	o     Options
	fsys  fs.FS
	m     *nutshell.Manifest
	odd   []string // warnings of nutshell.Manifest.Validate that are not reported yet
	found []finding
	seen  map[string]bool // paths that are reported
}

// finding is an item whose mark is not decided yet.
type finding struct {
	Item
	kind kind
}

// kind decides about the mark of a finding in Tree and in Validate.
type kind int

const (
	fine     kind = iota // nothing is wrong
	gap                  // an agent cannot start, and a reader fails
	implied              // an agent cannot start; a reader does not fail
	outdated             // a reader fails; the bundle was complete once
	strange              // neither an agent nor a reader fails
	advice               // the work would be easier otherwise
)

// marks returns the marks for Tree and for Validate. An empty one leaves the finding out.
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

// validMark returns the mark for Validate.
func validMark(k kind) Mark { _, m := k.marks(); return m }

// look checks everything.
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

// sections checks the manifest in the specification's order. The list of files is checked last and then put in its place,
// because a missing file is reported where the manifest says what it is for.
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

// maxLines limits the number of lines in one section of a report: a stranger's manifest could have any number.
const maxLines = 40

// section adds the findings of one section. Of too many, those without a fault are left out first.
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

// rest returns the line for the findings that are left out. It has the mark of the worst of them.
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

// report makes the report of the findings that have a mark.
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

// add adds a finding that is not about a file.
func (c *checker) add(k kind, field, text, fix string) {
	c.found = append(c.found, finding{Item{Field: field, Text: text, Fix: fix}, k})
}

// unknownValues adds the warnings of Validate about one section, without those about fields that have a finding.
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
