package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
)

// group is a list of verbs in the order in which they are shown.
type group struct {
	title string
	verbs []*cobra.Command
}

// groups returns all verbs: those of most days, and the others, which "guild help formats" lists.
func (p *program) groups() (first, others []group) {
	return []group{
			{"Start", []*cobra.Command{p.demoCommand(), p.initCommand(), p.doctorCommand()}},
			{"Hire", []*cobra.Command{p.hireCommand(), p.jobCommand(), p.receiptCommand()}},
			{"Sell", []*cobra.Command{p.workCommand()}},
			{"People", []*cobra.Command{p.marketCommand(), p.trustCommand()}},
			{"Proof", []*cobra.Command{p.judgeCommand(), p.verifyCommand(), p.auditCommand()}},
			{"Agents", []*cobra.Command{p.agentCommand(), p.nookCommand()}},
			{"Node", []*cobra.Command{p.upCommand(), p.statusCommand()}},
		}, []group{
			{"Formats", []*cobra.Command{p.nutCommand(), p.oaCommand(), p.canonCommand(), p.replayCommand()}},
			{"Upkeep", []*cobra.Command{p.walletCommand(), p.journalCommand(), p.backupCommand(), p.reviewCommand(), p.eventsCommand(), p.relayCommand()}},
			{"This program", []*cobra.Command{p.versionCommand(), p.manCommand()}},
		}
}

// addVerbs adds every verb and the topics of help.
func (p *program) addVerbs(root *cobra.Command) {
	first, others := p.groups()
	var all []*cobra.Command
	for _, g := range slices.Concat(first, others) {
		all = append(all, g.verbs...)
	}
	topics := []*cobra.Command{formatsTopic(others), environmentTopic(), exitCodesTopic(), jsonTopic(), traceTopic(), apiTopic()}
	cli.Group(root, append(all, topics...)...)
	p.showHelp(root, first, topics)
}

// showHelp makes root show the verbs of most days and the topics, and answer --version.
func (p *program) showHelp(root *cobra.Command, first []group, topics []*cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, words []string) {
		if cmd == root {
			writeRootHelp(p.out, root, first, topics)
			return
		}
		help(cmd, words)
	})
	version := root.Flags().Bool("version", false, "print the version of this program")
	cli.JSONFlag(root, "with --version: print JSON")
	_ = root.Flags().MarkHidden("json") // it is there
	group := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *version && len(args) == 0:
			return printed(p, cli.AsJSON(cmd), build(), p.showVersion)
		case len(args) == 0 && cmd.Flags().NFlag() > 0:
			return cli.WithHint(cli.Usage(errors.New("no verb is given")), "guild --help lists them; guild --version prints the version")
		}
		return group(cmd, args)
	}
}

// writeRootHelp prints what guild is, the verbs of most days, and where the others are.
func writeRootHelp(w io.Writer, root *cobra.Command, first []group, topics []*cobra.Command) {
	fmt.Fprintf(w, "%s\n\nUsage:\n  guild VERB [flags]\n\nExamples:\n%s\n%s\n", root.Long, root.Example, listed(first))
	fmt.Fprintf(w, "Flags:\n%s\n", root.Flags().FlagUsagesWrapped(cli.Columns))
	fmt.Fprintf(w, "  guild help %-12s %s\n", "VERB", "More about a verb")
	for _, topic := range topics {
		fmt.Fprintf(w, "  guild help %-12s %s\n", topic.Name(), topic.Short)
	}
}

// listed returns verbs with a line on each.
func listed(groups []group) string {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, verb := range g.verbs {
			fmt.Fprintf(&b, "  %-9s %s\n", verb.Name(), verb.Short)
		}
	}
	return b.String()
}

// formatsTopic has the text of "guild help formats": the verbs that "guild help" does not list.
func formatsTopic(others []group) *cobra.Command {
	return &cobra.Command{
		Use:   "formats",
		Short: "The other verbs: bundles, typed jobs, the journal, …",
		Long: "These verbs are for the formats that guild speaks, and for what a node keeps.\n" + listed(others) +
			"\nguild help VERB says more about each.",
	}
}
