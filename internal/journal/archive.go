package journal

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"guild"
	"guild/internal/durable"
	"guild/internal/fact"
)

// Sign signs a checkpoint.
type Sign func(ctx context.Context, checkpoint []byte) (signature []byte, err error)

// Report says what Archive or Repair did.
type Report struct {
	Kept    uint64   // entries in the journal afterwards
	Through uint64   // the last entry archived, 0 if none
	File    string   // the archive file written, "" if none
	Root    string   // hash of the Merkle tree over all entries through Through, bare hex
	Dropped []uint64 // entries that could not be kept, in order
	Aside   string   // where the copy of the damaged journal is, "" if none was made
	Reason  string   // what was wrong
}

// Checkpoint is the last line of an archive file: what stands for all entries up to there.
type Checkpoint struct {
	Journal string       `json:"journal"`
	From    uint64       `json:"from"`    // the first entry in the file
	Through uint64       `json:"through"` // the last
	Root    guild.Hash   `json:"root"`    // of the Merkle tree over the entries 1 to Through
	Peaks   []guild.Hash `json:"peaks"`   // the right edge of that tree, for the next file
}

// archived is one line of an archive file: an entry, or at the end a checkpoint and perhaps its signature.
type archived struct {
	Seq        uint64          `json:"seq,omitempty"`
	Subject    fact.Subject    `json:"subject,omitempty"`
	Entry      json.RawMessage `json:"entry,omitempty"` // byte by byte as stored
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	Signature  []byte          `json:"signature,omitempty"`
}

// Archive moves all entries up to the first that is not before the given time into a compressed file, with a
// checkpoint that sign signs unless it is nil, and cuts them off the journal. The last entry always stays. The
// folds are not changed by it. Without anything to archive the report says so and nothing is done.
func (j *Journal) Archive(ctx context.Context, before time.Time, sign Sign) (Report, error) {
	j.archiving.Lock()
	defer j.archiving.Unlock()
	report, err := j.archive(ctx, before, sign)
	if err != nil {
		return Report{}, fmt.Errorf("archive: %w", err)
	}
	return report, nil
}

func (j *Journal) archive(ctx context.Context, before time.Time, sign Sign) (Report, error) {
	from := j.mark.get().Archived + 1
	through, err := j.oldest(ctx, from, before)
	if err != nil {
		return Report{}, err
	}
	if through < from {
		return Report{Kept: j.Last() + 1 - from}, nil
	}
	point, err := j.writeArchive(ctx, from, through, sign)
	if err != nil {
		return Report{}, err
	}
	if err := j.takeSnapshots(); err != nil {
		return Report{}, err
	}
	if err := j.cut(ctx, point); err != nil {
		return Report{}, err
	}
	if err := j.finishArchive(ctx); err != nil {
		return Report{}, err
	}
	return Report{
		Kept: j.Last() - through, Through: through, Root: point.Root.Hex(),
		File: j.files.archived(point.From, point.Through),
	}, nil
}

// oldest is the last entry, from a given one on, before which all are older than the given time.
func (j *Journal) oldest(ctx context.Context, from uint64, before time.Time) (uint64, error) {
	through := from - 1
	for e, err := range j.Entries(ctx, from) {
		if err != nil {
			return 0, err
		}
		if e.At >= before.UnixMilli() || e.Seq == j.Last() {
			break
		}
		through = e.Seq
	}
	return through, nil
}

// writeArchive writes one file of entries.
func (j *Journal) writeArchive(ctx context.Context, from, through uint64, sign Sign) (Checkpoint, error) {
	point := Checkpoint{Journal: j.id, From: from, Through: through}
	if err := os.MkdirAll(j.files.archive(), 0o700); err != nil {
		return point, err
	}
	peaks, err := j.peaksAt(from - 1)
	if err != nil {
		return point, err
	}
	s, err := j.server(ctx)
	if err != nil {
		return point, err
	}
	err = durable.Write(j.files.archived(from, through), func(w io.Writer) error {
		return compress(w, func(lines *json.Encoder) error {
			for m, err := range s.history(ctx, from, through) {
				if err != nil {
					return err
				}
				if m.seq != from {
					return damaged("entry %d cannot be read", from)
				}
				from++
				peaks = grow(peaks, leafOf(m.subject, m.data), m.seq)
				if err := lines.Encode(archived{Seq: m.seq, Subject: m.subject, Entry: m.data}); err != nil {
					return err
				}
			}
			point.Peaks, point.Root = peaks, (&chain{peaks: peaks}).root()
			return writeCheckpoint(ctx, lines, point, sign)
		})
	})
	return point, err
}

func writeCheckpoint(ctx context.Context, lines *json.Encoder, point Checkpoint, sign Sign) error {
	text, err := json.Marshal(point)
	if err != nil {
		return err
	}
	line := archived{Checkpoint: text}
	if sign != nil {
		if line.Signature, err = sign(ctx, text); err != nil {
			return fmt.Errorf("sign: %w", err)
		}
	}
	return lines.Encode(line)
}

// compress gives write an encoder whose lines are compressed to w.
func compress(w io.Writer, write func(*json.Encoder) error) error {
	z, err := zstd.NewWriter(w)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(z)
	lines.SetEscapeHTML(false)
	return errors.Join(write(lines), z.Close())
}

// peaksAt is the right edge of the tree at the end of what was archived before.
func (j *Journal) peaksAt(through uint64) ([]guild.Hash, error) {
	var point Checkpoint
	for through > point.Through {
		a, err := j.files.openArchive(point)
		if err != nil {
			return nil, err
		}
		next, err := a.readAll(func(message) error { return nil })
		if err != nil {
			return nil, err
		}
		point = next
	}
	return point.Peaks, nil
}

// cut records that entries are archived, and removes them from the stream.
func (j *Journal) cut(ctx context.Context, point Checkpoint) error {
	s, err := j.server(ctx)
	if err != nil {
		return err
	}
	j.cutting.Lock()
	defer j.cutting.Unlock()
	err = j.mark.set(func(h *high) { h.Archived, h.Root = point.Through, point.Root })
	if err != nil {
		return err
	}
	return s.cutOff(ctx, point.Through)
}

var _ hash.Hash = sha256.New()
var _ = bufio.NewReader
var _ = fs.ErrNotExist
var _ = filepath.Join
