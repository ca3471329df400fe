package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"golang.org/x/sync/errgroup"

	"guild/internal/policy"
)

// result is the result of one contestant on one market.
type result struct {
	Contestant string  `json:"contestant"`
	Seed       uint64  `json:"seed"`
	Guild      bool    `json:"guild,omitempty"`
	Entries    uint64  `json:"entries,omitempty"` // of the journal
	Seconds    float64 `json:"seconds"`           // duration of the run
	tally
	Regret float64 `json:"regret"` // msat
}

// wasted returns the money spent without result, in msat.
func (r result) wasted() float64 { return float64(r.Lost + r.Benched) }

// loss returns the regret plus the bids of all benchmarks, in msat.
func (r result) loss() float64 { return r.Regret + float64(r.Benched) }

// check fails if no job was accepted. That says that the market is wired wrongly, and nothing about the contestant.
func (r result) check() error {
	if r.Accepted == 0 {
		return fmt.Errorf("%s, seed %d: none of %d jobs was accepted; -drive with -trace tells why", r.Contestant, r.Seed, r.Jobs)
	}
	return nil
}

const oracleName = "oracle"

// race plays every market with every contestant. Guild runs in separate processes, one per processor at a time.
func (o options) race(ctx context.Context) ([]result, error) {
	names := make([]string, 0, len(peers)+1+len(o.policies))
	names = append(names, oracleName)
	for _, p := range peers {
		names = append(names, p.name)
	}
	all := make([]result, o.seeds*(len(names)+len(o.policies)))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	at := 0
	for s := range o.seeds {
		seed := o.seed + uint64(s)
		for _, name := range o.policies {
			to := &all[at]
			at++
			work.Go(func() (err error) { *to, err = o.child(ctx, seed, name); return err })
		}
		for _, name := range names {
			to := &all[at]
			at++
			work.Go(func() error { *to = o.play(seed, name, o.tuned[name]); return nil })
		}
	}
	return all, work.Wait()
}

// market draws a market.
func (o options) market(seed uint64) *market {
	m := newMarket(seed, o.days, o.providers, o.jobs)
	m.worsenBy(o.adversity)
	return m
}

// play plays a market with a peer, by one of its settings, or with the oracle.
func (o options) play(seed uint64, name string, setting int) result {
	began := time.Now()
	m := o.market(seed)
	w := newWorld(m)
	var r router = knowing{w}
	for _, p := range peers {
		if p.name == name {
			r = p.settings[setting].make(w, m.random(name))
		}
	}
	w.play(r)
	return result{Contestant: name, Seed: seed, tally: w.sum(), Seconds: time.Since(began).Seconds()}
}

// child runs guild in a separate process.
func (o options) child(ctx context.Context, seed uint64, policy string) (r result, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, self, "-drive", policy, "-seed", strconv.FormatUint(seed, 10), "-days", strconv.Itoa(o.days),
		"-providers", strconv.Itoa(o.providers), "-jobs", strconv.Itoa(o.jobs), "-dir", o.dir, "-gaming", strconv.Itoa(o.gaming), "-whitewashing", strconv.Itoa(o.whitewashing),
		"-sybils", strconv.Itoa(o.sybils), "-tasks", strconv.Itoa(o.tasks))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("seed %d, policy %s: %w", seed, policy, err)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return r, err
	}
	return r, r.check()
}

// driveHere runs guild in a bubble in this process, writes the result and ends the process. It must end because
// testing.Main, the only way to get a bubble outside a test, calls os.Exit.
func (o options) driveHere(out io.Writer) error {
	p, err := named(o.drive)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	os.Stdout = null // hides the output of testing
	ats.Register()   // starts the clock shared by all NATS servers of the process outside the bubble
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil {
		return err
	}
	failed := func(err error) {
		fmt.Fprintln(os.Stderr, "marketsim:", err)
		os.Exit(1)
	}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "market", F: func(t *testing.T) {
		stop, err := o.profile()
		if err != nil {
			failed(err)
		}
		began := time.Now()
		r := result{Contestant: o.drive, Seed: o.seed, Guild: true}
		err = inDir(o.dir, func(dir string) error { return o.bubble(t, dir, p, &r) })
		r.Seconds = time.Since(began).Seconds()
		stop()
		if err == nil {
			err = json.NewEncoder(out).Encode(r)
		}
		if err != nil {
			failed(err)
		}
	}}}, nil, nil)
	return nil
}

// profile starts the requested profile. stop ends it.
func (o options) profile() (stop func(), err error) {
	if o.cpu == "" {
		return func() {}, nil
	}
	f, err := os.Create(o.cpu)
	if err != nil {
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, pprof.StartCPUProfile(f)
}

// inDir calls do with a temporary directory, in memory if there is enough.
func inDir(parent string, do func(dir string) error) error {
	const memory, plenty = "/dev/shm", 2 << 30 // bytes
	var fs syscall.Statfs_t
	if parent == "" && syscall.Statfs(memory, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > plenty {
		parent = memory
	}
	dir, err := os.MkdirTemp(parent, "marketsim")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return do(filepath.Clean(dir))
}

// bubble runs guild with a clock that advances only when all goroutines wait.
func (o options) bubble(t *testing.T, dir string, p policy.Policy, r *result) (err error) {
	m := o.market(o.seed)
	var trace io.Writer
	if o.trace != "" {
		f, err := os.Create(o.trace)
		if err != nil {
			return err
		}
		defer f.Close()
		trace = f
	}
	synctest.Test(t, func(t *testing.T) {
		var n *node
		if n, err = drive(t.Context(), m, p, dir, trace); err == nil {
			r.tally, r.Entries = n.sum(), n.journal.Last()
		}
	})
	return err
}
