package partner

import (
	"strconv"
	"strings"
)

// significant reports whether a version is more than a correction of another: a new major or minor number by semantic
// versioning, and anything else if one of them is not written so.
func significant(from, to string) bool {
	major, minor, ok := semantic(from)
	toMajor, toMinor, toOK := semantic(to)
	if ok && toOK {
		return major != toMajor || minor != toMinor
	}
	return from != to
}

// semantic reads the first two numbers of a version such as "2.1.0", "v2.1" or "2.1.0-rc.1+build".
func semantic(version string) (major, minor uint64, ok bool) {
	core, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "+")
	core, _, _ = strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, 0, false
	}
	var numbers [3]uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		numbers[i] = n
	}
	return numbers[0], numbers[1], true
}
