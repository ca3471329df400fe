package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"guild/internal/journal/fact"
)

// ErrArchiveGone means that an archive file is not where Archive wrote it. The error that matches it names the file.
var ErrArchiveGone = errors.New("the archive file is not there")

// Archived yields the entries of a subject, or of all subjects of a noun, that are in archive files, in their order. Of
// yields those in the stream; a caller that wants both must call Of first, since entries may be archived in between. The
// files are read up to the one with the subject's last entry, and each that is read to its end is compared with its
// checkpoint. An error ends the sequence; it is ErrArchiveGone if a file was moved away.
func (j *Journal) Archived(ctx context.Context, subject fact.Subject) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		through := j.mark.get().Archived
		if subject.Noun() != string(subject) {
			newest, _, _ := j.state.tip(subject) // the error says why nothing can be appended, which does not matter here
			through = min(through, newest.seq)
		}
		for point := (Checkpoint{}); point.Through < through; {
			a, err := j.files.archiveOf(point.Through+1, j.mark.get().Archived)
			if err == nil {
				point, err = a.read(point, func(s scanned) error { return j.ofSubject(ctx, s, subject, yield) })
			}
			if errors.Is(err, errEnough) {
				return
			}
			if err != nil {
				yield(fact.Entry{}, fmt.Errorf("archived entries of %s: %w", subject, err))
				return
			}
		}
	}
}

// ofSubject yields an entry if it is of a subject, or of a noun. It returns errEnough if the caller has left the loop.
func (j *Journal) ofSubject(ctx context.Context, s scanned, subject fact.Subject, yield func(fact.Entry, error) bool) error {
	if s.subject != subject && s.subject.Noun() != string(subject) {
		return ctx.Err()
	}
	m, err := s.decode(j.keys)
	if err == nil && !yield(m.entry, nil) {
		err = errEnough
	}
	return err
}

// archiveOf returns the file with an entry. Files that end after through are ignored: Archive was interrupted before it
// removed their entries from the stream.
func (f files) archiveOf(seq, through uint64) (archiveFile, error) {
	all, err := f.archives()
	if err != nil {
		return archiveFile{}, err
	}
	i := slices.IndexFunc(all, func(a archiveFile) bool { return a.from <= seq && seq <= a.through && a.through <= through })
	if i >= 0 {
		return all[i], nil
	}
	from := uint64(1)
	for _, a := range all {
		if a.through < seq {
			from = max(from, a.through+1)
		}
	}
	// Its last entry is known only from its name.
	return archiveFile{}, fmt.Errorf("%s: %w", filepath.Join(f.archive(), fmt.Sprintf("%020d-*.jsonl.zst", from)), ErrArchiveGone)
}
