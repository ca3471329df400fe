package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"guild/internal/control"
	"guild/internal/journal/fact"
	"guild/internal/node"
	"guild/internal/step/jobs"
)

const (
	few     = 250 // open jobs of the first measurement
	hires   = 200 // jobs that are hired while others are open
	resting = 10 * time.Second
	nobody  = "bench-nobody" // a task that no provider offers
)

// burden has the figures of a node with a number of open jobs.
type burden struct {
	Open  int     `json:"open"`        // jobs
	Fact  int64   `json:"fact_cpu_us"` // processor time for each fact while jobs are hired
	Hire  int64   `json:"hire_us"`     // wall time of one hire
	Quiet float64 `json:"idle_cores"`  // processor time per second while nothing happens
}

// measureOpen measures a node with few open jobs, and then with many. No provider offers their task, so they stay open.
func (s *stand) measureOpen(ctx context.Context, dir string, many int) (all []burden, err error) {
	facts := make(chan int, 1)
	facts <- 0
	count := func(e fact.Entry) { facts <- <-facts + len(e.Facts) }
	socket := filepath.Join(dir, "open")
	long := 24 * time.Hour
	c := node.Config{Socket: socket, Dir: filepath.Join(dir, "open-node"), NoSync: true, Relays: []string{s.relay.URL()}, Appended: count, Examine: accept,
		Hiring: node.Hiring{Limits: jobs.Limits{AtOnce: 100_000, PerMinute: 100_000_000}, Patience: jobs.Patience{Discover: long, Job: long}}}
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	end := s.stop
	s.stop = func() { stop(); end() }
	if err := s.startNode(ctx, live, "open", c); err != nil {
		return nil, err
	}
	client, open := control.Dial(socket), 0
	hire := func(n, width int) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(width)
		for range n {
			group.Go(func() error {
				packed, err := bundle(ctx, nobody)
				if err == nil {
					_, err = client.Hire(ctx, bytes.NewReader(packed), control.Hire{Task: nobody})
				}
				return err
			})
		}
		open += n
		return group.Wait()
	}
	for _, n := range []int{few, many} {
		if err := hire(n-open, 4); err != nil {
			return nil, err
		}
		time.Sleep(resting)
		b := burden{Open: n}
		before := <-facts
		facts <- before
		spent, start := processorTime(), time.Now()
		if err := hire(hires, 1); err != nil {
			return nil, err
		}
		b.Hire = time.Since(start).Microseconds() / hires
		time.Sleep(time.Second) // for what follows from the last one
		after := <-facts
		facts <- after
		b.Fact = (processorTime() - spent).Microseconds() / int64(max(1, after-before))
		time.Sleep(resting)
		spent, start = processorTime(), time.Now()
		time.Sleep(resting)
		b.Quiet = (processorTime() - spent).Seconds() / time.Since(start).Seconds()
		all = append(all, b)
	}
	return all, nil
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func writeBurdens(w io.Writer, all []burden) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "open jobs\tCPU of a fact\thire\tCPU while idle\t")
	for _, b := range all {
		fmt.Fprintf(t, "%d\t%s\t%s\t%.1f %%\t\n", b.Open, microseconds(b.Fact), microseconds(b.Hire), 100*b.Quiet)
	}
	return t.Flush()
}
