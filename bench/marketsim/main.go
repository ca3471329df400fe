// Command marketsim measures how well guild chooses providers. It runs the real journal, registry, jobs, trust and
// meet on the jobs of a simulated market, with the clock of a testing/synctest bubble. It plays the same market with
// common routing algorithms. The command is a measurement only and not part of guild.
//
// # The market
//
// There is one task. By default 200 providers announce it for 60 days, with 100 jobs a day, in bursts of up to twenty
// and more by day than by night. Everything is derived from the seed: the providers, the times of the jobs, and the
// outcome of asking one provider for one job at one time, which is the same for every router. So only the choices of
// the routers differ. The characters of the providers, and their number among 200:
//
//	steady      60  98.5 to 99.8 % of the deliveries are accepted, after 20 to 80 s on average, for 20,000 to 40,000 msat
//	slow        16  as good, after 160 to 230 s, for 15,000 to 30,000 msat
//	degrading   20  steady until a day between the 15th and the 45th, then 30 to 50 %, twice as slow and at times silent
//	flapping    16  steady for 1 to 5 days, then silent for 6 to 24 hours, again and again
//	cheating    16  one delivery in twenty is forged, and one in five of these tries to break out of the sandbox
//	colluding   14  45 to 65 %, but good at benchmarks; they recommend each other (kind 31989)
//	dead        20  announced, but never answers
//	dumping     16  1,000 to 4,000 msat, and 25 to 45 %
//	limited     12  steady and cheap, one job at a time, and 30 to 90 minutes of rest after each
//	recovering  10  steady, bad for 8 to 14 days from the second week on, then steady again
//
// With -gaming, -whitewashing and -sybils a market has further providers beside this cast:
//
//	gaming        declines from the 10th day on to 30 % on the last one, but is good at benchmarks
//	whitewashing  50 %, good at benchmarks; takes a new key after two days without work, up to twelve
//	sybil         never answers; all are announced on the fifth day
//
// With -tasks the jobs have up to three tasks, and each provider does two of them equally well.
//
// An accepted delivery is worth 100,000 msat. Waiting costs 100 msat a second. The price is paid with the request,
// whatever its outcome. A router waits 300 s for a silent provider, which is also the patience of jobs. Every router
// can ask three providers in turn for a job. A provider at capacity refuses after one second; that costs the second
// but does not count as a try. A job for which nobody seems to have a free slot waits for one, and waiting costs the same as
// with a provider.
//
// # What is measured
//
// The utility of a request is its expected value: the worth of accepted deliveries, minus the price, minus the wait,
// by the provider's true parameters at that time. Expected values are used instead of drawn outcomes, because luck
// says nothing about a router. The oracle knows the true parameters and asks the best provider with a free slot.
// Regret is the oracle's utility minus the router's on the same jobs. Each of them has its own market, because asked
// providers have fewer free slots. Wasted is the price of every failed request plus the bids of all benchmarks, which
// only guild makes; a benchmark costs what the provider asks for a job. Loss is the regret plus these bids. Best is the share of jobs whose first provider had at least nine tenths of the best available
// utility. Kept counts how often a steady provider was excluded from all work (suspended, rejected, unresponsive, removed;
// for round robin: cooled down).
//
// A bad provider counts as noticed when it has had no work for two days. The table shows how many jobs it got from the
// time it turned bad until then, on average and at most, over the cases in which it got any. A flapping provider is
// bad only while it is silent.
//
// # The contestants
//
// random; cheapest first; round robin with a cooldown of one day after a failure; ε-greedy with ε = 0.1 on the mean
// utility; UCB1 on the utility scaled to 0..1; Thompson sampling of each provider's share of accepted deliveries, with
// its announced price and its mean latency; exponentially weighted moving averages of share and latency, with a back-off of an
// hour that doubles with each failure in a row (EWMA). None of them uses benchmarks, states or reviews. And guild, once with each
// policy of -policy.
//
// With -report guild is compared in six markets with the best of them, in the form of docs/TRUST.md. Then each peer has the
// setting that loses least in the markets of the seeds 1 to 20. The settings (peers.go) are: ε of 0.02, 0.05, 0.1 and 0.2;
// UCB1 with a width of 0.1, 0.25, 0.5, 1 and √2; Thompson sampling from Beta(1, 1) or Beta(3, 1), with a discount of 1, 0.999
// or 0.99 for each request; EWMA with α of 0.1, 0.2 and 0.4, a first share of 0.7 or 0.9, and a back-off of 1 or 6 hours.
//
// # What is simulated, and what is not
//
// A guild contestant has all parts of a node that decide about providers, wired as in internal/node, on an embedded
// NATS server without fsync. Announcements, requests, feedback and results are signed events. Relays, bundles, sandbox
// and receipts are replaced: a relay delivers everything at once, and a verdict is the outcome that the market drew.
// Random numbers of guild itself (ids of meetings, jitter) differ between runs, so its results vary a little.
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

// options has the values of the command line.
type options struct {
	seed                  uint64
	seeds                 int
	days, providers, jobs int
	policies              []string
	adversity
	json, report bool
	dir          string

	tuned map[string]int // the setting of each peer; the first if absent

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
	f.IntVar(&o.gaming, "gaming", 0, "further providers that decline slowly, but not in benchmarks")
	f.IntVar(&o.whitewashing, "whitewashing", 0, "further providers that take a new key when they get no work")
	f.IntVar(&o.sybils, "sybils", 0, "further keys that never answer and come on the fifth day")
	f.IntVar(&o.tasks, "tasks", 1, "tasks of the market; each provider does two of several")
	f.StringVar(&policies, "policy", strings.Join(policy.Names(), ","), "of guild, separated by commas; a contestant each. A name of one that ships, or a file with one as JSON")
	f.BoolVar(&o.report, "report", false, "compare guild with the peers in six markets, the peers tuned on the seeds 1 to 20, as the table of docs/TRUST.md")
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
	if err := o.check(); err != nil {
		return o, err
	}
	if o.report && o.seed <= tuning {
		return o, fmt.Errorf("-report needs a -seed above %d: the peers are tuned on the seeds 1 to %d", tuning, tuning)
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
	if o.report {
		return o.compare(ctx, out)
	}
	results, err := o.race(ctx)
	if err != nil {
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

// named returns a built-in policy, or one from a file.
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
	return p, json.Unmarshal(raw, &p) // members that the file omits have their defaults
}
