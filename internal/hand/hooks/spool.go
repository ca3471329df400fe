package hooks

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"guild/digest"
	"guild/internal/durable"
	"guild/nook"
)

// Limits of a spool.
const (
	MaxFiles = 10_000        // events that wait for the node; further ones are lost
	stale    = 1 * time.Hour // age of an unfinished file whose writer is dead
)

// ErrFull is the error for a spool that has MaxFiles.
var ErrFull = errors.New("the spool is full")

// Spool is a directory with a file for each event that no node has recorded yet. A writer makes .tmp-RANDOM and renames it to
// ID.json, so a reader never sees a part of an event.
type Spool struct {
	Dir  string // $NOOK_HOME/spool
	Root string // root identity of the events that are written; the node's own if empty
}

// rooted is the content of a file whose event belongs to a root identity that it names.
type rooted struct {
	RootIdentity string          `json:"rootIdentity"`
	Event        json.RawMessage `json:"event"`
}

// plain is an id that can be the name of a file on any system.
var plain = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]{0,127}$`)

// Write adds an event. An event without an id gets a random one, so that it is recorded once; a heartbeat has none, and replaces
// the earlier one of its agent. Write does not wait for the disk.
func (s Spool) Write(e nook.Event) error {
	name := e.ID
	switch {
	case e.Type == nook.TypeHeartbeat:
		name = "heartbeat-" + digest.Sum([]byte(e.AgentID)).Hex()[:16]
	case e.ID == "":
		e.ID = strings.ToLower(rand.Text())
		name = e.ID
	case !plain.MatchString(e.ID):
		name = digest.Sum([]byte(e.ID)).Hex()
	}
	b := e.Encode()
	if _, err := nook.Parse(b); err != nil {
		return err
	}
	if s.Root != "" {
		name = digest.Sum([]byte(s.Root + "\x00" + name)).Hex() // two roots can use one id
		var err error
		if b, err = json.Marshal(rooted{s.Root, b}); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	names, err := s.names()
	if err != nil {
		return err
	}
	if len(names) >= MaxFiles {
		return fmt.Errorf("%s: %w", s.Dir, ErrFull)
	}
	return place(filepath.Join(s.Dir, name+".json"), b, 0o600)
}

// names returns what is in the directory, at most twice MaxFiles names.
func (s Spool) names() ([]string, error) {
	d, err := durable.OpenDir(s.Dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s: others may write to it", s.Dir)
	}
	names, err := d.Readdirnames(2 * MaxFiles)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// Drain passes each event and the root identity that its file names to record, the oldest first, and removes its file when
// record returns nil: by then the event must be kept. An event without a timestamp gets the time of its file, but at most now. Whatever is no event, or is refused by record
// with a *nook.FieldError, is passed to refused and removed, except for a directory, which is left alone. Another error of
// record ends Drain, which returns it, and the file stays. A missing spool is empty. Drain returns the number of events that
// were recorded.
func (s Spool) Drain(now time.Time, record func(root string, e nook.Event) error, refused func(file string, why error)) (int, error) {
	files, err := s.waiting(now)
	if err != nil {
		return 0, err
	}
	recorded := 0
	for _, f := range files {
		path := filepath.Join(s.Dir, f.Name())
		root, e, err := read(path)
		if errors.Is(err, fs.ErrNotExist) { // another reader took it
			continue
		}
		if e.Timestamp == 0 {
			e.Timestamp = min(f.ModTime().UnixMilli(), now.UnixMilli())
		}
		if err == nil {
			err = record(root, e)
			if err == nil {
				recorded++
			} else if _, invalid := errors.AsType[*nook.FieldError](err); !invalid {
				return recorded, err
			}
		}
		if err != nil {
			refused(f.Name(), err)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return recorded, err
		}
	}
	return recorded, nil
}

// waiting lists the finished files, the oldest first, and removes unfinished ones of dead writers.
func (s Spool) waiting(now time.Time) ([]fs.FileInfo, error) {
	names, err := s.names()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []fs.FileInfo
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(s.Dir, name))
		switch {
		case err != nil || info.IsDir():
		case strings.HasPrefix(name, ".tmp-"):
			if now.Sub(info.ModTime()) > stale {
				_ = os.Remove(filepath.Join(s.Dir, name)) // the next call tries again
			}
		case strings.HasSuffix(name, ".json"):
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	return files, nil
}

// read reads one file, which must be a regular one. It neither follows a link nor waits for a pipe.
func read(path string) (root string, e nook.Event, err error) {
	b, err := durable.ReadRegular(path, 2*nook.MaxEvent) // and its root
	if err != nil {
		return "", nook.Event{}, err
	}
	var in rooted
	if json.Unmarshal(b, &in) == nil && in.Event != nil {
		b = in.Event
	}
	e, err = nook.Parse(b)
	return in.RootIdentity, e, err
}
