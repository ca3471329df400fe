package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go/jetstream"

	"guild"
	"guild/internal/durable"
	"guild/internal/journal/fact"
)

// Sign signs a checkpoint.
type Sign func(ctx context.Context, checkpoint []byte) (signature []byte, err error)

// Checkpoint is the last line of an archive file. It commits to all entries of the journal through the last one in the file.
type Checkpoint struct {
	Journal string       `json:"journal"`
	From    uint64       `json:"from"`    // the first entry in the file
	Through uint64       `json:"through"` // the last
	Root    guild.Hash   `json:"root"`    // of the Merkle tree over the entries 1 to Through
	Peaks   []guild.Hash `json:"peaks"`   // the right edge of that tree, for the next file
}

// archived is a line of an archive file: an entry, or at the end the checkpoint and its signature, if it is signed.
type archived struct {
	Seq        uint64          `json:"seq,omitempty"`
	Subject    fact.Subject    `json:"subject,omitempty"`
	Entry      json.RawMessage `json:"entry,omitempty"` // byte by byte as stored
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	Signature  []byte          `json:"signature,omitempty"`
}

// Archive moves the entries before the first that is not older than the given time into a compressed file, and removes them
// from the stream. The file ends with a checkpoint, which sign signs unless it is nil. The last entry always stays, and the
// folds do not change. If there is nothing to archive, Report.Through is 0.
//
// The order makes an interruption harmless: the file is written and read back; snapshots are taken, so that a start needs
// no archive; the mark says that the entries are archived; they are removed; and last a fact records it. What is missing
// after an interruption is done by the next Open, or undone by the next Archive.
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
	if err := j.files.discardArchives(from); err != nil {
		return Report{}, err
	}
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

// oldest returns the last entry of the run, from a given one on, in which all entries are older than the given time. It is
// from-1 if there is none.
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

// writeArchive writes an archive file and reads it back.
func (j *Journal) writeArchive(ctx context.Context, from, through uint64, sign Sign) (Checkpoint, error) {
	if err := os.MkdirAll(j.files.archive(), 0o700); err != nil {
		return Checkpoint{}, err
	}
	before, err := j.files.checkpoint(from - 1)
	if err != nil {
		return Checkpoint{}, err
	}
	s, err := j.server(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	point := Checkpoint{Journal: j.id, From: from, Through: through, Peaks: slices.Clone(before.Peaks)}
	path := j.files.archived(from, through)
	err = durable.Write(path, func(w io.Writer) error {
		return compress(w, func(lines *json.Encoder) error {
			if err := writeEntries(lines, s.history(ctx, from, through), &point); err != nil {
				return err
			}
			return writeCheckpoint(ctx, lines, point, sign)
		})
	})
	if err != nil {
		return Checkpoint{}, err
	}
	return archiveFile{path, from, through}.read(before, func(scanned) error { return nil })
}

// writeEntries writes a line for each entry and completes the checkpoint.
func writeEntries(lines *json.Encoder, entries iter.Seq2[message, error], point *Checkpoint) error {
	for m, err := range entries {
		if err != nil {
			return err
		}
		point.Peaks = grow(point.Peaks, leafOf(m.subject, m.data), m.seq)
		if err := lines.Encode(archived{Seq: m.seq, Subject: m.subject, Entry: m.data}); err != nil {
			return err
		}
	}
	point.Root = rootOf(point.Peaks)
	return nil
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

// compress calls write with an encoder whose lines are compressed and written to w.
func compress(w io.Writer, write func(*json.Encoder) error) error {
	z, err := zstd.NewWriter(w)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(z)
	lines.SetEscapeHTML(false)
	return errors.Join(write(lines), z.Close())
}

// cut notes in the mark that entries are archived, and removes them from the stream.
func (j *Journal) cut(ctx context.Context, point Checkpoint) error {
	s, err := j.server(ctx)
	if err != nil {
		return err
	}
	j.cutting.Lock()
	defer j.cutting.Unlock()
	err = j.mark.set(func(h *high) { h.Archived, h.Peaks = point.Through, point.Peaks })
	if err != nil {
		return err
	}
	return s.cutOff(ctx, point.Through)
}

// cutOff removes the entries through a sequence from the stream.
func (s *store) cutOff(ctx context.Context, through uint64) error {
	if err := s.facts.Purge(ctx, jetstream.WithPurgeSequence(through+1)); err != nil {
		return fmt.Errorf("remove the entries through %d: %w", through, err)
	}
	return nil
}

// finishArchive records the last archive as a fact, unless that was done.
func (j *Journal) finishArchive(ctx context.Context) error {
	h := j.mark.get()
	if j.state.archived() >= h.Archived {
		return nil
	}
	return j.Do(ctx, fact.JournalSubject, "", func(tx *Tx) error {
		a, err := j.files.archiveThrough(h.Archived)
		if err != nil {
			return err
		}
		sum, err := a.sum()
		if err != nil {
			return err
		}
		tx.Append(fact.JournalArchived{
			Through: h.Archived, Root: rootOf(h.Peaks).Hex(), File: filepath.Base(a.path), Hash: sum.Hex(),
		})
		return nil
	})
}

// archived returns the last entry that is archived according to a fact.
func (s *state) archived() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain.archived
}
