// Command money measures how many swaps a second guild's mint does over loopback HTTP, for one client and for several, and how
// many round trips of an escrow: ecash is locked to two parties, both sign, and one swaps it. Beside it, in the same run, it
// measures the floor: the arithmetic on the curve that the same needs, and nothing else. It is a measurement only and not part of
// guild.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "money:", err)
		os.Exit(1)
	}
}

// options has the values of the command line.
type options struct {
	n       int
	clients int
	proofs  int
	rounds  int
	dir     string
	json    bool
	cpu     string
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("money", flag.ContinueOnError)
	f.IntVar(&o.n, "n", 96, "swaps of a turn")
	f.IntVar(&o.clients, "c", 16, "clients, when there is more than one")
	f.IntVar(&o.proofs, "proofs", 4, "inputs of a swap, and as many outputs")
	f.IntVar(&o.rounds, "rounds", 11, "in which each takes a turn")
	f.StringVar(&o.dir, "dir", "", "directory for the mint, a temporary one if empty: it decides which disk is measured")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.cpu, "cpuprofile", "", "write a CPU profile, with the label part: floor, mint, wallet")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.n < 1 || o.clients < 1 || o.clients > o.n || o.proofs < 1 || o.rounds < 1 {
		return o, fmt.Errorf("-n %d -c %d -proofs %d -rounds %d: want one of each, and no client without a swap", o.n, o.clients, o.proofs, o.rounds)
	}
	return o, nil
}

func run(args []string, out io.Writer) error {
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
	all, err := o.measure()
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(all)
	}
	return print(out, o, all)
}

// figure has the measured rates of one thing with a number of clients.
type figure struct {
	What    string `json:"what"` // swap, escrow
	Clients int    `json:"clients"`
	Floor   spread `json:"floor"` // a second
	Mint    spread `json:"mint"`  // a second
	Ratio   spread `json:"ratio"` // of the mint's time to the floor's, by the rounds, so that both had the same machine
}

// spread has the median, the least and the most.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func spreadOf(all []float64) spread {
	all = slices.Sorted(slices.Values(all))
	return spread{all[len(all)/2], all[0], all[len(all)-1]}
}

// measure lets the floor and the mint take turns, for one client and for several.
func (o options) measure() ([]figure, error) {
	s, err := newStand(o)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var all []figure
	for _, clients := range []int{1, o.clients} {
		swap, err := o.compare(clients, s.floor, s.swaps)
		if err != nil {
			return nil, err
		}
		escrow, err := o.compare(clients, s.escrowFloor, s.escrow)
		if err != nil {
			return nil, err
		}
		swap.What, escrow.What = "swap", "escrow"
		all = append(all, swap, escrow)
	}
	return all, nil
}

// compare lets a floor and what has it take turns.
func (o options) compare(clients int, floor, whole func(clients int) (time.Duration, error)) (figure, error) {
	var least, most, ratio []float64
	for round := range o.rounds + 1 {
		bare, err := floor(clients)
		if err != nil {
			return figure{}, err
		}
		took, err := whole(clients)
		if err != nil {
			return figure{}, err
		}
		if round == 0 {
			continue // to warm up
		}
		least, most = append(least, o.rate(bare)), append(most, o.rate(took))
		ratio = append(ratio, took.Seconds()/bare.Seconds())
	}
	return figure{Clients: clients, Floor: spreadOf(least), Mint: spreadOf(most), Ratio: spreadOf(ratio)}, nil
}

func (o options) rate(turn time.Duration) float64 { return float64(o.n) / turn.Seconds() }

// goal limits the time of a swap, as a multiple of the floor's.
const goal = 2

func print(out io.Writer, o options, all []figure) error {
	fmt.Fprintf(out, "%d rounds of %d swaps, %d inputs and as many outputs; median (least to most)\n\n", o.rounds, o.n, o.proofs)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "what\tclients\ta second\tfloor: its signatures alone\ttimes the floor\tgoal")
	for _, f := range all {
		word := "reached"
		if f.Ratio.Median > goal {
			word = "missed"
		}
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.0f\t%.2f\t%s: at most %d\n", f.What, f.Clients, f.Mint, f.Floor, f.Ratio, word, goal)
	}
	return table.Flush()
}

// Format implements fmt.Formatter.
func (s spread) Format(f fmt.State, verb rune) {
	format := fmt.FormatString(f, verb)
	fmt.Fprintf(f, format+" ("+format+" to "+format+")", s.Median, s.Least, s.Most)
}
