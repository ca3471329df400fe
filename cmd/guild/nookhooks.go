package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/hand/hooks"
)

// spool returns the directory of reports that wait for the node.
func (p *program) spool() (hooks.Spool, error) {
	c, err := p.config()
	if err != nil {
		return hooks.Spool{}, err
	}
	return hooks.Spool{Dir: filepath.Join(c.Paths.Nook, "spool")}, nil
}

func (p *program) nookHooksCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "hooks",
		Short: "Let git, Claude Code or Codex report what happens in them",
		Long: `hooks adds hooks that report to Nook: of git commits, bug fixes, tags and
pushes, of Claude Code and Codex sessions, turns and their tokens. A hook only
writes a small file, which the node takes over: it never waits, prints or fails.`,
		Example: "  guild nook hooks install git\n  guild nook hooks install claude-code --agent ada\n  guild nook hooks uninstall git",
	}, p.hooksVerb("install", "Add the hooks of a tool", true), p.hooksVerb("uninstall", "Remove the hooks of a tool, and put back what was there", false))
}

// changedHooks is the output of nook hooks install and uninstall with --json.
type changedHooks struct {
	Tool  string   `json:"tool"`
	Files []string `json:"files"` // that were changed
}

func (p *program) hooksVerb(name, short string, install bool) *cobra.Command {
	var agent, dir string
	cmd := p.local(&cobra.Command{
		Use:       name + " git|claude-code|codex",
		Short:     short,
		Example:   fmt.Sprintf("  guild nook hooks %s git --dir ~/project\n  guild nook hooks %s codex", name, name),
		Args:      cli.OneArg("git, claude-code or codex"),
		ValidArgs: []string{"git", "claude-code", "codex"},
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		done, err := p.changeHooks(cmd, args[0], dir, agent, install)
		if err != nil {
			return nil, err
		}
		return &cli.Result{JSON: done, Show: func() error {
			if len(done.Files) == 0 {
				line(p.out, "nothing to change")
			}
			for _, file := range done.Files {
				line(p.out, "changed %s", file)
			}
			return nil
		}}, nil
	})
	if install {
		cmd.Flags().StringVar(&agent, "agent", "", "the agent that is reported (default: the name of the tool)")
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "of git: a directory in the repository")
	return cmd
}

func (p *program) changeHooks(cmd *cobra.Command, tool, dir, agent string, install bool) (changedHooks, error) {
	done := changedHooks{Tool: tool, Files: []string{}}
	c, err := p.config()
	if err != nil {
		return done, err
	}
	program, err := os.Executable()
	if err != nil {
		return done, err
	}
	config := hooks.Config{Program: []string{program, "nook"}, AgentID: cmp.Or(agent, tool), Home: c.Paths.Nook}
	if tool == "git" {
		change := hooks.UninstallGit
		if install {
			change = func(ctx context.Context, dir string) ([]string, error) { return hooks.InstallGit(ctx, dir, config) }
		}
		done.Files, err = change(cmd.Context(), dir)
		return done, err
	}
	settings, ok := settingsOf[tool]
	if !ok {
		return done, cli.Usage(fmt.Errorf("%.40q: want git, claude-code or codex", tool))
	}
	file, change := filepath.Join(settingsDir(settings.variable, settings.dir), settings.file), settings.uninstall
	if install {
		change = func(path string) (bool, error) { return settings.install(path, config) }
	}
	changed, err := change(file)
	if changed {
		done.Files = []string{file}
	}
	return done, err
}

// settingsOf says where the tools have their settings, and what changes these.
var settingsOf = map[string]struct {
	variable, dir, file string
	install             func(string, hooks.Config) (bool, error)
	uninstall           func(string) (bool, error)
}{
	"claude-code": {variable: "CLAUDE_CONFIG_DIR", dir: ".claude", file: "settings.json",
		install: hooks.InstallClaudeCode, uninstall: hooks.UninstallClaudeCode},
	"codex": {variable: "CODEX_HOME", dir: ".codex", file: "config.toml", install: hooks.InstallCodex, uninstall: hooks.UninstallCodex},
}

// settingsDir returns where a tool has its settings: a variable, or a directory in HOME.
func settingsDir(variable, name string) string {
	home, _ := os.UserHomeDir() // without one the file is not found
	return cmp.Or(os.Getenv(variable), filepath.Join(home, name))
}

// nookHookCommand returns the verb that installed hooks call. It never fails, so that it breaks no tool.
func (p *program) nookHookCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "hook TOOL AGENT",
		Short:              "Report what a tool says to its hook",
		Example:            "  guild nook hook claude-code ada",
		Hidden:             true,
		DisableFlagParsing: true, // a tool adds words of its own
		RunE: func(_ *cobra.Command, args []string) error {
			spool, err := p.spool()
			if err == nil && len(args) > 1 {
				_ = hooks.Call{Tool: args[0], AgentID: args[1], Args: args[2:], Stdin: p.in, Getenv: os.Getenv, Now: p.now()}.Run(spool)
			}
			return nil
		},
	}
}

func (p *program) nookRunCommand() *cobra.Command {
	var agent, unit string
	cmd := rootFlag(&cobra.Command{
		Use:   "run -- COMMAND",
		Short: "Run a command, and report its start and end",
		Long: `run runs a command and reports that an agent started and completed it, or
failed, with the tokens that the command prints in a form that is known. It ends
with the command's exit code.`,
		Example: "  guild nook run --agent ada -- ./agent.sh issue-12",
		Args:    cli.Arity(cobra.MinimumNArgs(1), "a command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spool, err := p.spool()
			if err != nil {
				return err
			}
			spool.Root = cmd.Flag("root").Value.String()
			exit, err := hooks.Command{Args: args, AgentID: cmp.Or(agent, filepath.Base(args[0])), WorkUnitID: unit, Stdin: p.in, Stdout: p.out, Stderr: p.err, Now: p.now}.Run(cmd.Context(), spool)
			if err == nil && exit != 0 {
				err = cli.Shown(cli.WithCode(errors.New("the command failed"), exit))
			}
			return err
		},
	})
	cmd.Flags().StringVar(&agent, "agent", "", "the agent (default: the name of the command)")
	cmd.Flags().StringVar(&unit, "unit", "", "the work unit (default: the name of the command)")
	return cmd
}
