// Command discovery measures the cost of knowing a hundred thousand providers. It measures how fast guild takes in
// their announcements, compared with a client that only checks them; the memory per provider, including the journal's
// share; and the time to restore them after a restart. It is a measurement only and not part of guild.
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

// options has the values of the command line.
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
