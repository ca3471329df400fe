package check

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"guild/nutshell"
)

// identity checks the fields that every reader requires, and the deadline.
func (c *checker) identity() {
	m := c.m
	complete := true
	for _, required := range []struct{ field, value string }{
		{"nutshell_version", m.Version()}, {"bundle_type", m.BundleType()}, {"id", m.ID()},
	} {
		if required.value == "" {
			complete = false
			c.lacks(gap, required.field)
		}
	}
	odd, err := m.Validate()
	c.odd = slices.DeleteFunc(odd, func(w string) bool { return strings.HasPrefix(w, "task.title") })
	wrong, ok := errors.AsType[*nutshell.ManifestError](err)
	if complete && ok && wrong.Field != "task.title" {
		f, _ := nutshell.FieldAt(wrong.Field) // of the table itself
		c.add(gap, wrong.Field, wrong.Field+": "+wrong.Reason, c.words(f.Fix))
	}
	c.deadline()
	for _, field := range []string{"nutshell_version", "bundle_type", "created_at", "expires_at"} {
		c.unknownValues(field)
	}
}

// lacks reports that a field of the manifest is missing, with the words of the table.
func (c *checker) lacks(k kind, field string) {
	f, _ := nutshell.FieldAt(field) // a path of ours
	c.add(k, field, f.Gap, c.words(f.Fix))
}

// words fills in the placeholders in a fix of the table.
func (c *checker) words(fix string) string {
	return strings.NewReplacer("{program}", c.o.Program, "{id}", c.someID()).Replace(fix)
}

// someID returns an id for the bundle: a name-based UUID of its manifest.
func (c *checker) someID() string {
	b := sha256.Sum256(c.m.Bytes())
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("nut-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Deadline returns what Validate says about the deadline of a manifest: that it has passed, or is not a time. It is for a
// manifest without its bundle, whose paths cannot be followed.
func Deadline(m *nutshell.Manifest, o Options) []Item {
	o.Program = cmp.Or(o.Program, "nutshell")
	c := &checker{o: o, m: m}
	c.deadline()
	return c.report(validMark).Items
}

// deadline checks expires_at.
func (c *checker) deadline() {
	until := c.m.ExpiresAt()
	if blank(string(until)) {
		return
	}
	again := "Set a new deadline with: " + c.command("set", "expires_at", c.nextWeek().Format(time.RFC3339))
	t, err := moment(until)
	switch {
	case err != nil:
		c.add(outdated, "expires_at", fmt.Sprintf("expires_at: %q is not a date like 2026-03-21T10:00:00Z", short(string(until))), again)
	case c.past(t):
		c.add(outdated, "expires_at", "expires_at: passed on "+day(t)+" — agent would come too late", again)
	}
}

// task checks the title and the summary.
func (c *checker) task() {
	t := c.m.Task()
	delivery := c.m.BundleType() == nutshell.TypeDelivery
	switch {
	case !blank(t.Title):
		c.add(fine, "task.title", `task.title: "`+short(t.Title)+`"`, "")
	case delivery:
		c.add(strange, "task.title", "task.title: missing", "Set it with: "+c.command("set", "task.title", "title of the request"))
	default:
		c.lacks(gap, "task.title")
	}
	switch {
	case !blank(t.Summary):
		c.add(fine, "task.summary", "task.summary: provided", "")
	case !delivery:
		c.lacks(advice, "task.summary")
	}
	c.unknownValues("task.")
}

// context checks the files that explain the task.
func (c *checker) context() {
	x := c.m.Context()
	c.explains(named("context.requirements", x.Requirements))
	c.explains(named("context.architecture", x.Architecture))
	c.explains(named("context.references", x.References))
	for i, p := range x.Additional {
		field := fmt.Sprintf("context.additional.%d", i)
		if c.notBlank(field, p) {
			c.explains(named(field, p))
		}
	}
}

// notBlank reports an empty path in a list, and returns false then.
func (c *checker) notBlank(field, p string) bool {
	if blank(p) {
		c.add(gap, field, field+": is an empty path", "Take it out of the list, or name a file")
		return false
	}
	return true
}

// files checks that the listed files exist. Files that are not listed are added by packing.
func (c *checker) files() {
	tree := c.m.Files().Tree
	total, listed, there := int64(0), 0, 0
	for _, e := range tree {
		if e.Path == nutshell.ManifestFile || !c.notBlank("files.tree", e.Path) {
			continue
		}
		r := named("files.tree.-.path", e.Path)
		r.field = "files.tree"
		if c.told(r) {
			continue
		}
		listed++
		if _, info, ok := c.follow(r); ok {
			total += info.Size()
			there++
		}
	}
	if there > 0 {
		c.add(fine, "files.tree", fmt.Sprintf("files: %s (%s)", exist(there, listed), size(total)), "")
	}
}

// harness checks the advice to the program that runs the agent. A delivery needs none.
func (c *checker) harness() {
	h := c.m.Harness()
	n := 0
	for _, one := range h.Constraints {
		if !blank(one) {
			n++
		}
	}
	switch {
	case n > 0:
		c.add(fine, "harness.constraints", fmt.Sprintf("harness.constraints: provided (%d)", n), "")
	case c.m.BundleType() != nutshell.TypeDelivery:
		c.lacks(advice, "harness.constraints")
	}
	if b := h.ContextBudgetHint; b < 0 || b > 1 {
		c.add(strange, "harness.context_budget_hint", fmt.Sprintf("harness.context_budget_hint: %g is not between 0 and 1", b),
			"Set a share of the context window with: "+c.command("set", "harness.context_budget_hint", "0.35"))
	}
	c.unknownValues("harness.")
}

// exist says how many of the listed files exist.
func exist(there, listed int) string {
	switch {
	case there < listed:
		return fmt.Sprintf("%d of %d exist", there, listed)
	case there == 1:
		return "1 exists"
	}
	return fmt.Sprintf("all %d exist", there)
}

// resources checks the images, which are the only resources within a bundle.
func (c *checker) resources() {
	for i, image := range c.m.Resources().Images {
		field := fmt.Sprintf("resources.images.%d", i)
		if c.notBlank(field, image.Path) {
			r := named(field+".path", image.Path)
			r.field = field
			c.present(r)
		}
	}
}
