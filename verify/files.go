package verify

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"guild/nutshell"
	"guild/receipt"
)

// Limits of the input.
const (
	maxFiles   = 200       // files in an export
	maxTotal   = 256 << 20 // bytes of all files together
	maxFile    = 64 << 20  // bytes of a bundle, the evidence or a trajectory
	maxEvent   = 4 << 20   // bytes of an event as JSON
	maxEntry   = 1 << 20   // bytes of a journal entry
	maxSmall   = 256 << 10 // bytes of a key, a policy, a proof or a review
	maxVerdict = 16 << 20
)

// limits has the files of an export, except reviews, and their maximal sizes in bytes.
var limits = map[string]int64{
	FileReceipt: receipt.MaxSize, FileReceiptEvent: maxEvent,
	FileRequest: maxEvent, FileRequestKey: maxSmall, FileResult: maxEvent, FileResultKey: maxSmall, FileQuote: maxEvent, FileQuoteKey: maxSmall,
	FileBundle: maxFile, FileDelivery: maxFile,
	FileVerdict: maxVerdict, FileEvidence: maxFile, FileReplay: maxFile, FilePolicy: maxSmall,
	FileEntry: maxEntry, FileProof: maxSmall, FileCheckpoint: maxEvent, FileWitness: maxEvent,
	FileTransaction: maxVerdict, FileInclusion: maxSmall, FileHidden: maxFile, FileWorker: nutshell.MaxTrajectory,
}

// limitOf returns the maximal size of a file in bytes, or an error if an export may not have the file.
func limitOf(name string) (int64, error) {
	if most, ok := limits[name]; ok {
		return most, nil
	}
	if id, ok := strings.CutSuffix(path.Base(name), ".json"); ok && path.Dir(name) == DirReviews && isHex(id, 32) {
		return maxSmall, nil
	}
	return 0, fmt.Errorf("%.100q is not a file of an export", name)
}

// contents holds the files that were read, and the faults of the others.
type contents struct {
	files  map[string][]byte
	faults []error
	total  int64
}

// add reads a file within the limits, or returns why it is refused. It reads at most one byte more than the limit from
// the reader.
func (c *contents) add(name string, from io.Reader) error {
	most, err := limitOf(name)
	if err != nil {
		return err
	}
	if len(c.files) >= maxFiles {
		return fmt.Errorf("over %d files", maxFiles)
	}
	most = min(most, maxTotal-c.total)
	b, err := io.ReadAll(io.LimitReader(from, most+1))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(b)) > most {
		return fmt.Errorf("%s is over %d bytes", name, most)
	}
	c.total += int64(len(b))
	c.files[name] = b
	return nil
}

// errEnough ends the walk through a directory with too many entries.
var errEnough = errors.New("too many files")

// collect reads the files of a directory.
func collect(dir fs.FS) contents {
	c := contents{files: map[string][]byte{}}
	seen := 0
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		seen++
		if seen > 2*maxFiles {
			return errEnough
		}
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			c.faults = append(c.faults, fmt.Errorf("%.100q is not a regular file", name))
			return nil
		}
		if err := c.open(dir, name); err != nil {
			c.faults = append(c.faults, err)
		}
		return nil
	})
	if err != nil {
		c.faults = append(c.faults, err)
	}
	return c
}

func (c *contents) open(dir fs.FS, name string) error {
	if _, err := limitOf(name); err != nil {
		return err
	}
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.add(name, f)
}

// checkFiles checks that there are files, and that all of them are allowed in an export.
func (x *export) checkFiles() (string, error) {
	if len(x.faults) > 0 {
		return "", x.faults[0]
	}
	if len(x.files) == 0 {
		return "", errors.New("the export has no files")
	}
	return fmt.Sprintf("%d, of %d bytes, and no other", len(x.files), x.total), nil
}
