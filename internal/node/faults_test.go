package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/relay/faulttest"
	"guild/internal/step/jobs"
	"guild/internal/step/judge"
	"guild/internal/step/work"
)

// seedVariable sets the seed, to repeat a failed run: its log has the seed.
const seedVariable = "GUILD_FAULT_SEED"

func seed(t *testing.T) uint64 {
	t.Helper()
	s := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d repeats the decisions of the relays", seedVariable, s)
	return s
}

// hostileWorld has a customer and three providers that communicate over two unreliable relays.
type hostileWorld struct {
	t         *testing.T
	mix       faulttest.Mix // the faults of the relays
	ledger    *ledger
	relays    [2]*faulttest.Relay
	customer  *control.Client
	providers []*control.Client
	keys      []string // of the providers, in hex
}

// impatient sets short waits: losses are noticed soon, but a slow provider is not taken for silent. With faults that
// end connections nothing is lost; but each side avoids a relay that ends many of them for up to a minute.
func impatient(c *Config, mix faulttest.Mix) {
	silence := 10 * time.Second
	if max(mix[faulttest.Disconnect], mix[faulttest.Cut]) >= 0.01 {
		silence = 150 * time.Second
	}
	c.Hiring.Patience = jobs.Patience{
		Discover: 5 * time.Second, Silence: silence, Extend: silence, Job: 8 * time.Minute,
		Ladder: [3]time.Duration{3 * time.Second, 3 * time.Second, 6 * time.Second},
	}
	c.Retry = []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second}
	c.Hiring.Limits = jobs.Limits{AtOnce: 1000, PerMinute: 100_000}
	c.Log = slog.New(slog.DiscardHandler)
}

// newHostileWorld starts all nodes. The relays commit no faults until hireAll.
func newHostileWorld(t *testing.T, asked int, seed uint64, mix faulttest.Mix, do func(ctx context.Context, a work.Assignment) error) *hostileWorld {
	w := &hostileWorld{t: t, mix: mix, ledger: newLedger(asked)}
	for i := range w.relays {
		w.relays[i] = faulttest.Start(t, startRelay(t), seed+uint64(i))
	}
	for i := range 3 {
		first, second := w.relays[i%2].URL(), w.relays[1-i%2].URL() // the providers do not all prefer the same relay
		c, key := start(t, first, func(c *Config) {
			impatient(c, mix)
			c.Relays, c.Appended = []string{first, second}, w.ledger.enter
			c.Workers = []Worker{{Task: "echo", Slots: 8, Queue: 1000, Do: func(ctx context.Context, a work.Assignment) error {
				w.ledger.ran(i, a.Job)
				if err := do(ctx, a); err != nil {
					return err
				}
				return os.WriteFile(filepath.Join(a.Delivery, "by.txt"), []byte(strconv.Itoa(i)), 0o644)
			}}}
		})
		w.providers, w.keys = append(w.providers, c), append(w.keys, key.Hex())
		w.ledger.keys = append(w.ledger.keys, key)
	}
	w.customer, _ = start(t, w.relays[0].URL(), func(c *Config) {
		impatient(c, mix)
		c.Relays, c.Appended, c.Examine = []string{w.relays[0].URL(), w.relays[1].URL()}, w.ledger.enter, w.compare
	})
	awaitProviders(t, w.customer, len(w.providers))
	return w
}

// compare is an honest judge: it checks that the delivery is what was asked for.
func (w *hostileWorld) compare(_ context.Context, c judge.Case) (guild.Verdict, judge.Evidence, error) {
	read := func(parts ...string) string {
		b, err := os.ReadFile(filepath.Join(parts...))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	want := read(c.Bundle, "files", "in.txt")
	got := read(c.Delivery, "delivery", "artifacts", "out.txt")
	by, err := strconv.Atoi(read(c.Delivery, "delivery", "artifacts", "by.txt"))
	if got != want || err != nil {
		return guild.Verdict{Outcome: guild.Failure, Strength: guild.Strong, Tier: "none", Expected: 1, Cause: "another content"}, judge.Evidence("compared"), nil
	}
	w.ledger.judged(want, by)
	return guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none", Expected: 1, Passed: 1}, judge.Evidence("compared"), nil
}

// hireAll opens all jobs, a few at a time, and follows each to its end. Each provider is the first choice of a third of
// them, and the others are named too, because this test is not about routing.
func (w *hostileWorld) hireAll() {
	w.t.Helper()
	for _, r := range w.relays {
		r.Set(w.mix)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute) // many times the usual duration on a slow machine
	defer cancel()
	var all errgroup.Group
	all.SetLimit(24)
	for i := range w.ledger.asked {
		input := fmt.Sprintf("job %d", i)
		packed := bundleOf(w.t, []byte(input))
		var named []string
		for j := range w.keys {
			named = append(named, w.keys[(i+j)%len(w.keys)])
		}
		all.Go(func() error {
			job, err := w.customer.Hire(ctx, bytes.NewReader(packed), control.Hire{Providers: named})
			if err != nil {
				return err
			}
			id, err := guild.ParseJobID(job.ID)
			if err != nil {
				return err
			}
			return w.ledger.follow(ctx, id, input)
		})
	}
	if err := all.Wait(); err != nil {
		w.t.Error(err)
	}
}

// settle stops the faults and waits until the providers are done. Then it collects the results.
func (w *hostileWorld) settle() {
	w.t.Helper()
	for _, r := range w.relays {
		r.Heal()
	}
	late := time.After(ample)
	for tick := time.Tick(10 * time.Millisecond); ; {
		w.ledger.busy = w.busy()
		if len(w.ledger.busy) == 0 {
			break
		}
		select {
		case <-tick:
			continue
		case <-late:
		}
		break
	}
	shown, err := control.Jobs.Call(w.t.Context(), w.customer)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for _, job := range shown {
		id, err := guild.ParseJobID(job.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		w.ledger.jobs[id] = job
	}
}

func (w *hostileWorld) busy() (what []string) {
	s := w.status(w.customer)
	if n := s.Jobs["open"]; n > 0 {
		what = append(what, fmt.Sprintf("%d jobs", n))
	}
	for _, effect := range s.Parked {
		if !strings.HasPrefix(effect, "publish ") { // a request or deletion that no relay accepted: it is reported, not waited for
			what = append(what, effect)
		}
	}
	for i, p := range w.providers {
		if s := service(w.t, p); s.Running+s.Queued > 0 {
			what = append(what, fmt.Sprintf("provider %d works on %d and has %d to do", i, s.Running, s.Queued))
		}
	}
	return what
}

func (w *hostileWorld) status(c *control.Client) control.Status {
	w.t.Helper()
	s, err := control.NodeStatus.Call(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// committed returns the number of faults of both relays.
func (w *hostileWorld) committed() map[faulttest.Fault]int {
	all := map[faulttest.Fault]int{}
	for _, r := range w.relays {
		for f, n := range r.Committed() {
			all[f] += n
		}
	}
	return all
}

// row returns a line of the table.
func (w *hostileWorld) row(name string, took time.Duration) string {
	endings, attempts, dropped := w.ledger.endings(), 0, map[string]int{}
	for _, job := range w.ledger.jobs {
		attempts += len(job.Attempts)
	}
	for _, c := range append(w.providers, w.customer) {
		for reason, n := range w.status(c).Dropped {
			dropped[reason] += int(n)
		}
	}
	accepted, times := endings[guild.JobAccepted], 0
	delete(endings, guild.JobAccepted)
	for n := range maps.Values(w.committed()) {
		times += n
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%s\t%d\t%.1f s\t%s", name, times, w.ledger.asked, accepted, counts(endings),
		attempts-w.ledger.asked, took.Seconds(), counts(dropped))
}

// harsh returns the probability of a fault that is alone, mild that of one among all. A relay that ends several
// connections within seconds is avoided for up to a minute; higher probabilities would only measure that wait.
func harsh(f faulttest.Fault) float64 {
	switch f {
	case faulttest.Disconnect, faulttest.Cut:
		return 0.02
	case faulttest.Auth, faulttest.Strangers:
		return 1
	}
	return 0.125
}

func mild(f faulttest.Fault) float64 {
	switch f {
	case faulttest.Disconnect, faulttest.Cut:
		return 0.001
	case faulttest.Ignore, faulttest.Withhold: // they have few opportunities
		return 0.125
	case faulttest.Auth:
		return 0.5
	}
	return 0.03
}

// TestFaultyRelays runs each fault alone, and all of them together.
func TestFaultyRelays(t *testing.T) {
	t.Parallel()
	base, jobs, each := seed(t), 80, 20
	if soaking() {
		jobs, each = 200, 40
	}
	var mu sync.Mutex
	rows := map[string]string{}
	try := func(t *testing.T, name string, n int, mix faulttest.Mix) {
		t.Run(name, func(t *testing.T) {
			w := newHostileWorld(t, n, base, mix, echo)
			began := time.Now()
			w.hireAll()
			w.settle()
			for _, wrong := range w.ledger.audit() {
				t.Error(wrong)
			}
			t.Logf("committed: %s", counts(w.committed()))
			if len(mix) == 1 && len(w.committed()) == 0 {
				t.Error("the fault was never committed")
			}
			if accepted := w.ledger.endings()[guild.JobAccepted]; accepted < n*9/10 {
				t.Errorf("only %d of %d jobs were accepted", accepted, n)
			}
			mu.Lock()
			defer mu.Unlock()
			rows[name] = w.row(name, time.Since(began))
		})
	}
	names, all := []string{"none", "all"}, faulttest.Mix{}
	for _, f := range faulttest.All() {
		names = append(names, string(f))
		all[f] = mild(f)
	}
	var tries errgroup.Group // the runs mostly wait, so more of them run at once than there are processors
	tries.SetLimit(6)
	tries.Go(func() error { try(t, "all", jobs, all); return nil })
	tries.Go(func() error { try(t, "none", each, nil); return nil })
	for _, f := range faulttest.All() {
		tries.Go(func() error { try(t, string(f), each, faulttest.Mix{f: harsh(f)}); return nil })
	}
	if err := tries.Wait(); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "fault\tcommitted\tjobs\taccepted\tother endings\tretries\ttook\tdropped")
	for _, name := range names {
		fmt.Fprintln(columns, rows[name])
	}
	columns.Flush()
	t.Logf("what became of jobs on hostile relays:\n%s", &table)
}

// TestLedgerFindsSecondRun checks that the previous test can fail.
func TestLedgerFindsSecondRun(t *testing.T) {
	t.Parallel()
	var w *hostileWorld
	w = newHostileWorld(t, 1, seed(t), nil, func(ctx context.Context, a work.Assignment) error {
		w.ledger.ran(0, a.Job)
		w.ledger.ran(0, a.Job)
		return echo(ctx, a)
	})
	w.hireAll()
	w.settle()
	if wrong := w.ledger.audit(); len(wrong) != 1 || !strings.Contains(wrong[0], "was started") {
		t.Errorf("the audit says %q", wrong)
	}
}
