package confine

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// shortage returns for how long, since the machine runs, some process has waited for a processor. It is 0 on a kernel that does
// not count that.
func shortage() time.Duration {
	b, _ := os.ReadFile("/proc/pressure/cpu")
	return parseShortage(string(b))
}

// parseShortage reads the first line of the file, as in "some avg10=0.00 avg60=0.00 avg300=0.00 total=1283".
func parseShortage(text string) time.Duration {
	line, _, _ := strings.Cut(text, "\n")
	_, total, _ := strings.Cut(line, "total=")
	us, err := strconv.ParseInt(total, 10, 64)
	if err != nil || us < 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
