package nutshell

import (
	"fmt"
	"slices"
	"strings"
)

// enums are the members that have a fixed set of values: the specification's and, where they differ, those of
// its older schema.
var enums = []struct {
	field string
	value func(*sections) string
	known []string
}{
	{"bundle_type", func(s *sections) string { return s.BundleType },
		[]string{TypeRequest, TypeDelivery, TypeTemplate, TypeCheckpoint, TypePartial}},
	{"task.priority", func(s *sections) string { return s.Task.Priority },
		[]string{"critical", "high", "medium", "low"}},
	{"credentials.encryption", func(s *sections) string { return s.Credentials.Encryption },
		[]string{"age", "sops", "vault", "none"}},
	{"harness.agent_type_hint", func(s *sections) string { return s.Harness.AgentTypeHint },
		[]string{"research", "planning", "execution", "review"}},
	{"harness.execution_strategy", func(s *sections) string { return s.Harness.ExecutionStrategy },
		[]string{"one-shot", "incremental", "parallel"}},
	{"completeness.status", func(s *sections) string { return s.Completeness.Status },
		[]string{"draft", "incomplete", "ready"}},
	{"compression.algorithm", func(s *sections) string { return s.Compression.Algorithm },
		[]string{Gzip, Zstd, None, "nutcracker"}},
}

// Validate asks for what a bundle cannot do without (section 3 of the specification, "Required Fields"): a
// version with major 0, a type, an id "nut-…", a title. Its error is a *ManifestError. What is only odd is a
// warning: an empty title, which makes the bundle a draft; a delivery without one; a value outside a fixed set.
func (m *Manifest) Validate() (warnings []string, err error) {
	if err := m.checkRequired(); err != nil {
		return nil, err
	}
	if m.read.Task.Title == "" {
		warnings = append(warnings, "task.title is empty")
	}
	for _, e := range enums {
		if v := e.value(&m.read); v != "" && !slices.Contains(e.known, v) {
			warnings = append(warnings, fmt.Sprintf("%s: %.40q is not a value that the specification knows", e.field, v))
		}
	}
	return warnings, nil
}

func (m *Manifest) checkRequired() error {
	wrong := func(field, reason string) error { return &ManifestError{ManifestFile, field, reason} }
	switch {
	case m.read.Version == "":
		return wrong("nutshell_version", "is required")
	case !strings.HasPrefix(m.read.Version, "0."):
		return wrong("nutshell_version", fmt.Sprintf("%.20q is not known, only 0.x", m.read.Version))
	case m.read.BundleType == "":
		return wrong("bundle_type", "is required")
	case m.read.ID == "":
		return wrong("id", "is required")
	case !validID(m.read.ID):
		return wrong("id", fmt.Sprintf(`%.80q is not "nut-" and letters, digits, dots or dashes`, m.read.ID))
	case m.read.BundleType != TypeDelivery && !m.text.has("task", "title"):
		return wrong("task.title", "is required")
	}
	return nil
}

// validID reports whether id has the form of a bundle's id. It is safe as a file name.
func validID(id string) bool {
	rest, ok := strings.CutPrefix(id, "nut-")
	return ok && rest != "" && len(id) <= 128 && strings.Trim(rest, idCharacters) == ""
}

const idCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
