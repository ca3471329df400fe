package nutshell

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"guild"
)

// Validate checks the required fields (section 3 of the specification): a version with major 0, a type, an id "nut-…", a
// title. Its error is a *ManifestError. There is a warning for an empty title, which makes the bundle a draft, or a
// delivery without one; a version that is newer than Version; a misspelt section; an unknown value; an invalid time.
func (m *Manifest) Validate() (warnings []string, err error) {
	var unknown, odd []string
	wrong := func(field, reason string) {
		if err == nil {
			err = &ManifestError{ManifestFile, field, reason}
		}
	}
	tables()[ManifestFile].texts("", reflect.ValueOf(m.read), func(path string, f *Field, text string) {
		switch {
		case text == "" && f.Required:
			wrong(path, "is required")
		case text == "":
		case f.Form != nil && !f.Form.MatchString(text):
			wrong(path, fmt.Sprintf(f.misformed, text))
		case len(f.Values) > 0 && !f.Free && !slices.Contains(f.Values, text):
			unknown = append(unknown, fmt.Sprintf("%s: %.40q is not a value that the specification knows", path, text))
		case f.Kind == KindTime:
			if _, err := Timestamp(text).Time(); err != nil {
				odd = append(odd, fmt.Sprintf("%s: %.40q is not a time in RFC 3339", path, text))
			}
		}
	})
	if m.read.BundleType != TypeDelivery && !m.text.has("task", "title") {
		wrong("task.title", "is required")
	}
	if err != nil {
		return nil, err
	}
	if m.read.Task.Title == "" {
		warnings = append(warnings, "task.title is empty")
	}
	if isNewer(m.read.Version) {
		warnings = append(warnings, fmt.Sprintf("nutshell_version: %s is newer than %s; what it adds is kept, but not understood", m.read.Version, Version))
	}
	if share := m.read.Harness.ContextBudgetHint; share < 0 || share > 1 {
		odd = append(odd, fmt.Sprintf("harness.context_budget_hint: %v is not a share from 0 to 1", share))
	}
	return slices.Concat(warnings, m.misspelt(), unknown, odd), nil
}

// misspelt returns warnings about members that are named almost as one that readers know.
func (m *Manifest) misspelt() []string {
	var all []string
	for _, member := range parts(m.text.raw) {
		if slices.Contains(order, member.name) || len(member.name) < 3 {
			continue
		}
		if meant := guild.Nearest(member.name, order); meant != "" && len(all) < maxMisspelt {
			all = append(all, fmt.Sprintf("%.40s: no reader knows this member; did you mean %s?", member.name, meant))
		}
	}
	return all
}

const maxMisspelt = 10 // warnings

// minor is the second number of a version.
func minor(version string) int {
	_, rest, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]) // checked before
	return n
}

// isNewer reports whether a version may have members that this package does not know.
func isNewer(version string) bool { return minor(version) > minor(Version) }

// isFirst reports whether a document is of the specification's first draft, which had other names for some members.
func isFirst(version string) bool { return strings.HasPrefix(version, "0.1.") || version == "0.1" }
