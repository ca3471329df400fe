package work

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"guild/internal/hand/blob"
	"guild/nip90"
	"guild/nutshell"
)

// tries has a service do a bundle that nobody asked for.
func tries(t *testing.T, s Service, bundle []byte) (trial Trial, lines []string, err error) {
	t.Helper()
	blobs, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	trial, err = Try(t.Context(), Config{
		Blobs: blobs, Keyer: us.signer, PubKey: us.key, Node: "test", Now: time.Now, Scratch: scratch, Log: slog.New(slog.DiscardHandler),
	}, s, bundle, func(line string) { lines = append(lines, line) })
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	return trial, lines, err
}

func TestTryIsDoneLikeARequest(t *testing.T) {
	sent := bundle(t, []byte(strings.Repeat("in", 1<<10)))
	var asked []byte
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		id := w.asks(customer, task(t, sent))
		w.pass(time.Minute)
		var err error
		if asked, err = w.blobs.ReadAll(w.finishedBy(id).Delivery, 1<<20); err != nil {
			t.Fatal(err)
		}
	})
	trial, _, err := tries(t, python(echo), sent)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := filesOf(t, trial.Delivery), filesOf(t, asked); !slices.Equal(got, want) {
		t.Errorf("a try delivers %q, a request %q", got, want)
	}
}

// filesOf lists the files of a packed delivery that are the same in each delivery of the same work.
func filesOf(t *testing.T, packed []byte) (files []string) {
	t.Helper()
	b, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range b.Files() {
		files = append(files, e.Path)
	}
	return files
}

func TestTryOfBundleTooLargeForAnEvent(t *testing.T) {
	noise := make([]byte, 2*nip90.MaxInline)
	rand.Read(noise)
	if trial, _, err := tries(t, python(echo), bundle(t, noise)); err != nil || len(trial.Delivery) < len(noise) {
		t.Errorf("delivered %d bytes, %v", len(trial.Delivery), err)
	}
}

func TestTryShowsLinesAndRecord(t *testing.T) {
	for runner, box := range runners(t) {
		t.Run(runner, func(t *testing.T) {
			x := withKey(Exec{Runner: box, Command: `for i in 1 2 3; do echo "line $i of $API_KEY"; done; echo done >"$GUILD_DELIVERY/out.txt"`})
			trial, lines, err := tries(t, x.service(), bundle(t, nil))
			want := []string{"line 1 of [secret]", "line 2 of [secret]", "line 3 of [secret]"}
			if err != nil || !slices.Equal(lines, want) {
				t.Errorf("%q, %v", lines, err)
			}
			if !bytes.Contains(trial.Replay, []byte(`"status":"Success"`)) || !bytes.Contains(trial.Receipt, []byte("trajectory_hash")) {
				t.Errorf("recorded %s and %s", trial.Replay, trial.Receipt)
			}
		})
	}
}

func TestTryThatFails(t *testing.T) {
	x := withKey(Exec{Runner: Bare{}, Command: `echo "no $API_KEY" >&2; exit 3`, Log: slog.New(slog.DiscardHandler)})
	trial, _, err := tries(t, x.service(), bundle(t, nil))
	if err == nil || err.Error() != "the worker failed with exit code 3" || trial.Stderr != "no [secret]" || trial.Delivery != nil {
		t.Errorf("%v, stderr %q", err, trial.Stderr)
	}
	if !bytes.Contains(trial.Replay, []byte(`"status":"Failed"`)) {
		t.Errorf("recorded %s", trial.Replay)
	}

	x.Command = `printf %s "$API_KEY" | base64 -w 0 >"$GUILD_DELIVERY/out.txt"`
	trial, _, err = tries(t, x.service(), bundle(t, nil))
	if leak, ok := errors.AsType[*leakError](err); !ok || trial.Delivery != nil || !strings.Contains(leak.Error(), "API_KEY in out.txt") || !strings.Contains(leak.Error(), "exec = 'API_KEY=value") {
		t.Errorf("a delivery with a secret: %v", err)
	}
	s := x.service()
	s.Secrets = []Secret{{What: "a word of the file /mnt/.env", Text: s.Secrets[0].Text, Owner: true}}
	if _, _, err = tries(t, s, bundle(t, nil)); err == nil || strings.Contains(err.Error(), "exec =") {
		t.Errorf("a secret of a file is no variable: %v", err)
	}

	busy := python(func(ctx context.Context, a Assignment) error {
		<-ctx.Done()
		return os.WriteFile(filepath.Join(a.Delivery, "late"), nil, 0o600)
	})
	busy.Limit = 50 * time.Millisecond
	if trial, _, err = tries(t, busy, bundle(t, nil)); trial.Delivery == nil && err == nil {
		t.Error("an endless worker delivers nothing, and is no error")
	}
	if _, _, err = tries(t, python(echo), []byte("junk")); err == nil {
		t.Error("junk is a bundle")
	}
}

func TestUntriedServiceIsRefusedUntilItDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python(echo)
		s.Untried = true
		w := newWorld(t, s)
		if untried, ok := errors.AsType[*UntriedError](w.CheckTried()); !ok || untried.Service != "python" {
			t.Errorf("before a delivery: %v", w.CheckTried())
		}
		w.asks(customer, task(t, bundle(t, nil)))
		w.pass(time.Minute)
		if err := w.CheckTried(); err != nil {
			t.Errorf("after a delivery: %v", err)
		}
	})
}
