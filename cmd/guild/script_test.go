package main

import (
	"flag"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the golden files and the cmp sections of the scripts")

func TestMain(m *testing.M) {
	testscript.Main(waiting{m}, map[string]func(){"guild": main, "mortal": mortal, "announce": announce, "modelstub": modelstub})
}

// waiting runs more tests at once than there are processors, because they mostly wait for nodes, retries and deadlines.
type waiting struct{ *testing.M }

func (w waiting) Run() int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	return w.M.Run()
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
			e.Setenv("XDG_RUNTIME_DIR", e.WorkDir+"/run")
			e.Setenv("TZ", "UTC")
			e.Setenv("GORACE", hasty)
			e.Setenv("GUILD_WORK_UNTRIED", "true")      // try.txtar tells what a try is for
			e.Setenv("GUILD_RELAY_ADDR", "127.0.0.1:0") // on the default port they would use each other's relays
			solver, err := filepath.Abs("../../internal/judging/suite/testdata/solver.py")
			if err != nil {
				return err
			}
			e.Setenv("SOLVER", solver) // of benchmarks
			for name, dir := range map[string]string{
				"EXAMPLES": "../../examples", "DOCS": "../../docs", "SDK": "../../sdk/js",
				"AGENTS": "../../.cache/agents/node_modules", // scripts/needs installs them
			} {
				if dir, err = filepath.Abs(dir); err != nil {
					return err
				}
				e.Setenv(name, dir)
			}
			return nil
		},
	})
}

func TestEveryVerbHasAnExample(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		generated := cmd.Name() == "help" || cmd.HasParent() && cmd.Parent().Name() == "completion"
		if cmd.Runnable() && !generated && !strings.Contains(cmd.Example, cmd.CommandPath()) && cmd.HasParent() {
			t.Errorf("the Example of %s is %q, want one with %[1]q in it", cmd.CommandPath(), cmd.Example)
		}
		if cmd.Short == "" {
			t.Errorf("%s has no Short", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&program{}).rootCommand())
}

func TestHelpFitsATerminal(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for line := range strings.Lines(strings.Replace(cmd.UsageString(), cmd.Example, "", 1)) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" {
				walk(sub)
			}
		}
	}
	walk((&program{}).rootCommand())
}
