package node

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/market/registry"
	"guild/internal/step/partner"
	"guild/nip89"
)

// Size of the history in these benchmarks. With -short it is a tenth.
const (
	knownProviders = 100_000
	knownFacts     = 1_000_000
	knownTasks     = 50
	askedProviders = 20_000 // number of providers that jobs went to
)

// restartDir names a directory in which the history is kept for later runs, because writing it takes longer than
// measuring.
const restartDir = "GUILD_RESTART_DIR"

// BenchmarkRestart measures a node that knows a hundred thousand providers and has a million facts: the time to start
// from snapshots and, for comparison, by replaying everything; the latency of decisions while snapshots are taken; and
// the cost of each fold's snapshot. Run it with -benchtime 3x.
func BenchmarkRestart(b *testing.B) {
	h := history{dir: os.Getenv(restartDir), providers: knownProviders, facts: knownFacts}
	if testing.Short() {
		h.providers, h.facts = h.providers/10, h.facts/10
	}
	if h.dir == "" {
		h.dir = b.TempDir()
	}
	if err := h.write(b.Context()); err != nil {
		b.Fatal(err)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	b.Logf("%d processors, load %.14s", runtime.GOMAXPROCS(0), load)
	var replayed, restored time.Duration
	b.Run("from=facts", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			h.forget(b)
			b.StartTimer()
			n, took := h.open(b)
			b.StopTimer()
			h.takeLeave(b, n)
			replayed += took
			b.StartTimer()
		}
		replayed /= time.Duration(b.N)
	})
	b.Run("from=snapshot", func(b *testing.B) {
		for b.Loop() {
			n, took := h.open(b)
			b.StopTimer()
			b.ReportMetric(float64(liveHeap())/1e6, "MB-heap")
			h.takeLeave(b, n)
			restored += took
			b.StartTimer()
		}
		restored /= time.Duration(b.N)
		b.ReportMetric(float64(restored)/float64(replayed), "of-replay")
	})
	b.Run("decide", func(b *testing.B) { h.decide(b) })
	b.Run("snapshot", func(b *testing.B) { h.snapshots(b) })
}

// liveHeap returns the heap in use after a collection, in bytes.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// history is a directory with the journal of a node that was busy for a long time.
type history struct {
	dir              string
	providers, facts int
}

func (h history) config() Config {
	return Config{Dir: h.dir, Identity: key.Identity{PubKey: key.NewSecret(nostr.SecretKey{31: 7}).PubKey()}, Now: time.Now, NoSync: true,
		Log: slog.New(slog.DiscardHandler)}.withDefaults()
}

// open opens the journal with all folds of a node, and the registry from SEEN.
func (h history) open(b *testing.B) (*Node, time.Duration) {
	b.Helper()
	runtime.GC()
	n, began, worked := &Node{c: h.config()}, time.Now(), processorTime()
	if err := n.openJournal(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	journaled := time.Since(began)
	var err error
	n.registry, err = registry.Open(b.Context(), registry.Config{Journal: n.journal, Now: time.Now, Observed: n.folds.observed}, n.folds.partners)
	if err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	b.Logf("the journal %v, the registry %v; processor time %v", journaled.Round(time.Millisecond), (took - journaled).Round(time.Millisecond),
		(processorTime() - worked).Round(time.Millisecond))
	return n, took
}

// processorTime returns the processor time of this process on all processors. It varies least on a busy machine.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (h history) takeLeave(b *testing.B, n *Node) {
	b.Helper()
	if err := n.journal.Close(); err != nil {
		b.Fatal(err)
	}
}

// forget removes the snapshots.
func (h history) forget(b *testing.B) {
	b.Helper()
	if err := os.RemoveAll(filepath.Join(h.dir, "journal", "snapshot")); err != nil {
		b.Fatal(err)
	}
}

// decide makes concurrent decisions while snapshots are taken, and reports their latency.
func (h history) decide(b *testing.B) {
	n, _ := h.open(b)
	defer h.takeLeave(b, n)
	quiet := n.deciding(b, func() { time.Sleep(2 * time.Second) })
	var held []time.Duration
	var busy []time.Duration
	for b.Loop() {
		busy = append(busy, n.deciding(b, func() {
			if err := n.journal.Snapshot(b.Context()); err != nil {
				b.Error(err)
			}
		})...)
	}
	for range 20 {
		began := time.Now()
		for _, f := range n.everyFold() {
			f.Freeze()
		}
		held = append(held, time.Since(began))
	}
	for name, all := range map[string][]time.Duration{"without a snapshot": quiet, "while snapshots are taken": busy, "copying all folds": held} {
		slices.Sort(all)
		at := func(share float64) time.Duration { return all[int(share*float64(len(all)-1))].Round(time.Microsecond) }
		b.Logf("%-26s %6d: median %v, 99 %% %v, 99.9 %% %v, longest %v", name, len(all), at(0.5), at(0.99), at(0.999), at(1))
	}
	b.ReportMetric(float64(slices.Max(busy).Microseconds())/1000, "ms-longest-decision")
	b.ReportMetric(float64(slices.Max(held).Microseconds())/1000, "ms-longest-copy")
}

// deciding makes decisions until the function until returns.
func (n *Node) deciding(b *testing.B, until func()) (took []time.Duration) {
	b.Helper()
	var done atomic.Bool
	var decided sync.WaitGroup
	decided.Go(func() {
		for k := 0; !done.Load(); k++ {
			began := time.Now()
			err := n.journal.Do(b.Context(), fact.Subject(fmt.Sprint("service.d", k%100)), "", func(tx *journal.Tx) error {
				tx.Append(fact.ServicePaused{Service: "d"})
				return nil
			})
			if err != nil {
				b.Error(err)
				return
			}
			took = append(took, time.Since(began))
			time.Sleep(200 * time.Microsecond)
		}
	})
	until()
	done.Store(true)
	decided.Wait()
	return took
}

func (n *Node) everyFold() []fold.Fold {
	all := []fold.Fold{n.claims}
	for _, p := range n.parts {
		all = append(all, p.folds...)
	}
	return all
}

// snapshots measures the snapshot of each fold.
func (h history) snapshots(b *testing.B) {
	n, _ := h.open(b)
	defer h.takeLeave(b, n)
	for _, f := range n.everyFold() {
		b.Run("fold="+f.Name(), func(b *testing.B) {
			var state []byte
			var encoding time.Duration
			for b.Loop() {
				began := time.Now()
				var err error
				if state, err = f.Freeze()(); err != nil {
					b.Fatal(err)
				}
				encoding += time.Since(began)
				if err := f.Restore(state); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(encoding.Milliseconds())/float64(b.N), "ms-encode")
			b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N)-float64(encoding.Milliseconds())/float64(b.N), "ms-restore")
			b.ReportMetric(float64(len(state))/1e6, "MB")
		})
	}
}

// write writes the journal, unless an earlier run did.
func (h history) write(ctx context.Context) error {
	done := filepath.Join(h.dir, fmt.Sprintf("history-%d-%d", h.providers, h.facts))
	if _, err := os.Stat(done); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Join(h.dir, "journal")
	if err := journal.Init(dir); err != nil {
		return err
	}
	now := h.clock()
	j, err := journal.Open(ctx, journal.Options{Dir: dir, Node: "guild", Now: now, NoSync: true, SnapshotEvery: 24 * time.Hour})
	if err != nil {
		return err
	}
	known, err := h.announce(ctx, j)
	if err == nil {
		err = h.record(ctx, j, known, now)
	}
	if err := errors.Join(err, j.Close()); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o600)
}

// lasted is the time span of the history.
const lasted = 60 * 24 * time.Hour

// clock returns a clock that advances from the start of the history to now, a little with each call.
func (h history) clock() func() time.Time {
	end, looks, step := time.Now(), new(atomic.Int64), lasted/time.Duration(2*h.facts)
	return func() time.Time {
		at := end.Add(-lasted).Add(time.Duration(looks.Add(1)) * step)
		if at.After(end) {
			return end
		}
		return at
	}
}

// announce lets all providers announce a service, and returns the services.
func (h history) announce(ctx context.Context, j *journal.Journal) ([]guild.Service, error) {
	r, err := registry.Open(ctx, registry.Config{Journal: j, Now: time.Now}, partner.NewFold(history{}.config().Policy))
	if err != nil {
		return nil, err
	}
	known := make([]guild.Service, h.providers)
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range known {
		work.Go(func() error {
			secret := key.NewSecret(nostr.SecretKey{27: 1, 28: byte(i >> 24), 29: byte(i >> 16), 30: byte(i >> 8), 31: byte(i)})
			known[i] = guild.Service{PubKey: secret.PubKey(), D: fmt.Sprintf("service-%08x", i*2654435761)}
			e := nip89.Handler{
				D: known[i].D, Name: fmt.Sprint("Compute Node ", i), Version: "2.1.0", Kinds: []int{5000 + i%7*50, 5100},
				Tasks: []string{taskOf(i)}, Relays: []string{"wss://relay.damus.io", fmt.Sprintf("wss://relay-%d.example.com", i%500)},
				Encryption: []string{"nip44"}, Price: guild.Msat(1000 + i%9000), Models: []string{"llama-3.3-70b"}, MaxConcurrent: 4,
				About: "Generates, translates and summarises text on its own hardware; answers within seconds, around the clock.",
			}.Event()
			e.CreatedAt = nostr.Timestamp(time.Now().Unix())
			v, err := guild.Sign(ctx, key.NewSigner(secret), e)
			if err != nil {
				return err
			}
			return r.Observe(ctx, "wss://relay.damus.io", v)
		})
	}
	return known, work.Wait()
}

func taskOf(i int) string { return fmt.Sprint("task-", i%knownTasks) }

// record appends the facts, with many concurrent writers.
func (h history) record(ctx context.Context, j *journal.Journal, known []guild.Service, now func() time.Time) error {
	var written atomic.Int64
	appends := func(guard fact.Subject, cause string, facts ...fact.Fact) error {
		return j.Do(ctx, guard, cause, func(tx *journal.Tx) error {
			written.Add(int64(len(facts)))
			tx.Append(facts...)
			return nil
		})
	}
	p := h.config().Policy
	hash, err := p.Hash()
	if err != nil {
		return err
	}
	document, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := appends(fact.PolicySubject, "", fact.PolicyAdopted{Policy: hash, Name: p.Name, Document: document}); err != nil {
		return err
	}
	work, _ := errgroup.WithContext(ctx)
	work.SetLimit(64)
	for _, s := range known {
		work.Go(func() error {
			return appends(fact.ProviderSubject(s.PubKey), "", fact.ProviderMoved{Service: s, From: guild.Seen, To: guild.Active,
				Cause: "score 0.93", Policy: hash})
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	work, _ = errgroup.WithContext(ctx)
	work.SetLimit(64)
	for n := 0; int(written.Load()) < h.facts; n++ {
		who := n % (h.providers * askedProviders / knownProviders)
		work.Go(func() error { return aJob(n, now().UnixMilli(), known[who], taskOf(who), hash, appends) })
	}
	return work.Wait()
}

// aJob records the whole life of a job: one of twenty fails, and every fifth is reviewed. The facts have the form and
// size that a node writes for a job with a small encrypted bundle.
func aJob(n int, at int64, s guild.Service, task string, policy guild.Hash, appends func(fact.Subject, string, ...fact.Fact) error) error {
	dice := rand.New(rand.NewPCG(uint64(n), 6))
	bytes := func(size int) []byte {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(dice.Uint32())
		}
		return b
	}
	hash := func() guild.Hash { return guild.Hash(bytes(32)) }
	id, attempt, answer := guild.JobID(bytes(16)), nostr.ID(bytes(32)), nostr.ID(bytes(32))
	binary.BigEndian.PutUint64(id[:], uint64(n))
	event := func(id nostr.ID, kind nostr.Kind, size int) nostr.Event {
		return nostr.Event{ID: id, Kind: kind, PubKey: s.PubKey, CreatedAt: nostr.Timestamp(at / 1000), Sig: [64]byte(bytes(64)),
			Tags:    nostr.Tags{{"p", s.PubKey.Hex()}, {"d", id.Hex()}, {"encrypted"}, {"relays", "wss://relay.damus.io"}},
			Content: base64.StdEncoding.EncodeToString(bytes(size))}
	}
	job, relays, node := fact.JobSubject(id), []string{"wss://relay.damus.io", "wss://relay.example.com"}, "guild-99ad7a04"
	reply := event(answer, 6000, 1200)
	verdict := guild.Verdict{Outcome: guild.Success, Score: 930_000, Strength: guild.Strong, Tier: "namespaces", Expected: 14, Passed: 13,
		Usage: guild.Usage{WallMs: 1200, CPUMs: 900, MemoryPeak: 40 << 20}, Evidence: hash()}
	failed := n%20 == 0
	entries := []struct {
		guard fact.Subject
		facts []fact.Fact
	}{
		{job, []fact.Fact{fact.JobOpened{Job: id, Task: task, Title: "Write a function that adds two numbers", Bundle: hash(), Size: 1800, Kind: 5000,
			Deadline: at + 3600_000, Tries: 3, Criticality: "low", Unbid: true}}},
		{fact.BidSubject, []fact.Fact{fact.BidReserved{Job: id, Turn: 1, Task: task, Amount: 1200, At: at}}},
		{job, []fact.Fact{fact.AttemptPlanned{Attempt: attempt, Job: id, Provider: s, Request: event(attempt, 5000, 1400), JobHash: hash(), Encrypted: true,
			Relays: relays, Bid: 1200, Choice: aChoice(s, policy)}}},
		{job, []fact.Fact{fact.EffectSettled{Effect: "publish " + attempt.Hex()},
			fact.AttemptRequested{Attempt: attempt, Relays: relays, Silence: at + 300_000}}},
		{job, []fact.Fact{fact.AttemptProgressed{Attempt: attempt, Event: nostr.ID(bytes(32)), Status: "processing", Silence: at + 300_000,
			Capacity: &fact.Capacity{Queue: n % 3, Idle: 4}}}},
		{job, []fact.Fact{fact.AttemptDelivered{Attempt: attempt, Result: answer, Event: hash(), Answer: &reply, Delivery: hash(), Size: 1500,
			LatencyMs: int64(500 + n%4000)}}},
		{job, []fact.Fact{fact.EffectClaimed{Effect: "judge " + attempt.Hex(), Node: node, Until: at + 120_000}}},
		{job, []fact.Fact{fact.EffectSettled{Effect: "judge " + attempt.Hex()},
			fact.AttemptJudged{Attempt: attempt, Verdict: verdict, Hash: hash(), Stored: hash()}}},
		{job, []fact.Fact{fact.JobClosed{Job: id, Ending: guild.JobAccepted, Chosen: attempt}}},
		{fact.BidSubject, []fact.Fact{fact.BidFreed{Job: id, Turn: 1, Spent: 1200}}},
		{fact.TrustSubject(task), []fact.Fact{fact.TrustChanged{Task: task, Service: s, From: 600_000, To: 621_600, EMA: 621_600, Runs: 2, Policy: policy,
			Job: id, Attempt: attempt, Reason: "SUCCESS, score 0.93", Pattern: "SUCCESS", Score: 930_000, Confidence: 400_000, Action: "REVIEW",
			Rationale: "SUCCESS, score 0.93: 0.6 + (0.1 × headroom 0.3 + 0.05 for the score) × damping 0.9 = 0.672; change 0.0216", LatencyMs: 900, Samples: 2}}},
		{job, []fact.Fact{fact.AttemptRecorded{Attempt: attempt, Receipt: "r-1bb2ff5b109509aa", Stored: hash(), Replay: hash(), Trajectory: hash()}}},
	}
	for i, e := range entries {
		if failed && i == 5 {
			return errors.Join(
				appends(job, "", fact.AttemptExpired{Attempt: attempt, Reason: "nothing in time"}),
				appends(job, "", fact.JobClosed{Job: id, Ending: guild.JobTimedOut, Reason: "nothing in time"}),
				appends(fact.BidSubject, "", fact.BidFreed{Job: id, Turn: 1}))
		}
		if err := appends(e.guard, strings.Repeat("c", 64), e.facts...); err != nil {
			return err
		}
	}
	if n%5 != 0 {
		return nil
	}
	review, about := event(nostr.ID(bytes(32)), 2020, 400), fact.ReviewSubject(task, s)
	return errors.Join(
		appends(about, "", fact.ReviewDrafted{Review: review.ID, Service: s, Task: task, Trust: 621_600, Attempt: attempt, Cause: "change", Events: []nostr.Event{review}}),
		appends(about, "", fact.EffectSettled{Effect: "publish " + review.ID.Hex()}, fact.ReviewPublished{Review: review.ID, Relays: relays}))
}

// aChoice returns a choice among a few candidates.
func aChoice(s guild.Service, policy guild.Hash) *fact.Choice {
	c := &fact.Choice{Policy: policy, Rule: "best", Tier: "trusted", Epsilon: 10_000, Dice: [3]guild.Trust{400_000, 200_000, 700_000}, Decided: 50, Count: 3}
	for k := range 3 {
		c.Candidates = append(c.Candidates, fact.Candidate{Service: s, Name: "Compute Node", Trust: 621_600, Met: true, Tier: "trusted",
			Cost: 1200, LatencyMs: 900, Load: k, Samples: 10, Terms: fact.Terms{Trust: 310_000, Cost: 100_000, Latency: 90_000, Load: 50_000}, Score: 550_000})
	}
	return c
}
