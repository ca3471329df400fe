package host

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
)

// Result describes the effect of a verb. It is printed as JSON with --json, else by Print, for a person.
type Result interface {
	Print(p *Program) error
}

// Verb is cli.Verb for a run that returns a Result. Usage describes --json. After JSON an error only sets the exit code,
// because the JSON says what is wrong.
func (p *Program) Verb(cmd *cobra.Command, usage string, run func(cmd *cobra.Command, args []string) (Result, error)) *cobra.Command {
	cli.Verb(cmd, p.Out, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		result, err := run(cmd, args)
		if result == nil {
			return nil, err
		}
		if err != nil && cli.AsJSON(cmd) {
			err = cli.Shown(err)
		}
		return &cli.Result{JSON: result, Show: func() error { return result.Print(p) }}, err
	})
	cmd.Flag("json").Usage = usage
	return cmd
}

// Examples are lines of a command's help that call verbs of this program.
func (p *Program) Examples(verbs ...string) string {
	lines := make([]string, len(verbs))
	for i, verb := range verbs {
		lines[i] = "  " + p.Hint(verb)
	}
	return strings.Join(lines, "\n")
}

// CompleteBundles completes the names of bundle files in a shell.
func CompleteBundles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"nut"}, cobra.ShellCompDirectiveFilterFileExt
}

// DirOf returns the only argument, or the value of --dir, which must not be given as well.
func DirOf(cmd *cobra.Command, args []string, dir string) (string, error) {
	if len(args) == 0 {
		return dir, nil
	}
	if cmd.Flags().Changed("dir") {
		return "", cli.WithHint(cli.Usage(errors.New("the directory is given twice")), "leave out --dir")
	}
	return args[0], nil
}
