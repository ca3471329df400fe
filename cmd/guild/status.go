package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/journal"
	"guild/internal/step/work"
)

func (p *program) statusCommand() *cobra.Command {
	return call(p, p.running, control.NodeStatus, &cobra.Command{
		Use:     "status",
		Short:   "Show what the running node is doing",
		Example: "  guild status\n  guild status --json",
	}, func(s control.Status) error { return writeStatus(p.out, s, p.now()) })
}

// writeStatus prints a status in at most 80 columns.
func writeStatus(w io.Writer, s control.Status, now time.Time) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(tw, "%s\t%s\n", label, cli.Cut(cli.Clean(fmt.Sprintf(format, args...)), 68))
	}
	line("node", "%s", s.Npub)
	line("up", "%s, version %s", age(now, s.Started), s.Version)
	tiers := map[int]int{}
	for i, r := range s.Relays {
		tiers[r.Tier]++
		if r.Tier <= 1 {
			line(first(i, "relays"), "%s", describeRelay(r, s.Local))
		}
	}
	if tiers[2]+tiers[3] > 0 {
		line("", "%d more are asked every five minutes, %d about hourly", tiers[2], tiers[3])
	}
	line("sandbox", "%s", s.Sandbox)
	line("journal", "%d entries in %s", s.Journal.Last, s.Journal.Dir)
	for _, aside := range s.Journal.Renewed {
		line("", "damaged, begun anew: %s", aside)
	}
	line("providers", "%d known", s.Seen)
	line("jobs", "%s", counts(s.Jobs))
	for i, v := range s.Services {
		line(first(i, "services"), "%s: %s%d of %d running, %d queued, %d done, %d failed",
			cmp.Or(v.D, v.Task), closed(v.State), v.Running, v.Slots, v.Queued, v.Done, v.Failed)
	}
	if s.Yields != "" {
		line("paused", "%s", s.Yields)
	}
	line("dropped", "%s", counts(s.Dropped))
	for i, parked := range s.Parked {
		line(first(i, "parked"), "%s", parked)
	}
	if n := len(s.Quarantined); n > 0 {
		line("quarantine", "%d lost entries when the journal was repaired; to let one go on:", n)
		line("", "%s GUARD", journal.Releasing)
	}
	for _, guard := range s.Quarantined {
		line("", "%s", guard)
	}
	return tw.Flush()
}

// first returns the label of the first line of a list and nothing on the others.
func first(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}

// closed returns the state of a service that takes no requests, "" for an open one.
func closed(state string) string {
	if state == "" || state == string(work.Open) {
		return ""
	}
	return state + ", "
}

func describeRelay(r control.Relay, local string) string {
	mark := "✓"
	if !r.Connected {
		mark = "✗"
	}
	text := fmt.Sprintf("%s %s, %d events", mark, r.URL, r.Events)
	if r.URL == local {
		text += ", embedded"
	}
	if r.Latency > 0 {
		text += fmt.Sprintf(", %d ms", r.Connect+r.Latency)
	}
	if r.Loss != nil && *r.Loss >= guild.Micro/100 {
		text += fmt.Sprintf(", %.0f %% lost", float64(*r.Loss)*100/guild.Micro)
	}
	if r.Error != "" {
		text += ": " + r.Error
	}
	return text
}

// counts writes a table of numbers on one line, the names sorted.
func counts[N int | int64](m map[string]N) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", m[name], name))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
