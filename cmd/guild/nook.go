package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/durable"
	"guild/internal/step/activity"
	"guild/nook"
)

func (p *program) nookCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "nook",
		Short: "Show what your agents do, and how they grow",
		Long: `nook records the activity of agents by the Nook protocol, and shows what follows
from it: sparks for finished work, stages, achievements and streaks. Events come
from hooks, from local programs with the token, and from guild's own jobs.`,
		Example: "  guild nook status\n  guild nook hooks install git\n  guild nook emit agent.completed --agent ada --unit issue-12 --tokens 5000",
	}, p.nookStatusCommand(), p.nookLogCommand(), p.nookExplainCommand(), p.nookEmitCommand(), p.nookClaimCommand(), p.nookEvolveCommand(),
		p.nookHooksCommand(), p.nookRunCommand(), p.nookExportCommand(), p.nookImportCommand(), p.nookVerifyCommand(), p.nookHookCommand())
}

// rootFlag gives cmd the flag --root.
func rootFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("root", "", "root identity of the agents (default: this node's own)")
	return cmd
}

func (p *program) nookStatusCommand() *cobra.Command {
	return rootFlag(call(p, p.reading, control.NookStatus, &cobra.Command{
		Use:     "status",
		Short:   "Show sparks, stage, streak and the agents",
		Example: "  guild nook status\n  guild nook status --json | jq .profile.totals",
	}, p.showNook))
}

func (p *program) showNook(n control.Nook) error {
	of := n.Profile
	whose := map[bool]string{true: "root", false: "unproven"}[n.Proven]
	line(p.out, "%-9s %s", whose, cli.Cut(cli.Clean(n.Root), 68))
	line(p.out, "%-9s %s (%s)", "sparks", of.Totals.Lifetime.Total(), splitText(of.Totals.Lifetime))
	line(p.out, "%-9s %s in 24 hours, %s in 7 days", "", of.Totals.Day.Total(), of.Totals.Week.Total())
	line(p.out, "%-9s %d %s%s", "stage", of.Evolution.Stage, of.Evolution.Name, nextStage(of.Evolution))
	if of.Streak.Best > 0 {
		line(p.out, "%-9s %s, the longest %d", "streak", cli.Count(int(of.Streak.Days), "day", "days"), of.Streak.Best)
	}
	unlocked := slices.DeleteFunc(of.Achievements, func(a nook.Achievement) bool { return a.UnlockedAt == 0 })
	if len(unlocked) > 0 {
		line(p.out, "\nachievements")
	}
	for _, a := range unlocked {
		line(p.out, "  %-16s %-10s %s", a.Name, a.Tier, a.Description)
	}
	if of.Heritage != nil {
		line(p.out, "\nheritage  %s, %s", of.Heritage.Tier, cli.Count(of.Heritage.Chests, "chest", "chests"))
	}
	p.showChests(of.Inventory)
	if len(of.Agents) > 0 {
		line(p.out, "")
	}
	return table(p, "no agent has reported yet; guild nook hooks install git, or guild nook emit", "AGENT,STATE,SPARKS,SEEN",
		func(a nook.AgentProfile) []string {
			return []string{cli.Cut(cli.Clean(a.ID), 30), string(a.Sprite.State), a.Sparks.String(), age(p.now(), a.UpdatedAt)}
		})(of.Agents)
}

func splitText(s nook.Split) string {
	var parts []string
	for level, amount := range s {
		parts = append(parts, fmt.Sprintf("%s %s", amount, nook.Level(level)))
	}
	return strings.Join(parts, ", ")
}

func nextStage(e nook.Evolution) string {
	switch {
	case len(e.Options) == 0:
		return ""
	case e.Missing > 0:
		return fmt.Sprintf(", %s sparks to the next", e.Missing)
	}
	return ": guild nook evolve " + strings.Join(e.Options, "|")
}

func (p *program) showChests(i nook.Inventory) {
	if len(i.Chests) == 0 {
		return
	}
	line(p.out, "\nchests    %d opened, %s", len(i.Chests), cli.Count(i.Bits, "bit", "bits"))
	for _, item := range i.Items {
		line(p.out, "  %-16s %s", item.Name, item.Tier)
	}
}

func (p *program) nookLogCommand() *cobra.Command {
	cmd := rootFlag(call(p, p.reading, control.NookLog, &cobra.Command{
		Use:     "log",
		Short:   "List the latest events, the newest last",
		Example: "  guild nook log\n  guild nook log --most 0 --json",
	}, table(p, "no events yet", "AGE,EVENT,AGENT,WORK UNIT,TOKENS,SPARKS,ID", func(l activity.Line) []string {
		tokens, e := "", l.Event
		if e.Tokens > 0 {
			tokens = fmt.Sprint(e.Tokens)
		}
		return []string{age(p.now(), e.Timestamp), strings.TrimPrefix(e.Type, "agent."), cli.Cut(cli.Clean(e.AgentID), 12),
			cli.Cut(cli.Clean(e.WorkUnitID), 16), tokens, l.Trace.Earned.String(), cli.Cut(cli.Clean(e.ID), 12)}
	})))
	cmd.Flags().Int("most", 20, "the number of events; 0 for all")
	return cmd
}

func (p *program) nookExplainCommand() *cobra.Command {
	return rootFlag(call(p, p.reading, control.NookEvent, &cobra.Command{
		Use:     "explain EVENT",
		Short:   "Show how the sparks of an event were computed",
		Example: "  guild nook explain 3f9a",
		Args:    cli.OneArg("the id of an event, or its beginning"),
	}, func(l activity.Line) error {
		t := l.Trace
		line(p.out, "event     %s\nagent     %s\nat        %s\nlevel     %s", cli.Clean(l.Event.ID), cli.Clean(l.Event.AgentID),
			time.UnixMilli(l.Event.Timestamp).UTC().Format(time.RFC3339), l.Level)
		if t.Zero != "" {
			line(p.out, "sparks    0: %s", t.Zero)
			return nil
		}
		line(p.out, "tokens    %d\nunits     %d in the 24 hours up to it\nformula   sqrt(%d/1000) × ln(%d+1) = %s", t.Tokens, t.Units, t.Tokens, t.Units, t.Raw)
		line(p.out, "day       %s earned before\n          %s at 100 %%, %s at 50 %%, %s at 25 %%, %s at 0 %%\n          = %s", t.ThisDay, t.Split[0], t.Split[1], t.Split[2], t.Split[3], t.Rated)
		line(p.out, "hour      %s earned before, of 50: %s\nsparks    %s", t.ThisHour, t.Hourly, t.Earned)
		return nil
	}))
}

func (p *program) nookEmitCommand() *cobra.Command {
	var e nook.Event
	var failed bool
	cmd := rootFlag(send(p, p.acting, control.ReportEvents, &cobra.Command{
		Use:   "emit TYPE",
		Short: "Report an event",
		Long: `emit reports one event: agent.started, agent.completed, agent.failed,
agent.idle, agent.state or agent.heartbeat. Reported again with the same --id it
counts once.`,
		Example: "  guild nook emit agent.started --agent ada --unit issue-12\n  guild nook emit agent.completed --agent ada --unit issue-12 --tokens 5000",
		Args:    cli.OneArg("the type of an event"),
	}, func(cmd *cobra.Command, args []string) ([]nook.Event, []string, error) {
		e.Type = args[0]
		if failed {
			e.Success = new(bool)
		}
		return []nook.Event{e}, nil, e.Check()
	}, func(c activity.Counted) error {
		if c.Duplicates > 0 {
			line(p.out, "it was reported before")
		}
		return nil
	}))
	f := cmd.Flags()
	f.StringVar(&e.AgentID, "agent", "", "the agent")
	f.StringVar(&e.ID, "id", "", "an id of the event (default: its hash)")
	f.StringVar(&e.WorkUnitID, "unit", "", "the work unit")
	f.Int64Var(&e.Tokens, "tokens", 0, "tokens that the work took")
	f.StringVar(&e.State, "state", "", "of agent.state: working, idle or sleeping")
	f.StringVar(&e.Error, "error", "", "of agent.failed: what went wrong")
	f.BoolVar(&failed, "unsuccessful", false, "of agent.completed: it did not succeed")
	return cmd
}

func (p *program) nookClaimCommand() *cobra.Command {
	return send(p, p.acting, control.ClaimAgents, &cobra.Command{
		Use:   "claim FILE|-",
		Short: "Show that agents belong to another key than this node's",
		Long: `claim records signed Nostr events, in a JSON array or one after the other: kind
14199 by which a key names its agents, and kind 0 by which an agent names its
owner (NIP-AE). Then --root takes the key for agents that both name. The newest
of each counts.`,
		Example: "  guild nook claim claims.json\n  guild nook emit agent.completed --root npub1… --agent npub1… --tokens 5000",
		Args:    cli.OneArg("one file, or -"),
	}, func(_ *cobra.Command, args []string) (claims []nostr.Event, _ []string, err error) {
		in, err := p.input(args[0])
		if err != nil {
			return nil, nil, err
		}
		defer in.Close()
		b, err := io.ReadAll(io.LimitReader(in, activity.MaxBody+1))
		if err == nil {
			claims, err = activity.ParseClaims(b)
		}
		return claims, nil, err
	}, func(c activity.Counted) error {
		line(p.out, "%s, %d known", cli.Count(c.Accepted, "new claim", "new claims"), c.Duplicates)
		return nil
	})
}

func (p *program) nookEvolveCommand() *cobra.Command {
	return rootFlag(send(p, p.acting, control.EvolveSprite, &cobra.Command{
		Use:     "evolve CHOICE",
		Short:   "Choose what the sprite becomes at the stage that it has reached",
		Long:    "evolve makes a choice that nook status offers. It is made once and cannot be\ntaken back.",
		Example: "  guild nook evolve explorer",
		Args:    cli.OneArg("one choice"),
	}, func(cmd *cobra.Command, args []string) (string, []string, error) {
		return strings.ToLower(args[0]), nil, nil
	}, p.showNook))
}

func (p *program) nookExportCommand() *cobra.Command {
	return rootFlag(p.local(&cobra.Command{
		Use:     "export [DIR]",
		Short:   "Write profile.json, events.json and sparks.json",
		Long:    "export writes the three files of the Nook specification, by default to NOOK_HOME\nor ~/.nook. Each file is replaced at once.",
		Example: "  guild nook export\n  guild nook export backup/",
		Args:    cli.Arity(cobra.MaximumNArgs(1), "at most one directory"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		dir, files, err := p.nookFiles(cmd, args)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		for _, name := range nookNames {
			if err := durable.WriteBytes(filepath.Join(dir, name), []byte(files[name])); err != nil {
				return nil, err
			}
		}
		return &cli.Result{JSON: map[string]string{"dir": dir}, Show: func() error { line(p.out, "written to %s", dir); return nil }}, nil
	}))
}

var nookNames = []string{"profile.json", "events.json", "sparks.json"}

// nookFiles returns the directory of the exports, and what they should hold.
func (p *program) nookFiles(cmd *cobra.Command, args []string) (dir string, files map[string]string, err error) {
	c, err := p.config()
	if err != nil {
		return "", nil, err
	}
	dir = append(args, c.Paths.Nook)[0]
	err = p.reading(cmd.Context(), func(client *control.Client, _ bool) error {
		files, err = control.NookExports.Call(cmd.Context(), client, cmd.Flag("root").Value.String())
		return err
	})
	return dir, files, err
}

// checkedExports is the output of guild nook verify --json.
type checkedExports struct {
	Dir    string   `json:"dir"`
	Events int      `json:"events"` // in the journal
	Faults []string `json:"faults,omitempty"`
}

func (p *program) nookVerifyCommand() *cobra.Command {
	return rootFlag(p.local(&cobra.Command{
		Use:   "verify [DIR]",
		Short: "Check exported files against the journal",
		Long: `verify compares the three files, by default those in NOOK_HOME or ~/.nook,
with the journal: an event that was deleted, edited, moved or cut off is named.
A node writes the files some seconds after a change. guild audit verify checks
the journal itself.`,
		Example: "  guild nook verify\n  guild nook verify backup/ --json",
		Args:    cli.Arity(cobra.MaximumNArgs(1), "at most one directory"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		dir, files, err := p.nookFiles(cmd, args)
		if err != nil {
			return nil, err
		}
		v, err := compareExports(dir, files)
		if err != nil {
			return nil, err
		}
		show := func() error {
			for _, fault := range v.Faults {
				line(p.out, "✗ %s", cli.Clean(fault))
			}
			if len(v.Faults) == 0 {
				line(p.out, "✓ %s in %s are those of the journal", cli.Count(v.Events, "event", "events"), dir)
			}
			return nil
		}
		if len(v.Faults) > 0 {
			err = cli.WithHint(errors.New("the files are not what the journal says"), "guild nook export writes them again")
		}
		return &cli.Result{JSON: v, Show: show}, err
	}))
}

// compareExports compares exported files with what they should hold.
func compareExports(dir string, want map[string]string) (checkedExports, error) {
	v := checkedExports{Dir: dir}
	all, err := nook.DecodeEvents([]byte(want["events.json"]))
	v.Events = len(all)
	err = cmp.Or(err,
		compareExport(&v, want, "events.json", nook.DecodeEvents, eventFaults),
		compareExport(&v, want, "sparks.json", nook.DecodeLedger, ledgerFaults),
		compareExport(&v, want, "profile.json", nook.DecodeProfile, profileFaults))
	return v, err
}

// compareExport adds the faults of one file, which may be that it cannot be decoded.
func compareExport[T any](v *checkedExports, want map[string]string, name string, decode func([]byte) (T, error), faults func(have, want T) []string) error {
	right, err := decode([]byte(want[name]))
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(v.Dir, name))
	if err != nil {
		return err
	}
	if have, err := decode(b); err != nil {
		v.Faults = append(v.Faults, err.Error())
	} else {
		v.Faults = append(v.Faults, faults(have, right)...)
	}
	return nil
}

// eventFaults compares events with those of the journal, and names the first twenty differences.
func eventFaults(have, all []nook.EventLog) (faults []string) {
	at := map[string]int{}
	for i, e := range all {
		at[e.ID] = i
	}
	last, seen := -1, map[string]bool{}
	for i, e := range have {
		place, known := at[e.ID]
		switch {
		case !known:
			faults = append(faults, fmt.Sprintf("event %d, %.40s, is not in the journal", i+1, e.ID))
		case seen[e.ID]:
			faults = append(faults, fmt.Sprintf("event %d, %.40s, is there twice", i+1, e.ID))
		case !sameJSON(e, all[place]):
			faults = append(faults, fmt.Sprintf("event %d, %.40s, was edited", i+1, e.ID))
		case place < last:
			faults = append(faults, fmt.Sprintf("event %d, %.40s, is out of order", i+1, e.ID))
		}
		last, seen[e.ID] = max(last, place), true
	}
	for i, e := range all {
		if !seen[e.ID] {
			faults = append(faults, fmt.Sprintf("event %d of the journal, %.40s, is missing", i+1, e.ID))
		}
	}
	return faults[:min(len(faults), 20)]
}

func sameJSON(a, b any) bool {
	x, err := nook.EncodeExport(a)
	y, other := nook.EncodeExport(b)
	return err == nil && other == nil && bytes.Equal(x, y)
}

func (p *program) nookImportCommand() *cobra.Command {
	return rootFlag(send(p, p.acting, control.ImportHistory, &cobra.Command{
		Use:   "import FILE",
		Short: "Import the history of an agent, for its heritage package",
		Long: `import reads an events.json from before this node. It is possible once, before
any other activity. The history decides the heritage package and nothing else:
the sparks in the file are not trusted, but computed again.`,
		Example: "  guild nook import ~/old/events.json",
		Args:    cli.OneArg("one events.json"),
	}, func(_ *cobra.Command, args []string) (json.RawMessage, []string, error) {
		b, err := os.ReadFile(args[0])
		return b, nil, err
	}, p.showNook))
}
