package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/hand/key"
	"guild/nip89"
)

// announcements returns n signed announcements by n keys. Signing takes longer than measuring, so it stores them in a
// file in dir and reuses the file while it is fresh.
func announcements(ctx context.Context, dir string, n int, now time.Time) ([]nostr.Event, error) {
	path := filepath.Join(dir, fmt.Sprintf("announcements-%d.jsonl", n))
	if events, err := load(path); err == nil && len(events) == n && now.Sub(events[0].CreatedAt.Time()) < 10*24*time.Hour {
		return events, nil
	}
	events, err := sign(ctx, n, now)
	if err != nil {
		return nil, err
	}
	return events, save(path, events)
}

func sign(ctx context.Context, n int, now time.Time) ([]nostr.Event, error) {
	events := make([]nostr.Event, n)
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		work.Go(func() error {
			e := announcement(i).Event()
			e.CreatedAt = nostr.Timestamp(now.Add(-time.Duration(i%(9*24*60)) * time.Minute).Unix())
			v, err := guild.Sign(ctx, key.NewSigner(key.NewSecret(nostr.Generate())), e)
			events[i] = v.Event()
			return err
		})
	}
	return events, work.Wait()
}

// announcement returns the announcement of provider i. Its size is typical of today's announcements: a name, one or
// two sentences, a few kinds and tasks, two or three relays, most of them popular ones, and the content of the
// OpenAgents surface.
func announcement(i int) nip89.Handler {
	rate, latency, jobs := 0.9+float64(i%100)/1000, float64(200+i%5000), float64(i%3000)
	words := []string{"text-generation", "translation", "summarization", "image-generation", "code-review", "python",
		"transcription", "embedding", "benchmark-task", "data-processing", "oa.sandbox_run.v1", "oa.embedding.v1"}
	h := nip89.Handler{
		D: fmt.Sprintf("service-%08x", i*2654435761), Name: fmt.Sprintf("Compute Node %d", i), Version: "2.1.0",
		About: "Generates, translates and summarises text on its own hardware; answers within seconds, around the clock. " +
			"Questions and complaints go to the operator by direct message.",
		Kinds:      []int{5000 + i%7*50, 5050 + i%11*10, 5100},
		Tasks:      []string{words[i%len(words)], words[(i/7)%len(words)], fmt.Sprintf("special-%d", i%5000)},
		Relays:     []string{"wss://relay.damus.io", fmt.Sprintf("wss://relay-%d.example.com", i%500), fmt.Sprintf("wss://own-%d.example.net", i%20000)},
		Encryption: []string{"nip44"}, Price: guild.Msat(1000 + i%9000), SupplyClass: "SingleNode",
		Models: []string{"llama-3.3-70b", "qwen-2.5-coder"}, Hardware: nip89.Hardware{MemoryGB: 64, GPU: "RTX 4090", VRAMGB: 24},
		MaxConcurrent: 4, MaxContext: 128000, Rates: nip89.Rates{InputPer1k: 10, OutputPer1k: 30},
		Stability: nip89.Stability{SuccessRate: &rate, AvgLatencyMs: &latency, JobsCompleted: &jobs}, Performance: nip89.Performance{TypicalLatencyMs: &latency},
	}
	return h
}

func load(path string) ([]nostr.Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var events []nostr.Event
	lines := bufio.NewReaderSize(f, 1<<20)
	for in := json.NewDecoder(lines); in.More(); {
		var e nostr.Event
		if err := in.Decode(&e); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

func save(path string, events []nostr.Event) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	for _, e := range events {
		if err := lines.Encode(e); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}
