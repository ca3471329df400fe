package host

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"guild/nutshell"
)

// LimitFlag adds --limit, which changes Limits.
func (p *Program) LimitFlag(cmd *cobra.Command) {
	cmd.Flags().Var(limits{&p.Limits}, "limit", "a limit to change, as in entries=20000 or total=2G; may be repeated")
}

// LimitHint returns how to change the limit that an error is about, or "" if no flag does.
func LimitHint(e *nutshell.LimitError) string {
	name := strings.ToLower(e.What)
	if field, _ := (limits{new(nutshell.Limits)}).field(name); field == nil {
		return ""
	}
	return "--limit " + name + "=N"
}

// limits is the value of --limit.
type limits struct{ *nutshell.Limits }

// field returns the limit of a name, and whether it is one of bytes. It is nil for an unknown name.
func (l limits) field(name string) (set func(int64), inBytes bool) {
	count := func(n *int) func(int64) { return func(to int64) { *n = int(to) } }
	size := func(n *int64) func(int64) { return func(to int64) { *n = to } }
	switch name {
	case "entries":
		return count(&l.Entries), false
	case "ratio":
		return count(&l.Ratio), false
	case "depth":
		return count(&l.Depth), false
	case "path":
		return count(&l.Path), true
	case "file":
		return size(&l.File), true
	case "total":
		return size(&l.Total), true
	}
	return nil, false
}

// Set implements pflag.Value.
func (l limits) Set(text string) error {
	name, number, _ := strings.Cut(text, "=")
	set, inBytes := l.field(name)
	if set == nil {
		return fmt.Errorf("%.40q is not one of entries, total, file, ratio, path, depth", name)
	}
	unit := int64(1)
	for suffix, of := range map[string]int64{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if cut, ok := strings.CutSuffix(number, suffix); ok && inBytes {
			number, unit = cut, of
		}
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if inBytes {
		n, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil || n < 1 || n > math.MaxInt64/unit/1024 {
		return errors.New("a limit is a whole number above zero, of bytes also with K, M or G")
	}
	set(n * unit)
	return nil
}

// Type implements pflag.Value.
func (limits) Type() string { return "NAME=N" }

// String implements pflag.Value. There is no default to show.
func (limits) String() string { return "" }
