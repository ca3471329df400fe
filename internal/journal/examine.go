package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// examine reads everything that the server stored, before the server does: it would cut off what it cannot
// read, and carry on. Only an entry that was being written when the machine stopped may be incomplete, at the
// very end and after the mark.
func examine(f files, h high) error {
	if !h.Made {
		return nil
	}
	for _, name := range []string{"meta.inf", "meta.sum", "msgs"} {
		_, err := os.Stat(filepath.Join(f.facts(), name))
		if errors.Is(err, fs.ErrNotExist) {
			return damaged("%s of its stream of facts is gone", name)
		}
		if err != nil {
			return err
		}
	}
	last, err := lastWhole(f.facts(), h.Archived)
	if err != nil {
		return err
	}
	if last < h.Seq {
		return damaged("it ends at entry %d, but entry %d was on disk", last, h.Seq)
	}
	return nil
}

// lastWhole is the last sequence up to which all entries after the archived ones are whole.
func lastWhole(stream string, archived uint64) (uint64, error) {
	all, err := blocks(stream)
	if err != nil {
		return 0, err
	}
	last := archived
	torn := false
	for _, b := range all {
		buf, err := b.load()
		if err != nil {
			return 0, err
		}
		records, err := b.records(buf)
		if err != nil {
			return 0, err
		}
		for rec, ok := range records {
			switch {
			case torn: // and something follows: it was not the end
				return 0, damaged("after entry %d something cannot be read", last)
			case !ok:
				torn = true
			case rec.seq > last+1:
				return 0, damaged("entry %d is followed by entry %d", last, rec.seq)
			default:
				last = max(last, rec.seq)
			}
		}
	}
	return last, nil
}
