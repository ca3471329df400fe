//go:build !linux

package probe

// groupRemedies is empty: only Linux has control groups.
func groupRemedies() []string { return nil }
