package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
	"text/tabwriter"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/journal"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/internal/step/partner"
)

// report has the results. Times are in seconds, memory is in bytes per provider.
type report struct {
	In         int     `json:"in"`
	Kept       int     `json:"kept"`
	Size       int     `json:"event_bytes"` // of one announcement as JSON
	Processors int     `json:"processors"`
	Peer       float64 `json:"go_nostr_seconds"`
	Verify     float64 `json:"verify_seconds"`
	TakeIn     float64 `json:"take_in_seconds"`
	Ratio      float64 `json:"ratio"`
	PeerCPU    float64 `json:"go_nostr_cpu_seconds"`
	TakeInCPU  float64 `json:"take_in_cpu_seconds"` // over all processors
	Memory     int64   `json:"bytes_per_provider"`
	Journal    int64   `json:"journal_bytes_per_provider"` // share of Memory
	Restart    float64 `json:"restart_seconds"`
	Recalled   int     `json:"recalled"`
	Cold       float64 `json:"offers_cold_us"` // the first page, the first time
	Warm       float64 `json:"offers_warm_us"` // the first page, on average of many times
	All        float64 `json:"offers_all_us"`  // all offers, likewise
	Offers     int     `json:"offers"`
}

// measure runs every part once.
func measure(ctx context.Context, o options) (r report, err error) {
	events, err := announcements(ctx, o.dir, o.n, time.Now())
	if err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp(o.dir, "discovery")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	if err := journal.Init(dir); err != nil {
		return r, err
	}
	size := 0
	for _, e := range events {
		size += len(e.String())
	}
	r = report{In: o.n, Processors: runtime.GOMAXPROCS(0), Size: size / len(events)}
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{
		// One goroutine checks the events, as clients usually do with events of a relay.
		{"peer", func(context.Context) error {
			start, used := time.Now(), cpu()
			for _, e := range events {
				if !checks(e) {
					return fmt.Errorf("event %.8s does not verify", e.ID.Hex())
				}
			}
			r.Peer, r.PeerCPU = time.Since(start).Seconds(), cpu()-used
			return nil
		}},
		// The share of verification in taking the events in.
		{"verify", func(ctx context.Context) (err error) {
			r.Verify, err = spread(ctx, events, o.relays, func(_ context.Context, _ string, e nostr.Event) error {
				_, err := guild.Verify(e)
				return err
			})
			return err
		}},
		{"take in", func(ctx context.Context) error { return r.first(ctx, dir, events, o) }},
		{"restart", func(ctx context.Context) error { return r.second(ctx, dir) }},
	} {
		runtime.GC() // no part pays for the garbage of another
		pprof.Do(ctx, pprof.Labels("part", part.name), func(ctx context.Context) { err = part.do(ctx) })
		if err != nil {
			return r, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	r.Ratio = r.Peer / r.TakeIn
	return r, nil
}

// spread distributes the events over one goroutine per relay.
func spread(ctx context.Context, events []nostr.Event, relays int, take func(context.Context, string, nostr.Event) error) (seconds float64, err error) {
	start := time.Now()
	work, ctx := errgroup.WithContext(ctx)
	for relay := range relays {
		from := fmt.Sprintf("wss://from-%d.example.com", relay)
		work.Go(func() error {
			for i := relay; i < len(events); i += relays {
				if err := take(ctx, from, events[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = work.Wait()
	return time.Since(start).Seconds(), err
}

// node has the parts of a node that discover providers.
type node struct {
	journal  *journal.Journal
	registry *registry.Registry
}

func open(ctx context.Context, dir string) (n node, err error) {
	n.journal, err = journal.Open(ctx, journal.Options{
		Dir: dir, Node: "bench", Now: time.Now, NoSync: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return n, err
	}
	n.registry, err = registry.Open(ctx, registry.Config{Journal: n.journal, Now: time.Now}, partner.NewFold(policy.Default()))
	return n, errors.Join(err, ctx.Err())
}

// first takes the announcements in and measures the memory.
func (r *report) first(ctx context.Context, dir string, events []nostr.Event, o options) error {
	n, err := open(ctx, dir)
	if err != nil {
		return err
	}
	before, start := heap(), cpu()
	r.TakeIn, err = spread(ctx, events, o.relays, func(ctx context.Context, from string, e nostr.Event) error {
		v, err := guild.Verify(e)
		if err != nil {
			return err
		}
		return n.registry.Observe(ctx, from, v)
	})
	if err != nil {
		return errors.Join(err, n.journal.Close())
	}
	r.TakeInCPU = cpu() - start
	r.Kept = n.registry.Len()
	time.Sleep(o.settle)
	all := heap()
	r.ask(n.registry)
	n.registry = nil
	rest := heap()
	r.Memory, r.Journal = (all-before)/int64(len(events)), (rest-before)/int64(len(events))
	runtime.KeepAlive(events)
	return n.journal.Close()
}

// ask measures a search for the providers of a task: its first page, and all of it.
func (r *report) ask(known *registry.Registry) {
	search := func(most, times int) (us float64) {
		start := time.Now()
		for range times {
			r.Offers = 0
			for range known.Offers("special-7", 5000) {
				if r.Offers++; r.Offers == most {
					break
				}
			}
		}
		return float64(time.Since(start).Nanoseconds()) / 1000 / float64(times)
	}
	r.Cold, r.Warm, r.All = search(page, 1), search(page, 1000), search(math.MaxInt, 50)
}

const page = 100 // offers

// second opens the same journal again.
func (r *report) second(ctx context.Context, dir string) error {
	start := time.Now()
	n, err := open(ctx, dir)
	if err != nil {
		return err
	}
	r.Restart, r.Recalled = time.Since(start).Seconds(), n.registry.Len()
	return n.journal.Close()
}

// cpu returns the processor time of this process in seconds. Unlike elapsed time it does not depend on other
// processes.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// heap returns the heap memory in use.
func heap() int64 {
	debug.FreeOSMemory()
	runtime.GC() // second run for objects with finalizers and in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (r report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	n := float64(r.In)
	fmt.Fprintf(w, "announcements\t%d in, %d kept, %d after the restart\t%d bytes each\n", r.In, r.Kept, r.Recalled, r.Size)
	fmt.Fprintf(w, "go-nostr checks them\t%.2f s\t%.0f µs each, one goroutine\n", r.Peer, r.Peer/n*1e6)
	fmt.Fprintf(w, "guild verifies them\t%.2f s\t%.0f µs each, %d processors\n", r.Verify, r.Verify/n*1e6, r.Processors)
	fmt.Fprintf(w, "guild takes them in\t%.2f s\t%.0f µs each, %.2f times as fast as go-nostr checks (goal: 3)\n", r.TakeIn, r.TakeIn/n*1e6, r.Ratio)
	fmt.Fprintf(w, "processor time\t%.0f µs\tfor each taken in, beside %.0f µs: %.2f times as fast on %d processors that nobody else uses\n",
		r.TakeInCPU/n*1e6, r.PeerCPU/n*1e6, r.PeerCPU/r.TakeInCPU*float64(r.Processors), r.Processors)
	fmt.Fprintf(w, "memory\t%d bytes a provider\t%d of them the journal's (goal: 1,024 in all)\n", r.Memory, r.Journal)
	fmt.Fprintf(w, "restart\t%.2f s\t(goal: 5)\n", r.Restart)
	fmt.Fprintf(w, "who does a task\t%.0f µs\tthe first %d; %.0f µs afterwards, %.0f µs for all %d\n", r.Cold, page, r.Warm, r.All, r.Offers)
	return w.Flush()
}
