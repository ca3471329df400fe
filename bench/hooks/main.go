// Command hooks measures what the hooks of Nook add to "git commit" and to "git tag". Two repositories, one with the hooks and
// one without, take turns.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"guild/internal/hand/hooks"
	"guild/nook"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hooks:", err)
		os.Exit(1)
	}
}

// options has the values of the command line.
type options struct {
	n       int
	waiting int
	dir     string
	json    bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("hooks", flag.ContinueOnError)
	f.IntVar(&o.n, "n", 100, "turns")
	f.IntVar(&o.waiting, "waiting", 1000, "events that wait in the spool, as no node takes them")
	f.StringVar(&o.dir, "dir", "", "directory for the repositories, a temporary one if empty")
	f.BoolVar(&o.json, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.n < 1 || o.waiting < 0 {
		return o, fmt.Errorf("-n %d -waiting %d: want a turn, and no negative number", o.n, o.waiting)
	}
	return o, nil
}

// figure is what one command takes, in ms.
type figure struct {
	Command string `json:"command"`
	Without spread `json:"without"`
	With    spread `json:"with"`
	Added   spread `json:"added"` // by the turns, so that both had the same machine
}

// spread has the median, the 10th and the 90th percentile, and the least and the most, in ms.
type spread struct {
	Median float64 `json:"median"`
	P10    float64 `json:"p10"`
	P90    float64 `json:"p90"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func spreadOf(all []time.Duration) spread {
	all = slices.Sorted(slices.Values(all))
	at := func(percent int) float64 { return float64(all[(len(all)-1)*percent/100]) / float64(time.Millisecond) }
	return spread{at(50), at(10), at(90), at(0), at(100)}
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "hooks-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all, err := o.measure(dir)
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(all)
	}
	return print(out, o, all)
}

// goal is what the hooks may add to a commit, in ms.
const goal = 50

func print(out io.Writer, o options, all []figure) error {
	fmt.Fprintf(out, "%d turns, %d events waiting; ms: median (10th to 90th percentile; least to most)\n\n", o.n, o.waiting)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\twithout\twith\tadded")
	for _, f := range all {
		fmt.Fprintf(table, "%s\t%v\t%v\t%v\n", f.Command, f.Without, f.With, f.Added)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	word := "reached"
	if all[0].Added.Median > goal {
		word = "missed"
	}
	_, err := fmt.Fprintf(out, "\ngoal %s: at most %d ms are added to git commit\n", word, goal)
	return err
}

// String implements fmt.Stringer.
func (s spread) String() string {
	return fmt.Sprintf("%.1f (%.1f to %.1f; %.1f to %.1f)", s.Median, s.P10, s.P90, s.Least, s.Most)
}

// measure commits and tags in turns in both repositories, and checks that everything was reported.
func (o options) measure(dir string) ([]figure, error) {
	without, with, home := repository(filepath.Join(dir, "without")), repository(filepath.Join(dir, "with")), filepath.Join(dir, "home")
	spool := hooks.Spool{Dir: filepath.Join(home, "spool")}
	if err := errors.Join(without.make(), with.make()); err != nil {
		return nil, err
	}
	if _, err := hooks.InstallGit(context.Background(), string(with), hooks.Config{AgentID: "bench", Home: home}); err != nil {
		return nil, err
	}
	for range o.waiting {
		if err := spool.Write(nook.Event{Type: nook.TypeIdle, AgentID: "bench"}); err != nil {
			return nil, err
		}
	}
	commands := []string{"git commit", "git commit of a bug fix", "git tag"}
	times := make([][3][]time.Duration, len(commands))
	for turn := range o.n + 1 {
		for i, args := range [][]string{
			{"commit", "-q", "--allow-empty", "-m", "a change"},
			{"commit", "-q", "--allow-empty", "-m", "fix: a change"},
			{"tag", fmt.Sprintf("v1.%d", turn)},
		} {
			bare, err := without.git(args...)
			if err != nil {
				return nil, err
			}
			hooked, err := with.git(args...)
			if err != nil {
				return nil, err
			}
			if turn > 0 { // the first warms up
				times[i] = [3][]time.Duration{append(times[i][0], bare), append(times[i][1], hooked), append(times[i][2], hooked-bare)}
			}
		}
	}
	var all []figure
	for i, c := range commands {
		all = append(all, figure{c, spreadOf(times[i][0]), spreadOf(times[i][1]), spreadOf(times[i][2])})
	}
	return all, o.reported(spool)
}

// reported checks that each commit, bug fix and tag is in the spool.
func (o options) reported(spool hooks.Spool) error {
	found := map[string]int{}
	_, err := spool.Drain(time.Now(), func(_ string, e nook.Event) error { found[e.Trigger]++; return nil },
		func(file string, why error) { found["refused"]++ })
	if n := o.n + 1; err == nil && (found[nook.TriggerCommit] != 2*n || found[nook.TriggerBugFix] != n || found[""] != o.waiting || found["refused"] > 0) {
		err = fmt.Errorf("reported: %v, after %d turns", found, n)
	}
	return err
}

// repository is the directory of a repository.
type repository string

func (r repository) make() error {
	if err := os.MkdirAll(string(r), 0o700); err != nil {
		return err
	}
	_, err := r.git("init", "-q")
	return err
}

// git runs git, and returns how long that took.
func (r repository) git(args ...string) (time.Duration, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = string(r)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "NOOK_HOME=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil || len(out) > 0 {
		return 0, fmt.Errorf("git %v: %w, %q", args, err, out)
	}
	return took, nil
}
