package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"guild/internal/hand/taskserver/taskservertest"
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
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"taskserver": startTaskServer},
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("TZ", "UTC")
			e.Setenv("GORACE", "atexit_sleep_ms=0") // under the race detector a process would linger for a second
			data, err := os.Getwd()
			e.Setenv("REPO", data+"/../..")
			return err
		},
	})
}

// startTaskServer runs a task server until the script ends, at the address in GUILD_TASK_SERVER. Its peers are alice,
// bob and carol, by the tokens alice-token, bob-token and carol-token. With -bids tasks are bid for only, and the
// server keeps the request's hash, as a ClawNet daemon does.
func startTaskServer(ts *testscript.TestScript, neg bool, args []string) {
	bids := len(args) == 1 && args[0] == "-bids"
	if neg || len(args) > 0 && !bids {
		ts.Fatalf("usage: taskserver [-bids]")
	}
	s := taskservertest.Start(taskservertest.Config{
		Peers:   map[string]string{"alice-token": "alice", "bob-token": "bob", "carol-token": "carol"},
		NoClaim: bids, KeepsHash: bids,
	})
	ts.Defer(s.Close)
	ts.Setenv("GUILD_TASK_SERVER", s.URL)
}

func TestHelpOfEveryVerb(t *testing.T) {
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
