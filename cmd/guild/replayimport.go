package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/durable"
	"guild/replay/session"
)

// importing are the flags of replay import.
type importing struct {
	from    string
	file    string // "" for standard output
	receipt string // "" for none
	force   bool
}

func (p *program) replayImportCommand() *cobra.Command {
	var o importing
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Make a trajectory of the log that an agent keeps on disk",
		Long: `import makes REPLAY.jsonl of the log of a session: of Claude Code
~/.claude/projects/*/*.jsonl, of Codex ~/.codex/sessions/**/rollout-*.jsonl.
The session's id, the times, the calls and the notes are the log's; what looks
like a secret is replaced. --receipt also writes RECEIPT.json, with the model
and its tokens. Lines that could not be understood are counted by type. The log
of a sub-agent is a file of its own. A log is a claim: nothing in it is proven.`,
		Example: "  guild replay import --from claude-code ~/.claude/projects/app/5f21c9aa.jsonl\n" +
			"  guild replay import --from codex rollout.jsonl -o a.jsonl --receipt a.json",
		Args: cli.OneArg("a log, or -"),
		RunE: func(_ *cobra.Command, args []string) error {
			return p.runReplayImport(args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "program that wrote the log: claude-code or codex")
	f.StringVarP(&o.file, "output", "o", "", "file to write (default: standard output)")
	f.StringVar(&o.receipt, "receipt", "", "file to write the session receipt to")
	f.BoolVar(&o.force, "force", false, "replace the files that are there")
	cli.Choices(cmd, "from", "claude-code", "codex")
	cli.JSONFlag(cmd, "print errors as JSON, too")
	return cmd
}

func (p *program) runReplayImport(name string, o importing) error {
	if o.from == "" {
		return cli.WithHint(cli.Usage(errors.New("--from is missing: it names the program that wrote the log, claude-code or codex")),
			"as in guild replay import --from claude-code "+name)
	}
	format := session.Format(o.from)
	if !slices.Contains(session.Logged(), format) {
		return cli.Usage(fmt.Errorf("--from %.40q: want claude-code or codex", o.from))
	}
	if o.file != "" && o.file == o.receipt {
		return cli.Usage(fmt.Errorf("--output and --receipt are one file: %s", o.file))
	}
	in, err := p.input(name)
	if err != nil {
		return err
	}
	defer in.Close()
	log, err := io.ReadAll(io.LimitReader(in, session.MaxRead+1))
	if err == nil && len(log) > session.MaxRead {
		err = fmt.Errorf("over %s", cli.Size(session.MaxRead))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", inputName(name), err)
	}
	s, unknown, err := session.Import(format, log)
	if err != nil {
		return cli.WithHint(fmt.Errorf("%s: %w", inputName(name), err), "--from names the program that wrote the log on disk; what an agent prints is another form")
	}
	made, hash, err := session.Encode(s.Events)
	if err != nil {
		return err
	}
	r, err := session.NewReceipt(s.Events, hash, s.Effects)
	if err != nil {
		return err
	}
	r.Provenance, r.Trace = &s.Provenance, &s.Report
	receipt, err := r.Encode()
	if err != nil {
		return err
	}
	if o.file == "" {
		_, err = p.out.Write(made)
	} else {
		err = writeOutput(o.file, made, o.force)
	}
	if err == nil && o.receipt != "" {
		err = writeOutput(o.receipt, receipt, o.force)
	}
	if err != nil {
		return err
	}
	return p.sayImported(s, unknown)
}

// sayImported says on standard error what became of the lines.
func (p *program) sayImported(s session.Session, unknown map[string]int) error {
	var text strings.Builder
	calls := 0
	for _, e := range s.Events {
		if e.EventName() == "ToolCall" {
			calls++
		}
	}
	fmt.Fprintf(&text, "%s, %s", cli.Count(int(s.Report.Lines), "line", "lines"), cli.Count(calls, "call", "calls"))
	if t := s.Tokens; t != nil {
		fmt.Fprintf(&text, ", %d tokens read, %d written", t.Input, t.Output)
	}
	text.WriteByte('\n')
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		fmt.Fprintf(&text, "not understood: %s of type %s\n", cli.Count(unknown[name], "line", "lines"), cli.Clean(name))
	}
	if n := s.Report.Faults(); n > 0 {
		fmt.Fprintf(&text, "left out: %s, faulty or over the limits", cli.Count(int(n), "line", "lines"))
		if s.Report.First != "" {
			fmt.Fprintf(&text, " (%s)", cli.Clean(s.Report.First))
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(p.err, text.String())
	return err
}

// writeOutput writes a file that must not be there yet, unless force is set.
func writeOutput(file string, content []byte, force bool) error {
	if force {
		return durable.WriteBytes(file, content)
	}
	err := durable.Create(file, content)
	if errors.Is(err, fs.ErrExist) {
		err = cli.WithHint(fmt.Errorf("%s is there already", file), "--force replaces it")
	}
	return err
}
