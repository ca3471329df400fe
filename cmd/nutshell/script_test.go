package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the golden files and the cmp sections of the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"nutshell": main})
}

// TestScripts runs the sessions under testdata/script. Each has an empty HOME and no XDG directories.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("TZ", "UTC")
			data, err := os.Getwd()
			e.Setenv("REPO", data+"/../..")
			return err
		},
	})
}

func TestEveryVerbHasAnExampleAndFitsATerminal(t *testing.T) {
	for _, cmd := range rootCommand().Commands() {
		everyVerb(t, cmd)
	}
}

func everyVerb(t *testing.T, cmd *cobra.Command) {
	if cmd.Name() == "completion" || cmd.Name() == "help" {
		return
	}
	if cmd.Runnable() && !strings.Contains(cmd.Example, cmd.CommandPath()) {
		t.Errorf("%s has no example of itself: %q", cmd.CommandPath(), cmd.Example)
	}
	for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 84 {
			t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
		}
	}
	for _, sub := range cmd.Commands() {
		everyVerb(t, sub)
	}
}
