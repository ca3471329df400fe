package node

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal"
	"guild/internal/judge"
	"guild/internal/key"
	"guild/internal/relayd"
	"guild/internal/work"
	"guild/nutshell"
)

// startRelay runs a real relay for the test.
func startRelay(t *testing.T) string {
	t.Helper()
	r, err := relayd.Open(relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	run(t, r.Run)
	return r.URL()
}

// run runs something until the test ends, and fails the test if it fails.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("it ended with: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("it does not stop")
		}
	}
	t.Cleanup(stop)
	return stop
}

// start runs a node on a relay and returns a client once it is ready.
func start(t *testing.T, relay string, change func(*Config)) (*control.Client, nostr.PubKey) {
	t.Helper()
	dir := t.TempDir()
	secret := key.NewSecret(nostr.Generate())
	signer := key.NewSigner(secret)
	pubkey := secret.PubKey()
	ready := make(chan Ready, 1)
	c := Config{
		Dir: dir, Socket: socket(t), Identity: key.Identity{Signer: signer, PubKey: pubkey}, NoSync: true,
		Relays: []string{relay}, Version: "test", Ready: func(r Ready) { ready <- r },
		Examine: func(context.Context, string, string) (guild.Verdict, judge.Evidence, error) {
			return guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none", Expected: 1, Passed: 1}, judge.Evidence("fine"), nil
		},
	}
	change(&c)
	if err := journal.Init(filepath.Join(dir, "journal")); err != nil {
		t.Fatal(err)
	}
	run(t, func(ctx context.Context) error { return Run(ctx, c) })
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatal("the node is not ready")
	}
	return control.Dial(c.Socket), pubkey
}

// socket is a short path for a control socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guild")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func bundle(t *testing.T) []byte {
	t.Helper()
	tree := fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-test",
			"task":{"title":"Echo"},"extensions":{"guild":{"task":"echo"}}}`)},
		"files/in.txt": {Data: []byte("hello")},
	}
	var b bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// echo is a worker that delivers what it got.
func echo(ctx context.Context, a work.Assignment) error {
	b, err := os.ReadFile(filepath.Join(a.Bundle, "files", "in.txt"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), b, 0o644)
}

func hire(t *testing.T, c *control.Client, h control.Hire) control.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	job, err := c.Hire(ctx, bytes.NewReader(bundle(t)), h)
	if err != nil {
		t.Fatal(err)
	}
	for u, err := range c.Watch(ctx, job.ID) {
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-8s %-8s %s", u.Step, u.State, u.Text)
		if u.Ended != nil {
			return *u.Ended
		}
	}
	t.Fatal("the stream ended before the job")
	return control.Job{}
}

func TestAJobGoesFromBundleToReceipt(t *testing.T) {
	url := startRelay(t)
	start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(*Config) {})

	job := hire(t, customer, control.Hire{})
	if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 {
		b, _ := json.MarshalIndent(job, "", " ")
		t.Fatalf("%s", b)
	}
	a := job.Attempts[0]
	if a.Receipt == "" || a.TrustTo == nil || *a.TrustTo != 0.6 {
		t.Errorf("receipt %q, trust %v", a.Receipt, a.TrustTo)
	}
}
