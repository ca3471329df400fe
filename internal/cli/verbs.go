package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild"
)

// Root makes cmd the root of a program: it reports errors itself, a wrong flag is wrong usage, and help about a verb that
// does not exist is an error.
func Root(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	whole := cmd.UsageFunc()
	cmd.SetUsageFunc(func(cmd *cobra.Command) error { return wrapped(cmd, whole) })
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return WithHint(Usage(plainFlagError(cmd, err)), cmd.CommandPath()+" --help lists the flags")
	})
	cmd.SetHelpCommand(&cobra.Command{
		Use:     "help [VERB]",
		Short:   "Help about a verb or a topic",
		Example: "  " + cmd.Name() + " help",
		RunE: func(help *cobra.Command, words []string) error {
			found, err := FindVerb(help.Root(), words)
			if err != nil {
				return err
			}
			return found.Help()
		},
		ValidArgsFunction: CompleteVerbs,
	})
	return cmd
}

// Columns are those of a terminal that help is written for.
const Columns = 80

// wrapped prints the usage of a verb with the flags in lines that fit a terminal.
func wrapped(cmd *cobra.Command, whole func(*cobra.Command) error) error {
	var b strings.Builder
	out := cmd.OutOrStderr()
	cmd.SetOut(&b)
	err := whole(cmd)
	cmd.SetOut(out)
	if err != nil {
		return err
	}
	text := b.String()
	for _, shown := range [][2]string{
		{cmd.LocalFlags().FlagUsages(), cmd.LocalFlags().FlagUsagesWrapped(Columns)},
		{cmd.InheritedFlags().FlagUsages(), cmd.InheritedFlags().FlagUsagesWrapped(Columns)},
	} {
		text = strings.Replace(text, strings.TrimRight(shown[0], " \n"), strings.TrimRight(shown[1], " \n"), 1)
	}
	_, err = io.WriteString(out, text)
	return err
}

// FindVerb returns the verb or topic of a program that words name, or the program itself if there are none. The error is a usage
// error.
func FindVerb(root *cobra.Command, words []string) (*cobra.Command, error) {
	found, rest, err := root.Find(words)
	if err == nil && len(rest) > 0 {
		err = unknown(found, rest[0])
	}
	return found, err
}

var invalidFlag = regexp.MustCompile(`^invalid argument ("(?:[^"\\]|\\.)*") for "(?:-\w, )?--([\w-]+)" flag: `)

// plainFlagError says of a flag's value that cannot be parsed what it must look like.
func plainFlagError(cmd *cobra.Command, err error) error {
	found := invalidFlag.FindStringSubmatch(err.Error())
	if found == nil || cmd.Flag(found[2]) == nil {
		return err
	}
	wants := map[string]string{
		"int": "a whole number", "int64": "a whole number", "uint": "a whole number, 0 or more", "uint16": "a whole number, 0 or more",
		"float64": "a number", "duration": "a time with its unit, such as 90s or 10m", "bool": "true or false", "amount": "a whole number with its unit, such as 1000sat",
	}
	want, ok := wants[cmd.Flag(found[2]).Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s %s: want %s", found[2], found[1], want)
}

// CompleteVerbs offers the verbs below those that are given.
func CompleteVerbs(cmd *cobra.Command, words []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	found, rest, err := cmd.Root().Find(words)
	if err == nil && len(rest) == 0 {
		for _, sub := range found.Commands() {
			if !sub.Hidden {
				names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// Execute runs a program with arguments. asJSON reports whether JSON was asked for, also by arguments that cannot be parsed.
func Execute(ctx context.Context, root *cobra.Command, args []string) (asJSON bool, err error) {
	if i := slices.Index(args, "--"); i >= 0 {
		asJSON = slices.Contains(args[:i], "--json")
	} else {
		asJSON = slices.Contains(args, "--json")
	}
	root.SetArgs(args)
	if found, rest, err := root.Find(args); err == nil && found.HasSubCommands() {
		// The group does not know the flags of its verbs: report the misspelled verb, not its flags.
		if word := firstWord(rest); word != "" && asJSON && found.Flags().Lookup("json") == nil {
			return asJSON, unknown(found, word)
		}
	}
	ran, err := root.ExecuteContextC(ctx)
	return asJSON || AsJSON(ran), err
}

// firstWord returns the first argument, or "" if that is a flag or there is none.
func firstWord(args []string) string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return ""
	}
	return args[0]
}

// Group makes cmd a verb that only has verbs: alone it shows its help, and a wrong word gets a suggestion.
func Group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(verbs...)
	cmd.Args = cobra.ArbitraryArgs // so that RunE sees the wrong word
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknown(cmd, args[0])
	}
	return cmd
}

// unknown returns the usage error for a word that is no verb of cmd. Its hint suggests a similar verb, if there is one.
func unknown(cmd *cobra.Command, word string) error {
	err := Usage(fmt.Errorf("unknown command %q for %q", word, cmd.CommandPath()))
	if !cmd.HasSubCommands() {
		return WithHint(err, cmd.CommandPath()+" --help shows how it is used")
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			known = append(known, sub.Name())
		}
	}
	if near := guild.Nearest(word, known); near != "" {
		return WithHint(err, fmt.Sprintf("did you mean %q?", near))
	}
	return WithHint(err, cmd.CommandPath()+" --help lists them")
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
		if AsJSON(cmd) {
			return Answered(err)
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
