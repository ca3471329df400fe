// Command loop measures the time from request to result in guild's loop and compares it with a floor that no
// implementation can beat. The floor is two clients that only publish a signed request, read it, publish a signed
// result and read it. Both use the same relay in the same process and take turns, so that a slow machine slows both.
//
// The loop is two complete nodes (journal, folds, blobs, bundles, encryption), a worker that writes one small file,
// and a judge that accepts everything. It runs with and without fsync of the journal. The command is a measurement
// only and not part of guild.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		os.Exit(1)
	}
}

// options has the values of the command line.
type options struct {
	n, c, rounds int
	open         int
	json         bool
	dir          string

	cpu, block, trace string // files for profiles
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("loop", flag.ContinueOnError)
	f.IntVar(&o.n, "n", 200, "requests that each contestant makes")
	f.IntVar(&o.c, "c", 1, "requests under way at a time")
	f.IntVar(&o.rounds, "rounds", 10, "turns that each contestant takes")
	f.IntVar(&o.open, "open", 0, "measure a node with so many open jobs, instead of the loop")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.dir, "dir", "", "where the journals, the blobs and the relay's store lie; the system's temporary directory if empty")
	f.StringVar(&o.cpu, "cpuprofile", "", "write a CPU profile, with the label part: floor, relay, fsync off, fsync on")
	f.StringVar(&o.block, "blockprofile", "", "write a profile of waiting")
	f.StringVar(&o.trace, "trace", "", "write an execution trace")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.n < 1 || o.c < 1 || o.rounds < 1 || o.n < o.rounds {
		return o, fmt.Errorf("-n %d -c %d -rounds %d: want at least one request in each round", o.n, o.c, o.rounds)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "loop")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := openStand(ctx, dir, o.c)
	if err != nil {
		return err
	}
	if o.open > 0 {
		return s.close(openJobs(ctx, s, o, dir, out))
	}
	results, err := measure(ctx, s, o)
	if err := s.close(err); err != nil {
		return err
	}
	r := newReport(o, results)
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.writeTable(out)
}

// openJobs measures and prints what many open jobs cost.
func openJobs(ctx context.Context, s *stand, o options, dir string, out io.Writer) error {
	stop, err := o.profile()
	if err != nil {
		return err
	}
	all, err := s.measureOpen(ctx, dir, o.open)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(all)
	}
	return writeBurdens(out, all)
}

// measure warms up and runs the race while the profiles are recorded.
func measure(ctx context.Context, s *stand, o options) ([]*result, error) {
	if err := s.warmUp(ctx); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	stop, err := o.profile()
	if err != nil {
		return nil, err
	}
	contestants := []contestant{{"floor", s.floor.lap}} // the reference of the others
	for _, p := range s.pairs {
		contestants = append(contestants, contestant{p.name, p.lap})
	}
	results, err := race(ctx, contestants, o)
	stopErr := stop()
	if err == nil {
		err = stopErr
	}
	return results, err
}

// profile starts the requested profiles. stop ends them.
func (o options) profile() (stop func() error, err error) {
	var ends []func() error
	stop = func() error {
		var first error
		for _, end := range ends {
			err := end()
			if first == nil {
				first = err
			}
		}
		return first
	}
	if o.cpu != "" {
		err = into(o.cpu, &ends, pprof.StartCPUProfile, pprof.StopCPUProfile)
	}
	if o.trace != "" && err == nil {
		err = into(o.trace, &ends, trace.Start, trace.Stop)
	}
	if o.block != "" && err == nil {
		runtime.SetBlockProfileRate(1000)
		ends = append(ends, func() error {
			f, err := os.Create(o.block)
			if err != nil {
				return err
			}
			defer f.Close()
			return pprof.Lookup("block").WriteTo(f, 0)
		})
	}
	return stop, err
}

// into starts a profile that is written to a file until it is stopped.
func into(path string, ends *[]func() error, start func(io.Writer) error, stop func()) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	*ends = append(*ends, func() error { stop(); return f.Close() })
	return start(f)
}
