// Command judge measures the cost of judging. It compares the judge with running the same tests directly, without a
// judge or sandbox: a file of 15 tests, run cold by /usr/bin/python3 -m pytest. All contestants take turns in one run,
// so that a slow machine slows all of them; the ratios matter, not the absolute times. With -soak it runs many
// sandboxes instead and shows that they leave nothing behind.
//
// On two idle processors it measured (median, least–most): the time of pytest in a cold sandbox to bare pytest 1.05
// (1.00–1.12, goal 1.15); the throughput of forks of a warm interpreter to bare pytest 2.94 (2.65–3.58, goal 3), and of
// 15 tests in mode split with all runs for their strength 0.20 (0.16–0.23, goal 1.3); the time of true in a cold sandbox to
// bwrap 1.40 (1.11–1.45, goal 1.5); the time of judging a task of one test to its tests alone 1.40 (1.32–1.61, goal 1.5);
// 0.85 MB for an idle cold sandbox and 3.59 MB for an idle fork that has loaded pytest (goal 4 MB each). A call of a
// delivered function in mode split took 290 µs (230–370) in Python, 710 µs (650–930) in JavaScript, 320 µs (270–390) in Go.
//
// The command is a measurement only and not part of guild.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

// options has the values of the command line.
type options struct {
	n, c, rounds int
	soak, width  int
	json         bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("judge", flag.ContinueOnError)
	f.IntVar(&o.n, "n", 30, "runs of each contestant, one at a time, and as many again -c at a time")
	f.IntVar(&o.c, "c", 2, "runs at a time where throughput is measured")
	f.IntVar(&o.rounds, "rounds", 5, "turns that each contestant takes")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.IntVar(&o.soak, "soak", 0, "instead, run so many sandboxes in a row, and then -width at once")
	f.IntVar(&o.width, "width", 200, "with -soak: sandboxes at once")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.n < 1 || o.c < 1 || o.rounds < 1 || o.n < o.rounds || o.width < 1 {
		return o, fmt.Errorf("-n %d -c %d -rounds %d: want at least one run in each round", o.n, o.c, o.rounds)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	s, err := newStand()
	if err != nil {
		return err
	}
	defer s.close()
	if o.soak > 0 {
		return s.soak(ctx, o, out)
	}
	r, err := s.measure(ctx, o)
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.writeTable(out)
}
