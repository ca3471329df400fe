package oa

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is the version of the schemas that this package writes.
const Version = "1.0.0"

// CheckVersion checks a schema version of the form major.minor.patch. A version with our major number can be read;
// unknown members of a newer minor version are kept. Any other is ErrVersion.
func CheckVersion(version string) error {
	parts := strings.Split(version, ".")
	if len(version) > 32 || len(parts) != 3 {
		return fmt.Errorf("schema_version %.40q is not major.minor.patch: %w", version, ErrVersion)
	}
	for _, part := range parts {
		if _, err := strconv.ParseUint(part, 10, 31); err != nil || len(part) > 1 && part[0] == '0' {
			return fmt.Errorf("schema_version %.40q is not major.minor.patch: %w", version, ErrVersion)
		}
	}
	if ours, _, _ := strings.Cut(Version, "."); parts[0] != ours {
		return fmt.Errorf("schema_version %s: %w: only %s.x is read", version, ErrVersion, ours)
	}
	return nil
}
