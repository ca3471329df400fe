package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/config"
)

// environmentTopic has the text of "guild help environment". It has no code to run, so cobra lists it as a topic.
func environmentTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString(`guild reads these environment variables.

  GUILD_HOME          directory for everything, as --home
  NOSTR_SECRET_KEY    the identity, nsec or hex; taken out of the environment
  GUILD_PASSPHRASE    opens a sealed identity; taken out of the environment
  NO_COLOR            no colours
  XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR
                      where files live without a home
  XDG_CACHE_HOME      where the judge keeps what makes it faster (guild/judge)

These override a key of the config file. Lists are separated by commas.

`)
	for _, v := range config.Variables() {
		fmt.Fprintf(&b, "  %-28s %s\n", v.Name, v.Key)
	}
	b.WriteString(`
A command that runs for "guild work" sees none of them, but GUILD_BUNDLE,
GUILD_DELIVERY, GUILD_JOB, GUILD_TRACE and, where inputs, advice or credentials
came along, GUILD_INPUTS, GUILD_HINTS (with others: guild work --help) and
GUILD_VAULT. For an agent of this node (NIP-AE) it also finds

  GUILD_BEHAVIOUR     a file with the agent's prompt
  GUILD_FILES         a directory with the files of its definition
  GUILD_TOOLS         the names of its tools, separated by spaces, if they are
                      limited: PATH then has only the programs among them`)
	return &cobra.Command{Use: "environment", Short: "Environment variables that guild reads", Long: b.String()}
}
