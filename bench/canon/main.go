// Command canon measures how fast JSON is converted to its canonical form. It compares guild with two libraries for
// RFC 8785, and with the SHA-256 of the same bytes, the usual next step. It is a measurement only and not part of
// guild.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "canon:", err)
		os.Exit(1)
	}
}

// options has the values of the command line.
type options struct {
	rounds  int
	turn    time.Duration
	largest int
	json    bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("canon", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 9, "in which each takes a turn with each document")
	f.DurationVar(&o.turn, "turn", 200*time.Millisecond, "how long a turn lasts at the least")
	f.IntVar(&o.largest, "largest", 10<<20, "document, in bytes")
	f.BoolVar(&o.json, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.rounds < 1 || o.turn <= 0 || o.largest < smallest {
		return o, fmt.Errorf("-rounds %d -turn %v -largest %d: want one, more than nothing, and %d at the least", o.rounds, o.turn, o.largest, smallest)
	}
	return o, nil
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	all, err := o.measure()
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(all)
	}
	return print(out, all)
}

// figure is the result of one contestant for one document.
type figure struct {
	Document string  `json:"document"`
	Bytes    int     `json:"bytes"`
	Who      string  `json:"who"`
	MBs      float64 `json:"mb_s"`   // median over the rounds
	Allocs   float64 `json:"allocs"` // per document
}

// measure lets the contestants take turns, so that a slow machine slows all of them equally.
func (o options) measure() ([]figure, error) {
	var all []figure
	for _, d := range documents(o.largest) {
		rates := make([][]float64, len(contestants))
		for range o.rounds {
			for i, c := range contestants {
				rate, err := o.takeTurn(c, d.text)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", c.name, d.name, err)
				}
				rates[i] = append(rates[i], rate)
			}
		}
		for i, c := range contestants {
			slices.Sort(rates[i])
			all = append(all, figure{
				Document: d.name,
				Bytes:    len(d.text),
				Who:      c.name,
				MBs:      rates[i][len(rates[i])/2],
				Allocs:   testing.AllocsPerRun(1, func() { _ = c.do(d.text) }), // takeTurn has checked the error
			})
		}
	}
	return all, nil
}

// takeTurn returns the speed of a contestant in MB/s.
func (o options) takeTurn(c contestant, text []byte) (float64, error) {
	began, times := time.Now(), 0
	for times == 0 || time.Since(began) < o.turn {
		for range max(1, 100_000/len(text)) { // reading the clock costs as much as a small document
			if err := c.do(text); err != nil {
				return 0, err
			}
			times++
		}
	}
	return float64(times*len(text)) / 1e6 / time.Since(began).Seconds(), nil
}

// print writes a table with the speed of guild as a multiple of each contestant's.
func print(out io.Writer, all []figure) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "document\t\tMB/s\tallocations\tours is\t")
	for at := 0; at < len(all); at += len(contestants) {
		ours := all[at].MBs
		for _, f := range all[at : at+len(contestants)] {
			fmt.Fprintf(t, "%s\t%s\t%.1f\t%.0f\t%.2f times as fast\t\n", f.Document, f.Who, f.MBs, f.Allocs, ours/f.MBs)
		}
		fmt.Fprintln(t, "\t\t\t\t\t")
	}
	return t.Flush()
}
