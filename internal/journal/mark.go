package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/bits"
	"os"
	"sync"
	"time"

	"guild"
	"guild/internal/durable"
)

// markDelay is the longest time that the mark lags behind the journal. The loss of entries at the end may go
// unnoticed if all of them are younger.
const markDelay = time.Second

// high is the high-water mark: how far the journal got. It is in a file of its own, which the server does not write, so that
// missing entries at the end are noticed. A second copy outside the directory is optional; with it, an old copy of the whole
// directory is noticed too.
type high struct {
	Journal  string     `json:"journal"`
	Made     bool       `json:"made"`     // the streams were made
	Seq      uint64     `json:"seq"`      // the last entry when the mark was written
	Root     guild.Hash `json:"root"`     // of the Merkle tree over the entries through Seq
	Archived uint64     `json:"archived"` // the last archived entry

	Peaks []guild.Hash `json:"peaks,omitempty"` // the right edge of the tree over the archived entries
	Keys  int          `json:"keys,omitempty"`  // lines of the file with the keys, at least
}

// readHigh reads a mark. If there is no file, the error matches fs.ErrNotExist. If only what it says of the archive is wrong, it
// returns the rest with the error: repair still learns from it how far the journal got.
func readHigh(path string) (high, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return high{}, err
	}
	var h high
	if err := json.Unmarshal(b, &h); err != nil {
		return high{}, damaged("its high-water mark %s cannot be read", path)
	}
	if len(h.Peaks) != bits.OnesCount64(h.Archived) { // a full subtree for each bit
		h.Archived, h.Peaks = 0, nil
		return h, damaged("its high-water mark %s cannot be read", path)
	}
	return h, nil
}

func writeHigh(path string, h high) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return durable.WriteBytes(path, append(b, '\n'))
}

// mark keeps the high-water mark in one or two files.
type mark struct {
	paths []string
	log   *slog.Logger
	keys  *keys // nil before they are read

	writing sync.Mutex // held while the files are written; mu is not, so get does not wait for the disk

	found []high // the marks when the journal was opened; the entries must agree with each of them

	mu    sync.Mutex
	high  high
	timer *time.Timer // nil if no write is due
	ended bool
}

// openMark reads the mark of a journal. Of two files, the one with more entries counts.
func openMark(f files, outside, journal string, log *slog.Logger) (*mark, error) {
	own, err := readHigh(f.high())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damaged("its high-water mark is gone")
	}
	if err != nil {
		return nil, err
	}
	m := &mark{paths: []string{f.high()}, log: log, high: own, found: []high{own}}
	if outside != "" {
		if err := m.join(outside); err != nil {
			return nil, err
		}
	}
	if m.high.Journal != journal {
		return nil, damaged("its high-water mark belongs to another journal")
	}
	return m, nil
}

// join adds the file outside the directory. It may not exist yet.
func (m *mark) join(path string) error {
	m.paths = append(m.paths, path)
	h, err := readHigh(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if h.Journal != m.high.Journal {
		return damaged("the high-water mark %s belongs to another journal", path)
	}
	if h.Seq == m.high.Seq && h.Root != m.high.Root {
		return damaged("its two high-water marks disagree about the first %d entries", h.Seq)
	}
	if h.Seq > m.high.Seq {
		m.high = h
	}
	m.found = append(m.found, h)
	return nil
}

// get returns the mark as last written.
func (m *mark) get() high {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.high
}

// set changes the mark and writes it.
func (m *mark) set(change func(*high)) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	h := m.get()
	change(&h)
	if m.keys != nil {
		h.Keys = max(h.Keys, m.keys.count())
	}
	for _, path := range m.paths {
		if err := writeHigh(path, h); err != nil {
			return fmt.Errorf("high-water mark: %w", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.high = h
	return nil
}

// move writes where the journal is.
func (m *mark) move(seq uint64, root guild.Hash) error {
	if m.get().Seq == seq {
		return nil
	}
	return m.set(func(h *high) { h.Seq, h.Root = seq, root })
}

// soon writes the position of the journal after markDelay, unless that is already due.
func (m *mark) soon(where func() (uint64, guild.Hash)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil || m.ended {
		return
	}
	m.timer = time.AfterFunc(markDelay, func() {
		m.mu.Lock()
		m.timer = nil
		ended := m.ended
		m.mu.Unlock()
		if ended {
			return
		}
		if err := m.move(where()); err != nil { // the mark stays older until the next write succeeds
			m.log.Warn("the journal's high-water mark could not be written", "error", err)
		}
	})
}

// stop cancels the write that is due, and allows no more.
func (m *mark) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	if m.timer != nil {
		m.timer.Stop()
	}
}
