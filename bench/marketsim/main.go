// Command marketsim shows how well guild chooses providers: it has the real journal, registry, jobs, trust and meet do
// the jobs of a simulated market, with the clock of a testing/synctest bubble, and plays the same market to the routers
// that others use. The command decides nothing about guild and is no part of it.
//
// # The market
//
// There is one task. By default 200 providers announce it for 60 days, and 100 jobs a day are asked for, in bursts of
// up to twenty and more by day than by night. All of it follows from the seed: who there is, when jobs come, and what
// becomes of asking one provider for one job at one time, which is the same for every router. So routers differ by
// what they choose and by nothing else. The providers' characters, and how many of 200 there are:
//
//	steady      60  98.5 to 99.8 % of the deliveries are accepted, after 20 to 80 s on average, for 20,000 to 40,000 msat
//	slow        16  as good, after 160 to 230 s, for 15,000 to 30,000 msat
//	degrading   20  steady until a day between the 15th and the 45th, then 30 to 50 %, twice as slow and at times silent
//	flapping    16  steady for 1 to 5 days, then silent for 6 to 24 hours, again and again
//	cheating    16  one delivery in twenty is forged, and one in five of these tries to break out of the sandbox
//	colluding   14  45 to 65 %, but good at benchmarks; they recommend each other (kind 31989)
//	dead        20  announced, and never heard of
//	dumping     16  1,000 to 4,000 msat, and 25 to 45 %
//	limited     12  steady and cheap, one job at a time, and 30 to 90 minutes of rest after each
//	recovering  10  steady, bad for 8 to 14 days from the second week on, and steady again
//
// A job is worth 100,000 msat if a delivery is accepted; waiting costs 100 msat a second; a price is spent with the
// request, whatever comes of it. Who is silent is waited for for 300 s, which is jobs' own patience. Every router may
// ask three providers in turn for a job, and a provider without room says so after a second, which costs that second
// and no try.
//
// # What is measured
//
// The utility of a request is what it comes to on average: worth of what is accepted, less the price, less the wait,
// by the provider's true parameters at that time. Averages are counted rather than what came about, for luck says
// nothing of a router. The oracle knows the true parameters, and asks the best provider that has room. Regret is the
// oracle's utility less the router's, on the same jobs, and each of them in a market of its own: whom it asked has less
// room. Wasted is the price of every request that came to nothing, and the bids of all benchmarks, which only guild
// has. Best is the share of jobs whose first provider was worth nine tenths of the best one with room. Kept is how
// often a steady provider was kept from all work (suspended, rejected, unresponsive, removed; for round robin: cooled
// down).
//
// A bad character is noticed once it is left alone for two days; the table says how many jobs it was given from when it
// turned bad until then, on average and at most, where it was given any. A flapping one is bad only while it is silent.
//
// # The contestants
//
// random; cheapest first; round robin with a cooldown of a day after a failure; ε-greedy with ε = 0.1 on the mean
// utility; UCB1 on the utility scaled to 0..1; Thompson sampling of each provider's share of accepted deliveries, with
// its announced price and its mean latency. None of them has benchmarks, states or reviews. And guild, once with each
// policy named by -policy.
//
// # What is simulated, and what is not
//
// A guild contestant is everything of a node that decides about providers, as internal/node wires it, on an embedded
// NATS server without fsync. Announcements, requests, feedback and results are signed events. Relays, bundles, sandbox
// and receipts are not there: a relay takes everything at once, and a verdict is what the market drew. Random numbers
// that guild draws itself (ids of meetings, jitter) differ between two runs, so that its figures do by a little.
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
	"strings"

	"guild/internal/policy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "marketsim:", err)
		os.Exit(1)
	}
}

// options is what the command line says.
type options struct {
	seed                  uint64
	seeds                 int
	days, providers, jobs int
	policies              []string
	json                  bool
	dir                   string

	drive, trace, cpu string
}

func parse(args []string) (options, error) {
	var o options
	policies := ""
	f := flag.NewFlagSet("marketsim", flag.ContinueOnError)
	f.Uint64Var(&o.seed, "seed", 1, "of the market; with -seeds the first of them")
	f.IntVar(&o.seeds, "seeds", 1, "markets, each with the next seed")
	f.IntVar(&o.days, "days", 60, "that a market lasts")
	f.IntVar(&o.providers, "providers", 200, "that announce the task")
	f.IntVar(&o.jobs, "jobs", 100, "that are asked for each day")
	f.StringVar(&policies, "policy", strings.Join(policy.Names(), ","), "of guild, separated by commas; a contestant each. A name of one that ships, or a file with one as JSON")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.dir, "dir", "", "where the journals lie while they are needed; memory, or the system's temporary directory, if empty")
	f.StringVar(&o.drive, "drive", "", "only guild with this policy on one market, as JSON: what the command calls itself for")
	f.StringVar(&o.trace, "trace", "", "with -drive: write what guild decides about providers to this file")
	f.StringVar(&o.cpu, "cpuprofile", "", "with -drive: write a CPU profile")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.seeds < 1 || o.days < 1 || o.providers < 1 || o.jobs < 1 {
		return o, errors.New("-seeds, -days, -providers and -jobs must be at least 1")
	}
	for name := range strings.SplitSeq(policies, ",") {
		if name != "" {
			o.policies = append(o.policies, name)
		}
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.drive != "" {
		return o.driveHere(out)
	}
	results, err := o.race(ctx)
	if err != nil {
		return err
	}
	r := newReport(o, results)
	if o.json {
		return r.writeJSON(out)
	}
	return r.writeTable(out)
}

// named reads a policy that ships, or one from a file.
func named(name string) (policy.Policy, error) {
	p, err := policy.Named(name)
	if err == nil || !strings.ContainsAny(name, "./") {
		return p, err
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return p, err
	}
	p = policy.Default()
	return p, json.Unmarshal(raw, &p) // what the file leaves out is as specified
}
