// Command discovery measures what it takes to know a hundred thousand providers: how fast their announcements are
// taken in, beside how fast a client of the field only checks them; how much memory each takes, the journal's share
// included; and how long the node needs to know them again after a restart. It decides nothing about guild and is no
// part of it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "discovery:", err)
		os.Exit(1)
	}
}

// options is what the command line says.
type options struct {
	n      int
	relays int
	json   bool
	dir    string
	settle time.Duration
	cpu    string
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("discovery", flag.ContinueOnError)
	f.IntVar(&o.n, "n", 100_000, "announcements, each of a key of its own")
	f.IntVar(&o.relays, "relays", 8, "relays that they come from, each with a goroutine of its own")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.dir, "dir", os.TempDir(), "where the journal lies, and the signed announcements for the next run")
	f.DurationVar(&o.settle, "settle", 5*time.Second, "how long the journal's server may take to drop its caches before memory is measured")
	f.StringVar(&o.cpu, "cpuprofile", "", "write a CPU profile, with the label part: peer, verify, take in, restart")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.n < 1 || o.relays < 1 {
		return o, fmt.Errorf("-n %d -relays %d: want at least one of each", o.n, o.relays)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.cpu != "" {
		f, err := os.Create(o.cpu)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	r, err := measure(ctx, o)
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(r)
	}
	return r.print(out)
}
