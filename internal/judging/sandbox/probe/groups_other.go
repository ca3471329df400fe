//go:build !linux

package probe

// groupRemedies returns nothing: only Linux has control groups.
func groupRemedies() []string { return nil }
