package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"guild/internal/fact"
)

// ErrArchiveGone means that an archive file is not where Archive wrote it. The error that matches it names the file.
var ErrArchiveGone = errors.New("the archive file is not there")

// Archived yields the entries of one subject that are in archive files, in their order; those that are still in the
// stream are Of's. Whoever wants all of them asks Of first: what is cut off in between is then here. The files are read from
// the first to the one with the subject's last entry, or where the caller stops; each that is read to its end is held
// against its checkpoint. After an error there are no more; a file that was moved away is ErrArchiveGone.
func (j *Journal) Archived(ctx context.Context, subject fact.Subject) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		through := j.mark.get().Archived
		newest, _, _ := j.state.tip(subject) // why no more are appended is no matter here
		for point := (Checkpoint{}); point.Through < min(through, newest.seq); {
			a, err := j.files.archiveFrom(point.Through+1, through)
			if err == nil {
				point, err = a.read(point, func(m message) error { return ofSubject(ctx, m, subject, yield) })
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

// ofSubject yields an entry if it is of a subject. It ends with errEnough when no more are wanted.
func ofSubject(ctx context.Context, m message, subject fact.Subject, yield func(fact.Entry, error) bool) error {
	if m.subject != subject {
		return ctx.Err()
	}
	m, err := read(m.seq, m.subject, m.data)
	if err == nil && !yield(m.entry, nil) {
		err = errEnough
	}
	return err
}

// archiveFrom finds the file whose first entry is given. Files that end after through were never completed.
func (f files) archiveFrom(from, through uint64) (archiveFile, error) {
	all, err := f.archives()
	if err != nil {
		return archiveFile{}, err
	}
	i := slices.IndexFunc(all, func(a archiveFile) bool { return a.from == from && a.through <= through })
	if i < 0 { // where it ends is in its name only
		return archiveFile{}, fmt.Errorf("%s: %w", filepath.Join(f.archive(), fmt.Sprintf("%020d-*.jsonl.zst", from)), ErrArchiveGone)
	}
	return all[i], nil
}
