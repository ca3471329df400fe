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

// Verb adds --json to a command, with this usage, and makes it print the result of run, if there is one, and then
// return its error. After JSON an error only sets the exit code, because the JSON says what is wrong.
func (p *Program) Verb(cmd *cobra.Command, usage string, run func(cmd *cobra.Command, args []string) (Result, error)) *cobra.Command {
	cmd.Flags().Bool("json", false, usage)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		result, err := run(cmd, args)
		if result == nil {
			return err
		}
		if AsJSON(cmd) {
			if failed := cli.PrintJSON(p.Out, result); failed != nil {
				return failed
			}
			if err != nil {
				return cli.Shown(err)
			}
			return nil
		}
		if failed := result.Print(p); failed != nil {
			return failed
		}
		return err
	}
	return cmd
}

// AsJSON reports whether a command was called with --json.
func AsJSON(cmd *cobra.Command) bool {
	is, err := cmd.Flags().GetBool("json")
	return err == nil && is
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
