package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/step/judge"
	"guild/internal/step/work"
	"guild/nip90"
)

// inside returns texts that only readers of a job may see.
func inside(packed []byte) []string {
	encoded := base64.StdEncoding.EncodeToString(packed)
	return []string{"Echo what is there", nip90.ParamJobType, nip90.ParamBundleSHA256, guild.Sum(packed).Hex(), encoded[:40], "halfway there"}
}

func TestEncryptedJob(t *testing.T) {
	t.Parallel()
	url, heard := startRelay(t), make(chan struct{})
	start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "echo", Do: func(ctx context.Context, a work.Assignment) error {
			talkUntil(a, heard)
			return echo(ctx, a)
		}}}
	})
	customer, _ := start(t, url, func(*Config) {})
	observer := newPeer(t, url)
	id := open(t, customer, bundle(t), control.Hire{Private: true})
	eventually(t, "the worker's words are on the relay", func() bool {
		said, _ := observer.stored(7000)
		return len(said) >= 2
	})
	close(heard)
	if job := finish(t, customer, id); job.Ending != guild.JobAccepted {
		t.Fatalf("%s: %s", job.Ending, job.Reason)
	}
	events, text := observer.stored(5000, 6000, 7000)
	if len(events) < 4 {
		t.Fatalf("only %d events on the relay", len(events))
	}
	for _, e := range events {
		if !e.Tags.Has("encrypted") {
			t.Errorf("kind %d is not encrypted", e.Kind)
		}
	}
	for _, secret := range append(inside(bundle(t)), "delivery_sha256") {
		if strings.Contains(text, secret) {
			t.Errorf("%q can be read on the relay", secret)
		}
	}
}

// talkUntil sends the same progress repeatedly, because the node omits feedback that comes too fast.
func talkUntil(a work.Assignment, heard <-chan struct{}) {
	for tick := time.Tick(50 * time.Millisecond); ; {
		a.Say("halfway there")
		select {
		case <-tick:
		case <-heard:
			return
		}
	}
}

func TestPrivateJobNeedsEncryption(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	plain := newPeer(t, url)
	plain.announce()
	customer, _ := start(t, url, func(c *Config) { c.Hiring.Patience.Discover = 100 * time.Millisecond })
	awaitProviders(t, customer, 1)
	job := hire(t, customer, control.Hire{Private: true})
	if job.Ending != guild.JobUnclaimed || len(job.Attempts) != 0 || !strings.Contains(job.Reason, "does not read encrypted requests") {
		t.Errorf("%s after %d attempts: %s", job.Ending, len(job.Attempts), job.Reason)
	}

	id := open(t, customer, bundle(t), control.Hire{}) // other jobs go to it in clear
	plain.publish(plain.result(plain.next(5000)))
	if job := finish(t, customer, id); job.Ending != guild.JobAccepted {
		t.Errorf("%s: %s", job.Ending, job.Reason)
	}
	_, text := plain.stored(5000)
	if clear := inside(bundle(t)); !strings.Contains(text, clear[0]) || !strings.Contains(text, clear[3]) {
		t.Error("the request is not in clear")
	}
}

func TestClearAnswerToEncryptedRequest(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	p := newPeer(t, url)
	p.announce("nip44")
	customer, _ := start(t, url, func(*Config) {})
	awaitProviders(t, customer, 1)

	id := open(t, customer, bundle(t), control.Hire{})
	p.publish(p.sealedResult(p.next(5000)))
	if job := finish(t, customer, id); job.Ending != guild.JobAccepted {
		t.Fatalf("the encrypted answer: %s: %s", job.Ending, job.Reason)
	}
	id = open(t, customer, bundle(t), control.Hire{})
	p.publish(p.result(p.next(5000)))
	a := only(t, finish(t, customer, id))
	if a.State != string(guild.Refused) || a.Reason != "answered an encrypted request in clear" || a.Verdict != nil {
		t.Errorf("the clear answer: %s: %s", a.State, a.Reason)
	}
	if a.TrustFrom == nil || a.TrustTo == nil || *a.TrustTo >= *a.TrustFrom {
		t.Errorf("trust did not fall: %v to %v", a.TrustFrom, a.TrustTo)
	}
	eventually(t, "the provider is warned", func() bool {
		known, err := control.Providers.Call(t.Context(), customer)
		return err == nil && known[0].State == string(guild.Warned)
	})
}

// sealedResult answers a request with an encrypted delivery.
func (p *peer) sealedResult(request nostr.Event) nostr.Event {
	p.t.Helper()
	r := nip90.Result{Kind: nip90.ResultKind(int(request.Kind)), Request: request.ID, Customer: request.PubKey}
	if err := r.SetDelivery(nip90.NewParcel(delivery(p.t))); err != nil {
		p.t.Fatal(err)
	}
	e, err := r.Sealed(func(text string) (string, error) { return p.key.Encrypt(p.t.Context(), text, request.PubKey) })
	if err != nil {
		p.t.Fatal(err)
	}
	return e
}

// only returns the one attempt of a job.
func only(t *testing.T, job control.Job) control.Attempt {
	t.Helper()
	if len(job.Attempts) != 1 {
		t.Fatalf("%s after %d attempts: %s", job.Ending, len(job.Attempts), job.Reason)
	}
	return job.Attempts[0]
}

// noise returns data that cannot be compressed.
func noise(t *testing.T) []byte {
	t.Helper()
	b := make([]byte, 100<<10)
	rand.Read(b)
	return b
}

// examineDelivered returns a judge that accepts exactly one content of out.txt.
func examineDelivered(want []byte) func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
	return func(_ context.Context, c judge.Case) (guild.Verdict, judge.Evidence, error) {
		v := guild.Verdict{Outcome: guild.Failure, Strength: guild.Strong, Tier: "none", Expected: 1, Cause: "another content"}
		got, err := os.ReadFile(filepath.Join(c.Delivery, "delivery", "artifacts", "out.txt"))
		if err == nil && bytes.Equal(got, want) {
			v = guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none", Expected: 1, Passed: 1}
		}
		return v, judge.Evidence("compared"), err
	}
}

func TestLargeBundlesUseBlossom(t *testing.T) {
	t.Parallel()
	dir, content := t.TempDir(), noise(t)
	url, _ := startRelayAt(t, dir, "127.0.0.1:0")
	start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(c *Config) { c.Examine = examineDelivered(content) })
	awaitProviders(t, customer, 1)
	job := finish(t, customer, open(t, customer, bundleOf(t, content), control.Hire{Private: true}))
	if job.Ending != guild.JobAccepted {
		t.Fatalf("%s: %+v", job.Ending, job.Attempts)
	}
	kept := largeFiles(t, filepath.Join(dir, "blobs"))
	if len(kept) != 2 {
		t.Errorf("%d blobs, want a bundle and a delivery", len(kept))
	}
	for _, blob := range kept {
		if bytes.Contains(blob, content[:64]) || bytes.Contains(blob, []byte("NUT\x01")) {
			t.Errorf("a blob of %d bytes is not sealed", len(blob))
		}
	}
}

// largeFiles returns the files below a directory that are large enough for the result of noise.
func largeFiles(t *testing.T, dir string) (all [][]byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if len(b) >= 100<<10 {
			all = append(all, b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// startForger runs a Blossom server that returns other content than it was given.
func startForger(t *testing.T, forge func([]byte) []byte) (url string) {
	t.Helper()
	var kept sync.Map
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /upload", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		hash := guild.Sum(body).Hex()
		kept.Store(hash, forge(body))
		json.NewEncoder(w).Encode(map[string]any{"sha256": hash, "size": len(body), "url": "http://" + r.Host + "/" + hash})
	})
	mux.HandleFunc("GET /{hash}", func(w http.ResponseWriter, r *http.Request) {
		if body, ok := kept.Load(r.PathValue("hash")); ok {
			w.Write(body.([]byte))
			return
		}
		http.NotFound(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestForgedBlob(t *testing.T) {
	t.Parallel()
	forgeries := []struct {
		name  string
		forge func([]byte) []byte
	}{
		{"a changed byte", func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b }},
		{"the end cut off", func(b []byte) []byte { return b[:len(b)-1000] }},
		{"something added", func(b []byte) []byte { return append(bytes.Clone(b), "more"...) }},
		{"far too much", func([]byte) []byte { return make([]byte, 64<<20) }},
		{"nothing", func([]byte) []byte { return nil }},
	}
	for _, f := range forgeries {
		t.Run(f.name+" in the bundle", func(t *testing.T) {
			t.Parallel()
			forger := startForger(t, f.forge)
			honest := "http" + strings.TrimPrefix(startRelay(t), "ws")
			checkForgery(t, []string{forger}, []string{honest, forger}, "the bundle: ")
		})
		t.Run(f.name+" in the delivery", func(t *testing.T) {
			t.Parallel()
			forger := startForger(t, f.forge)
			honest := "http" + strings.TrimPrefix(startRelay(t), "ws")
			checkForgery(t, []string{honest, forger}, []string{forger, honest}, "the delivery is not what the result names")
		})
	}
}

// checkForgery hires with a large bundle, while one of the two sides stores it at the forger. Each server must be
// listed by both sides: a node connects to a private address only if its owner configured it.
func checkForgery(t *testing.T, customers, providers []string, reason string) {
	t.Helper()
	url, content := startRelay(t), noise(t)
	start(t, url, func(c *Config) {
		c.Workers, c.Blossom = []Worker{{Task: "echo", Do: echo}}, providers
	})
	customer, _ := start(t, url, func(c *Config) { c.Examine, c.Blossom = examineDelivered(content), customers })
	awaitProviders(t, customer, 1)
	a := only(t, finish(t, customer, open(t, customer, bundleOf(t, content), control.Hire{Tries: 1})))
	if a.State != string(guild.Refused) || !strings.Contains(a.Reason, reason) {
		t.Errorf("%s: %s", a.State, a.Reason)
	}
}
