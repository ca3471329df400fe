package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/durable"
)

// SeenStream is the stream of what was seen; see Options.Renew.
const SeenStream = seenStream

// Renewed is a stream beside the facts that was damaged and is begun anew.
type Renewed struct {
	Stream string // as SeenStream
	Aside  string // the directory where it is now, as it was found
}

// Renewed lists the streams that Open found damaged and began anew.
func (j *Journal) Renewed() []Renewed { return j.renewed }

// renew moves damaged streams beside the facts away; the server makes them anew. It must not run yet: it would cut them
// off where they are damaged, and tell nobody. A last message that is incomplete is left to it, for these streams may lose
// that in a crash.
func (j *Journal) renew() error {
	if j.o.Renew == nil {
		return nil
	}
	for _, cfg := range besides() {
		dir := j.files.streamDir(cfg.Name)
		broken, torn, err := readable(dir)
		if err == nil && torn {
			err = distrustIndex(dir)
		}
		if err == nil && broken {
			err = j.setAside(cfg.Name, dir)
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
	}
	return nil
}

// setAside moves a stream away, after the owner was told: if the process dies in between, it is told once more.
func (j *Journal) setAside(stream, dir string) error {
	if err := j.o.Renew(stream); err != nil {
		return err
	}
	if err := os.MkdirAll(j.files.damaged(), 0o700); err != nil {
		return err
	}
	aside := filepath.Join(j.files.damaged(), j.o.Now().UTC().Format(asideFormat)+"-"+stream)
	if err := os.Rename(dir, aside); err != nil {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	j.o.Log.Warn("a stream was damaged and is begun anew; the journal of facts is whole", "stream", stream, "aside", aside)
	j.renewed = append(j.renewed, Renewed{stream, aside})
	return nil
}

// asideFormat names what is put aside by its time.
const asideFormat = "20060102T150405.000"

// distrustIndex has the server read a stream's blocks instead of its index, and cut off an incomplete end.
func distrustIndex(dir string) error {
	err := os.Remove(filepath.Join(dir, "msgs", "index.db"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readable reads the blocks of a stream. It is torn if only its end cannot be read, and broken if something before that
// cannot.
func readable(dir string) (broken, torn bool, err error) {
	all, err := blocks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	err = scanBlocks(all, nil, func(s scanned) error {
		if s.seq == 0 {
			torn, broken = true, broken || s.file != all[len(all)-1].path
		} else if torn { // and something follows
			broken = true
		}
		return nil
	})
	if _, damaged := errors.AsType[*DamagedError](err); damaged {
		return true, false, nil
	}
	return broken, torn && !broken, err
}
