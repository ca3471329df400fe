// Command nutshell measures how fast bundles are packed and unpacked. It compares guild with `tar cz` and with a
// simple Go program that uses archive/tar and compress/gzip. The input is source code of the Go standard library. All
// contestants take turns in one run, so that a slow machine slows all of them, and each has its own process, so that
// its memory can be measured. The packer is the program nutshell as users run it, with the start of its process. The ratios
// matter, not the absolute times.
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
		fmt.Fprintln(os.Stderr, "nutshell:", err)
		os.Exit(1)
	}
}

// options has the values of the command line.
type options struct {
	rounds, tree, large int
	dir                 string
	json                bool
	lap                 string // contestant to run once in this process
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
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.writeTable(out)
}
