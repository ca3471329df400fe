package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// tally counts the reasons of closed jobs.
type tally struct {
	mu    sync.Mutex
	times map[string]int
}

func newTally() *tally { return &tally{times: make(map[string]int)} }

func (*tally) Name() string                   { return "tally" }
func (*tally) Version() int                   { return 1 }
func (*tally) Freeze() func() ([]byte, error) { return func() ([]byte, error) { return nil, nil } }
func (*tally) Restore([]byte) error           { return errors.New("not kept") }

func (f *tally) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range e.Facts {
		f.times[x.(fact.JobClosed).Reason]++
	}
}

func (f *tally) of(reason string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.times[reason]
}

func closed(reason string) func(*Tx) error {
	return func(tx *Tx) error { tx.Append(fact.JobClosed{Reason: reason}); return nil }
}

func fresh(t *testing.T, dir string, floor int64, folds ...fold.Fold) *Journal {
	t.Helper()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	return again(t, dir, floor, folds...)
}

func again(t *testing.T, dir string, floor int64, folds ...fold.Fold) *Journal {
	t.Helper()
	j, err := Open(t.Context(), Options{Dir: dir, Node: "test", Now: time.Now, Folds: folds, NoSync: true,
		Floor: floor, PublishTimeout: time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func shut(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFloorAndRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTally()
		j := fresh(t, t.TempDir(), 1<<60, f)
		defer shut(t, j)
		if err := j.Free(); !errors.Is(err, ErrFull) {
			t.Errorf("got %v, want ErrFull", err)
		}
		if err := j.See(t.Context(), "a", nil); !errors.Is(err, ErrFull) {
			t.Errorf("seen under the floor: %v", err)
		}
		if err := j.Do(t.Context(), "job.1", "", closed("running")); err != nil || f.of("running") != 1 {
			t.Errorf("what is running is not recorded: %v", err)
		}
		j.space.least = 1 << 60
		if err := j.Do(t.Context(), "job.1", "", closed("full")); !errors.Is(err, ErrFull) || f.of("full") != 0 {
			t.Errorf("got %v, want ErrFull and nothing recorded", err)
		}
		j.space.least = least
		if err := j.Do(t.Context(), "job.1", "", closed("free")); err != nil || f.of("free") != 1 {
			t.Errorf("after that nothing is recorded: %v", err)
		}
	})
}

// smallDisk mounts a file system of the given size, which only root may do. For others, TestFloorAndRoom must do.
func smallDisk(t *testing.T, size int) (dir string, may bool) {
	t.Helper()
	dir = t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, unix.EPERM) {
		t.Log("there is no small disk to fill")
		return "", false
	}
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir, true
}

// fill fills the disk with a file.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 20, 4 << 10} {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskLosesNothingAcknowledged(t *testing.T) {
	disk, may := smallDisk(t, 48<<20)
	if !may {
		return
	}
	dir := filepath.Join(disk, "journal")
	f := newTally()
	j := fresh(t, dir, 1<<20, f)
	j.space.least = 0 // meet the full disk itself, not the check before it
	acknowledged := 0
	appendUntil := func(stop func(error) bool) error {
		for {
			err := j.Do(t.Context(), "job.1", "", closed(fmt.Sprint(acknowledged)))
			if err == nil {
				acknowledged++
			}
			if stop(err) {
				return err
			}
		}
	}
	ten := func(error) bool { return acknowledged%10 == 0 }
	if err := appendUntil(ten); err != nil {
		t.Fatal(err)
	}
	junk := filepath.Join(disk, "junk")
	fill(t, junk)
	err := appendUntil(func(err error) bool { return err != nil })
	if !errors.Is(err, errUnknown) && !errors.Is(err, ErrFull) {
		t.Errorf("on a full disk: %v", err)
	}
	t.Logf("%d acknowledged, then %v", acknowledged, err)
	if err := j.Free(); !errors.Is(err, ErrFull) {
		t.Errorf("a full disk is called free: %v", err)
	}
	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	j.space.least = least
	unknown := fmt.Sprint(acknowledged)
	if err := j.Do(t.Context(), "job.1", "", closed("space again")); err != nil {
		t.Fatal(err)
	}
	for i := range acknowledged {
		if n := f.of(fmt.Sprint(i)); n < 1 || n > 1 && fmt.Sprint(i) != unknown {
			t.Errorf("decision %d is recorded %d times", i, n)
		}
	}
	shut(t, j)
	g := newTally()
	j = again(t, dir, 1<<20, g)
	defer shut(t, j)
	for reason, n := range f.times {
		if g.of(reason) != n {
			t.Errorf("decision %s is recorded %d times after a restart, %d before", reason, g.of(reason), n)
		}
	}
}

func TestFullDiskUsesReserve(t *testing.T) {
	disk, may := smallDisk(t, 48<<20)
	if !may {
		return
	}
	f := newTally()
	j := fresh(t, filepath.Join(disk, "journal"), 1<<20, f)
	defer shut(t, j)
	fill(t, filepath.Join(disk, "junk"))
	for i := range 100 {
		if err := j.Do(t.Context(), "job.1", "", closed(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(j.files.reserved()); !os.IsNotExist(err) {
		t.Errorf("the reserve is still there: %v", err)
	}
}

// lossy makes connections to the server that can lose messages: all from the server if deaf is set, and new entries to the
// server if mute is set.
type lossy struct {
	srv        *server.Server
	deaf, mute atomic.Bool
}

func (l *lossy) InProcessConn() (net.Conn, error) {
	c, err := l.srv.InProcessConn()
	return &lossyConn{c, l}, err
}

type lossyConn struct {
	net.Conn
	l *lossy
}

func (c *lossyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.l.deaf.Load() {
			return n, err
		}
	}
}

func (c *lossyConn) Write(b []byte) (int, error) {
	if c.l.mute.Load() && bytes.Contains(b, []byte("PUB fact.")) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// lose makes the journal use a lossy connection.
func lose(t *testing.T, j *Journal) *lossy {
	t.Helper()
	old := j.store.Load()
	l := &lossy{srv: old.srv}
	conn, err := nats.Connect("", nats.InProcessServer(l), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := js.Stream(t.Context(), factsStream)
	if err != nil {
		t.Fatal(err)
	}
	old.conn.Close()
	j.store.Store(&store{srv: old.srv, conn: conn, js: js, facts: facts})
	return l
}

func TestLostAcknowledgementRecordsOnce(t *testing.T) {
	tests := []struct {
		name string
		lose func(*lossy)
	}{
		{"it arrived", func(l *lossy) { l.deaf.Store(true) }},
		{"it did not arrive", func(l *lossy) { l.mute.Store(true) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newTally()
				j := fresh(t, t.TempDir(), 1, f)
				defer shut(t, j)
				for i := range 5 {
					if err := j.Do(t.Context(), "job.1", "", closed("before")); err != nil {
						t.Fatal(err)
					}
					tt.lose(lose(t, j))
					reason := fmt.Sprint(i)
					if err := j.Do(t.Context(), "job.1", "", closed(reason)); err != nil {
						t.Fatal(err)
					}
					if n := f.of(reason); n != 1 {
						t.Errorf("recorded %d times", n)
					}
				}
				if f.of("before") != 5 || j.Last() != 10 {
					t.Errorf("%d entries, %d of them before", j.Last(), f.of("before"))
				}
			})
		})
	}
}

func TestManyWritersSurviveLostAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTally()
		j := fresh(t, t.TempDir(), 1, f)
		defer shut(t, j)
		var wg sync.WaitGroup
		l := lose(t, j)
		for w := range 8 {
			wg.Go(func() {
				for i := range 20 {
					if w == 0 && i == 10 {
						l.deaf.Store(true)
					}
					guard := fact.Subject(fmt.Sprintf("job.%d", w%4))
					if err := j.Do(context.Background(), guard, "", closed(fmt.Sprintf("%d/%d", w, i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for reason, n := range f.times {
			if n != 1 {
				t.Errorf("%s is recorded %d times", reason, n)
			}
		}
		if len(f.times) != 160 || j.Last() != 160 {
			t.Errorf("%d decisions in %d entries, want 160", len(f.times), j.Last())
		}
	})
}

func TestFullDiskCanBeRead(t *testing.T) {
	disk, may := smallDisk(t, 48<<20)
	if !may {
		return
	}
	dir := filepath.Join(disk, "journal")
	j := fresh(t, dir, 1<<20)
	for i := range 100 {
		if err := j.Do(t.Context(), "job.1", "", closed(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, j)
	for what, before := range map[string]func(){
		"as it was closed": func() {},
		"as a killed node leaves it": func() {
			err := j.mark.set(func(h *high) { h.Seq, h.Root = 0, guild.Hash{} })
			erase(t, files(dir).snapshots())
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		before()
		fill(t, filepath.Join(disk, "junk"))
		j := again(t, dir, 1<<20, newTally())
		n := 0
		for _, err := range j.Entries(t.Context(), 1) {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			n++
		}
		if n != 100 {
			t.Errorf("%s: %d entries, want 100", what, n)
		}
		if err := j.Close(); err != nil {
			t.Errorf("%s: close: %v", what, err)
		}
		if err := os.Remove(filepath.Join(disk, "junk")); err != nil {
			t.Fatal(err)
		}
	}
}
