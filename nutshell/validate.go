package nutshell

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Validate asks for what a bundle cannot do without (section 3 of the specification, "Required Fields"): a
// version with major 0, a type, an id "nut-…", a title. Its error is a *ManifestError. What is only odd is a
// warning: an empty title, which makes the bundle a draft; a delivery without one; a version that is newer than
// Version; a value outside a fixed set; a time that is none.
func (m *Manifest) Validate() (warnings []string, err error) {
	if err := m.checkRequired(); err != nil {
		return nil, err
	}
	if m.read.Task.Title == "" {
		warnings = append(warnings, "task.title is empty")
	}
	if isNewer(m.read.Version) {
		warnings = append(warnings, fmt.Sprintf("nutshell_version: %s is newer than %s; what it adds is kept, but not understood", m.read.Version, Version))
	}
	return slices.Concat(warnings, m.unknownValues(), m.oddValues()), nil
}

// unknownValues warns of values outside a fixed set.
func (m *Manifest) unknownValues() (warnings []string) {
	for _, e := range enums {
		if e.value == nil {
			continue
		}
		v := e.value(&m.read)
		if v != "" && !slices.Contains(e.known, v) {
			warnings = append(warnings, fmt.Sprintf("%s: %.40q is not a value that the specification knows", e.field, v))
		}
	}
	return warnings
}

// oddValues warns of values that nobody can make use of.
func (m *Manifest) oddValues() (warnings []string) {
	times := []struct {
		field string
		at    Timestamp
	}{{"created_at", m.read.CreatedAt}, {"expires_at", m.read.ExpiresAt}}
	for _, t := range times {
		if _, err := t.at.Time(); t.at != "" && err != nil {
			warnings = append(warnings, fmt.Sprintf("%s: %.40q is not a time in RFC 3339", t.field, string(t.at)))
		}
	}
	if share := m.read.Harness.ContextBudgetHint; share < 0 || share > 1 {
		warnings = append(warnings, fmt.Sprintf("harness.context_budget_hint: %v is not a share from 0 to 1", share))
	}
	return warnings
}

func (m *Manifest) checkRequired() error {
	wrong := func(field, reason string) error { return &ManifestError{ManifestFile, field, reason} }
	switch {
	case m.read.Version == "":
		return wrong("nutshell_version", "is required")
	case !validVersion.MatchString(m.read.Version):
		return wrong("nutshell_version", fmt.Sprintf("%.20q is not known, only 0.x", m.read.Version))
	case m.read.BundleType == "":
		return wrong("bundle_type", "is required")
	case m.read.ID == "":
		return wrong("id", "is required")
	case !validID.MatchString(m.read.ID):
		return wrong("id", fmt.Sprintf(`%.80q is not "nut-" and letters, digits, dots or dashes`, m.read.ID))
	case m.read.BundleType != TypeDelivery && !m.text.has("task", "title"):
		return wrong("task.title", "is required")
	}
	return nil
}

// Patterns of the required members. Both have the same meaning in Go and in a JSON Schema.
const (
	VersionPattern = `^0\.[0-9]{1,9}(\.[0-9]{1,9})?([-+][0-9A-Za-z.+-]{1,64})?$` // major 0
	IDPattern      = `^nut-[0-9A-Za-z_.-]{1,124}$`                               // safe as a file name
)

var (
	validVersion = regexp.MustCompile(VersionPattern)
	validID      = regexp.MustCompile(IDPattern)
)

// minor is the second number of a version.
func minor(version string) int {
	_, rest, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]) // checked before
	return n
}

// isNewer reports whether a version may have what this package has never heard of.
func isNewer(version string) bool { return minor(version) > minor(Version) }

// isFirst reports whether a document is of the specification's first draft, which had other names for some members.
func isFirst(version string) bool { return strings.HasPrefix(version, "0.1.") || version == "0.1" }
