package work

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/nip90"
	"guild/nutshell"
	"guild/nutshell/vault"
	"guild/replay"
)

// open returns a service with a worker whose customers get its trajectory.
func open(do func(context.Context, Assignment) error) Service {
	s := python(recorded(do))
	s.Trajectory = true
	return s
}

// resultOf returns the only result that was published for a request.
func (w *world) resultOf(id nostr.ID) nip90.Result {
	w.Helper()
	sent := w.sent(6000, id)
	if len(sent) != 1 {
		w.Fatalf("%d results; told %v", len(sent), w.told(customer, id))
	}
	r, err := nip90.ParseResult(sent[0].Event, customer.opener())
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// travelled returns the trajectory in the delivery to a request; it may be nil.
func (w *world) travelled(id nostr.ID) []byte {
	w.Helper()
	raw, err := w.opened(customer, id).ReadFile(nutshell.TrajectoryFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.Fatal(err)
	}
	return raw
}

// wantNamed wants the result to name the documents of the session that the provider keeps.
func (w *world) wantNamed(id nostr.ID) {
	w.Helper()
	f, r := w.finishedBy(id), w.resultOf(id)
	raw, err := w.blobs.ReadAll(f.Replay, 1<<20)
	if err != nil {
		w.Fatal(err)
	}
	trajectory, err := replay.TrajectoryHash(bytes.NewReader(raw))
	if err != nil || r.Trajectory != trajectory || r.SessionReceipt != f.Session || f.Session.IsZero() {
		w.Errorf("the result names %s and %s, and kept are %s and %s: %v", r.Trajectory, r.SessionReceipt, trajectory, f.Session, err)
	}
}

func TestResultNamesTrajectory(t *testing.T) {
	for name, s := range map[string]Service{"kept": python(recorded(echo)), "sent": open(echo)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, s)
				id := w.asks(customer, task(t, bundle(t, []byte("in"))))
				sealed, err := w.sendsSealed(customer, task(t, bundle(t, []byte("in"))))
				if err != nil {
					t.Fatal(err)
				}
				w.pass(time.Second)
				for _, id := range []nostr.ID{id, sealed} {
					w.wantNamed(id)
					kept, err := w.blobs.ReadAll(w.finishedBy(id).Replay, 1<<20)
					if err != nil {
						t.Fatal(err)
					}
					if !s.Trajectory {
						kept = nil
					}
					if got := w.travelled(id); !bytes.Equal(got, kept) {
						t.Errorf("the customer gets %q, want %q", got, kept)
					}
				}
			})
		})
	}
}

func TestUnrecordedWorkNamesNoTrajectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		id := w.asks(customer, task(t, bundle(t, nil)))
		if r := w.resultOf(id); !r.Trajectory.IsZero() || !r.SessionReceipt.IsZero() {
			t.Errorf("%+v", r)
		}
	})
}

func TestSentTrajectoryIsRedacted(t *testing.T) {
	const token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	synctest.Test(t, func(t *testing.T) {
		s := open(func(ctx context.Context, a Assignment) error {
			a.recording.Line(time.Now(), "guild", []byte(`{"tool":"login","params":{"password":"p4ssw0rd-x","with":"`+apiKey+`"},"output":"`+token+`"}`))
			return echo(ctx, a)
		})
		s.Secrets = []Secret{{What: "the key", Text: vault.NewSecret([]byte(apiKey)), Owner: true}}
		w := newWorld(t, s)
		id := w.asks(customer, task(t, bundle(t, []byte("in"))))
		w.wantNamed(id)
		sent := w.travelled(id)
		if !bytes.Contains(sent, []byte(`"tool":"login"`)) {
			t.Errorf("%s", sent)
		}
		for _, secret := range []string{token, apiKey, "p4ssw0rd-x"} {
			if bytes.Contains(sent, []byte(secret)) {
				t.Errorf("%s is in %s", secret, sent)
			}
		}
	})
}

// A trajectory with a secret that was not hidden costs the customer the trajectory, not the delivery.
func TestTrajectoryWithSecretIsNotSent(t *testing.T) {
	w := newWatch([]Secret{{What: "the key", Text: vault.NewSecret([]byte(apiKey)), Owner: true}})
	for name, c := range map[string]struct {
		trajectory string
		sent       bool
	}{
		"harmless":    {`{"event":"x"}`, true},
		"the secret":  {`{"event":"` + apiKey + `"}`, false},
		"in hex":      {`{"event":"` + hex.EncodeToString([]byte(apiKey)) + `"}`, false},
		"no room":     {strings.Repeat(" ", nutshell.MaxTrajectory+1), false},
		"no upload":   {noise(t, nip90.Inline), false},
		"none at all": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "out.txt"), []byte("done"), 0o644); err != nil {
				t.Fatal(err)
			}
			d := packs(t, dir, w, []byte(c.trajectory))
			if got := strings.Contains(strings.Join(filesOf(t, d.packed), " "), nutshell.TrajectoryFile); got != c.sent {
				t.Errorf("it is sent: %v", got)
			}
		})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "out.bin"), []byte(noise(t, nip90.Inline)), 0o644); err != nil {
		t.Fatal(err)
	}
	if d := packs(t, dir, w, []byte("{}")); len(d.packed) <= nip90.Inline || !strings.Contains(strings.Join(filesOf(t, d.packed), " "), nutshell.TrajectoryFile) {
		t.Error("a delivery that is uploaded anyway has no trajectory")
	}
}

// noise returns n random bytes, in hex, so that they do not become fewer when packed.
func noise(t *testing.T, n int) string {
	t.Helper()
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// packs packs what a worker left in dir.
func packs(t *testing.T, dir string, secrets *watch, trajectory []byte) delivery {
	t.Helper()
	raw := bundle(t, nil)
	request, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	w := New(Config{Node: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler)}, NewFold())
	d, err := w.pack(t.Context(), request, false, dir, &opened{watch: secrets}, trajectory)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Whatever entry a provider is killed after, a request has one result, and that names the session that is kept.
func TestOneTrajectoryWhateverIsKilled(t *testing.T) {
	mortal := func(t *testing.T) *world {
		return newWorld(t, open(func(ctx context.Context, a Assignment) error {
			time.Sleep(time.Minute) // in a synctest bubble
			return echo(ctx, a)
		}))
	}
	steptest.KillAtEachEntry(t, 3, func(t *testing.T) []fact.Entry {
		w := mortal(t)
		w.asks(customer, once(t, "first", "k1"))
		w.pass(10 * time.Minute)
		w.asks(customer, once(t, "second", "k1"))
		w.pass(10 * time.Minute)
		return w.Entries()
	}, func(t *testing.T, left, _ []fact.Entry) {
		w := mortal(t)
		w.Stop()
		w.Relive(left)
		w.restart()
		w.pass(time.Hour)
		ended := map[nostr.ID]bool{}
		for _, f := range steptest.Facts[fact.RequestFinished](w) {
			r, err := nip90.ParseResult(f.Answers[0], customer.opener())
			if err != nil || r.SessionReceipt != f.Session || f.Session.IsZero() || r.Trajectory.IsZero() || ended[f.Request] {
				t.Errorf("the result names %s, and kept is %s: %v; ended before: %v", r.SessionReceipt, f.Session, err, ended[f.Request])
			}
			ended[f.Request] = true
		}
		if len(ended) == 0 || len(w.fold.pending()) > 0 {
			t.Errorf("%d results, %d requests are pending", len(ended), len(w.fold.pending()))
		}
	})
}
