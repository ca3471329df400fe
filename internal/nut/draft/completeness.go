package draft

import (
	"errors"
	"slices"

	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/check"
)

// writeCompleteness writes what was found into the manifest of a directory, and changes nothing else in it.
func writeCompleteness(dir string, r check.Report) error {
	return host.RewriteManifest(dir, func(m *nutshell.Manifest) error {
		was := m.Completeness()
		if was.Status == r.Status && slices.Equal(was.Missing, r.Missing()) && slices.Equal(was.Warnings, r.Warnings()) {
			return nil
		}
		return errors.Join(
			m.Set("completeness.status", r.Status),
			m.Set("completeness.missing", r.Missing()),
			m.Set("completeness.warnings", r.Warnings()),
		)
	})
}
