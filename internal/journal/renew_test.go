package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

const (
	strangers = 40 // messages in each side stream
	decisions = 20
)

// market makes a closed journal with facts and messages in side streams.
func market(t *testing.T) files {
	t.Helper()
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	j, err := Open(t.Context(), quiet(dir))
	if err != nil {
		t.Fatal(err)
	}
	for i := range strangers {
		data := fmt.Appendf(nil, `{"number":%d,"text":%q}`, i, strings.Repeat("x", i*7%100))
		if err := errors.Join(j.See(t.Context(), fmt.Sprintf("a.%d", i), data), j.Reject(t.Context(), "bad", data)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range decisions {
		if err := j.Do(t.Context(), fact.Subject(fmt.Sprintf("job.%d", i%3)), "", closed(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, j)
	return files(dir)
}

func quiet(dir string, folds ...fold.Fold) Options {
	return Options{Dir: dir, Node: "test", Now: time.Now, Folds: folds, NoSync: true, Floor: 1, Log: slog.New(slog.DiscardHandler)}
}

// copyOf copies a journal.
func copyOf(t *testing.T, f files) files {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(string(f))); err != nil {
		t.Fatal(err)
	}
	return files(dir)
}

// places returns offsets in a block: one in each part of a middle record and of the last one, and some random ones.
func places(t *testing.T, stream string, buf []byte, r *rand.Rand) (offsets []int) {
	t.Helper()
	sum, err := block{stream: stream, index: 1}.checksum()
	if err != nil {
		t.Fatal(err)
	}
	var starts []int
	for at := 0; at < len(buf); {
		rec, size := parseRecord(buf[at:], sum)
		if size == 0 {
			t.Fatalf("byte %d of the whole block %s cannot be read", at, stream)
		}
		if rec.subject != "" {
			starts = append(starts, at)
		}
		at += size
	}
	for _, at := range []int{starts[len(starts)/2], starts[len(starts)-1]} {
		size := int(binary.LittleEndian.Uint32(buf[at:]) &^ headerBit)
		subject := int(binary.LittleEndian.Uint16(buf[at+20:]))
		for _, part := range []int{0, 2, 3, 4, 11, 12, 20, 21, recordHead, recordHead + subject, recordHead + subject + 2, (recordHead + size) / 2, size - recordSum, size - 1} {
			offsets = append(offsets, at+part)
		}
	}
	for range 8 {
		offsets = append(offsets, r.IntN(len(buf)))
	}
	return offsets
}

// kept returns the number of messages that can be read in a side stream. Reading must not take long.
func kept(t *testing.T, j *Journal, stream string) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var err error
	if stream == seenStream {
		for _, e := range j.Seen(ctx, "a") {
			n, err = n+1, errors.Join(err, e)
		}
	} else {
		for _, e := range j.Rejected(ctx) {
			if _, damaged := errors.AsType[*DamagedError](e); damaged {
				break
			}
			n, err = n+1, errors.Join(err, e)
		}
	}
	if err != nil {
		t.Errorf("read %s: %v", stream, err)
	}
	return n
}

// flipped flips a bit in a file of a stream, and returns the new content.
func flipped(t *testing.T, f files, stream, name string, at int, bit int) []byte {
	t.Helper()
	path := filepath.Join(f.streamDir(stream), name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1 << bit
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// reopened opens a journal and checks that it has all its facts, whatever happened to the side streams.
func reopened(t *testing.T, o Options) *Journal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	f := newTally()
	o.Folds = []fold.Fold{f}
	j, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.times) != decisions || j.Last() != decisions {
		t.Errorf("got %d facts in %d entries, want %d", len(f.times), j.Last(), decisions)
	}
	return j
}

// takesMore checks that a stream can be written and read.
func takesMore(t *testing.T, j *Journal, stream string) {
	t.Helper()
	before := kept(t, j, stream)
	if err := errors.Join(j.See(t.Context(), "a.new", []byte("{}")), j.Reject(t.Context(), "bad", []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	if after := kept(t, j, stream); after != before+1 {
		t.Errorf("got %d messages in %s after %d and one more", after, stream, before)
	}
}

func TestDamagedStreamIsRenewed(t *testing.T) {
	whole := market(t)
	for _, stream := range []string{seenStream, rejectedStream} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			const name = "msgs/1.blk"
			r := rand.New(rand.NewPCG(1, 2))
			buf, err := os.ReadFile(filepath.Join(whole.streamDir(stream), name))
			if err != nil {
				t.Fatal(err)
			}
			offsets, renewed := places(t, stream, buf, r), 0
			for _, at := range offsets {
				bit := r.IntN(8)
				t.Run(fmt.Sprintf("byte %d bit %d", at, bit), func(t *testing.T) {
					f := copyOf(t, whole)
					damaged := flipped(t, f, stream, name, at, bit)
					var told []string
					o := quiet(string(f))
					o.Renew = func(stream string) error {
						if now, err := os.ReadFile(filepath.Join(f.streamDir(stream), name)); err != nil || !bytes.Equal(now, damaged) {
							t.Errorf("the stream was touched before its loss was told: %v", err)
						}
						told = append(told, stream)
						return nil
					}
					j := reopened(t, o)
					defer shut(t, j)
					n := kept(t, j, stream)
					if len(j.Renewed()) == 0 {
						if n < strangers-1 || told != nil {
							t.Errorf("got %d of %d messages, told of %v, and nothing was set aside", n, strangers, told)
						}
					} else if is := j.Renewed()[0]; is.Stream != stream || n != 0 || !slices.Equal(told, []string{stream}) {
						t.Errorf("got %+v with %d messages, told of %v; want %s set aside", is, n, told, stream)
					} else if aside, err := os.ReadFile(filepath.Join(is.Aside, name)); err != nil || !bytes.Equal(aside, damaged) {
						t.Errorf("what was set aside is not what was there: %v", err)
					} else {
						renewed++
					}
					takesMore(t, j, stream)
				})
			}
			if renewed < len(offsets)/2 {
				t.Errorf("%s was set aside after %d of %d changes, want half of them at least", stream, renewed, len(offsets))
			}
		})
	}
}

// A block of which nothing can be read is not the end of a write that was cut off.
func TestUnreadableBlockIsRenewed(t *testing.T) {
	f := market(t)
	at := filepath.Join(f.streamDir(seenStream), "msgs", "1.blk")
	if err := os.WriteFile(at, bytes.Repeat([]byte{0xa5}, oneMessage+1), 0o600); err != nil {
		t.Fatal(err)
	}
	o := quiet(string(f))
	o.Renew = func(string) error { return nil }
	j := reopened(t, o)
	defer shut(t, j)
	if got := j.Renewed(); len(got) != 1 || got[0].Stream != seenStream {
		t.Errorf("%+v", got)
	}
	takesMore(t, j, seenStream)
}

func TestRepairRenewsDamagedStream(t *testing.T) {
	f := market(t)
	damaged := flipped(t, f, seenStream, "msgs/1.blk", 500, 0)
	o := quiet(string(f))
	o.Renew = func(string) error { return nil }
	report, err := Repair(t.Context(), o)
	if err != nil || report.Reason != "" || report.Aside != "" || len(report.Renewed) != 1 || report.Renewed[0].Stream != seenStream {
		t.Fatalf("got %+v, %v, want nothing but %s renewed", report, err, seenStream)
	}
	aside, err := os.ReadFile(filepath.Join(report.Renewed[0].Aside, "msgs/1.blk"))
	if err != nil || !bytes.Equal(aside, damaged) {
		t.Errorf("what was set aside is not what was there: %v", err)
	}
	j := reopened(t, o)
	defer shut(t, j)
	if j.Renewed() != nil {
		t.Errorf("got %v renewed once more", j.Renewed())
	}
}

// Nothing is moved before Renew has noted the loss.
func TestStreamStaysIfRenewFails(t *testing.T) {
	f := market(t)
	flipped(t, f, seenStream, "msgs/1.blk", 500, 0)
	o := quiet(string(f))
	full := errors.New("no space")
	o.Renew = func(string) error { return full }
	if _, err := Open(t.Context(), o); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	if _, err := os.Stat(filepath.Join(f.streamDir(seenStream), "msgs/1.blk")); err != nil {
		t.Error(err)
	}
}

// Without Renew nothing is moved, and what can be read is read.
func TestDamagedStreamIsRead(t *testing.T) {
	whole := market(t)
	for _, stream := range []string{seenStream, rejectedStream} {
		for _, name := range []string{"msgs/1.blk", "msgs/index.db", "meta.inf", "meta.sum"} {
			t.Run(stream+" "+name, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(3, 4))
				info, err := os.Stat(filepath.Join(whole.streamDir(stream), name))
				if err != nil {
					t.Fatal(err)
				}
				for range 4 {
					f := copyOf(t, whole)
					at := r.IntN(int(info.Size()))
					flipped(t, f, stream, name, at, r.IntN(8))
					j := reopened(t, quiet(string(f)))
					if n := kept(t, j, stream); n != strangers && name != "msgs/1.blk" {
						t.Errorf("byte %d: got %d messages, want %d", at, n, strangers)
					}
					takesMore(t, j, stream)
					if _, err := os.Stat(f.damaged()); err == nil {
						t.Errorf("byte %d: something was moved away", at)
					}
					shut(t, j)
				}
			})
		}
	}
}

func TestWholeStreamsAreNotRenewed(t *testing.T) {
	f := market(t)
	o := quiet(string(f))
	o.Renew = func(stream string) error { return fmt.Errorf("%s is taken for damaged", stream) }
	for round := range 3 {
		j := reopened(t, o)
		for i := range 3000 { // replaced, deleted, more than there is room for, several blocks
			subject := fmt.Sprintf("a.%d", i%(100*(round+1)))
			err := errors.Join(j.See(t.Context(), subject, bytes.Repeat([]byte("y"), 4000*i%9000)), j.Reject(t.Context(), "bad", []byte(subject)))
			if i%7 == 0 {
				err = errors.Join(err, j.Unsee(t.Context(), subject))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		shut(t, j)
	}
}

// The machine stopped while the last message was written. Only that is lost.
func TestIncompleteMessageIsTruncated(t *testing.T) {
	for _, stream := range []string{seenStream, rejectedStream} {
		f := market(t)
		path := filepath.Join(f.streamDir(stream), "msgs/1.blk")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b[:len(b)-9], 0o600); err != nil {
			t.Fatal(err)
		}
		o := quiet(string(f))
		o.Renew = func(stream string) error { return fmt.Errorf("%s is taken for damaged", stream) }
		j := reopened(t, o)
		if n := kept(t, j, stream); n != strangers-1 {
			t.Errorf("got %d messages of %s, want %d", n, stream, strangers-1)
		}
		takesMore(t, j, stream)
		shut(t, j)
	}
}
