package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/hand/relayd"
	"guild/internal/journal"
	"guild/internal/step/judge"
	"guild/internal/step/work"
)

// ample is the limit for steps whose duration does not matter: much longer than on any slow machine, but less than the
// five minutes after which a node stops waiting for a silent provider.
const ample = 3 * time.Minute

// startRelay runs a real relay for the test.
func startRelay(t *testing.T) (url string) {
	t.Helper()
	url, _ = startRelayAt(t, t.TempDir(), "127.0.0.1:0")
	return url
}

// startRelayAt runs a real relay in a directory and at an address.
func startRelayAt(t *testing.T, dir, addr string) (url string, stop func()) {
	t.Helper()
	r, err := relayd.Open(relayd.Config{Dir: dir, Addr: addr, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return r.URL(), run(t, r.Run)
}

// run runs a function until the test ends, and fails the test if it returns an error.
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
		case <-time.After(ample):
			t.Error("it does not stop")
		}
	}
	t.Cleanup(stop)
	return stop
}

// start runs a node with a relay, and returns a client once it is ready.
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
		Examine: func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
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
	case <-time.After(ample):
		t.Fatal("the node is not ready")
	}
	return control.Dial(c.Socket), pubkey
}

// socket returns a short path for a control socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guild")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// bundle returns a small request for the task "echo".
func bundle(t *testing.T) []byte { return bundleOf(t, []byte("hello")) }

// bundleOf returns a request for the task "echo" with the input in its only file.
func bundleOf(t *testing.T, input []byte) []byte {
	t.Helper()
	return pack(t, fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-test",
			"task":{"title":"Echo what is there"},"extensions":{"guild":{"task":"echo"}}}`)},
		"files/in.txt": {Data: input},
	})
}

// echo is a worker that delivers its input.
func echo(ctx context.Context, a work.Assignment) error {
	b, err := os.ReadFile(filepath.Join(a.Bundle, "files", "in.txt"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), b, 0o644)
}

// hire opens a job and waits for its end.
func hire(t *testing.T, c *control.Client, h control.Hire) control.Job {
	t.Helper()
	return finish(t, c, open(t, c, bundle(t), h))
}

// open opens a job.
func open(t *testing.T, c *control.Client, bundle []byte, h control.Hire) (id string) {
	t.Helper()
	job, err := c.Hire(t.Context(), bytes.NewReader(bundle), h)
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// finish waits for the end of a job.
func finish(t *testing.T, c *control.Client, id string) control.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ample)
	defer cancel()
	job, err := watch(ctx, c, id)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// watch waits for the end of a job.
func watch(ctx context.Context, c *control.Client, id string) (control.Job, error) {
	for u, err := range c.Watch(ctx, id) {
		if err != nil {
			return control.Job{}, err
		}
		if u.Ended != nil {
			return *u.Ended, nil
		}
	}
	return control.Job{}, errors.New("the stream ended before the job")
}

// eventually waits for an effect of real sockets and processes.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(ample)
	for tick := time.Tick(5 * time.Millisecond); !holds(); {
		select {
		case <-tick:
		case <-late:
			t.Fatalf("it did not come about that %s", what)
		}
	}
}

func TestJobFromBundleToReceipt(t *testing.T) {
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
