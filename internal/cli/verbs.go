package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Root makes cmd the root of a program: it reports errors itself, and a wrong flag is wrong usage.
func Root(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return WithHint(Usage(err), cmd.CommandPath()+" --help lists the flags")
	})
	return cmd
}

// Group makes cmd a verb that only has verbs: alone it shows its help, and a wrong word gets suggestions.
func Group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(verbs...)
	cmd.Args = cobra.ArbitraryArgs // so that RunE sees the wrong word
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		err := Usage(fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()))
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return WithHint(err, fmt.Sprintf("did you mean %q?", strings.Join(near, `" or "`)))
		}
		return WithHint(err, fmt.Sprintf("%s --help lists them", cmd.CommandPath()))
	}
	return cmd
}

// Arity makes the failure of a check of cobra a usage error. want continues "takes": "a job".
func Arity(check cobra.PositionalArgs, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		err := Usage(fmt.Errorf("%s takes %s, not %d arguments", cmd.CommandPath(), want, len(args)))
		return WithHint(err, cmd.UseLine())
	}
}

// NoArgs returns the arity of verbs that take flags only.
func NoArgs() cobra.PositionalArgs { return Arity(cobra.NoArgs, "no arguments") }

// OneArg returns the arity of verbs that take one argument, described by want.
func OneArg(want string) cobra.PositionalArgs { return Arity(cobra.ExactArgs(1), want) }

// NameCompletions gives cobra's completion verb the form of the others.
func NameCompletions(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			Group(cmd)
			cmd.Short = fmt.Sprintf("Print a script that completes %s's commands in your shell", root.Name())
			cmd.Example = fmt.Sprintf("  %[1]s completion bash > ~/.local/share/bash-completion/completions/%[1]s", root.Name())
		}
	}
}

// Exclusive lets only one of some flags be given; more are wrong usage. It comes after cmd.Args is set.
func Exclusive(cmd *cobra.Command, flags ...string) {
	cmd.MarkFlagsMutuallyExclusive(flags...)
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, words []string) error {
		given := 0
		for _, flag := range flags {
			if cmd.Flags().Changed(flag) {
				given++
			}
		}
		if given > 1 {
			names := "--" + strings.Join(flags, ", --")
			return WithHint(Usage(fmt.Errorf("give only one of %s", names)), cmd.CommandPath()+" --help says what each does")
		}
		if args == nil {
			return nil
		}
		return args(cmd, words)
	}
}

// Choices offers the values of a flag to the shell's completion.
func Choices(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // it is there
}

// Result is the result of a verb.
type Result struct {
	JSON any          // printed with --json
	Show func() error // prints it for a person
}

// Verb gives cmd the flag --json and makes it print the result of run, if there is one, and then return run's error. An
// error of Show takes the place of that.
func Verb(cmd *cobra.Command, out io.Writer, run func(cmd *cobra.Command, args []string) (*Result, error)) *cobra.Command {
	JSONFlag(cmd, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		result, err := run(cmd, args)
		if result == nil {
			return err
		}
		show := result.Show
		if AsJSON(cmd) {
			show = func() error { return PrintJSON(out, result.JSON) }
		}
		if failed := show(); failed != nil {
			return failed
		}
		return err
	}
	return cmd
}

// JSONFlag gives cmd the flag --json.
func JSONFlag(cmd *cobra.Command, usage string) { cmd.Flags().Bool("json", false, usage) }

// AsJSON reports whether a command was called with --json.
func AsJSON(cmd *cobra.Command) bool {
	is, err := cmd.Flags().GetBool("json")
	return err == nil && is
}
