// Command nutshell measures how fast bundles are packed and unpacked, beside `tar cz` and beside a straight-line Go
// program of archive/tar and compress/gzip: sources of the Go standard library. All take
// turns in one run, each in a process of its own, so that whatever slows the machine down slows all of them, and that
// the memory of each is known. What counts are the ratios.
//
// The command decides nothing about bundles and is no part of them.
package main

import (
	"context"
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
		fmt.Fprintln(os.Stderr, "nutshell:", err)
		os.Exit(1)
	}
}

// options is what the command line says.
type options struct {
	rounds, tree, large int
	dir                 string
	json                bool
	lap                 string // what this process is to do once, as a contestant
	from, to            string
	profile             string
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("nutshell", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 3, "turns that each contestant takes")
	f.IntVar(&o.tree, "tree", 16, "size in MiB of the tree that is packed and unpacked; all sources of the standard library have some 130")
	f.IntVar(&o.large, "large", 128, "size in MiB of the tree that memory is measured with")
	f.StringVar(&o.dir, "dir", "", "directory for what is packed and unpacked; the temporary one if empty")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.lap, "lap", "", "run one lap of a contestant; the command calls itself with it")
	f.StringVar(&o.from, "from", "", "with -lap: what is packed or unpacked")
	f.StringVar(&o.to, "to", "", "with -lap: where to")
	f.StringVar(&o.profile, "cpuprofile", "", "with -lap: write a profile")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.rounds < 1 || o.tree < 1 || o.large < 1 {
		return o, fmt.Errorf("-rounds %d -tree %d -large %d: want at least one of each", o.rounds, o.tree, o.large)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.lap != "" {
		return runLap(ctx, o, out)
	}
	s, err := newStand(ctx, o, os.Stderr)
	if err != nil {
		return err
	}
	defer s.close()
	r, err := s.measure(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return r.writeJSON(out)
	}
	return r.writeTable(out)
}
