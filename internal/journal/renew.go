package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/durable"
)

// SeenStream is the name of the stream SEEN, as Options.Renew gets it.
const SeenStream = seenStream

// Renewed is a side stream that was damaged and replaced by an empty one.
type Renewed struct {
	Stream string // its name
	Aside  string // the directory with the damaged stream
}

// Renewed returns the side streams that Open has replaced.
func (j *Journal) Renewed() []Renewed { return j.renewed }

// renew moves damaged side streams away; the server then makes empty ones. It must run before the server starts, which would
// truncate them without a word. An incomplete last message is left to the server: these streams may lose that in a crash.
func (j *Journal) renew() error {
	if j.o.Renew == nil {
		return nil
	}
	for _, cfg := range sideStreams() {
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

// setAside moves a stream away after Options.Renew has returned. If the process dies in between, Renew is called again.
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

// asideFormat is the time in the names of directories below damaged.
const asideFormat = "20060102T150405.000"

// distrustIndex removes a stream's index, so that the server reads the blocks and truncates an incomplete end.
func distrustIndex(dir string) error {
	err := os.Remove(filepath.Join(dir, "msgs", "index.db"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// oneMessage is more than a message of these streams has, in bytes: a write that was cut off leaves no more.
const oneMessage = 1 << 20

// readable scans the blocks of a stream. It is torn if only its end cannot be read, and broken if something before that
// cannot be read, or nothing of a block that has more than one message.
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
			torn, broken = true, broken || s.file != all[len(all)-1].path || len(s.data) > oneMessage
		} else if torn { // and yet a record follows
			broken = true
		}
		return nil
	})
	if _, damaged := errors.AsType[*DamagedError](err); damaged {
		return true, false, nil
	}
	return broken, torn && !broken, err
}
