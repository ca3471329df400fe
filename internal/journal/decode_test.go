package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"guild"
	"guild/internal/journal/fact"
)

func TestTreeMatchesTlog(t *testing.T) {
	c := &chain{}
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(at))
		for i, x := range at {
			out[i] = hashes[x]
		}
		return out, nil
	})
	for seq := uint64(1); seq <= 70; seq++ {
		m := message{seq: seq, subject: "job.1", data: fmt.Append(nil, seq)}
		stored, err := tlog.StoredHashes(int64(seq-1), fmt.Appendf(nil, "job.1\n%d", seq), reader)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, stored...)
		c.add(m)
		want, err := tlog.TreeHash(int64(seq), reader)
		if err != nil || guild.Hash(want) != c.root() {
			t.Fatalf("root of %d entries: %v, want %v, %v", seq, c.root(), want, err)
		}
	}
}

// sample returns a chain of eleven entries.
func sample() *chain {
	c := &chain{}
	for seq := uint64(1); seq <= 11; seq++ {
		c.add(message{seq: seq, subject: fact.Subject(fmt.Sprintf("job.%d", seq%3)), data: fmt.Append(nil, seq),
			entry: fact.Entry{At: int64(seq)}})
	}
	return c
}

// same reports whether two chains are the same.
func same(a, b *chain) bool {
	return a.last == b.last && a.leaf == b.leaf && a.at == b.at && a.archived == b.archived && slices.Equal(a.peaks, b.peaks) &&
		maps.Equal(maps.Collect(a.tips.All()), maps.Collect(b.tips.All()))
}

func TestChainRoundTrip(t *testing.T) {
	want := sample()
	got, err := decodeChain(want.encode())
	if err != nil || !same(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for n := range len(want.encode()) {
		if c, err := decodeChain(want.encode()[:n]); err == nil && c.root() == want.root() && c.tips.Len() == want.tips.Len() {
			t.Errorf("%d bytes of it are read as the whole", n)
		}
	}
}

func FuzzAChainIsReadOrRefused(f *testing.F) {
	f.Add(sample().encode())
	f.Add((&chain{}).encode())
	f.Add(binary.AppendUvarint(nil, 1<<63))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeChain(b)
		if err != nil {
			return
		}
		c.root()
		if again, err := decodeChain(c.encode()); err != nil || !same(again, c) {
			t.Errorf("%v: %+v became %+v", err, c, again)
		}
	})
}

// sealed returns a record as the server writes it.
func sealed(b block, seq uint64, subject, data string) []byte {
	sum, err := b.checksum()
	if err != nil {
		panic(err)
	}
	size := recordHead + len(subject) + len(data) + recordSum
	rec := binary.LittleEndian.AppendUint32(nil, uint32(size))
	rec = binary.LittleEndian.AppendUint64(rec, seq)
	rec = binary.LittleEndian.AppendUint64(rec, 1)
	rec = binary.LittleEndian.AppendUint16(rec, uint16(len(subject)))
	rec = append(append(rec, subject...), data...)
	sum.Write(rec[4:20])
	sum.Write(rec[recordHead:])
	return sum.Sum(rec)
}

func TestFirstSequenceOfBlock(t *testing.T) {
	for name, c := range map[string]struct {
		seq, want uint64
	}{
		"an entry":              {7, 7},
		"a deletion":            {7 | 1<<62, 0},
		"an entry that is gone": {7 | 1<<63, 0},
	} {
		b := block{path: filepath.Join(t.TempDir(), "2.blk"), stream: factsStream, index: 2}
		if err := os.WriteFile(b.path, sealed(b, c.seq, "fact.job.1", "{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := b.begins(); err != nil || got != c.want {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, c.want)
		}
	}
}

func FuzzABlockIsReadToItsEnd(f *testing.F) {
	b := block{stream: factsStream, index: 1}
	one, two := sealed(b, 1, "fact.job.1", "{}"), sealed(b, 2, "fact.job.2", `{"v":1}`)
	f.Add(bytes.Join([][]byte{one, two}, nil))
	f.Add(bytes.Join([][]byte{one, []byte("rubbish"), two}, nil))
	f.Add(one[:len(one)-1])
	f.Add([]byte{0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, buf []byte) {
		buf = append(bytes.Clone(buf), two...)
		records, err := b.records(buf)
		if err != nil {
			t.Fatal(err)
		}
		var last record
		for rec, ok := range records {
			if ok {
				last = rec
			}
			if len(rec.data)+len(rec.subject) > len(buf) {
				t.Errorf("a record of %d bytes in %d", len(rec.data), len(buf))
			}
		}
		if last.seq != 2 || last.subject != "fact.job.2" {
			t.Errorf("the last record is %+v", last)
		}
	})
}

func FuzzAnArchiveIsReadOrRefused(f *testing.F) {
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	point := Checkpoint{From: 1, Through: 1}
	m := message{seq: 1, subject: "job.1", entry: fact.Entry{V: fact.Version, Facts: []fact.Fact{fact.JobClosed{}}}}
	if err := m.encode(nil); err != nil {
		f.Fatal(err)
	}
	if err := out.Encode(archived{Seq: 1, Subject: m.subject, Entry: m.data}); err != nil {
		f.Fatal(err)
	}
	point.Peaks = grow(nil, leafOf(m.subject, m.data), 1)
	point.Root = rootOf(point.Peaks)
	if err := writeCheckpoint(f.Context(), out, point, nil); err != nil {
		f.Fatal(err)
	}
	if _, err := readEntries(json.NewDecoder(&lines), Checkpoint{}, func(scanned) error { return nil }); err != nil {
		f.Fatalf("a whole archive: %v", err)
	}
	f.Add(lines.Bytes())
	f.Add([]byte(`{"seq":1,"subject":"job.1","entry":{}}`))
	f.Add([]byte(`{"checkpoint":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		visited := uint64(0)
		point, err := readEntries(json.NewDecoder(bytes.NewReader(b)), Checkpoint{}, func(scanned) error {
			visited++
			return nil
		})
		if err == nil && point.Through != visited {
			t.Errorf("%d entries, a checkpoint through %d", visited, point.Through)
		}
	})
}
