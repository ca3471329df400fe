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

// Archived yields the entries of one subject that are in archive files, in their order, or those of all subjects of a
// noun, as Of does with those that are still in the stream. Whoever wants all of them asks Of first: what is cut off in
// between is then here. The files are read from the first to the one with the subject's last entry, or where the caller
// stops; each that is read to its end is held against its checkpoint. After an error there are no more; a file that was
// moved away is ErrArchiveGone.
func (j *Journal) Archived(ctx context.Context, subject fact.Subject) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		through := j.mark.get().Archived
		if subject.Noun() != string(subject) {
			newest, _, _ := j.state.tip(subject) // why no more are appended is no matter here
			through = min(through, newest.seq)
		}
		for point := (Checkpoint{}); point.Through < through; {
			a, err := j.files.archiveOf(point.Through+1, j.mark.get().Archived)
			if err == nil {
				point, err = a.read(point, func(s scanned) error { return ofSubject(ctx, s, subject, yield) })
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

// ofSubject yields an entry if it is of a subject, or of a noun. It ends with errEnough when no more are wanted.
func ofSubject(ctx context.Context, s scanned, subject fact.Subject, yield func(fact.Entry, error) bool) error {
	if s.subject != subject && s.subject.Noun() != string(subject) {
		return ctx.Err()
	}
	m, err := s.decode()
	if err == nil && !yield(m.entry, nil) {
		err = errEnough
	}
	return err
}

// archiveOf finds the file with an entry. Files that end after through were never completed.
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
	// Where it ends is in its name only.
	return archiveFile{}, fmt.Errorf("%s: %w", filepath.Join(f.archive(), fmt.Sprintf("%020d-*.jsonl.zst", from)), ErrArchiveGone)
}
